// The command line: hands argv, environment and signals to edge/cli and ends with its exit code.

import { writeSync } from 'node:fs';
import { cacheModules, homeDirectory } from '../module-cache.mjs';

/** The root where there is none: what lies at home is not there then. */
function homeOrRoot(): string {
  try {
    return homeDirectory();
  } catch {
    return '/';
  }
}
const home = homeOrRoot();

cacheModules();
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    stop.abort();
    process.exitCode = signal === 'SIGINT' ? 130 : 143;
    // A second signal ends at once, by its default.
  });
}
// A reader that leaves early, such as `head`, is no failure; a disk that is full is one.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(process.exitCode ?? 0);
    try {
      writeSync(2, `svc: the output cannot be written: ${error.message}\n`);
    } catch {
      // Then there is nobody to tell.
    }
    process.exit(1);
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
// A signal ends it also where a library goes on looking after whoever started it; what was said goes out first.
if (stop.signal.aborted) process.stdout.write('', () => process.exit());
