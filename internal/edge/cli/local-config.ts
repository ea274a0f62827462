// The settings of svcd as far as commands use them that work on its host and ask neither it nor its database.

import { type Config, ConfigError, loadConfig } from '../../base/config/config.ts';
import { UsageError } from './failure.ts';
import type { Call } from './types.ts';

/** In place of what svcd may be told of its database elsewhere: it is not asked, and what would be lacking lacks nothing here. */
const unasked = { SVC_DATABASE_URL: 'postgres://unasked', SVC_MASTER_KEY_FILE: 'unasked' };

/**
 * Of the daemon's settings only the data directory, the file (`file` in place of SVC_CONFIG), and the variables `also`; the
 * rest may be wrong here without harm.
 */
export function localConfig(call: Pick<Call, 'io' | 'global'>, also: readonly string[] = [], file?: string): Config {
  const { env, cwd, home } = call.io;
  const given = call.global('data-dir');
  const names = ['XDG_DATA_HOME', 'SVC_DATA_DIR', 'SVC_CONFIG', ...also];
  const picked = Object.fromEntries(names.map((name) => [name, env[name]]));
  const argv = [
    ...(given === undefined ? [] : ['--data-dir', given]),
    ...(file === undefined ? [] : [`--config=${file}`]),
  ];
  return asMisuse(() => loadConfig({ env: { ...picked, ...unasked, HOME: home }, argv, cwd }));
}

/** A setting that cannot be used is misuse here too. */
export function asMisuse<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message);
    throw error;
  }
}
