// The database that a backup, a restore or a look before an upgrade is about, running or not.

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { createSealer, readMasterKeys } from '../../adapters/crypto/crypto.ts';
import { lockDataDir } from '../../adapters/postgres/data-lock.ts';
import { runningEmbedded, startEmbedded } from '../../adapters/postgres/postgres.ts';
import { checkAddresses } from '../../adapters/store/schema/address.ts';
import type { inspectDatabase } from '../../adapters/store/schema/copy.ts';
import type { Config } from '../../base/config/config.ts';
import { exists } from '../../base/files.ts';

/** What an embedded database is below the data directory. */
const embeddedFiles = ['postgres', 'postgres.log', 'postgres.password'];

export interface BackupInput {
  readonly config: Config;
  readonly directory: string;
  readonly log: Logger;
}

/**
 * Runs `fn` with the address of the database: the embedded one that runs, or one that is started for the while. `isNew`: it is
 * not there yet, and where it could not be filled it is not there afterwards either.
 */
export async function withDatabase<T>(
  { config, log, isNew = false }: Omit<BackupInput, 'directory'> & { readonly isNew?: boolean },
  fn: (url: string) => Promise<T>,
): Promise<T> {
  const { dataDir } = config;
  checkAddresses(config);
  // What a killed restore has left running may be made only by half: it is taken over as svcd does that.
  const running = isNew ? undefined : await runningEmbedded(dataDir);
  const given = config.databaseDirectUrl ?? config.databaseUrl ?? running;
  if (given !== undefined) return fn(given);
  const lock = await lockDataDir(dataDir);
  // Nobody else makes one while this is held.
  const made = isNew && !(await exists(join(dataDir, 'postgres'))) ? embeddedFiles : [];
  try {
    const embedded = await startEmbedded({ dataDir, log });
    try {
      return await fn(embedded.url);
    } finally {
      await embedded.stop();
    }
  } catch (error) {
    for (const name of made) await rm(join(dataDir, name), { recursive: true, force: true }).catch(() => undefined);
    throw error;
  } finally {
    await lock.release();
  }
}

/** Every noted version whose key the file lacks, or has another of; empty where the file opens all that is stored. */
export async function unopenable(
  keyFile: string,
  noted: Awaited<ReturnType<typeof inspectDatabase>>['keys'],
): Promise<readonly number[]> {
  const sealer = createSealer(await readMasterKeys(keyFile));
  return noted
    .filter(({ version, fingerprint }) => {
      const held = sealer.fingerprint(version);
      return held === undefined || (fingerprint !== null && !fingerprint.equals(held));
    })
    .map(({ version }) => version);
}
