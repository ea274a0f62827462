// The entry of a worker thread (thread.ts): takes the process's cache of compiled modules, which a thread does not inherit, and
// runs what the thread is for. Plain JavaScript: what is cached needs nothing that strips types, which each thread loads anew.

import { enableCompileCache, flushCompileCache } from 'node:module';
import { workerData } from 'node:worker_threads';

const { modules, program } = workerData;
if (modules !== null) enableCompileCache(modules);
await import(program);
// A thread that is terminated writes nothing.
if (modules !== null) flushCompileCache();
