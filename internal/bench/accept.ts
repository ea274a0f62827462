// Accepting webhooks: durable, deduplicated 202s of a real daemon against a bare server that only verifies, parses and
// inserts, on the same database, with every commit forced to disk. The daemon takes events and asks for their routing in
// every batch; that nobody routes meanwhile is as it is for the servers it is held against.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { apiClient, readClientFile, spawnDaemon } from '../base/testkit/daemon.ts';
import { type Amount, type Bench, type Bencher, medianMs } from './harness.ts';
import { type Load, loaded } from './load.ts';
import { startServer } from './server.ts';

const secret = 'a secret of the bench';
const turns = 4;
const leadMs = 1_000;
const turnMs = 2_000;
/** Memory for requests that are made ahead: enough for the fastest, or making them would be measured of it alone. */
const readyBytes = 512 * 1_024 * 1_024;

async function database(bench: Bencher): Promise<string> {
  return withTable(await startServer(bench));
}

/** Makes the table of the bare servers in a database, and answers with its address. */
export async function withTable(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    'create schema bench; create table bench.events (id uuid primary key default gen_random_uuid(), dedup text unique, payload jsonb, received_at timestamptz default now())',
  );
  await client.end();
  return url;
}

/** A bare server on a database with the table of `withTable`; answers with its address. */
export async function reference(bench: Bencher, mode: 'batch' | 'named' | 'asked', url: string): Promise<string> {
  const file = fileURLToPath(new URL('./accept-reference.ts', import.meta.url));
  const child = spawn(process.execPath, [file, mode, url, secret], { stdio: ['ignore', 'pipe', 'inherit'] });
  bench.atEnd(async () => {
    const closed = once(child, 'close');
    child.kill('SIGTERM');
    await closed;
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return `http://127.0.0.1:${line.toString().trim()}/`;
}

async function daemon(bench: Bencher, url: string): Promise<string> {
  const dataDir = await bench.directory();
  const key = join(dataDir, 'master.key');
  await writeFile(key, `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
  const env = { SVC_DATABASE_URL: url, SVC_MASTER_KEY_FILE: key, SVC_LOG_LEVEL: 'warn', SVC_ROLES: 'api' };
  const child = spawnDaemon({ dataDir, env });
  bench.atEnd(async () => void (await child.kill('SIGTERM')));
  const ready = await child.ready;
  const api = apiClient(ready.url, readClientFile(dataDir).token);
  await api('PUT', 'P/secrets/HOOK', { value: secret });
  const agent = {
    name: 'bench',
    harness: 'harness-a',
    environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
    triggers: [
      {
        event: 'webhook.received',
        endpoint: 'bench',
        auth: { kind: 'hmac_sha256', secretRef: 'HOOK' },
        routing: { kind: 'spawn' },
      },
    ],
  };
  const files = [{ path: '.svc/agents/bench.yaml', content: JSON.stringify(agent) }];
  const { body } = await api('POST', 'P/apply', { files });
  const ingestUrl = body['webhooks']?.[0]?.['ingestUrl'];
  if (ingestUrl === undefined) throw new Error(`no endpoint: ${JSON.stringify(body)}`);
  return String(ingestUrl);
}

const smallBytes = 1_024;
const largeBytes = 20 * 1_024;

type Server = 'ours' | 'batch' | 'named' | 'asked';
type Measured = (name: Server, what: 'each' | 'p50') => Amount;

/** Milliseconds a request, as medians of turns in which each server has one. */
async function measure(
  bench: Bencher,
  load: Pick<Load, 'connections' | 'bodyBytes'>,
  others: readonly Exclude<Server, 'ours'>[],
): Promise<Measured> {
  const url = await database(bench);
  // First the daemon, which brings the tables of the jobs.
  const servers: [Server, { readonly url: string; ready: number; readonly each: number[]; readonly p50: number[] }][] =
    [];
  servers.push(['ours', { url: await daemon(bench, url), ready: 0, each: [], p50: [] }]);
  for (const name of others) {
    servers.push([name, { url: await reference(bench, name, url), ready: 0, each: [], p50: [] }]);
  }
  for (let turn = 0; turn <= turns; turn += 1) {
    for (const [, of] of servers) {
      const result = await loaded({ ...load, url: of.url, secret, leadMs, forMs: turnMs, ready: of.ready });
      const wanted = (result.perSecond * (leadMs + turnMs) * 1.2) / 1_000;
      of.ready = Math.min(Math.ceil(wanted), readyBytes / load.bodyBytes);
      if (turn === 0) continue;
      of.each.push(1_000 / result.perSecond);
      of.p50.push(result.p50Ms);
    }
  }
  const taken = new Map(servers);
  return (name, what) => medianMs(taken.get(name)?.[what] ?? []);
}

const title = 'webhooks: verified, deduplicated, on disk before the 202, routing asked for';

export const crowd: Bench = {
  name: 'accept-crowd',
  title,
  run: async (bench) => {
    const small = await measure(bench, { connections: 256, bodyBytes: smallBytes }, ['batch', 'asked']);
    const each = '1 KB, 256 connections: time a request';
    bench.ratio(`${each} / bare server`, small('ours', 'each'), small('batch', 'each'), 1 / 0.8);
    bench.ratio(`${each} / INSERT and add_job`, small('ours', 'each'), small('asked', 'each'), 1 / 10);
  },
};

export const wide: Bench = {
  name: 'accept-wide',
  title,
  run: async (bench) => {
    const large = await measure(bench, { connections: 64, bodyBytes: largeBytes }, ['batch']);
    const each = '20 KB, 64 connections: time a request / bare server';
    bench.ratio(each, large('ours', 'each'), large('batch', 'each'), 1 / 0.8);
  },
};

export const alone: Bench = {
  name: 'accept-alone',
  title,
  run: async (bench) => {
    const single = await measure(bench, { connections: 1, bodyBytes: smallBytes }, ['asked']);
    bench.ratio('alone on the line: p50 / INSERT and add_job', single('ours', 'p50'), single('asked', 'p50'), 1.2);
  },
};
