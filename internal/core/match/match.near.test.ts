// What an explanation tells that a payload has instead of a path that finds nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject } from '../../domain/json.ts';
import type { Where } from '../../domain/spec.ts';
import { explain, readLazily } from './match.ts';

const on = (where: Where) => [{ agent: 'a', ordinal: 0, event: 'webhook.x', scope: null, where, fallback: false }];
/** What is told of a single clause; undefined: nothing. */
function instead(path: string, payload: JsonObject, clause: Where[string] = 'high', isLarge = false) {
  const [found] = explain(on({ [path]: clause }), { key: 'webhook.x', scope: null, payload, isLarge });
  return found?.clauses[0]?.instead;
}

test('names that are spelled nearly so come first, the nearest before the others', () => {
  for (const [path, payload, told] of [
    ['$.sev', { severity: 'high', kind: 'bug' }, ['severity']],
    ['$.Severity', { kind: 'bug', severity: 'high' }, ['severity']],
    ['severty', { severity: 'high', kind: 'bug' }, ['severity']],
    ['$.pullRequest', { pull_request: 1, pull: 2, other: 3 }, ['pull_request', 'pull']],
    ['$.a.b.labelNames', { a: { b: { labels: [], label_names: [], x: 1 } } }, ['$.a.b.label_names']],
    // The right name on another level.
    ['$.severity', { alert: { severity: 'high' }, kind: 'bug' }, ['$.alert.severity']],
    ['$.alert.severity', { alert: { kind: 'bug' }, severity: 'high' }, ['severity']],
    // A list has no names inside, and neither has a text.
    ['$.labels.name', { labels: [{ name: 'bug' }] }, ['labels']],
    ['$.a.title.x', { a: { title: 'text' } }, ['$.a.title']],
    // Nothing is like it: what stands there at all.
    ['$.q', { one: 1, two: 2, three: 3, four: 4, five: 5, six: 6 }, ['one', 'two', 'three', 'four', 'five']],
  ] as const)
    assert.deepEqual(instead(path, payload), told, path);
});

test('nothing is told where the clause matches, where something stands at the path, or where there is nothing', () => {
  assert.equal(instead('$.sev', { severity: 1 }, { exists: false }), undefined);
  assert.equal(instead('$.sev', { severity: 1 }, { notIn: ['low'] }), undefined);
  assert.equal(instead('severity', { severity: 'low', sev: 'high' }), undefined);
  assert.equal(instead('$.sev', {}), undefined);
  assert.deepEqual(instead('$.sev', { severity: 1 }, { exists: true }), ['severity']);
});

test('a name that looks like a credential, or that no path can name, is never told; neither is a prototype', () => {
  const token = `ghp_${'a1B2c3D4e5'.repeat(4)}`;
  assert.deepEqual(instead('$.sev', { [token]: 1, 'a.b': 2, ' x': 3, '': 4, kind: 5 }), ['kind']);
  assert.equal(instead('$.sev', { [token]: { sev: 1 } }), undefined);
  assert.equal(instead('$.list.x', { list: { [token]: [] } })?.includes(token) ?? false, false);
  assert.equal(instead('$.to_string', Object.create({ toString: 1 }) as JsonObject), undefined);
});

test('of a large payload what no clause reads stays unread, and the work is bounded', () => {
  const many = Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`member${at}`, { severity: at }]));
  const text = JSON.stringify({ alert: { severity: 'high', more: 'z'.repeat(20_000) }, kind: 'bug' });
  const lazy = readLazily(Buffer.from(text)) as JsonObject;
  assert.deepEqual(instead('$.severity', lazy, 'high', true), ['alert', 'kind']);
  const where = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`$.missing${at}`, 1]));
  const [found] = explain(on(where), { key: 'webhook.x', scope: null, payload: many });
  assert.equal(found?.clauses.length, 500);
  for (const { instead: told = [] } of found?.clauses ?? []) assert.ok(told.length <= 5);
});

test('a fallback that stands back names the triggers that fire instead', () => {
  const base = { event: 'webhook.x', where: { n: 1 } };
  const told = explain(
    [
      { ...base, agent: 'a', ordinal: 0, scope: 'in', fallback: false },
      { ...base, agent: 'a', ordinal: 1, scope: 'in', fallback: true },
      { ...base, agent: 'b', ordinal: 0, scope: 'other', fallback: true },
    ],
    { key: 'webhook.x', scope: undefined, payload: { n: 1 } },
  );
  assert.deepEqual(
    told.map(({ matched, standsBackFor }) => [
      matched,
      standsBackFor?.map(({ agent, ordinal }) => `${agent}#${ordinal}`),
    ]),
    [
      [true, undefined],
      [false, ['a#0']],
      [true, undefined],
    ],
  );
});
