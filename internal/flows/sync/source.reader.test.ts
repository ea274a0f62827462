import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { RepoSource, Tip } from '../../adapters/repo/types.ts';
import { createLimiter } from '../../base/concurrency.ts';
import type { FlowContext } from '../context.ts';
import { LargeReads } from '../large-reads.ts';
import { createReader, HostHealth } from './source.ts';

/** A source whose calls never end, whatever their signal says. */
function deafSource(): RepoSource & { calls: number } {
  const never = <T>(): Promise<T> => new Promise<T>(() => undefined);
  return {
    calls: 0,
    resolve() {
      this.calls += 1;
      return never<Tip>();
    },
    snapshot: never,
    more: never,
    close: async () => undefined,
  };
}
const server = { projectId: 'p', host: 'h' };
function readerOf(source: RepoSource, more: { limitMs?: number; signal?: AbortSignal; mayBegin?: () => void } = {}) {
  return createReader({
    source,
    limited: createLimiter(8, 4),
    server,
    urgent: false,
    limitMs: 60_000,
    signal: new AbortController().signal,
    room: new LargeReads().roomOf('p'),
    mayBegin: () => undefined,
    ...more,
  });
}
const isLate = (error: unknown): boolean => error instanceof RepoCondition && error.condition === 'unreachable';

test('a read ends in its time whatever the source does', async () => {
  await assert.rejects(readerOf(deafSource(), { limitMs: 20 }).resolve(null), isLate);
});

test('the time is one for all calls of a run', async () => {
  const source = deafSource();
  const reader = readerOf(source, { limitMs: 40 });
  await assert.rejects(reader.resolve(null), isLate);
  const begun = performance.now();
  await assert.rejects(reader.snapshot({ commit: 'c' }, {}), isLate);
  assert.ok(performance.now() - begun < 5_000);
});

test('a read ends at once with the reason of its run, also while it waits for its place', async () => {
  const ending = new AbortController();
  const limited = createLimiter(1, 1);
  const room = new LargeReads().roomOf('p');
  const options = { server, urgent: false, limitMs: 60_000, signal: ending.signal, room, mayBegin: () => undefined };
  const source = deafSource();
  const reads = [1, 2].map(() => createReader({ ...options, limited, source }).resolve(null));
  const ended = Promise.allSettled(reads);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(source.calls, 1);
  const why = new Error('something newer');
  ending.abort(why);
  assert.deepEqual(
    (await ended).map((one) => (one.status === 'rejected' ? one.reason : 'went on')),
    [why, why],
  );
  assert.equal(await limited('h', async () => 'free'), 'free');
});

test('a read that is not to be is never begun', async () => {
  const source = deafSource();
  const refused = new Error('not now');
  const mayBegin = (): void => {
    throw refused;
  };
  await assert.rejects(readerOf(source, { mayBegin }).resolve(null), refused);
  assert.equal(source.calls, 0);
});

test('servers that fail are remembered up to a bound, however many names there are of them', async () => {
  const db = { query: async () => ({ rows: [], rowCount: 0 }) };
  const health = new HostHealth({ db, runtime: { randomBytes: Buffer.alloc } } as unknown as FlowContext);
  const away = new RepoCondition('unreachable', 'nobody answers');
  const of = (host: string) => ({ projectId: 'p', host });
  for (const repository of ['1', '2']) assert.equal(await health.failed(of('first'), repository, away), 0);
  assert.ok((await health.failed(of('first'), '3', away)) > 0);
  for (let host = 0; host < 10_000; host += 1) await health.failed(of(`of ${host}`), '1', away);
  assert.equal(await health.failed(of('first'), '4', away), 0);
});
