// What lists of hosts allow, alone and together.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isEntry } from '../../domain/host-entry.ts';
import { allows, injectionOutside, intersectHosts } from './egress.ts';

test('entries are hosts, wildcards and lists that ship, each with a port or without', () => {
  for (const entry of [
    'a.example',
    '*.a.example',
    'a.example:8443',
    '*.a.example:1',
    'localhost',
    '10.0.0.1',
    '[::1]:80',
    '@npm',
  ]) {
    assert.ok(isEntry(entry), entry);
  }
  for (const entry of [
    '',
    '*',
    '*.',
    'A.example',
    'http://a',
    'a/b',
    'a:0',
    'a:65536',
    'a.*.b',
    'a..b',
    '-a',
    '@none',
    'a b',
    '[::1',
    'a:',
  ]) {
    assert.ok(!isEntry(entry), entry);
  }
});

test('an entry without a port means 80 and 443, and a wildcard its subdomains alone', () => {
  const list = ['a.example', '*.b.example', 'c.example:8443', '@npm'];
  const cases: [string, number, boolean][] = [
    ['a.example', 443, true],
    ['A.Example.', 80, true],
    ['a.example', 8080, false],
    ['x.a.example', 443, false],
    ['b.example', 443, false],
    ['x.b.example', 443, true],
    ['x.y.b.example', 80, true],
    ['xb.example', 443, false],
    ['c.example', 8443, true],
    ['c.example', 443, false],
    ['registry.npmjs.org', 443, true],
    ['npmjs.org', 443, false],
  ];
  for (const [host, port, isAllowed] of cases) assert.equal(allows(list, host, port), isAllowed, `${host}:${port}`);
});

test('an entry that is none allows nothing, and hides no other', () => {
  assert.equal(allows(['http://a', 'a.example'], 'a.example', 443), true);
  assert.equal(allows(['http://a'], 'a', 80), false);
  assert.equal(injectionOutside(['http://a', 'b.example'], [{ name: 's', hosts: ['b.example'] }]), undefined);
});

test('of two lists an entry survives where the other covers it', () => {
  assert.equal(intersectHosts(undefined, undefined), undefined);
  assert.deepEqual(intersectHosts(['a.example'], undefined), ['a.example']);
  assert.deepEqual(intersectHosts(undefined, ['a.example', 'a.example']), ['a.example']);
  assert.deepEqual(intersectHosts([], ['a.example']), []);
  assert.deepEqual(intersectHosts(['*.a.example', 'b.example'], ['x.a.example:443', 'c.example']), ['x.a.example:443']);
  assert.deepEqual(intersectHosts(['*.a.example:443'], ['*.x.a.example']), ['*.x.a.example:443']);
  assert.deepEqual(intersectHosts(['a.example'], ['*.a.example']), []);
  assert.deepEqual(intersectHosts(['*.a.example:443'], ['*.a.example']), ['*.a.example:443']);
  assert.deepEqual(intersectHosts(['http://a', 'a.example:1'], ['a.example:1', 'a b']), ['a.example:1']);
  assert.deepEqual(intersectHosts(['@npm'], ['registry.npmjs.org']), [
    'registry.npmjs.org:443',
    'registry.npmjs.org:80',
  ]);
});

test('the host of an injection must be allowed at some port', () => {
  const one = [{ name: 's', hosts: ['a.example', 'b.example'] }];
  assert.equal(injectionOutside(['a.example:8443', 'b.example'], one), undefined);
  assert.deepEqual(injectionOutside(['a.example'], one), { name: 's', host: 'b.example' });
  assert.deepEqual(injectionOutside([], one), { name: 's', host: 'a.example' });
});
