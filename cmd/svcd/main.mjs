// svcd: the daemon. What it does stands in program.ts, imported once its modules are cached. Plain JavaScript: a daemon
// whose modules are all cached strips nothing of its types, and need not load what does.

import { cacheModules } from '../module-cache.mjs';

cacheModules();
const { runProgram } = await import('./program.ts');
await runProgram();
