// How `svc` is started: plain JavaScript, so that nothing has to be stripped of types before the cache of compiled modules is
// open, which makes every start twice as quick. The version is told without loading anything else.

import { accessSync, constants as fs, mkdirSync, readFileSync } from 'node:fs';
import { constants, enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

const argv = process.argv.slice(2);
if (argv.length === 1 && /^(?:--version|-V|version)$/.test(argv[0] ?? '')) {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  process.stdout.write(`svc ${version} (node ${process.versions.node})\n`);
} else {
  const home = process.env['HOME'] || homedir();
  const xdg = process.env['XDG_CACHE_HOME'];
  const own = join(xdg !== undefined && isAbsolute(xdg) ? xdg : join(home, '.cache'), 'svc', 'modules');
  for (const directory of [join(import.meta.dirname, '../../node_modules/.cache/svc'), own]) {
    try {
      // Private: what lies there is run.
      mkdirSync(directory, { recursive: true, mode: 0o700 });
      accessSync(directory, fs.R_OK | fs.W_OK);
      if (enableCompileCache(directory).status !== constants.compileCacheStatus.FAILED) break;
    } catch {
      // A place that cannot be written to only makes the start slower.
    }
  }
  await import('./main.ts');
}
