// The configuration file as offline commands need it. Loaded only where a file is named; a file that cannot be used is
// misuse, as it is for the daemon.

import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type CompileSettings, compileSettings } from '../../base/config/compile-settings.ts';
import { ConfigError, parseConfigFile } from '../../base/config/file.ts';
import { UsageError } from './failure.ts';

/** Reads the file at `path`; `name` is how it was given. */
export async function loadOfflineConfig(path: string, name: string): Promise<CompileSettings> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${name} names ${path}, which cannot be read (${error.code})`);
  });
  try {
    return compileSettings(parseConfigFile(text, name, path).rest, dirname(path));
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message);
    throw error;
  }
}
