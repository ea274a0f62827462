// Sessions from the event to the first prompt, against the harness's own start: spawned, initialized and with a session
// open, without any service around it. The rest is ours: routing, the sandbox, the ways to model and tools, the rows. Many
// at once, against as many harnesses alone; and what a session that waits costs the daemon beside its harness's own memory.

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectHarness, planLaunch } from '../adapters/harness/harness.ts';
import { scriptedAgent, startProcess } from '../adapters/harness/harness-testkit.ts';
import { silent } from '../base/testkit/postgres.ts';
import { processesOf } from '../flows/session-host/host-crash-testkit.ts';
import { createHostBench, type HostBench } from '../flows/session-host/host-testkit.ts';
import { type Bench, type Bencher, byteCount, heldBytes, median, ms, steadyMs, timed } from './harness.ts';

const oneByOne = 15;
const atOnce = 50;
/** What a host takes, by its default. */
const idleCount = 200;
const warm = 4;
/** One that waits needs little room; what V8 would take beside it for young objects is not its own either. */
export const smallAgent = [
  scriptedAgent[0] ?? '',
  '--max-semi-space-size=1',
  '--max-old-space-size=64',
  ...scriptedAgent.slice(1),
];
/** Of one such, apart from the pages that all of them share, with room: less memory keeps fewer of them waiting. */
export const agentBytes = 72 * 1_048_576;

/** A harness that is ready for its first prompt. */
async function startAlone(): Promise<() => Promise<void>> {
  const home = await mkdtemp(join(tmpdir(), 'svc-alone-'));
  const plan = planLaunch({
    harness: 'harness-a',
    model: { provider: 'provider-a', id: 'm', baseUrl: 'http://127.0.0.1:9' },
    effort: 'high',
    approvals: 'bypass',
    home,
    toolsToken: 'none',
    installed: false,
    asRoot: false,
    isolated: false,
  });
  const env = { PATH: process.env['PATH'], ...plan.env, HOME: home };
  const child = startProcess(scriptedAgent, env, home);
  const listener = { onUpdate: async () => undefined, onPermission: async () => 'allow' as const };
  const connection = await connectHarness({ process: child, plan, listener, log: silent });
  await connection.open({ cwd: home, mcpServers: [] });
  return async () => {
    await connection.close();
    await child.end();
    await rm(home, { recursive: true, force: true });
  };
}

interface Door {
  readonly bench: HostBench;
  /** Posts so many events that spawn a session each; resolves with their milliseconds to the first prompt on the wire. */
  spawn(count: number): Promise<number[]>;
  archiveAll(): Promise<void>;
}

async function openDoor(bench: HostBench): Promise<Door> {
  const hook = { event: 'webhook.received', endpoint: 'begin', auth: { kind: 'none' }, routing: { kind: 'spawn' } };
  await bench.apply({ worker: { triggers: [{ ...hook, message: 'hello' }] } });
  const { api, ctx, url } = bench.daemon;
  const { body } = await api('GET', 'P/endpoints/begin');
  const target = `${url}${new URL(String(body['ingestUrl'])).pathname}`;
  const waiting = async (): Promise<number> => {
    const { rows } = await ctx.db.query<{ left: number }>(
      `select (select count(*) from svc.events where router_status = 'pending')
            + (select count(*) from svc.sessions where live and state <> 'idle')
            + (select count(*) from svc.inbox where state in ('pending', 'in_flight')) as left`,
    );
    return Number(rows[0]?.left);
  };
  return {
    bench,
    async spawn(count) {
      const begun = new Map<string, number>();
      await Promise.all(
        Array.from({ length: count }, async () => {
          const at = Date.now();
          const response = await fetch(target, { method: 'POST', body: '{}' });
          const { eventRecordId } = (await response.json()) as { eventRecordId: string };
          begun.set(eventRecordId, at);
        }),
      );
      while ((await waiting()) > 0) await sleep(count === 1 ? 10 : 100);
      const { rows } = await ctx.db.query<{ event: string; at: Date }>(
        `select s.event_id as event, min(t.started_at) as at from svc.sessions s join svc.turns t on t.session_id = s.id
          where s.event_id = any($1::uuid[]) group by 1`,
        [[...begun.keys()]],
      );
      if (rows.length !== count)
        throw new Error(`${count} events made ${rows.length} sessions that were told something`);
      return rows.map((row) => row.at.getTime() - (begun.get(row.event) ?? Number.NaN));
    },
    async archiveAll() {
      const { rows } = await ctx.db.query<{ id: string }>('select id from svc.sessions where live');
      for (const { id } of rows) await api('POST', `P/sessions/${id}/archive`);
    },
  };
}

const p99 = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1] ?? Number.NaN;

async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? Number.NaN) * 1_024;
}

async function run(bencher: Bencher): Promise<void> {
  const bench = await createHostBench();
  bencher.atEnd(() => bench.stop());
  const door = await openDoor(bench);
  const alone: number[] = [];
  const through: number[] = [];
  for (let turn = -1; turn < oneByOne; turn += 1) {
    let end = async (): Promise<void> => undefined;
    const aloneMs = await timed(async () => {
      end = await startAlone();
    });
    await end();
    const [throughMs = Number.NaN] = await door.spawn(1);
    await door.archiveAll();
    if (turn < 0) continue;
    alone.push(aloneMs);
    through.push(throughMs);
  }
  bencher.ratio('event accepted → first prompt, p50, of the harness alone', ms(median(through)), steadyMs(alone), 3);
  bencher.ratio('event accepted → first prompt, p99, of the harness alone', ms(p99(through)), steadyMs(alone, p99), 4);

  const ends: (() => Promise<void>)[] = [];
  const manyAloneMs = await timed(async () => {
    ends.push(...(await Promise.all(Array.from({ length: atOnce }, startAlone))));
  });
  const aloneProcesses = ends.length;
  await Promise.all(ends.map((end) => end()));
  const manyMs = Math.max(...(await door.spawn(atOnce)));
  bencher.ratio(`${aloneProcesses} launches at once, of as many harnesses alone`, ms(manyMs), ms(manyAloneMs), 2.5);
}

async function runIdle(bencher: Bencher): Promise<void> {
  const bench = await createHostBench({ config: { harnessACommand: smallAgent } });
  bencher.atEnd(() => bench.stop());
  const door = await openDoor(bench);
  // What the first of them loads and compiles is not theirs.
  await door.spawn(warm);
  const most = Math.floor((freemem() * 0.9) / agentBytes);
  const before = heldBytes();
  await door.spawn(Math.max(10, Math.min(idleCount, most)) - warm);
  const { rows } = await bench.daemon.ctx.db.query<{ id: string }>('select id from svc.sessions where live');
  const own = (heldBytes() - before) / (rows.length - warm);
  const pids = rows.map(({ id }) => processesOf(id)[0] ?? 0);
  const without = pids.filter((pid) => pid === 0).length;
  if (new Set(pids).size !== rows.length || without > 0)
    throw new Error(`${without} of ${rows.length} sessions have no harness`);
  const harness = median(await Promise.all(pids.map(residentBytes)));
  const what = `${rows.length} idle sessions: held by the daemon for each, of its harness's own memory`;
  bencher.ratio(what, byteCount(own), byteCount(harness), 0.02);
}

export const bench: Bench = { name: 'sessions', title: 'from the event to the first prompt', run };
export const idle: Bench = { name: 'sessions-idle', title: 'sessions that wait on one host', run: runIdle };
