// What the code host tells in pages reaches a session whole, or the answer says that there is more.

import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { after, before, describe, it } from 'node:test';
import { isWithin } from '../../base/testkit/parsing.ts';
import { type CodehostBench, everything, startCodehostBench } from './codehost-testkit.ts';
import type { RpcAnswer, Seat } from './mcp-testkit.ts';

const at = { owner: 'acme', repo: 'app' };

describe('what a code host tells in pages', () => {
  let bench: CodehostBench;
  let seat: Seat;
  const done = async (tool: string, input: object): Promise<RpcAnswer['value']> => {
    const answer = await seat.call(tool, { ...at, ...input }, 'code');
    assert.equal(answer.isError, false, `${tool}: ${answer.text}`);
    return answer.value;
  };
  /** A run that failed, of these jobs. */
  const run = (id: number, jobs: (typeof bench.app.runs)[number]['jobs']): void => {
    const how = { name: 'ci', status: 'completed', conclusion: 'failure', headSha: '', headBranch: 'main' };
    bench.app.runs.push({ id, workflowId: 1, ...how, attempt: 1, jobs });
  };
  before(async () => {
    bench = await startCodehostBench();
    seat = await bench.agent('worker', { 'acme/app': everything });
  });
  after(async () => {
    await bench.stopAll();
    assert.deepEqual(bench.sim.schemaRefusals, []);
  });

  it('leads from the files of a large commit to the others', async () => {
    const files = Object.fromEntries(Array.from({ length: 130 }, (_, n) => [`many/${n}.txt`, `${n}\n`]));
    const sha = await bench.app.git.commit(files);
    const names = (commit: RpcAnswer['value']): string[] =>
      ((commit['files']?.['items'] ?? []) as unknown as { filename: string }[]).map(({ filename }) => filename);
    const first = await done('get_commit', { sha });
    assert.deepEqual([names(first).length, first['files']?.['more'], first['files']?.['next']], [100, true, 2]);
    const second = await done('get_commit', { sha, page: 2 });
    assert.deepEqual([names(second).length, second['files']?.['more']], [30, false]);
    assert.equal(new Set([...names(first), ...names(second)]).size, 130);
    const few = await done('get_commit', { sha, perPage: 20 });
    assert.deepEqual([names(few).length, few['files']?.['next']], [20, 2]);
  });

  it('finds the failed jobs of a run of more than a page, and says when logs are left out', async () => {
    const job = (id: number, conclusion: string) => ({
      id,
      name: `job ${id}`,
      status: 'completed',
      conclusion,
      log: `${id}`,
    });
    run(
      7,
      Array.from({ length: 120 }, (_, n) => job(1_000 + n, n === 110 ? 'failure' : 'success')),
    );
    const late = await done('get_job_logs', { run_id: 7, failed_only: true });
    assert.deepEqual([late['total_jobs'], late['failed_jobs'], late['more']], [120, 1, false]);
    assert.equal(String(late['logs']?.[0]?.['job_name']), 'job 1110');
    run(
      8,
      Array.from({ length: 25 }, (_, n) => job(2_000 + n, 'failure')),
    );
    const many = await done('get_job_logs', { run_id: 8, failed_only: true });
    const logs = many['logs'] as unknown as readonly object[];
    assert.deepEqual([many['failed_jobs'], logs.length, many['more']], [25, 20, true]);
  });

  it('is the end of a log, and holds up nobody where that is made of line breaks', async () => {
    const log = Buffer.alloc(60_000_000, '\n').toString('latin1');
    const of = (id: number, text: string) => ({
      ...{ id, name: `job ${id}`, status: 'completed', conclusion: 'failure' },
      log: text,
    });
    run(10, [of(4_001, log), of(4_002, '\n'), of(4_003, 'a\nb\n'), of(4_004, '')]);
    const delay = monitorEventLoopDelay({ resolution: 10 });
    delay.enable();
    const told = await done('get_job_logs', { job_id: 4_001, tail_lines: 3 });
    delay.disable();
    assert.deepEqual([told['logs_content'], told['original_length']], ['\n\n', 60_000_001]);
    assert.ok(isWithin(delay.max / 1e6, 2_000), `the event loop stood still for ${Math.round(delay.max / 1e6)} ms`);
    for (const [id, lines, text, count] of [
      [4_002, 1, '', 2],
      [4_002, 5, '\n', 2],
      [4_003, 1, '', 3],
      [4_003, 2, 'b\n', 3],
      [4_003, 9, 'a\nb\n', 3],
      [4_004, 1, '', 1],
    ] as const) {
      const short = await done('get_job_logs', { job_id: id, tail_lines: lines });
      assert.deepEqual([short['logs_content'], short['original_length']], [text, count], `${id} ${lines}`);
    }
  });

  it('leads from the statuses of a pull request to the others', async () => {
    await bench.app.git.commit({ 'status.txt': 'x' }, { branch: 'status' });
    const pull = await done('create_pull_request', { title: 'S', head: 'status', base: 'main' });
    const sha = (await bench.app.branch('status')) ?? assert.fail();
    for (let n = 0; n < 40; n += 1) {
      const fields = { state: 'success', context: `check/${n}`, description: null };
      bench.app.statuses.push({ sha, id: 9_000 + n, fields, user: bench.sim.bot });
    }
    const read = (page: number) =>
      done('pull_request_read', { method: 'get_status', pullNumber: Number(pull['number']), page, perPage: 30 });
    const [first, second] = [await read(1), await read(2)];
    const told = (one: RpcAnswer['value']) => ((one['statuses'] ?? []) as unknown as readonly object[]).length;
    assert.deepEqual([told(first), first['more'], first['next'], first['total_count']], [30, true, 2, 40]);
    assert.deepEqual([told(second), second['more'], second['next']], [10, false, undefined]);
  });

  it('is cut between characters, never within one', async () => {
    await bench.app.git.commit({ 'long.txt': `${'x'.repeat(379_999)}${'😀'.repeat(100)}` });
    const jobs = [1, 2].map((id) => ({
      ...{ id: 3_000 + id, name: `job ${id}`, status: 'completed', conclusion: 'failure' },
      log: `${'😀'.repeat(200_000)}x`,
    }));
    run(9, jobs);
    const file = await done('get_file_contents', { path: 'long.txt' });
    const one = await done('get_job_logs', { job_id: 3_001 });
    const two = await done('get_job_logs', { run_id: 9, failed_only: true });
    bench.sim.fault = ({ path }) =>
      path.includes('/pulls/')
        ? { kind: 'after', status: 200, body: `${'x'.repeat(379_999)}${'😀'.repeat(100)}` }
        : null;
    const diff = await done('pull_request_read', { method: 'get_diff', pullNumber: 99 });
    bench.sim.fault = () => null;
    for (const text of [file['content'], diff['diff'], one['logs_content'], two['logs']?.[0]?.['logs_content']]) {
      assert.ok(String(text).length > 100_000 && String(text).isWellFormed(), JSON.stringify(String(text).slice(0, 3)));
    }
  });
});
