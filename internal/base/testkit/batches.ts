// Test files by several to a process. To load what a daemon is made of costs a second of a slow core, a third of what the tests
// take in all, and every process pays it anew.
//
//   node internal/base/testkit/batches.ts <glob>…   prints the paths of the batches, for `node --test`
//
// A batch is a module that has each of its files as a suite: hooks, names and failures stay those of the file. Files in a batch
// share a process, so one that measures its process, or changes what belongs to all of it, has one of its own.

import { globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

/** How many files a process takes: more save little, and the last process of a run would have others wait. */
const perBatch = 6;
const dir = '.batches';

/** What a file says that has to have its process for itself. */
const alone =
  /assert\.(?:snapshot|fileSnapshot)\(|memoryUsage|monitorEventLoopDelay|process\.(?:chdir|exit|on|once)\(|mock\.timers|globalThis\.\w+ = |process\.env\[.+\] = /;

/**
 * One file after the other: of two that are loaded at once, both of which wait for a module that awaits something itself, one
 * goes on in the other's suite, with its tests and hooks.
 */
const head = `import { AsyncResource } from 'node:async_hooks';
import { describe } from 'node:test';

let last = Promise.resolve();
const suite = (file, url) =>
  describe(file, () => {
    // What was waited for belongs to another suite, and what comes of it would too.
    const load = AsyncResource.bind(() => import(url));
    const loaded = last.then(load);
    last = loaded.catch(() => undefined);
    return loaded.then(() => undefined);
  });
`;

function write(index: number, files: readonly string[]): string {
  const suites = files.map((file) => {
    const url = JSON.stringify(pathToFileURL(resolve(file)).href);
    return `suite(${JSON.stringify(file)}, ${url});\n`;
  });
  const path = join(dir, `${String(index).padStart(3, '0')}.mjs`);
  writeFileSync(path, `${head}${suites.join('')}`);
  return path;
}

mkdirSync(dir, { recursive: true });
const files = [...new Set(process.argv.slice(2).flatMap((glob) => globSync(glob)))].sort();
if (files.length === 0) throw new Error('No file of tests is found by these globs.');
const single = files.filter((file) => alone.test(readFileSync(file, 'utf8')));
// Neighbours load the same.
const shared = files.filter((file) => !single.includes(file));
const chunks: string[][] = [];
for (let at = 0; at < shared.length; at += perBatch) chunks.push(shared.slice(at, at + perBatch));
// The most first, as far as that shows, and what has a process for itself before: what begins last is waited for by all.
const sizeOf = (chunk: readonly string[]): number => chunk.reduce((sum, file) => sum + statSync(file).size, 0);
const batches = chunks.sort((a, b) => sizeOf(b) - sizeOf(a)).map((chunk, index) => write(index, chunk));
process.stdout.write(`${[...single, ...batches].join('\n')}\n`);
