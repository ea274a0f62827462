import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '../../internal/base/log/log.ts';
import { Stops } from './stops.ts';

/** A part that stops when it is told that it has. */
function part(): { readonly stop: () => Promise<void>; readonly over: (error?: Error) => void } {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  return { stop: () => promise, over: (error) => (error === undefined ? resolve() : reject(error)) };
}

test('what was started last is stopped first, whatever becomes of it, and what is waited for has a name', async () => {
  const lines: string[] = [];
  const log = createLog('error', { write: (line: string) => void lines.push(line) });
  const [database, jobs, poll] = [part(), part(), part()];
  const work = new Stops();
  work.add('jobs', jobs.stop);
  work.add('repo.poll', poll.stop);
  const stops = new Stops();
  stops.add('database', database.stop);
  stops.add('work', () => work.run(log), work);
  assert.equal(stops.now, undefined);
  const stopped = stops.run(log);
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  assert.equal(stops.now, 'repo.poll');
  poll.over(new Error('it did not want to'));
  await turn();
  assert.equal(stops.now, 'jobs');
  jobs.over();
  await turn();
  assert.equal(stops.now, 'database');
  database.over();
  await stopped;
  assert.equal(stops.now, undefined);
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)).map(({ msg, part: name }) => [msg, name]),
    [['daemon.stop_failed', 'repo.poll']],
  );
});
