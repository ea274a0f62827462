// The scripted agent's program: what it does stands in protocol.ts, imported once its modules are cached. A start without
// the cache costs twice as much, and tests start hundreds of them. In a sandbox the cache can be read, not written.

import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

enableCompileCache(process.env['NODE_COMPILE_CACHE'] ?? join(import.meta.dirname, '../../node_modules/.cache/svc'));
await import('./protocol.ts');
