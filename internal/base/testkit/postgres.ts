// A real database for a test: a copy of a migrated template, made in some tens of milliseconds, dropped afterwards.
// The server is the run's (global-setup.ts), else one that this process starts when it is first asked, and takes along.

import { spawnSync } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { type Database, openDatabase } from '../../adapters/store/store.ts';
import { startEmbedded } from '../../adapters/postgres/postgres.ts';
import { migrate } from '../../adapters/store/schema/migrate.ts';

export const clusterVariable = 'SVC_TEST_CLUSTER_URL';
/** Of a data directory whose embedded server is initialised and migrated, and holds no rows; nothing runs on it. */
export const dataDirVariable = 'SVC_TEST_DATA_DIR';
const template = 'svc_template';
export const silent = pino({ level: 'silent' });

export interface Cluster {
  /** Its maintenance database, as superuser. */
  readonly adminUrl: string;
  readonly pid: number;
  readonly dir: string;
  stop(): Promise<void>;
}

export interface TestDatabase {
  readonly url: string;
  readonly db: Database;
  /** Closes `db` and drops the database. */
  close(): Promise<void>;
}

/** Starts a server that forces nothing to disk, with the migrated template in it. */
export async function startCluster(): Promise<Cluster> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-test-'));
  const embedded = await startEmbedded({ dataDir: dir, log: silent, volatile: true });
  const adminUrl = withDatabase(embedded.url, 'postgres');
  await asAdmin(adminUrl, `create database ${template}`);
  await migrate(withDatabase(embedded.url, template), silent);
  return {
    adminUrl,
    pid: embedded.pid(),
    dir,
    async stop() {
      await embedded.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Initialises and migrates an embedded server as durable as in earnest, and stops it: what `dataDirVariable` names. */
export async function prepareDataDir(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'svc-prepared-'));
  const embedded = await startEmbedded({ dataDir: path, log: silent });
  await migrate(embedded.url, silent);
  await embedded.stop();
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

let own: Promise<string> | undefined;

/** Address of the maintenance database of the server that tests use. */
export function testCluster(): Promise<string> {
  const shared = process.env[clusterVariable];
  if (shared !== undefined) return Promise.resolve(shared);
  own ??= startCluster().then((cluster) => {
    // A test process has no moment to wait at its end: immediate shutdown, and the files go with it.
    process.on('exit', () => {
      process.kill(cluster.pid, 'SIGQUIT');
      for (let tries = 0; tries < 300 && !hasEnded(cluster.pid); tries += 1) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
      }
      rmSync(cluster.dir, { recursive: true, force: true });
    });
    return cluster.adminUrl;
  });
  return own;
}

/** Also true for a process that has ended and was not collected, as our own children are while we exit. */
function hasEnded(pid: number): boolean {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).startsWith('Z');
  } catch {
    if (existsSync('/proc/self/stat')) return true;
    const state = spawnSync('/bin/ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).stdout.trim();
    return state === '' || state.startsWith('Z');
  }
}

/** The one project of a test, in an organization of its own. */
export async function insertProject(db: Database, projectId: string): Promise<void> {
  const orgId = randomUUID();
  await db.query(`insert into svc.orgs (id, slug, name) values ($1::uuid, 'o', 'o')`, [orgId]);
  await db.query(`insert into svc.projects (id, org_id, slug, name) values ($1::uuid, $2::uuid, 'p', 'p')`, [
    projectId,
    orgId,
  ]);
}

/** Creates a database for one test file; `empty` leaves out the migrations. */
export async function createTestDatabase(options: { empty?: boolean } = {}): Promise<TestDatabase> {
  const adminUrl = await testCluster();
  const name = `t_${process.pid}_${randomBytes(6).toString('hex')}`;
  // Its files are copied: a server that forces nothing to disk does that in a third of the time that logging their pages takes.
  const copied = ` template ${template} strategy file_copy`;
  await asAdmin(adminUrl, `create database ${name}${options.empty ? '' : copied}`);
  const url = withDatabase(adminUrl, name);
  const db = openDatabase({ url, log: silent });
  return {
    url,
    db,
    async close() {
      await db.close();
      await asAdmin(adminUrl, `drop database if exists ${name} with (force)`);
    },
  };
}

function withDatabase(url: string, name: string): string {
  const copy = new URL(url);
  copy.pathname = `/${name}`;
  return copy.href;
}

async function asAdmin(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
