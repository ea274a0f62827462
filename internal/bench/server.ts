// The database of a bench. `BENCH_COMMIT_US=1500` makes each of its commits take that much longer, as on a disk that does not say that
// something is kept before it is: rows that are held against commits grow with a quicker disk, and this tells whether that is all.

import pg from 'pg';
import { type EmbeddedOptions, startEmbedded } from '../adapters/postgres/postgres.ts';
import { silent } from '../base/testkit/postgres.ts';
import type { Bencher } from './harness.ts';

/** Starts a server that stops with the bench. Resolves to its address. */
export async function startServer(bench: Bencher, more: Pick<EmbeddedOptions, 'volatile'> = {}): Promise<string> {
  const embedded = await startEmbedded({ dataDir: await bench.directory(), log: silent, ...more });
  bench.atEnd(() => embedded.stop());
  const delayUs = Number(process.env['BENCH_COMMIT_US'] ?? 0);
  if (delayUs > 0) await slowCommits(embedded.url, delayUs);
  return embedded.url;
}

async function slowCommits(url: string, delayUs: number): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`alter system set commit_delay = ${Math.round(delayUs)}`);
  // Also for a commit beside which nothing else is going on.
  await client.query('alter system set commit_siblings = 0');
  await client.query('select pg_reload_conf()');
  await client.end();
}
