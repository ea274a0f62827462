// Opens the database that the configuration asks for: an external one, else the embedded one under the data directory
// (docs/reference/configuration.md#settings), migrated and ready. Decides nothing about what is stored: that is in the files beside it, one
// per table family. Holds the lock of the data directory as long as it is open, so that one daemon at a time uses it.

import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { type DataLock, lockDataDir } from '../../internal/adapters/postgres/data-lock.ts';
import { type Database, openDatabase } from '../../internal/adapters/store/store.ts';
import { type Embedded, startEmbedded } from '../../internal/adapters/postgres/postgres.ts';
import { exists, makeDirectory } from '../../internal/base/files.ts';
import { connectionName } from '../../internal/adapters/store/operations/jobs.ts';
import { migrate } from '../../internal/adapters/store/schema/migrate.ts';
import { unfinishedFile } from '../../internal/adapters/store/schema/unfinished.ts';

export { DataDirInUse } from '../../internal/adapters/postgres/data-lock.ts';

export interface Store {
  readonly db: Database;
  /** Resolves if the embedded server has died and does not come back; never for an external one. */
  readonly lost: Promise<void>;
  /** Closes connections, stops the embedded server, releases the data directory. Safe twice. */
  stop(): Promise<void>;
}

export interface StoreOptions {
  readonly dataDir: string;
  /** Absent: embedded. */
  readonly databaseUrl?: string;
  /** The server itself, where `databaseUrl` leads to a transaction-mode pooler. */
  readonly databaseDirectUrl?: string;
  readonly daemonId: string;
  readonly log: Logger;
  /** For tests: nothing is forced to disk. */
  readonly volatile?: boolean;
}

/** Opens and migrates. Throws DataDirInUse, a Fault of migrate.ts, or the error of the connection. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { dataDir, log } = options;
  await makeDirectory(dataDir);
  let lock: DataLock | undefined;
  let embedded: Embedded | undefined;
  let db: Database | undefined;
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await db?.close();
    await embedded?.stop();
    await lock?.release();
  };
  try {
    lock = await lockDataDir(dataDir);
    if (options.databaseUrl === undefined) {
      embedded = await startEmbedded({ dataDir, log, ...(options.volatile && { volatile: true }) });
    }
    const url = options.databaseUrl ?? embedded?.url ?? '';
    const directUrl = options.databaseDirectUrl;
    const unfinished = join(dataDir, unfinishedFile);
    const hasUnfinishedFile = embedded !== undefined && (await exists(unfinished));
    await migrate(directUrl ?? url, log, undefined, { hasUnfinishedFile });
    if (hasUnfinishedFile) await rm(unfinished, { force: true });
    const listenerName = connectionName(options.daemonId);
    db = openDatabase({ url, ...(directUrl !== undefined && { directUrl }), log, listenerName });
    return {
      db,
      lost: embedded?.lost ?? new Promise<void>(() => undefined),
      stop: () => (stopping ??= stop()),
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
