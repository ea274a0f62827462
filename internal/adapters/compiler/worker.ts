// The entry of the worker thread: takes the daemon's cache of compiled modules, which a thread does not inherit, and
// starts what serves it. Half of a first compile was the loading of these modules.

import { enableCompileCache, flushCompileCache } from 'node:module';
import { workerData } from 'node:worker_threads';

const { modules } = workerData as { readonly modules: string | null };
if (modules !== null) enableCompileCache(modules);
await import('./serve.ts');
// A thread that is terminated writes nothing.
if (modules !== null) flushCompileCache();
