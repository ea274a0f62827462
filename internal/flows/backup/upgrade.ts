// What stands between an installation as it runs and the program that asks (`svc upgrade check`). Changes nothing.

import { join } from 'node:path';
import { AccessError, kubeconfigAccess } from '../../adapters/engine/engine.ts';
import { foreignEmbedded } from '../../adapters/postgres/foreign.ts';
import { runningEmbedded } from '../../adapters/postgres/postgres.ts';
import { inspectDatabase } from '../../adapters/store/schema/copy.ts';
import { holdsText, readMigrations } from '../../adapters/store/schema/migrate.ts';
import { type Config, ConfigError } from '../../base/config/config.ts';
import { namedProviders, sandboxesSettings } from '../../base/config/sandbox-settings.ts';
import { checkSections, filesNeededLater, requireReadable } from '../../base/config/sections.ts';
import { exists } from '../../base/files.ts';
import { type BackupInput, unopenable, withDatabase } from './saved-database.ts';

/** Where PostgreSQL 15 begins, the oldest that svcd runs on. */
const oldestServer = 150_000;

interface UpgradeCheck {
  readonly name: string;
  readonly status: 'ok' | 'warning' | 'error';
  readonly message: string;
  readonly hint?: string;
}

/** What stands between the installation as it runs and this program, read and not changed. */
export async function checkUpgrade(input: Omit<BackupInput, 'directory'>): Promise<readonly UpgradeCheck[]> {
  const { config } = input;
  if (config.databaseUrl === undefined && !(await exists(join(config.dataDir, 'postgres', 'PG_VERSION'))))
    return [
      ...checkSettings(config),
      { name: 'database', status: 'ok', message: `there is none under ${config.dataDir} yet: svcd makes it` },
    ];
  const foreign = config.databaseUrl === undefined ? await foreignEmbedded(config.dataDir) : undefined;
  const refused: readonly UpgradeCheck[] =
    foreign === undefined ? [] : [{ name: 'server', status: 'error', message: foreign }];
  // Nobody here can start it, and so look further.
  if (foreign !== undefined && (await runningEmbedded(config.dataDir)) === undefined)
    return [...checkSettings(config), ...refused];
  return withDatabase(input, async (url) => {
    const found = await inspectDatabase(url);
    const known = (await readMigrations()).map((one) => one.name);
    const checks = [
      ...checkSettings(config),
      ...(refused.length > 0 ? refused : [checkServer(found)]),
      checkMigrations(known, found.migrations, found.bytes),
    ];
    checks.push(await checkKeyFile(config, found.keys));
    const others = found.daemons.map(({ host, pid, roles }) => `${host} (process ${pid}: ${roles.join(', ')})`);
    checks.push(
      others.length === 0
        ? { name: 'daemons', status: 'ok', message: 'none runs' }
        : {
            name: 'daemons',
            status: 'ok',
            message: `${others.length} run: ${others.join('; ')}`,
            hint: 'replace them one after the other, or all at once',
          },
    );
    return checks;
  });
}

/** What svcd would end with before anything else, and what it would begin without. */
function checkSettings(config: Config): UpgradeCheck[] {
  const name = 'settings';
  try {
    checkSections(config);
    checkCluster(config);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [{ name, status: 'error', message: error.message, hint: 'svcd does not start with it: see what changed' }];
  }
  const lacking = filesNeededLater(config).flatMap(({ key, path }): UpgradeCheck[] => {
    try {
      requireReadable(key, path);
      return [];
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      const hint = 'svcd starts without it: what needs it waits, or is refused';
      return [{ name, status: 'warning', message: error.message, hint }];
    }
  });
  return lacking.length > 0 ? lacking : [{ name, status: 'ok', message: 'all can be used' }];
}

/** Throws ConfigError for a kubeconfig that svcd would not take. */
function checkCluster({ sandbox, roles, file, fileDir }: Config): void {
  const { kubernetes, presets } = sandboxesSettings(file, fileDir);
  const isNamed = namedProviders(sandbox, presets).some(([, provider]) => provider === 'kubernetes');
  if (kubernetes?.kubeconfig === undefined || !isNamed || !roles.includes('session')) return;
  try {
    kubeconfigAccess(kubernetes.kubeconfig);
  } catch (error) {
    if (!(error instanceof AccessError)) throw error;
    throw new ConfigError('sandboxes.kubernetes.kubeconfig', `cannot be used: ${error.message}`);
  }
}

function checkServer({
  serverVersion,
  encoding,
  migrations,
}: Awaited<ReturnType<typeof inspectDatabase>>): UpgradeCheck {
  const message = `PostgreSQL ${Math.floor(serverVersion / 10_000)}`;
  const refused = (what: string, hint: string): UpgradeCheck => ({
    name: 'server',
    status: 'error',
    message: what,
    hint,
  });
  if (serverVersion < oldestServer) return refused(message, 'svcd needs 15 or later: upgrade the server first');
  if (!holdsText(encoding, migrations !== undefined))
    return refused(`${message}, the database is encoded in ${encoding}`, 'svcd needs a database in UTF8');
  return { name: 'server', status: 'ok', message };
}

function checkMigrations(known: readonly string[], had: readonly string[] | undefined, bytes: number): UpgradeCheck {
  const name = 'migrations';
  if (had === undefined) return { name, status: 'ok', message: `all ${known.length} are to run: the database is new` };
  const newer = had.filter((one) => !known.includes(one));
  if (newer.length > 0)
    return {
      name,
      status: 'error',
      message: `the database has ${newer.join(', ')}, which this svc does not know`,
      hint: 'it was migrated by a newer svcd: install that one or a later one',
    };
  const pending = known.filter((one) => !had.includes(one));
  if (pending.length === 0) return { name, status: 'ok', message: `up to date with ${known.at(-1)}` };
  const megabytes = Math.ceil(bytes / 1_048_576);
  return {
    name,
    status: 'warning',
    message: `${pending.length} to run on ${megabytes} MB: ${pending.join(', ')}`,
    hint: 'there is no way back but a backup: svc backup DIRECTORY',
  };
}

async function checkKeyFile(
  config: Config,
  noted: Awaited<ReturnType<typeof inspectDatabase>>['keys'],
): Promise<UpgradeCheck> {
  const name = 'master key';
  const hint = 'put the key file of the running daemons there';
  try {
    const wrong = await unopenable(config.masterKeyFile, noted);
    if (wrong.length === 0) return { name, status: 'ok', message: `${config.masterKeyFile} opens what is stored` };
    return {
      name,
      status: 'error',
      message: `${config.masterKeyFile} does not hold version ${wrong.join(', ')}`,
      hint,
    };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { name, status: 'error', message: error.message, hint };
  }
}
