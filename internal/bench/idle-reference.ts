// The bare program that a daemon with nothing to do is held against: a database of its own, and a statement that finds nothing
// so many times a second, each on a connection of its pool. Started by bench/idle as a program of its own:
// `node idle-reference.ts <data directory> <statements a second>`; prints a line when it has begun.

import pg from 'pg';
import { startEmbedded } from '../adapters/postgres/postgres.ts';
import { silent } from '../base/testkit/postgres.ts';

const [, , dataDir = '', perSecond = '1'] = process.argv;
const embedded = await startEmbedded({ dataDir, log: silent });
const pool = new pg.Pool({ connectionString: embedded.url, max: 4 });
await pool.query('create table if not exists waiting (at timestamptz not null)');
const ask = (): Promise<unknown> =>
  pool.query({ name: 'ask', text: 'select from waiting where at <= $1::timestamptz limit 1', values: [new Date()] });
await ask();
let timer = setTimeout(function again() {
  timer = setTimeout(again, 1_000 / Number(perSecond));
  void ask();
});
console.log('ready');
process.once('SIGTERM', () => {
  clearTimeout(timer);
  void pool
    .end()
    .then(() => embedded.stop())
    .then(() => process.exit(0));
});
