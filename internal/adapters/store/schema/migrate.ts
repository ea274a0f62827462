// Brings a database to the schema of this code: the numbered files of migrations/, forward only, each in a transaction
// of its own together with the row that records it, and the job runner's own schema. An advisory lock lets several
// daemons start at once. Refuses a database that a newer program, or another history, has migrated.
// Daemons of the release before go on working meanwhile: no migration waits for a table's lock for long, since whoever
// comes after it waits as well, and an index on a table that is there is built beside the traffic, outside a transaction.

import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Logger, runMigrations } from 'graphile-worker';
import pg from 'pg';
import type { Logger as Log } from 'pino';
import { Fault } from '../../../domain/fault.ts';
import { refuseUnfinished } from './unfinished.ts';

export interface Migration {
  readonly number: number;
  /** `0001_tenancy` */
  readonly name: string;
  readonly sql: string;
}

/** Any constant does, as long as every version of the program uses the same. */
const lockKey = 7_370_001;
const directory = fileURLToPath(new URL('../../../../migrations/', import.meta.url));

/** How long a migration waits for a lock at a time, holding up those who come after it; and how often it tries. */
const lockWait = { ms: 3_000, tries: 40, pauseMs: 250 } as const;
/** Between two looks whether another daemon's migrations are over. */
const turnMs = 100;

/** The migrations of this code in order; numbers may be left out. Throws when two files share a number. */
export async function readMigrations(from: string = directory): Promise<Migration[]> {
  const names = (await readdir(from)).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const number = Number(name.slice(0, 4));
      if (Number(names[index - 1]?.slice(0, 4)) === number) throw new Error(`two migrations have one number: ${name}`);
      return { number, name: name.slice(0, -4), sql: await readFile(`${from}/${name}`, 'utf8') };
    }),
  );
}

interface MigrateOptions {
  readonly restored?: readonly string[];
  /** In the data directory of an embedded database (unfinished.ts). */
  readonly hasUnfinishedFile?: boolean;
}

/**
 * Migrates, and answers with the names that it applied. Throws Fault `unavailable` with code `database-newer` where the
 * database holds a migration that this code does not know, `database-version` below PostgreSQL 15, `database-encoding` where
 * it cannot hold every text, `database-datestyle` where it shows times in no ISO style, `restore-unfinished` where a restore
 * has begun and not ended. `restored`: the migrations of a backup that is put back, and no others.
 */
export async function migrate(
  url: string,
  log: Log,
  from?: string,
  { restored: only, hasUnfinishedFile = false }: MigrateOptions = {},
): Promise<string[]> {
  const known = (await readMigrations(from)).filter((one) => only?.includes(one.name) !== false);
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
    await takeTurn(client);
    if (only === undefined) await refuseUnfinished(client, hasUnfinishedFile);
    const applied = await applyMissing(client, known, log);
    if (applied.length > 0 || (await workerSchemaMissing(client))) await migrateWorker(url, log);
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
  shipped ??= (await readMigrations()).map((migration) => migration.name);
  return shipped.filter((name) => !done.has(name));
}
/** Names of this program's own migrations: readiness asks every few seconds, and they do not change while it runs. */
let shipped: readonly string[] | undefined;

/** Whether a database of this encoding holds what people write. One that keeps bytes as they are goes on where it was begun with. */
export const holdsText = (encoding: string, isBegun: boolean): boolean =>
  encoding === 'UTF8' || (encoding === 'SQL_ASCII' && isBegun);

async function requireVersion(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ version: number; encoding: string; dates: string; begun: boolean }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding,
            current_setting('datestyle') as dates, to_regclass('svc.migrations') is not null as begun`,
  );
  const { version = 0, encoding = '', dates = '', begun = false } = rows[0] ?? {};
  if (version < 150_000)
    throw new Fault(
      'unavailable',
      'database-version',
      `The database is PostgreSQL ${Math.floor(version / 10_000)}; svcd needs 15 or later.`,
    );
  if (!holdsText(encoding, begun))
    throw new Fault(
      'unavailable',
      'database-encoding',
      `The database is encoded in ${encoding}; svcd needs one in UTF8.`,
    );
  // Every time that is read would be none.
  if (!/^ISO\b/.test(dates))
    throw new Fault(
      'unavailable',
      'database-datestyle',
      `The database shows times in the style ${dates}; svcd reads ISO: set datestyle to ISO for its role (alter role … set datestyle = 'ISO').`,
    );
}

/**
 * Waits until no other daemon migrates. It asks again and again: whoever waits inside a statement holds a snapshot, for
 * whose end an index that is built beside the traffic waits in turn.
 */
async function takeTurn(client: pg.Client): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ mine: boolean }>('select pg_try_advisory_lock($1::bigint) as mine', [
      lockKey,
    ]);
    if (rows[0]?.mine === true) return;
    await sleep(turnMs);
  }
}

async function applyMissing(client: pg.Client, known: readonly Migration[], log: Log): Promise<string[]> {
  await client.query(`create schema if not exists svc;
    create table if not exists svc.migrations (
      number integer primary key,
      name text not null,
      applied_at timestamptz not null default now()
    )`);
  const rows = (
    await client.query<{ number: number; name: string }>('select number, name from svc.migrations order by number')
  ).rows;
  const mine = new Map(known.map((migration) => [migration.number, migration.name]));
  for (const row of rows) {
    const name = mine.get(row.number);
    if (name === row.name) continue;
    const why =
      name === undefined
        ? 'which this svcd does not know: start a newer svcd.'
        : `where this svcd has ${name}: it belongs to another program.`;
    throw new Fault('unavailable', 'database-newer', `The database has migration ${row.name}, ${why}`);
  }
  const had = new Set(rows.map((row) => row.number));
  const missing = known.filter((migration) => !had.has(migration.number));
  for (const migration of missing) {
    log.info({ migration: migration.name }, 'database.migrating');
    const began = performance.now();
    try {
      await applyOne(client, migration, log);
    } catch (error) {
      throw new Error(`migration ${migration.name} failed: ${(error as Error).message}`, { cause: error });
    }
    log.debug({ migration: migration.name, ms: Math.round(performance.now() - began) }, 'database.migration_done');
  }
  return missing.map((migration) => migration.name);
}

/** A file whose first line is this holds `create index concurrently if not exists` alone, and runs outside a transaction. */
const concurrently = '-- concurrently';
const record = 'insert into svc.migrations (number, name) values ($1::int, $2::text)';

async function applyOne(client: pg.Client, { number, name, sql }: Migration, log: Log): Promise<void> {
  if (sql.startsWith(`${concurrently}\n`)) {
    for (const statement of statementsOf(sql)) await buildIndex(client, statement);
    await client.query(record, [number, name]);
    return;
  }
  for (let attempt = 1; ; attempt += 1) {
    await client.query('begin');
    try {
      // What days and weeks are is UTC's, whatever zone the database shows its times in.
      await client.query(`set local lock_timeout = ${lockWait.ms}; set local timezone = 'UTC'`);
      await client.query(sql);
      await client.query(record, [number, name]);
      await client.query('commit');
      return;
    } catch (error) {
      await client.query('rollback');
      if ((error as { code?: unknown }).code !== '55P03' || attempt >= lockWait.tries) throw error;
      log.warn({ migration: name, attempt }, 'database.migration_waits_for_a_lock');
      await sleep(lockWait.pauseMs);
    }
  }
}

/** Statements of a file without strings or bodies that hold a semicolon, comments left out. */
function statementsOf(sql: string): string[] {
  const bare = sql.replaceAll(/^\s*--.*$/gm, '');
  return bare
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');
}

/** Builds an index, after what an attempt that was cut off has left of it is gone. */
async function buildIndex(client: pg.Client, statement: string): Promise<void> {
  const index = /^create (?:unique )?index concurrently if not exists (\w+) on svc\.\w+/.exec(statement)?.[1];
  if (index === undefined) throw new Error(`not an index that is built concurrently: ${statement.slice(0, 80)}`);
  const { rows } = await client.query(
    `select from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'svc' and c.relname = $1::text and not i.indisvalid`,
    [index],
  );
  if (rows.length > 0) await client.query(`drop index concurrently svc.${index}`);
  await client.query(statement);
}

/** How many migrations the job runner's installed schema has had is its own affair; whether it exists is ours. */
async function workerSchemaMissing(client: pg.Client): Promise<boolean> {
  const found = await client.query<{ found: boolean }>(
    `select to_regclass('graphile_worker._private_jobs') is not null as found`,
  );
  return found.rows[0]?.found !== true;
}

async function migrateWorker(url: string, log: Log): Promise<void> {
  const pool = new pg.Pool({ connectionString: url });
  // A pool of the worker's own is not listened to while it closes: a server that goes in that breath would end the process.
  pool.on('error', (error) => log.warn({ err: error }, 'database.migration_connection_lost'));
  pool.on('connect', (client) => client.on('error', () => undefined));
  try {
    // Its own log would go to standard output, which belongs to the ready line.
    await runMigrations({ pgPool: pool, logger: new Logger(() => () => undefined) });
  } finally {
    await pool.end();
  }
}
