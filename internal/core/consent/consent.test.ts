import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  after,
  attemptStates,
  attemptSteps,
  attemptAt,
  challengeOf,
  grantAfter,
  isWithin,
  lifeOf,
  printTables,
  scopesIn,
  stepUp,
  unionOf,
} from './consent.ts';

test('an attempt and a grant go from state to state as these tables say', () => {
  assert.equal(
    printTables(),
    `awaiting_authorization: claim → exchanging, refused → failed, cancel → cancelled, expire → expired
exchanging: published → completed, refused → failed, unknown → uncertain
completed: the end
failed: the end
uncertain: the end
expired: the end
cancelled: the end

ready: refresh → refreshing, refused → ended, consent → ready
refreshing: refreshed → ready, unsent → ready, unknown → uncertain, refused → ended, consent → ready
uncertain: consent → ready
ended: consent → ready`,
  );
});

test('nothing leads out of an end, and nothing leads twice to an exchange', () => {
  for (const state of attemptStates.filter((one) => one !== 'awaiting_authorization' && one !== 'exchanging')) {
    for (const step of attemptSteps) assert.equal(after(state, step), null, `${state} ${step}`);
  }
  const leading = attemptStates.filter((state) => attemptSteps.some((step) => after(state, step) === 'exchanging'));
  assert.deepEqual(leading, ['awaiting_authorization']);
  assert.equal(grantAfter('uncertain', 'refresh'), null);
});

test('what waits for a person expires; what was claimed and lapsed is uncertain', () => {
  const [early, at] = [new Date(999), new Date(1_000)];
  const waiting = { state: 'awaiting_authorization', expiresAt: at, exchangeUntil: null } as const;
  assert.equal(attemptAt(waiting, early), 'awaiting_authorization');
  assert.equal(attemptAt(waiting, at), 'expired');
  const sent = { state: 'exchanging', expiresAt: early, exchangeUntil: at } as const;
  assert.equal(attemptAt(sent, early), 'exchanging');
  assert.equal(attemptAt(sent, at), 'uncertain');
  assert.equal(attemptAt({ ...sent, state: 'completed' }, at), 'completed');
  assert.equal(attemptAt({ ...sent, exchangeUntil: null }, at), 'exchanging');
});

test('a token is replaced at four fifths of its life', () => {
  const life = lifeOf(3_600, new Date(0));
  assert.equal(life.refreshAt?.getTime(), 2_880_000);
  assert.equal(life.expiresAt?.getTime(), 3_600_000);
  assert.deepEqual(lifeOf(undefined, new Date(0)), { refreshAt: null, expiresAt: null });
});

test('scopes are read and joined', () => {
  assert.deepEqual(scopesIn('read  write read "x\\'), ['read', 'write']);
  assert.deepEqual(scopesIn(undefined), []);
  assert.deepEqual(scopesIn(`a\u0001 \u0001b ${'x'.repeat(200)} ${'y'.repeat(201)}`), ['x'.repeat(200)]);
  const many = Array.from({ length: 101 }, (_, index) => `s${index}`);
  assert.deepEqual(unionOf(many), many.slice(0, 100));
  assert.deepEqual(unionOf(['a'], ['b', 'a'], []), ['a', 'b']);
});

test('a step up is the union, ends where it would change nothing, and after two rounds', () => {
  const grant = { scopes: ['read'], wanted: [], rounds: 0 };
  assert.deepEqual(stepUp(grant, ['write']), ['read', 'write']);
  assert.deepEqual(stepUp({ ...grant, wanted: ['x'], rounds: 1 }, ['write']), ['read', 'x', 'write']);
  assert.equal(stepUp({ ...grant, rounds: 2 }, ['write']), null);
  assert.equal(stepUp(grant, ['read']), null);
  assert.equal(stepUp(grant, []), null);
});

test('a bearer challenge gives its error, scopes and metadata address; another scheme, or one that comes late, gives none', () => {
  const header = 'Bearer realm="x", error="insufficient_scope", scope="a b", resource_metadata="https://r.example/m"';
  assert.deepEqual(challengeOf(header), {
    error: 'insufficient_scope',
    scopes: ['a', 'b'],
    resourceMetadata: 'https://r.example/m',
  });
  assert.deepEqual(challengeOf('bearer error=invalid_token'), { error: 'invalid_token', scopes: [] });
  assert.deepEqual(challengeOf('Basic realm="x"'), { scopes: [] });
  assert.deepEqual(challengeOf('Basic realm="x", error="e", scope="a"'), { scopes: [] });
  assert.deepEqual(challengeOf('Basic realm="x",  Bearer ERROR="a \\"b\\""'), { error: 'a "b"', scopes: [] });
  assert.deepEqual(challengeOf('Bearer scope="a"'), { scopes: ['a'] });
  assert.deepEqual(challengeOf(`Bearer ${' '.repeat(8_192)}error="late"`), { scopes: [] });
  assert.deepEqual(challengeOf(undefined), { scopes: [] });
});

test('a token is shown to its resource alone', () => {
  const resource = 'https://docs.example/mcp';
  for (const address of [resource, 'https://docs.example/mcp/', 'https://docs.example/mcp/v2?x=1'])
    assert.ok(isWithin(resource, address), address);
  for (const address of [
    'https://docs.example/',
    'https://docs.example/mcpx',
    'https://docs.example/mcp/../admin',
    'http://docs.example/mcp',
    'https://docs.example:444/mcp',
    'https://docs.example.evil/mcp',
    'https://evil.example/https://docs.example/mcp',
    'data:x',
    '',
  ])
    assert.ok(!isWithin(resource, address), address);
  assert.ok(isWithin('https://docs.example', 'https://docs.example/anything'));
  for (const address of ['https://docs.example/mcp', 'https://docs.example/mcp//', 'https://docs.example/mcp/v2'])
    assert.ok(isWithin('https://docs.example/mcp//', address), address);
  assert.ok(!isWithin('nothing', resource));
  assert.ok(!isWithin('data:x', 'data:x'));
});
