// Loads every module of the core. A module that no test imports would otherwise be missing from the coverage report,
// and missing looks like covered; loading one must also have no effect and need nothing from outside.

import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const modules = globSync('core/**/*.ts', { cwd: import.meta.dirname }).filter((path) => !path.endsWith('.test.ts'));

test('every module of the core loads by itself', async () => {
  assert.ok(modules.length >= 30, `only ${modules.length} modules`);
  for (const path of modules) await import(join(import.meta.dirname, path));
});
