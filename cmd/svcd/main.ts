// svcd: the daemon. What it does stands in program.ts, imported once its modules are cached.

import { cacheModules } from '../module-cache.ts';

cacheModules();
const { runProgram } = await import('./program.ts');
await runProgram();
