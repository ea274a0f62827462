import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addPage,
  after,
  attemptStates,
  attemptSteps,
  isProviderId,
  isResumable,
  isSlug,
  printTable,
  selection,
  stateAt,
  takes,
} from './attempt.ts';

test('a setup attempt goes from state to state as this table says', () => {
  assert.equal(
    printTable(),
    `awaiting_authorization: callback → exchanging, cancel → cancelled, expire → expired
exchanging: choices → awaiting_selection, only-choice → completing, refused → failed, unknown → uncertain, cancel → cancelled
awaiting_selection: refused → failed, select → completing, cancel → cancelled, expire → expired
completing: refused → failed, unknown → uncertain, published → completed, cancel → cancelled
completed: the end
failed: the end
expired: the end
cancelled: the end
uncertain: cancel → cancelled`,
  );
});

test('every state but the ends can be left by a person', () => {
  for (const state of attemptStates) {
    const isEnd = attemptSteps.every((step) => after(state, step) === null);
    assert.equal(isEnd, after(state, 'cancel') === null, state);
  }
  assert.deepEqual(takes('expire'), ['awaiting_authorization', 'awaiting_selection']);
  assert.deepEqual(takes('callback'), ['awaiting_authorization']);
});

test('what waits for a person expires, what is at work does not', () => {
  const at = new Date(1_000);
  const before = new Date(999);
  assert.equal(stateAt('awaiting_authorization', at, at), 'expired');
  assert.equal(stateAt('awaiting_selection', at, at), 'expired');
  assert.equal(stateAt('awaiting_selection', at, before), 'awaiting_selection');
  assert.equal(stateAt('exchanging', at, at), 'exchanging');
  assert.equal(stateAt('completing', at, at), 'completing');
  for (const state of ['awaiting_selection', 'exchanging', 'completing'] as const)
    assert.equal(isResumable(state, at, before), true, state);
  assert.equal(isResumable('exchanging', at, at), false);
  assert.equal(isResumable('awaiting_authorization', at, before), false);
});

const nothing = { projects: [], cursors: [] };
const page = (from: number, count: number): unknown[] =>
  Array.from({ length: count }, (_, index) => ({ id: String(from + index), slug: `p-${from + index}` }));

test('ten pages of a hundred projects are taken, one more is not', () => {
  let seen: Exclude<ReturnType<typeof addPage>, string> = { ...nothing, more: true };
  for (let index = 0; index < 10; index += 1) {
    const added = addPage(seen, { body: page(index * 100 + 1, 100), next: index === 9 ? null : `c${index}` });
    assert.ok(typeof added !== 'string', String(added));
    seen = added;
  }
  assert.deepEqual([seen.projects.length, seen.more], [1_000, false]);
  assert.deepEqual(seen.projects.at(-1), { id: '1000', slug: 'p-1000' });
  let longer: Exclude<ReturnType<typeof addPage>, string> = { ...nothing, more: true };
  for (let index = 0; index < 9; index += 1) {
    const added = addPage(longer, { body: page(index * 100 + 1, 100), next: `c${index}` });
    assert.ok(typeof added !== 'string', String(added));
    assert.equal(added.more, true);
    longer = added;
  }
  assert.equal(addPage(longer, { body: page(901, 100), next: 'c9' }), 'there are over 10 pages of projects');
});

const worthless: readonly (readonly [string, unknown, string | null])[] = [
  ['the list of projects is not a list', { detail: 'no' }, null],
  ['the list of projects is not a list', null, null],
  ['a page has over 100 projects', page(1, 101), null],
  ['a project has no usable id or slug', [{ id: 1, slug: 'a' }], null],
  ['a project has no usable id or slug', [{ id: '0', slug: 'a' }], null],
  ['a project has no usable id or slug', [{ id: '-1', slug: 'a' }], null],
  ['a project has no usable id or slug', [{ id: '1', slug: '../a' }], null],
  ['a project has no usable id or slug', [null], null],
  ['a project is listed twice', [...page(1, 1), ...page(1, 1)], null],
  ['a cursor is repeated', page(1, 1), 'again'],
  ['a cursor is repeated', page(1, 1), ''],
  ['an empty page names a next one', [], 'next'],
];
for (const [message, body, next] of worthless) {
  test(`an enumeration is worthless where ${message}: ${JSON.stringify(body).slice(0, 50)}`, () => {
    assert.equal(addPage({ projects: [], cursors: ['again'] }, { body, next }), message);
  });
}

test('a project of an earlier page is not listed again', () => {
  const seen = { projects: [{ id: '1', slug: 'p-1' }], cursors: ['c'] };
  assert.equal(addPage(seen, { body: page(1, 1), next: null }), 'a project is listed twice');
});

test('a selection names intended projects and visible ones, each pair once', () => {
  const choices = [
    { id: '1', slug: 'a' },
    { id: '2', slug: 'b' },
  ];
  const pair = { projectId: 'p', errtrackProjectId: '1' };
  assert.deepEqual(selection([pair, { ...pair }], ['p'], choices), [pair]);
  const others = [pair, { ...pair, projectId: 'q' }, { ...pair, errtrackProjectId: '2' }];
  assert.deepEqual(selection(others, ['p', 'q'], choices), others);
  const [foreign, hidden] = [
    { ...pair, projectId: 'q' },
    { ...pair, errtrackProjectId: '3' },
  ];
  assert.equal(selection([foreign], ['p'], choices), 'a recipient is none of the intended projects');
  assert.equal(selection([hidden], ['p'], choices), 'a recipient names no project that is visible');
});

test('an id of the provider is a plain number that its type holds, and a slug holds no path', () => {
  for (const id of ['1', '9007199254740993', '9223372036854775807']) assert.ok(isProviderId(id), id);
  for (const id of ['', '0', '01', '1.0', ' 1', '12345678901234567890', 1, null])
    assert.ok(!isProviderId(id), String(id));
  for (const slug of ['a', 'my-api', 'A.b_c']) assert.ok(isSlug(slug), slug);
  for (const slug of ['', '.a', 'a..b', 'a/b', 'a b', 'x'.repeat(101), 1, null]) assert.ok(!isSlug(slug), String(slug));
});
