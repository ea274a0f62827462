// `svc backup`, `svc restore` and `svc upgrade check` (docs/guides/backup.md): on the host of the database, with the settings of its
// svcd. No server is asked: it may be running, or gone.

import { resolve } from 'node:path';
import { ConfigError, loadConfig, type Config } from '../../base/config/config.ts';
import { createLog } from '../../base/log/log.ts';
import { Fault } from '../../domain/fault.ts';
import { isDriversWord } from '../../adapters/store/store.ts';
import { DataDirInUse } from '../../adapters/postgres/data-lock.ts';
import { backUp, checkUpgrade, type Manifest, restore } from '../../flows/backup/backup.ts';
import { tellChecks } from './command-doctor.ts';
import { ownVersion } from './command-version.ts';
import { UsageError, refusal } from './failure.ts';
import { count } from './text.ts';
import type { Call, Handler } from './types.ts';

const flags = ['config', 'database-url', 'master-key-file'] as const;

/** The settings of svcd, as the environment, the configuration file and these flags give them. */
function settingsOf(call: Call): Config {
  const { env, cwd, home } = call.io;
  const given = [
    ...flags.map((name) => [name, call.text(name)] as const),
    ['data-dir', call.global('data-dir')] as const,
  ];
  const argv = given.flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  try {
    return loadConfig({ env: { ...env, HOME: home }, argv, cwd });
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message);
    throw error;
  }
}

/** What is refused is told as any refusal is; messages of a database driver hold no password. */
async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Fault) throw refusal(error.code, error.message);
    if (error instanceof ConfigError) throw new UsageError(error.message);
    if (error instanceof DataDirInUse) throw refusal('data-dir-in-use', error.message);
    const { code } = error as NodeJS.ErrnoException;
    if (typeof code === 'string' || isDriversWord(error)) throw refusal('failed', (error as Error).message);
    throw error;
  }
}

const rowsOf = ({ database }: Manifest): number => database.tables.reduce((sum, table) => sum + table.rows, 0);
const resultOf = (directory: string, manifest: Manifest): object => ({
  directory,
  version: manifest.version,
  createdAt: manifest.createdAt,
  tables: manifest.database.tables.length,
  rows: rowsOf(manifest),
  keyVersions: manifest.keyVersions,
});

export const backupCommand: Handler = async (call) => {
  const directory = resolve(call.io.cwd, call.arg('DIRECTORY'));
  const withKey = !call.flag('without-key');
  const manifest = await told(
    backUp({
      config: settingsOf(call),
      directory,
      withKey,
      version: await ownVersion(),
      now: call.io.now(),
      log: createLog('error'),
    }),
  );
  call.screen.emit(resultOf(directory, manifest), () => {
    const key = withKey
      ? 'with the master key: keep it where nobody else reads it'
      : 'without the master key: keep that elsewhere';
    return `${directory}: ${count(rowsOf(manifest), 'row')} of ${count(manifest.database.tables.length, 'table')}, ${key}`;
  });
  return 0;
};

export const restoreCommand: Handler = async (call) => {
  const directory = resolve(call.io.cwd, call.arg('DIRECTORY'));
  const config = settingsOf(call);
  const manifest = await told(restore({ config, directory, log: createLog('error') }));
  call.screen.emit(resultOf(directory, manifest), () =>
    [
      `${count(rowsOf(manifest), 'row')} of ${manifest.createdAt} are back; start svcd with the same settings`,
      ...(manifest.keyVersions.length > 0
        ? []
        : [`the backup holds no master key: put it at ${config.masterKeyFile} first`]),
    ].join('\n'),
  );
  return 0;
};

export const upgradeCheck: Handler = async (call) => {
  const program = {
    name: 'program',
    status: 'ok' as const,
    message: `svc ${await ownVersion()} on node ${process.versions.node}`,
  };
  const checks = [program, ...(await told(checkUpgrade({ config: settingsOf(call), log: createLog('error') })))];
  return tellChecks(call, checks);
};
