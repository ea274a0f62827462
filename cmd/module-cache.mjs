// Compiled modules are cached beside what is installed, or else under the user's cache directory: a start then costs half.
// Plain JavaScript, as what imports it first: what strips types takes 20 MB and its time, and is not loaded for what is cached.

import { accessSync, constants as fs, mkdirSync } from 'node:fs';
import { constants, enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/** Of whoever runs this. Throws where neither HOME nor an account says it, as in a container under any number. */
export const homeDirectory = () => process.env['HOME'] || homedir();

/** Caches what this process compiles from now on. To be called before the program's modules are imported. */
export function cacheModules() {
  const xdg = process.env['XDG_CACHE_HOME'];
  const own = () => join(xdg !== undefined && isAbsolute(xdg) ? xdg : join(homeDirectory(), '.cache'), 'svc', 'modules');
  // Whoever may write beside the installed packages may change those too.
  for (const place of [() => join(import.meta.dirname, '../node_modules/.cache/svc'), own]) {
    try {
      const directory = place();
      // Private: what lies there is run.
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      accessSync(directory, fs.R_OK | fs.W_OK);
      const { status } = enableCompileCache(directory);
      if (status !== constants.compileCacheStatus.FAILED) return;
    } catch {
      // A place that cannot be written to only makes the start slower.
    }
  }
}
