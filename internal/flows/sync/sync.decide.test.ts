import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { RepositoryState } from '../../adapters/store/repositories/repositories.ts';
import { assess, contextOf } from './resolve.ts';
import { compareRuns } from './run-record.ts';
import { backOffMaxMs, backOffMs, hostPauseMs } from './source.ts';

const state: RepositoryState = {
  appliedCommit: 'a',
  appliedHash: 'h',
  appliedAt: null,
  snapshotId: 's',
  templateLock: {},
  seenCommit: 'a',
  seenHash: 'h',
  refBranch: null,
  failures: 0,
  condition: null,
  conditionDetail: null,
  conditionSince: null,
};
const at = (commit: string, reason: 'poll' | 'manual' | 'resync', over: Partial<RepositoryState> = {}, hash = 'h') =>
  assess({ repository: { quarantinedCommit: 'bad', state: { ...state, ...over } }, commit, hash, reason });

test('a commit that was seen under the same inputs is left alone', () => {
  assert.deepEqual(at('a', 'poll'), { do: 'nothing' });
});
test('a broken commit is not tried again by a poll', () => {
  assert.deepEqual(at('b', 'poll', { seenCommit: 'b' }), { do: 'nothing' });
});
test('a broken commit is tried again by hand and by a resync', () => {
  assert.deepEqual(at('b', 'manual', { seenCommit: 'b' }), { do: 'sync', prior: false });
  assert.deepEqual(at('b', 'resync', { seenCommit: 'b' }), { do: 'sync', prior: false });
});
test('a source that answers again is forgiven without a run', () => {
  assert.deepEqual(at('a', 'poll', { condition: 'unreachable' }), { do: 'recover' });
});
test('a new commit is compared with the applied one first', () => {
  assert.deepEqual(at('b', 'poll'), { do: 'sync', prior: true });
});
test('changed inputs are a reason to compile the same commit again', () => {
  assert.deepEqual(at('a', 'poll', {}, 'other'), { do: 'sync', prior: false });
});
test('a first sync has nothing to compare with', () => {
  const fresh = { appliedCommit: null, appliedHash: null, snapshotId: null, seenCommit: null, seenHash: null };
  assert.deepEqual(at('a', 'poll', fresh), { do: 'sync', prior: false });
});
test('the quarantined commit is passed over, said once', () => {
  assert.deepEqual(at('bad', 'poll'), { do: 'pass-over' });
  assert.deepEqual(at('bad', 'poll', { seenCommit: 'bad' }), { do: 'nothing' });
  assert.deepEqual(at('bad', 'manual', { seenCommit: 'bad' }), { do: 'pass-over' });
});

test('a run of the same commit and settings is left to finish, any other is superseded', () => {
  assert.equal(compareRuns({ running: { commit: null, generation: null }, commit: 'a', generation: 1 }), 'wait');
  assert.equal(compareRuns({ running: { commit: 'a', generation: 1 }, commit: 'a', generation: 1 }), 'leave');
  assert.equal(compareRuns({ running: { commit: 'a', generation: 1 }, commit: 'b', generation: 1 }), 'supersede');
  assert.equal(compareRuns({ running: { commit: 'a', generation: 1 }, commit: 'a', generation: 2 }), 'supersede');
});

test('a back-off never shrinks with more failures, and never exceeds fifteen minutes', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 3600 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (failures, seconds, random) => {
        const now = backOffMs({ failures, intervalMs: seconds * 1000, random });
        const next = backOffMs({ failures: failures + 1, intervalMs: seconds * 1000, random });
        assert.ok(now <= next && next <= backOffMaxMs && now > 0);
      },
    ),
  );
});
test('a pause that the server asks for is kept to by the repository, and by its server from the third that it is asked of', () => {
  assert.equal(backOffMs({ failures: 1, intervalMs: 1000, random: 0, retryAfterMs: 120_000 }), 120_000);
  const asked = (failures: number, askedMs: number): number => hostPauseMs({ failures, askedMs, random: 0.5 });
  assert.deepEqual([asked(1, 120_000), asked(2, 120_000), asked(3, 120_000)], [0, 0, 120_000]);
  assert.deepEqual([asked(3, 0), asked(4, 0), asked(30, 0), asked(3, 1e9)], [5_000, 10_000, 300_000, 3_600_000]);
});

const remote = {
  name: 'app',
  url: 'https://Example.com/Acme/App.git',
  urlKey: 'example.com/acme/app',
  branch: null,
  context: {},
  auth: null,
};
test('the context names the repository, its branch and its connection, and what is declared wins', () => {
  assert.deepEqual(contextOf(remote, { branch: 'main', connections: ['hub'] }), {
    repositoryFullName: 'Acme/App',
    repositoryOwner: 'Acme',
    repositoryName: 'App',
    branch: 'main',
    codehostConnection: 'hub',
  });
  const declared = {
    ...remote,
    context: { branch: 'mine', team: 'x' },
    auth: { kind: 'connection', connection: 'c2' } as const,
  };
  const context = contextOf(declared, { branch: 'main', connections: ['hub', 'c2'] });
  assert.equal(context['branch'], 'mine');
  assert.equal(context['team'], 'x');
  assert.equal(context['codehostConnection'], 'c2');
});
test('a folder goes by the name it is registered under, and several connections give none', () => {
  const folder = { ...remote, url: null, urlKey: null };
  assert.deepEqual(contextOf(folder, { branch: null, connections: ['a', 'b'] }), {
    repositoryFullName: 'app',
    repositoryOwner: 'app',
    repositoryName: 'app',
  });
});
