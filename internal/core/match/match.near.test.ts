// What an explanation tells that a payload has instead of a path that finds nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Json, JsonObject } from '../../domain/json.ts';
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
    // Equal but for case and separators, one the beginning of the other, one inside the other, a few letters apart.
    [
      '$.severity',
      { Severitx: 1, my_severities: 2, severity_x: 3, 'SEVERI-TY': 4 },
      ['SEVERI-TY', 'severity_x', 'Severitx'],
    ],
    ['$.strasse', { strass: 1, straße: 2 }, ['strass', 'straße']],
    ['$.q', { other: 1, quick: 2 }, ['other', 'quick']],
    ['$.id', { other: 1, identifier: 2 }, ['identifier']],
    ['$.identifier', { other: 1, id: 2 }, ['id']],
    ['$.id', { other: 1, xidx: 2 }, ['other', 'xidx']],
    ['$.url', { other: 1, html_url_x: 2 }, ['html_url_x']],
    ['$.html_url_x', { other: 1, url: 2 }, ['url']],
    ['$.name', { user_name_x: 1, names: 2 }, ['names', 'user_name_x']],
    // Two letters from five on, one from three, none in two.
    ['$.label', { other: 1, lxbxl: 2 }, ['lxbxl']],
    ['$.label', { other: 1, xxxel: 2 }, ['other', 'xxxel']],
    ['$.kind', { other: 1, kixd: 2 }, ['kixd']],
    ['$.kind', { other: 1, kxxd: 2 }, ['other', 'kxxd']],
    ['$.sev', { other: 1, sxv: 2 }, ['sxv']],
    ['$.ab', { other: 1, ax: 2 }, ['other', 'ax']],
    // The right name on another level.
    ['$.q', { alert: { kind: 1, q: 2 }, none: null, text: 'q' }, ['$.alert.q']],
    ['$.a.b.title', { a: { title: 1, b: { x: 1 } }, x: 2 }, ['$.a.title']],
    ['$.a.b.x_y', { xY: 1, a: { X_Y: 1, b: { c: { 'x-y': 1 } } } }, ['$.a.b.c.x-y', 'xY', '$.a.X_Y']],
    // At most three that are alike.
    ['$.sev', { sev1: 1, sev2: 2, sev3: 3, sev4: 4 }, ['sev1', 'sev2', 'sev3']],
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
  assert.equal(instead(`$.${token}.x`, { [token]: [] }), undefined);
  for (const root of [['sev'], 'sev']) assert.equal(instead('$.sev', root as unknown as JsonObject), undefined);
  const [longest, longer] = ['sev'.padEnd(64, 'x'), 'sev'.padEnd(65, 'x')];
  assert.deepEqual(instead('$.sev', { [longer]: 1, [longest]: 2 }), [longest]);
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

/** An object of so many names, each a letter and its number. */
const numbered = (letter: string, count: number, value: (at: number) => Json = (at) => at): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`${letter}${at}`, value(at)]));

test('so many names are looked at, of one object, of what is below it and in all; each object is listed once', () => {
  assert.deepEqual(instead('$.sev', { ...numbered('k', 199), sev_x: 1 }), ['sev_x']);
  assert.deepEqual(instead('$.sev', { ...numbered('k', 200), sev_x: 1 }), ['k0', 'k1', 'k2', 'k3', 'k4']);
  assert.deepEqual(instead('$.sev', { ...numbered('k', 19), z: { sev: 1 } }), ['$.z.sev']);
  assert.deepEqual(instead('$.sev', { ...numbered('k', 20), z: { sev: 1 } }), ['k0', 'k1', 'k2', 'k3', 'k4']);
  // 20 names, and 124 in each of them: 2,500 a path, and 50,000 in all.
  let listed = 0;
  const ownKeys = (of: object): (string | symbol)[] => ((listed += 1), Reflect.ownKeys(of));
  const payload = new Proxy<JsonObject>(
    numbered('k', 20, () => numbered('n', 124)),
    { ownKeys },
  );
  const where = Object.fromEntries(Array.from({ length: 21 }, (_, at) => [`$.missing${at}`, 1]));
  const found = explain([...on(where), ...on({ '$.missing0': 2 })], { key: 'webhook.x', scope: null, payload });
  const told = found.flatMap(({ clauses }) => clauses.map((clause) => clause.instead?.length));
  assert.deepEqual(told, [...Array.from({ length: 20 }, () => 5), undefined, 5]);
  assert.equal(listed, 1);
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
