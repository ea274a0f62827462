// A daemon among strangers: git servers that swallow and trickle beside a healthy repository, and ten thousand
// repositories that are looked at every minute.

import { type ChildProcess, spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { wishSync } from '../adapters/store/repositories/polls.ts';
import { repositoryById } from '../adapters/store/repositories/repositories.ts';
import { decidingSettings } from '../adapters/store/repositories/settings.ts';
import { compileSettings } from '../base/config/compile-settings.ts';
import { spawnDaemon } from '../base/testkit/daemon.ts';
import { createTestDatabase } from '../base/testkit/postgres.ts';
import { canonicalJson, type Json } from '../domain/json.ts';
import { contextOf, inputsText } from '../flows/sync/resolve.ts';
import { agentFile, settled, startBench, until, word } from '../flows/sync/sync-testkit.ts';

import { type Bench, type Bencher, median, medianMs, ms, timed } from './harness.ts';
import { sha256 } from '../base/hash.ts';

/** What every one of the answering servers has (crowd-git-server.ts). */
const commit = 'c0ffee'.padEnd(40, '0');
const dull = 16;
const pushCount = 9;
const repositoryCount = 10_000;
const pollSeconds = 60;
const hosts = 50;
/** What looks may be late by: the jitter of an interval, and a second between two turns. */
const lateSeconds = 6;
/** After so long the looks are what they are from then on. */
const settleSeconds = 10;
/** Of the kernel's clock that process times are counted in. */
const tickMs = 10;

interface Ports {
  readonly answering: readonly number[];
  readonly swallowing: readonly number[];
  readonly trickling: readonly number[];
}

async function startServers(bench: Bencher, ...counts: readonly number[]): Promise<Ports> {
  const program = fileURLToPath(new URL('crowd-git-server.ts', import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [program, ...counts.map(String)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  bench.atEnd(() => void child.kill('SIGKILL'));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.stdout?.once('data', (chunk: Buffer) => resolve(JSON.parse(chunk.toString())));
  });
}

export const servers: Bench = {
  name: 'crowd-servers',
  title: `${dull} git servers that swallow and ${dull} that trickle beside one healthy repository`,
  run: async (bench) => {
    const host = await startBench();
    bench.atEnd(() => host.stop());
    const { daemon } = host;
    const repository = await host.repository('healthy');
    await repository.commit({ '.svc/agents/a.yaml': agentFile('healthy-0') });
    await host.watch('healthy');
    const { rows } = await daemon.ctx.db.query<{ id: string }>(
      `select id from svc.repositories where name = 'healthy'`,
    );
    let version = 0;
    const push = async (): Promise<number> => {
      version += 1;
      const pushed = await repository.commit({ '.svc/agents/a.yaml': agentFile(`healthy-${version}`) });
      return timed(async () => {
        await wishSync(daemon.ctx.db, { repositoryId: rows[0]?.id ?? '', reason: 'push', hint: pushed });
        await settled(daemon, 'healthy', (run) => word(run['commit']) === pushed);
      });
    };
    const pushes = async (): Promise<number[]> => {
      const took: number[] = [];
      for (let turn = 0; turn < pushCount; turn += 1) took.push(await push());
      return took;
    };
    await push();
    const alone = await pushes();
    const ports = await startServers(bench, 1, dull, dull);
    for (const [index, port] of [...ports.swallowing, ...ports.trickling].entries()) {
      const url = `http://127.0.0.1:${port}/x.git`;
      await daemon.api('POST', 'P/repositories', { name: `dull-${index}`, url, intervalSeconds: 1 });
      await daemon.api('POST', `P/repositories/dull-${index}/sync`);
    }
    await until('all of them to hang', async () => {
      const { body } = await daemon.api('GET', 'P/reconciles?status=running&limit=200');
      return (body['items'] as unknown as unknown[]).length === 2 * dull;
    });
    bench.ratio('a push beside them / the same alone', ms(median(await pushes())), medianMs(alone), 1.3);
  },
};

async function usage(pid: number): Promise<{ readonly cpuMs: number; readonly residentKiB: number }> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const resident = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]);
  return { cpuMs: (Number(fields[11]) + Number(fields[12])) * tickMs, residentKiB: resident };
}

/**
 * So many registered repositories and no others, each seen at the commit that its server has, and with a turn of its own in the
 * interval: looks at those that were registered in one moment are a crowd of their own, which takes an interval to spread.
 */
async function register(
  database: Awaited<ReturnType<typeof createTestDatabase>>,
  ports: readonly number[],
  { count, intervalSeconds }: { readonly count: number; readonly intervalSeconds: number },
): Promise<void> {
  const { db } = database;
  await db.query('delete from svc.repositories');
  await db.query(
    `insert into svc.repositories (id, project_id, name, url, url_key, interval_seconds)
     select gen_random_uuid(), p.id, 'r' || n, 'http://' || h || '/o/r' || n, h || '/o/r' || n, $2::int
       from svc.projects p, generate_series(1, $3::int) n,
       lateral (select '127.0.0.1:' || ($1::int[])[1 + n % cardinality($1::int[])] as h) host`,
    [ports, intervalSeconds, count],
  );
  const catalogHash = sha256(canonicalJson(compileSettings({}, '/').catalog as unknown as Json));
  const { rows } = await db.query<{ id: string }>('select id from svc.repositories');
  const hashes: string[] = [];
  for (const { id } of rows) {
    const repository = await repositoryById(db, id);
    if (repository === undefined) throw new Error('a repository is gone');
    const context = contextOf(repository, { branch: 'main', connections: [] });
    hashes.push(sha256(inputsText({ context, settings: decidingSettings(repository), catalog: catalogHash })));
  }
  await db.query(
    `insert into svc.repository_states (repository_id, seen_commit, seen_hash, ref_branch)
     select id, $3::text, hash, 'main' from unnest($1::uuid[], $2::text[]) as t (id, hash)`,
    [rows.map(({ id }) => id), hashes, commit],
  );
  await db.query(
    `insert into svc.repository_polls (repository_id, next_at)
     select id, now() + make_interval(secs => place * $2::float8 / $3::int) from unnest($1::uuid[]) with ordinality as t (id, place)
     on conflict (repository_id) do update set next_at = excluded.next_at`,
    [rows.map(({ id }) => id), intervalSeconds, count],
  );
  await db.query('analyze');
}

export const repositories: Bench = {
  name: 'crowd-repositories',
  title: `${repositoryCount} repositories, one daemon, every ${pollSeconds} s`,
  run: async (bench) => {
    const database = await createTestDatabase();
    bench.atEnd(() => database.close());
    const directory = await bench.directory();
    const dataDir = join(directory, 'data');
    const env = {
      SVC_DATABASE_URL: database.url,
      SVC_MASTER_KEY_FILE: join(directory, 'master.key'),
      SVC_ALLOW_PRIVATE_NETWORK: 'true',
      SVC_LOG_LEVEL: 'warn',
    };
    await writeFile(env.SVC_MASTER_KEY_FILE, `1:${Buffer.alloc(32, 7).toString('base64')}\n`, { mode: 0o600 });
    const first = spawnDaemon({ dataDir, env });
    bench.atEnd(async () => void (await first.kill('SIGKILL')));
    await first.ready;
    const { answering } = await startServers(bench, hosts);
    const counts = async (): Promise<{ requests: number; paths: number }> =>
      (await fetch(`http://127.0.0.1:${answering[0]}/counts`)).json() as Promise<{ requests: number; paths: number }>;
    // As many looks a second at few repositories: what is beyond that is what each of many takes.
    const few = Math.round(repositoryCount / pollSeconds);
    await register(database, answering, { count: few, intervalSeconds: 1 });
    // As long as at many: a heap grows with what has been done since the last collection, not only with what is kept.
    await sleep((settleSeconds + pollSeconds + lateSeconds) * 1000);
    const busy = await usage(first.process.pid ?? 0);
    await register(database, answering, { count: repositoryCount, intervalSeconds: pollSeconds });
    await sleep(settleSeconds * 1000);
    await counts();
    const before = await usage(first.process.pid ?? 0);
    const took = await timed(() => sleep((pollSeconds + lateSeconds) * 1000));
    const after = await usage(first.process.pid ?? 0);
    const { paths } = await counts();
    bench.atMost('repositories that were not looked at in time', repositoryCount - paths, 0, 'repositories');
    bench.ratio('processor time of the daemon / one core', ms(after.cpuMs - before.cpuMs), ms(took), 1);
    const kept = Math.max(after.residentKiB - busy.residentKiB, 0) / repositoryCount;
    bench.atMost('memory of the daemon for each, beside as many looks at few', kept, 20, 'KiB');
    const text = `select condition, count(*)::int as count from svc.repository_states
                   where condition is not null group by 1 order by 2 desc`;
    const { rows } = await database.db.query<{ condition: string; count: number }>(text);
    const unread = rows.reduce((sum, { count }) => sum + count, 0);
    const why = rows.map(({ condition, count }) => `${count} ${condition}`).join(', ');
    bench.atMost(`repositories that could not be read${why && `: ${why}`}`, unread, 0, 'repositories');
  },
};
