// Brings a database to the schema of this code: the numbered files of migrations/, forward only, each in a transaction
// of its own together with the row that records it, and the job runner's own schema. An advisory lock lets several
// daemons start at once. Refuses a database that a newer program, or another history, has migrated.

import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Logger, runMigrations } from 'graphile-worker';
import pg from 'pg';
import type { Logger as Log } from 'pino';
import { Fault } from '../../../domain/fault.ts';

export interface Migration {
  readonly number: number;
  /** `0001_tenancy` */
  readonly name: string;
  readonly sql: string;
}

/** Any constant does, as long as every version of the program uses the same. */
const lockKey = 7_370_001;
const directory = fileURLToPath(new URL('../../../../migrations/', import.meta.url));

/** The migrations of this code in order. Throws when two files share a number or one is missing in between. */
export async function readMigrations(from: string = directory): Promise<Migration[]> {
  const names = (await readdir(from)).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const number = Number(name.slice(0, 4));
      if (number !== index + 1) throw new Error(`migrations are not numbered without gaps: ${name}`);
      return { number, name: name.slice(0, -4), sql: await readFile(`${from}/${name}`, 'utf8') };
    }),
  );
}

/**
 * Migrates, and answers with the names that it applied. Throws Fault `unavailable` with code `database-newer` where the
 * database holds a migration that this code does not know, `database-version` below PostgreSQL 15.
 */
export async function migrate(url: string, log: Log, from?: string): Promise<string[]> {
  const known = await readMigrations(from);
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    application_name: 'svcd migrate',
  });
  // Without a listener a lost connection would end the process; the statement in flight fails anyway.
  client.on('error', (error) => log.warn({ err: error }, 'database.migration_connection_lost'));
  await client.connect();
  try {
    await requireVersion(client);
    await client.query('select pg_advisory_lock($1::bigint)', [lockKey]);
    const applied = await applyMissing(client, known);
    if (applied.length > 0 || (await workerSchemaMissing(client))) await migrateWorker(url);
    if (applied.length > 0) log.info({ migrations: applied }, 'database.migrated');
    return applied;
  } finally {
    // Ends the session and with it the lock.
    await client.end();
  }
}

/** Names of this code's migrations that the database has not had; empty when it is up to date. */
export async function pendingMigrations(sql: {
  query(text: string): Promise<{ rows: { name?: unknown }[] }>;
}): Promise<string[]> {
  const done = new Set((await sql.query('select name from svc.migrations')).rows.map((row) => row.name));
  return (await readMigrations()).map((migration) => migration.name).filter((name) => !done.has(name));
}

async function requireVersion(client: pg.Client): Promise<void> {
  const result = await client.query<{ server_version_num: string }>('show server_version_num');
  const version = Number(result.rows[0]?.server_version_num);
  if (version >= 150_000) return;
  throw new Fault(
    'unavailable',
    'database-version',
    `The database is PostgreSQL ${Math.floor(version / 10_000)}; svcd needs 15 or later.`,
  );
}

async function applyMissing(client: pg.Client, known: readonly Migration[]): Promise<string[]> {
  await client.query(`create schema if not exists svc;
    create table if not exists svc.migrations (
      number integer primary key,
      name text not null,
      applied_at timestamptz not null default now()
    )`);
  const rows = (
    await client.query<{ number: number; name: string }>('select number, name from svc.migrations order by number')
  ).rows;
  for (const row of rows) {
    const mine = known[row.number - 1];
    if (mine === undefined) {
      throw new Fault(
        'unavailable',
        'database-newer',
        `The database has migration ${row.name}, which this svcd does not know: start a newer svcd.`,
      );
    }
    if (mine.name !== row.name) {
      throw new Fault(
        'unavailable',
        'database-newer',
        `The database has migration ${row.name} where this svcd has ${mine.name}: it belongs to another program.`,
      );
    }
  }
  const missing = known.slice(rows.length);
  for (const migration of missing) {
    await client.query('begin');
    try {
      await client.query(migration.sql);
      await client.query('insert into svc.migrations (number, name) values ($1::int, $2::text)', [
        migration.number,
        migration.name,
      ]);
      await client.query('commit');
    } catch (error) {
      await client.query('rollback');
      throw new Error(`migration ${migration.name} failed: ${(error as Error).message}`, { cause: error });
    }
  }
  return missing.map((migration) => migration.name);
}

/** How many migrations the job runner's installed schema has had is its own affair; whether it exists is ours. */
async function workerSchemaMissing(client: pg.Client): Promise<boolean> {
  const found = await client.query<{ found: boolean }>(
    `select to_regclass('graphile_worker._private_jobs') is not null as found`,
  );
  return found.rows[0]?.found !== true;
}

async function migrateWorker(url: string): Promise<void> {
  // Its own log would go to standard output, which belongs to the ready line.
  await runMigrations({ connectionString: url, logger: new Logger(() => () => undefined) });
}
