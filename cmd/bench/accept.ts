// Accepting webhooks: durable, deduplicated 202s of a real daemon against a bare server that only verifies, parses and
// inserts, on the same database, with every commit forced to disk.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { startEmbedded } from '../../internal/adapters/store/embedded.ts';
import { apiClient, readClientFile, spawnDaemon } from '../../internal/base/testkit/daemon.ts';
import { silent } from '../../internal/base/testkit/postgres.ts';
import { type Bench, type Bencher, median, ms } from './harness.ts';
import { type Load, loaded } from './load.ts';

const secret = 'a secret of the bench';
const TURNS = 3;
const TURN_MS = 2_000;

async function database(bench: Bencher): Promise<string> {
  const embedded = await startEmbedded({ dataDir: await bench.directory(), log: silent });
  bench.atEnd(() => embedded.stop());
  const client = new pg.Client({ connectionString: embedded.url });
  await client.connect();
  await client.query(
    'create schema bench; create table bench.events (id uuid primary key default gen_random_uuid(), dedup text unique, payload jsonb, received_at timestamptz default now())',
  );
  await client.end();
  return embedded.url;
}

async function reference(bench: Bencher, mode: 'batch' | 'named', url: string): Promise<string> {
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
  const env = { SVC_DATABASE_URL: url, SVC_MASTER_KEY_FILE: key, SVC_LOG_LEVEL: 'warn' };
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

export const bench: Bench = {
  name: 'accept',
  title: 'webhooks: verified, deduplicated, on disk before the 202',
  run: async (bench) => {
    const url = await database(bench);
    const urls = {
      ours: await daemon(bench, url),
      batch: await reference(bench, 'batch', url),
      named: await reference(bench, 'named', url),
    };
    /** Milliseconds a request, as medians of turns in which each server has one. */
    const measure = async (load: Omit<Load, 'url' | 'secret' | 'forMs'>, names: readonly (keyof typeof urls)[]) => {
      const taken = new Map(names.map((name) => [name, { each: [] as number[], p50: [] as number[] }]));
      for (let turn = 0; turn <= TURNS; turn += 1) {
        for (const name of names) {
          const result = await loaded({ ...load, url: urls[name], secret, forMs: turn === 0 ? 1_000 : TURN_MS });
          if (turn === 0) continue;
          taken.get(name)?.each.push(1_000 / result.perSecond);
          taken.get(name)?.p50.push(result.p50Ms);
        }
      }
      return (name: keyof typeof urls, what: 'each' | 'p50') => ms(median(taken.get(name)?.[what] ?? []));
    };
    const small = await measure({ connections: 256, bodyBytes: 1_024 }, ['ours', 'batch', 'named']);
    bench.ratio(
      '1 KB, 256 connections: time a request / bare server',
      small('ours', 'each'),
      small('batch', 'each'),
      1 / 0.8,
    );
    bench.ratio(
      '1 KB, 256 connections: time a request / one named INSERT',
      small('ours', 'each'),
      small('named', 'each'),
      1 / 2.5,
    );
    const large = await measure({ connections: 64, bodyBytes: 20 * 1_024 }, ['ours', 'named']);
    bench.ratio(
      '20 KB, 64 connections: time a request / one named jsonb INSERT',
      large('ours', 'each'),
      large('named', 'each'),
      1 / 2.5,
    );
    const alone = await measure({ connections: 1, bodyBytes: 1_024 }, ['ours', 'named']);
    bench.ratio('alone on the line: p50 / one named INSERT', alone('ours', 'p50'), alone('named', 'p50'), 3);
  },
};
