import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { beginChecks, listChecks } from '../../adapters/store/sessions/checks.ts';
import { type Bench, createBench } from '../sync/apply-testkit.ts';
import { beginCheck, concludeCheck, reportChecks, sweepChecks } from './checks.ts';

// Work on checks that is killed outright at each of its points: a check has moved with its audit entry, or neither, and
// whoever comes after arrives at the same end.

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const sessionId = randomUUID();
const lint = {
  name: 'lint',
  displayName: 'Lint',
  description: 'Reads',
  beginTimeout: { seconds: 10, conclusion: 'skipped' },
} as const;
const here = (file: string): string => JSON.stringify(pathToFileURL(join(import.meta.dirname, file)).href);

/** Runs one statement of work in a process of its own that kills itself at the point. */
async function killed(point: string, work: string): Promise<void> {
  const { url, orgId, projectId } = bench;
  const script = `
    import { armFailpoint } from ${here('../../base/failpoint.ts')};
    import { joinBench } from ${here('../sync/apply-testkit.ts')};
    import { beginCheck, reportChecks, sweepChecks } from ${here('checks.ts')};
    const { place, now, sessionId, point } = JSON.parse(process.argv[1]);
    const bench = joinBench(place);
    bench.setNow(now);
    await bench.db.query("insert into svc.daemons (id, roles, host, pid) values ($1::uuid, '{}', 'here', 1)", [bench.ctx.daemonId]);
    const signal = new AbortController().signal;
    const port = { report: async () => ({ outcome: 'done', externalId: 'run-of-the-dead' }) };
    armFailpoint(point);
    await ${work};
    await bench.close();
  `;
  const now = bench.ctx.runtime.now().toISOString();
  const input = JSON.stringify({ place: { url, orgId, projectId }, now, sessionId, point });
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, input], { stdio: 'inherit' });
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  assert.equal(signal, 'SIGKILL', point);
}

const setNow = (seconds: number): void =>
  bench.setNow(new Date(Date.parse('2026-11-21T12:00:00Z') + seconds * 1_000).toISOString());

async function queued(): Promise<void> {
  setNow(0);
  await bench.db.query('truncate svc.checks');
  await bench.db.tx((tx) =>
    beginChecks(tx, bench.ctx.runtime.now(), [
      {
        projectId: bench.projectId,
        agentId: randomUUID(),
        agent: 'reviewer',
        ordinal: 0,
        eventId: randomUUID(),
        connectionId: randomUUID(),
        targetKey: 'acme/site#7',
        headSha: 'abc',
        sessionId,
        checks: [lint],
      },
    ]),
  );
}

const bury = (): Promise<unknown> => bench.db.query('delete from svc.daemons');

async function shown(): Promise<unknown[]> {
  const [row] = await listChecks(bench.db, sessionId);
  const { rows } = await bench.db.query<{ n: number }>(
    `select count(*)::int as n from svc.audit where detail ->> 'checkId' = $1::text`,
    [row?.id],
  );
  return [row?.state, row?.title, rows[0]?.n];
}

test('killed before it commits, a call or a sweep has changed nothing; the next one does it once', async () => {
  await queued();
  await killed('checks.before-commit', 'beginCheck(bench.ctx, sessionId, "lint")');
  assert.deepEqual(await shown(), ['queued', null, 0]);
  await beginCheck(bench.ctx, sessionId, 'lint');
  assert.deepEqual(await shown(), ['in_progress', null, 1]);

  await queued();
  setNow(10);
  await killed('checks.before-commit', 'sweepChecks(bench.ctx, signal)');
  assert.deepEqual(await shown(), ['queued', null, 0]);
  const signal = new AbortController().signal;
  // A sweep passes by what the dead one holds until the server has noticed its end.
  for (let tries = 0; tries < 6_000 && (await shown())[0] !== 'concluded'; tries += 1) {
    await sweepChecks(bench.ctx, signal);
    await sleep(10);
  }
  await sweepChecks(bench.ctx, signal);
  assert.deepEqual(await shown(), ['concluded', 'Check begin timed out', 1]);
});

test('killed before or after the code host was told, a change is told again once the daemon is known to be dead', async () => {
  for (const point of ['checks.claimed', 'checks.reported']) {
    await queued();
    await killed(point, 'reportChecks(bench.ctx, port)');
    const heard: unknown[] = [];
    const port = {
      report: async ({ id, state }: { id: string; state: string }) => {
        heard.push(state);
        return { outcome: 'done', externalId: id } as const;
      },
    };
    await reportChecks(bench.ctx, port);
    assert.deepEqual(heard, [], `${point}: the claim stands`);
    await beginCheck(bench.ctx, sessionId, 'lint');
    await concludeCheck(bench.ctx, sessionId, 'lint', { conclusion: 'success', title: 'Fine', summary: 'Good' });
    // The report of the dead may be under way for all that anybody knows: two at once could make two check runs.
    await reportChecks(bench.ctx, port);
    assert.deepEqual(heard, [], point);
    await bury();
    await reportChecks(bench.ctx, port);
    await reportChecks(bench.ctx, port);
    assert.deepEqual(heard, ['concluded'], point);
    await queued();
    await killed(point, 'reportChecks(bench.ctx, port)');
    await bury();
    await reportChecks(bench.ctx, port);
    assert.deepEqual(heard, ['concluded', 'queued'], point);
  }
});
