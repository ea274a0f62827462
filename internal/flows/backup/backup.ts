// A backup of an installation and its way back (docs/guides/backup.md): the database, as it is at one instant while svcd goes on,
// and the master key file, without which nothing sealed in it opens. A directory of plain files that only its owner may
// read: the rows of each table as compressed text, the key, and a manifest with the digest of every file, written last, so
// that what has one is whole. A backup whose key does not fit is refused while the right one can still be found. It
// never writes over anything: a restore wants an empty database and takes all or nothing.

import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { chmod, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Duplex, PassThrough, type Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createGunzip, createGzip } from 'node:zlib';
import { createSealer, readMasterKeys } from '../../adapters/crypto/crypto.ts';
import {
  beginCopyIn,
  type CopiedDatabase,
  copyIn,
  copyOut,
  inspectDatabase,
} from '../../adapters/store/schema/copy.ts';
import { migrate, readMigrations } from '../../adapters/store/schema/migrate.ts';
import { unfinishedFile } from '../../adapters/store/schema/unfinished.ts';
import { Fault } from '../../domain/fault.ts';
import { exists, makeDirectory, syncDirectory } from '../../base/files.ts';
import { type BackupInput, unopenable, withDatabase } from './saved-database.ts';

export { checkUpgrade } from './upgrade.ts';

const format = 1;
const keyFileText = 'master.key';
const manifestFile = 'manifest.json';

export interface Manifest {
  readonly format: number;
  /** Of the program that made it. */
  readonly version: string;
  readonly createdAt: string;
  readonly database: CopiedDatabase;
  /** SHA-256 of every other file, in hex, by its path. */
  readonly files: { readonly [path: string]: string };
  /** Versions of the master key that sealed values name, where the key is part of the backup. */
  readonly keyVersions: readonly number[];
}

/**
 * Writes a backup into `directory`, which must not exist or be empty. `withKey: false` leaves the key file out. Throws Fault
 * `backup-exists`, `backup-key` where the key file does not open what is stored, `not-a-database`.
 */
export async function backUp(
  input: BackupInput & { readonly version: string; readonly now: Date; readonly withKey: boolean },
): Promise<Manifest> {
  const { config, directory, withKey } = input;
  if (config.databaseUrl === undefined && !(await exists(join(config.dataDir, 'postgres', 'PG_VERSION'))))
    throw new Fault(
      'not_found',
      'not-a-database',
      `There is no database under ${config.dataDir}, and SVC_DATABASE_URL is not set.`,
    );
  if ((await readdir(directory).catch(() => [])).length > 0)
    throw new Fault('conflict', 'backup-exists', `${directory} is not empty: give a directory of its own.`);
  return withDatabase(input, async (url) => {
    const { keys } = await inspectDatabase(url);
    const wrong = withKey ? await unopenable(config.masterKeyFile, keys) : [];
    if (wrong.length > 0)
      throw new Fault(
        'conflict',
        'backup-key',
        `${config.masterKeyFile} does not hold the master key ${wrong.join(', ')} of this database: a backup with it would open nothing.`,
      );
    await makeDirectory(directory);
    // One that was there; where it is another's, the files alone are closed.
    await chmod(directory, 0o700).catch(() => undefined);
    const files: { [path: string]: string } = {};
    const written: Promise<void>[] = [];
    const database = await copyOut(url, async (table) => {
      const [sink, done] = compressed(join(directory, fileOf(table)), (digest) => (files[fileOf(table)] = digest));
      written.push(done);
      done.catch(() => undefined);
      return sink;
    });
    await Promise.all(written);
    // A key may have been begun with, or ended with, while rows were read.
    const versions = new Set([...keys, ...(await inspectDatabase(url)).keys].map((key) => key.version));
    if (withKey) {
      await writeFile(join(directory, keyFileText), await readFile(config.masterKeyFile), { mode: 0o600, flag: 'wx' });
      files[keyFileText] = await digestOf(join(directory, keyFileText));
    }
    const manifest: Manifest = {
      format: format,
      version: input.version,
      createdAt: input.now.toISOString(),
      database,
      files,
      keyVersions: withKey ? [...versions].sort((a, b) => a - b) : [],
    };
    const draft = join(directory, `.${manifestFile}`);
    await writeFile(draft, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 });
    await rename(draft, join(directory, manifestFile));
    return manifest;
  });
}

/**
 * Puts a backup back: into an empty database, or into a data directory without one, with the key file beside it where none is.
 * All or nothing. Throws Fault `backup-broken`, `backup-newer`, `not-empty`, `backup-key` where another key file is there.
 */
export async function restore(input: BackupInput): Promise<Manifest> {
  const { config, directory, log } = input;
  const manifest = await readManifest(directory);
  const known = new Set((await readMigrations()).map((one) => one.name));
  const unknown = manifest.database.migrations.filter((name) => !known.has(name));
  if (unknown.length > 0)
    throw new Fault(
      'conflict',
      'backup-newer',
      `The backup was made by a newer svc (${manifest.version}): it has migration ${unknown[0]}, which this one does not know.`,
    );
  const isEmbedded = config.databaseUrl === undefined;
  const unfinished = join(config.dataDir, unfinishedFile);
  if (isEmbedded && (await exists(join(config.dataDir, 'postgres'))) && !(await exists(unfinished)))
    throw new Fault(
      'conflict',
      'not-empty',
      `There is a database under ${config.dataDir} already: give another --data-dir, or move it away.`,
    );
  const hasKey = keyFileText in manifest.files;
  if (hasKey) await refuseOtherKey(join(directory, keyFileText), config.masterKeyFile, manifest.keyVersions);
  await makeDirectory(config.dataDir);
  // The key first: a restore that ends before the database stands is begun again, and one that has filled a database without
  // its key would be refused for ever. A key that is there without a database is in nobody's way.
  const isOurs = hasKey && (await putKey(join(directory, keyFileText), config.masterKeyFile));
  let isUndone = false;
  try {
    // What is there of one that was killed is gone on with, unless somebody has begun to use it.
    if (isEmbedded) await writeFile(unfinished, '', { mode: 0o600 });
    await withDatabase({ ...input, isNew: true }, async (url) => {
      const undo = await beginCopyIn(url);
      try {
        await migrate(url, log, undefined, { restored: manifest.database.migrations });
        await copyIn(url, manifest.database, async (table) => uncompressed(join(directory, fileOf(table))));
      } catch (error) {
        // What failed is told; where nothing can be undone, svcd says how that is done by hand.
        await undo().then(
          () => (isUndone = true),
          (left: unknown) => log.warn({ err: left }, 'restore.not_undone'),
        );
        throw error;
      }
    });
  } catch (error) {
    if (isOurs) await rm(config.masterKeyFile, { force: true }).catch(() => undefined);
    if (isUndone || !(await exists(join(config.dataDir, 'postgres'))))
      await rm(unfinished, { force: true }).catch(() => undefined);
    throw error;
  }
  await rm(unfinished, { force: true });
  // One that is there is of the database that was: svcd keeps what it finds, and writes one where there is none.
  if (isEmbedded) await rm(join(config.dataDir, 'client.json'), { force: true });
  return manifest;
}

/** Puts the key file of a backup where none is, forced to the disk and moved into place; false where there is one. */
async function putKey(saved: string, path: string): Promise<boolean> {
  if (await exists(path)) return false;
  await makeDirectory(dirname(path));
  const draft = join(dirname(path), `.${basename(path)}.restored`);
  try {
    await writeFile(draft, await readFile(saved), { mode: 0o600, flush: true });
    // One that an end has left there keeps its mode.
    await chmod(draft, 0o600);
    await rename(draft, path);
    await syncDirectory(dirname(path));
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw error;
  }
  return true;
}

/** Refuses a key file that does not open the backup, or has another key of a version. What seals nothing of it may be lacking. */
async function refuseOtherKey(saved: string, present: string, needed: readonly number[]): Promise<void> {
  if (!(await exists(present))) return;
  const { byVersion } = await readMasterKeys(saved);
  const [ours, theirs] = [createSealer(await readMasterKeys(saved)), createSealer(await readMasterKeys(present))];
  for (const version of byVersion.keys()) {
    const held = theirs.fingerprint(version);
    const fits = held === undefined ? !needed.includes(version) : ours.fingerprint(version)?.equals(held) === true;
    if (fits) continue;
    throw new Fault(
      'conflict',
      'backup-key',
      `${present} is there and does not hold the backup's master key ${version}: move it away, or name another with SVC_MASTER_KEY_FILE.`,
    );
  }
}

/** Reads the manifest and holds every file against it. */
async function readManifest(directory: string): Promise<Manifest> {
  const text = await readFile(join(directory, manifestFile), 'utf8').catch(() => undefined);
  const broken = (why: string): Fault =>
    new Fault('invalid', 'backup-broken', `${directory} is not a whole backup: ${why}.`);
  if (text === undefined) throw broken(`it has no ${manifestFile}`);
  let manifest: Manifest;
  try {
    manifest = JSON.parse(text) as Manifest;
  } catch {
    throw broken(`${manifestFile} cannot be read`);
  }
  if (manifest.format !== format) throw broken(`its format is ${manifest.format}, this svc knows ${format}`);
  for (const [path, digest] of Object.entries(manifest.files)) {
    const found = await digestOf(join(directory, path)).catch(() => undefined);
    if (found === undefined) throw broken(`${path} is missing`);
    if (found !== digest) throw broken(`${path} was changed`);
  }
  return manifest;
}

const fileOf = (table: string): string => `${table.replaceAll('"', '')}.copy.gz`;

/** Where rows are written to, and what resolves once their file is whole. */
function compressed(path: string, onDigest: (digest: string) => void): [Writable, Promise<void>] {
  const sink = new PassThrough();
  const hash = createHash('sha256');
  const done = pipeline(
    sink,
    createGzip({ level: constants.Z_BEST_SPEED }),
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        hash.update(chunk);
        yield chunk;
      }
    },
    createWriteStream(path, { flags: 'wx', mode: 0o600 }),
  ).then(() => onDigest(hash.digest('hex')));
  return [sink, done];
}

function uncompressed(path: string): Readable {
  return Duplex.from(async function* () {
    yield* createReadStream(path).pipe(createGunzip());
  });
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
