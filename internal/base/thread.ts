// Worker threads whose modules come out of the cache of compiled ones: half of a first compile was the loading of modules.

import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { Worker, type WorkerOptions } from 'node:worker_threads';

/** A thread that runs the module at `program`. */
export function startThread(program: URL, options: Omit<WorkerOptions, 'workerData' | 'eval'>): Worker {
  const workerData = { modules: cacheOfModules(), program: program.href };
  return new Worker(new URL('./thread-entry.mjs', import.meta.url), { ...options, workerData });
}

/** Where this process keeps compiled modules; null where it keeps none. Its own folder in there is named after the runtime. */
function cacheOfModules(): string | null {
  const own = getCompileCacheDir();
  return own === undefined ? null : dirname(own);
}
