// The command line: hands argv, environment and signals to edge/cli and ends with its exit code. Compiled modules are
// cached beside what is installed, or else under the user's cache directory, which makes the next start cheap.

import { accessSync, constants as fs, mkdirSync } from 'node:fs';
import { constants, enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

const home = process.env['HOME'] || homedir();

function cacheModules(): void {
  const xdg = process.env['XDG_CACHE_HOME'];
  const own = join(xdg !== undefined && isAbsolute(xdg) ? xdg : join(home, '.cache'), 'svc', 'modules');
  // Whoever may write beside the installed packages may change those too.
  for (const directory of [join(import.meta.dirname, '../../node_modules/.cache/svc'), own]) {
    try {
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

cacheModules();
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    stop.abort();
    process.exitCode = signal === 'SIGINT' ? 130 : 143;
    // A second signal ends at once, by its default.
  });
}
// A reader that leaves early, such as `head`, is no failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(process.exitCode ?? 0);
    throw error;
  });
}

const { runCli } = await import('../../internal/edge/cli/cli.ts');
const code = await runCli(process.argv.slice(2), {
  // A getter: touching stdin opens it, which most commands have no need of.
  get stdin() {
    return process.stdin;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  home,
  now: () => new Date(),
  signal: stop.signal,
});
process.exitCode ??= code;
if (process.exitCode === 0) process.exitCode = code;
