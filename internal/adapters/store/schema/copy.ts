// The whole database as text, table by table with COPY, and back: one snapshot for all tables, one transaction for all that is
// restored. Needs no program of PostgreSQL, no superuser, and reads any version that svcd runs on. Rows are those of the
// schema `svc` and of the job runner's tables; what their shape is, the migrations say (migrate.ts), which are noted by name.

import type { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { Fault } from '../../../domain/fault.ts';
import { isUnfinished, noteFinished, noteUnfinished, refuseUnfinished } from './unfinished.ts';

export interface CopiedTable {
  /** `svc.agents`, quoted where it must be. */
  readonly name: string;
  readonly columns: readonly string[];
  readonly rows: number;
}

export interface CopiedDatabase {
  /** Of the server that it was taken from, such as 180004. */
  readonly serverVersion: number;
  readonly migrations: readonly string[];
  readonly partitions: readonly { readonly name: string; readonly parent: string; readonly bound: string }[];
  readonly sequences: readonly { readonly name: string; readonly value: number }[];
  readonly tables: readonly CopiedTable[];
}

/** The job runner's migrations are its own affair; its rows are not. */
const ours = `n.nspname = 'svc' and c.relname <> 'migrations' or n.nspname = 'graphile_worker' and c.relname like '\\_private\\_%'`;

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    application_name: 'svc backup',
  });
  // The statement in flight fails anyway.
  client.on('error', () => undefined);
  await client.connect();
  // Without a search path every name comes with its schema, whoever asks.
  await client.query(`set search_path = ''; set statement_timeout = 0; set idle_in_transaction_session_timeout = 0; set datestyle = 'ISO';
    set intervalstyle = 'postgres'; set bytea_output = 'hex'; set extra_float_digits = 1; set client_encoding = 'UTF8'`);
  return client;
}

/**
 * Copies every table, as all of them were at one instant, while svcd goes on writing. `open` gives where the rows of a table
 * go. Throws the error of the connection, and Fault `not-a-database` where there is no schema `svc`.
 */
export async function copyOut(url: string, open: (table: string) => Promise<Writable>): Promise<CopiedDatabase> {
  const client = await connect(url);
  try {
    await client.query('begin isolation level repeatable read, read only');
    const found = await tables(client);
    if (found.length === 0)
      throw new Fault(
        'not_found',
        'not-a-database',
        'There is nothing of svc in this database: svcd has not run on it.',
      );
    // Nothing is dropped before it is read; whoever wants to waits, or comes again.
    await client.query(`lock table ${found.map((table) => table.name).join(', ')} in access share mode`);
    const copied: CopiedTable[] = [];
    for (const { name, columns } of found) {
      const stream = client.query(copyTo(`copy (select ${columns.join(', ')} from ${name}) to stdout`));
      await pipeline(stream, await open(name));
      copied.push({ name, columns, rows: stream.rowCount ?? 0 });
    }
    return {
      serverVersion: await serverVersion(client),
      migrations: (await rowsOf<{ name: string }>(client, 'select name from svc.migrations order by number')).map(
        (row) => row.name,
      ),
      partitions: await partitions(client),
      sequences: await rowsOf(
        client,
        `select format('%I.%I', schemaname, sequencename) as name, last_value::float8 as value from pg_sequences
          where schemaname in ('svc', 'graphile_worker') and last_value is not null order by 1`,
      ),
      tables: copied,
    };
  } finally {
    await client.end();
  }
}

/**
 * Puts copied rows into a database that has just been migrated to `copied.migrations`, in place of what the migrations put
 * there: all, or on any failure nothing. `open` gives the rows of a table. Every reference between rows is checked
 * anew. Throws Fault `not-empty` where the database holds an organization already.
 */
export async function copyIn(
  url: string,
  copied: CopiedDatabase,
  open: (table: string) => Promise<Readable>,
): Promise<void> {
  const client = await connect(url);
  try {
    await client.query('begin');
    const mine = new Map((await tables(client)).map((table) => [table.name, table]));
    for (const table of copied.tables) refuseUnknown(table, mine.get(table.name));
    await refuseInUse(client);
    const names = [...mine.keys()];
    await client.query(`lock table ${names.join(', ')} in access exclusive mode`);
    const references = await dropReferences(client);
    await makePartitions(client, copied.partitions);
    // Triggers note what happens; this has happened before.
    const each = await everyTable(client);
    for (const name of each) await client.query(`alter table ${name} disable trigger user`);
    await client.query(`truncate ${names.join(', ')}`);
    for (const table of copied.tables) {
      const stream = client.query(copyFrom(`copy ${table.name} (${table.columns.join(', ')}) from stdin`));
      await pipeline(await open(table.name), stream);
      if (stream.rowCount !== table.rows)
        throw new Error(`${table.name}: ${stream.rowCount} rows of ${table.rows} were restored`);
    }
    for (const { name, value } of copied.sequences)
      await client.query('select setval($1::regclass, $2::bigint)', [name, value]);
    for (const name of each) await client.query(`alter table ${name} enable trigger user`);
    // What a foreign key found wrong would be here.
    for (const { table, name, definition } of references)
      await client.query(`alter table ${table} add constraint ${name} ${definition}`);
    await noteFinished(client);
    await client.query('commit');
    await client.query('analyze');
  } finally {
    await client.end();
  }
}

/** Makes of a database that `beginCopyIn` was given what it was before; does nothing where it has been filled. */
type UndoCopyIn = () => Promise<void>;

/**
 * Has the database filled by nobody but `copyIn`, which may follow another day. Throws Fault `not-empty` where it holds an
 * organization; asked before it is migrated, for daemons may run on it.
 */
export async function beginCopyIn(url: string): Promise<UndoCopyIn> {
  const client = await connect(url);
  try {
    const [there] = await rowsOf<{ is: boolean }>(client, `select to_regclass('svc.orgs') is not null as is`);
    if (there?.is === true) await refuseInUse(client);
    const [worker] = await rowsOf<{ is: boolean }>(
      client,
      `select to_regnamespace('graphile_worker') is not null as is`,
    );
    await noteUnfinished(client);
    // The job runner's may be another program's, which has nothing to do with it.
    return () => undoCopyIn(url, worker?.is === true ? ['svc'] : ['svc', 'graphile_worker']);
  } finally {
    await client.end();
  }
}

async function undoCopyIn(url: string, schemas: readonly string[]): Promise<void> {
  const client = await connect(url);
  try {
    await client.query('begin');
    // As long as the note stands nobody begins anything in it; a daemon of a release that does not know the note waits here,
    // or has begun before it is looked.
    const [there] = await rowsOf<{ is: boolean }>(client, `select to_regclass('svc.orgs') is not null as is`);
    if (there?.is === true) await client.query('lock table svc.orgs in access exclusive mode');
    if (!(await isUnfinished(client))) return;
    await client.query(`drop schema if exists ${schemas.join(', ')} cascade`);
    await client.query('commit');
  } finally {
    await client.end();
  }
}

async function refuseInUse(client: pg.Client): Promise<void> {
  const { rows } = await client.query('select 1 from svc.orgs limit 1');
  if (rows.length === 0) return;
  const what = 'The database is in use: it holds an organization. Restore into an empty one.';
  throw new Fault('conflict', 'not-empty', what);
}

function refuseUnknown(table: CopiedTable, here: { readonly columns: readonly string[] } | undefined): void {
  const lacking = table.columns.filter((column) => here?.columns.includes(column) !== true);
  if (here !== undefined && lacking.length === 0) return;
  const what = here === undefined ? `the table ${table.name}` : `${table.name} (${lacking.join(', ')})`;
  throw new Fault(
    'conflict',
    'backup-newer',
    `The backup holds ${what}, which this svc does not know: use the one that made it, or a newer one.`,
  );
}

async function rowsOf<R extends object>(client: pg.Client, text: string): Promise<R[]> {
  return (await client.query<R>(text)).rows;
}

async function serverVersion(client: pg.Client): Promise<number> {
  const rows = await rowsOf<{ server_version_num: string }>(client, 'show server_version_num');
  return Number(rows[0]?.server_version_num);
}

/** Tables with their stored columns; of a partitioned one itself, not its partitions. */
function tables(client: pg.Client): Promise<{ name: string; columns: string[] }[]> {
  return rowsOf(
    client,
    `select format('%I.%I', n.nspname, c.relname) as name, array_agg(quote_ident(a.attname) order by a.attnum) as columns
       from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
      where (${ours}) and c.relkind in ('r', 'p') and not c.relispartition
        and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      group by 1 order by 1`,
  );
}

async function everyTable(client: pg.Client): Promise<string[]> {
  const rows = await rowsOf<{ name: string }>(
    client,
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where (${ours}) and c.relkind in ('r', 'p') order by 1`,
  );
  return rows.map((row) => row.name);
}

function partitions(client: pg.Client): Promise<{ name: string; parent: string; bound: string }[]> {
  return rowsOf(
    client,
    `select format('svc.%I', c.relname) as name, i.inhparent::regclass::text as parent,
            pg_get_expr(c.relpartbound, c.oid) as bound
       from pg_class c join pg_inherits i on i.inhrelid = c.oid
      where c.relnamespace = 'svc'::regnamespace and c.relkind = 'r' and c.relispartition order by 1`,
  );
}

/** The partitions of the copy, in place of those that are there. */
async function makePartitions(client: pg.Client, wanted: CopiedDatabase['partitions']): Promise<void> {
  for (const { name } of await partitions(client)) await client.query(`drop table ${name}`);
  for (const { name, parent, bound } of wanted)
    await client.query(`create table ${name} partition of ${parent} ${bound}`);
}

/** Foreign keys, taken away until every row is there: they form circles. */
async function dropReferences(client: pg.Client): Promise<{ table: string; name: string; definition: string }[]> {
  const found = await rowsOf<{ table: string; name: string; definition: string }>(
    client,
    `select k.conrelid::regclass::text as table, quote_ident(k.conname) as name, pg_get_constraintdef(k.oid) as definition
       from pg_constraint k join pg_class c on c.oid = k.conrelid join pg_namespace n on n.oid = c.relnamespace
      where k.contype = 'f' and k.conparentid = 0 and (${ours}) order by 1, 2`,
  );
  for (const { table, name } of found) await client.query(`alter table ${table} drop constraint ${name}`);
  return found;
}

/**
 * What an upgrade has to know of a database: its server, the migrations that it had, and whether it is one of svc at all.
 * Throws Fault `restore-unfinished`.
 */
export async function inspectDatabase(url: string): Promise<{
  readonly serverVersion: number;
  readonly encoding: string;
  readonly bytes: number;
  /** Undefined where svcd has not run on it. */
  readonly migrations: readonly string[] | undefined;
  readonly daemons: readonly { readonly host: string; readonly pid: number; readonly roles: readonly string[] }[];
  readonly keys: readonly { readonly version: number; readonly fingerprint: Buffer | null }[];
}> {
  const client = await connect(url);
  try {
    await refuseUnfinished(client, false);
    const version = await serverVersion(client);
    const [size] = await rowsOf<{ bytes: number; encoding: string }>(
      client,
      `select pg_database_size(current_database())::float8 as bytes, current_setting('server_encoding') as encoding`,
    );
    const [there] = await rowsOf<{ is: boolean }>(client, `select to_regclass('svc.key_versions') is not null as is`);
    const base = { serverVersion: version, encoding: size?.encoding ?? '', bytes: size?.bytes ?? 0 };
    if (there?.is !== true) return { ...base, migrations: undefined, daemons: [], keys: [] };
    return {
      ...base,
      migrations: (await rowsOf<{ name: string }>(client, 'select name from svc.migrations order by number')).map(
        (row) => row.name,
      ),
      daemons: await rowsOf(
        client,
        `select host, pid, roles from svc.daemons where beat_at > now() - interval '15 seconds' order by started_at`,
      ),
      keys: await rowsOf(
        client,
        'select version, fingerprint from svc.key_versions where retired_at is null order by version',
      ),
    };
  } finally {
    await client.end();
  }
}
