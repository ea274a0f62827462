// svcd for whoever starts it as TypeScript: as main.mjs, which takes less memory and time to start.

import { cacheModules } from '../module-cache.mjs';

cacheModules();
const { runProgram } = await import('./program.ts');
await runProgram();
