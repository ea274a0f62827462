import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { temporary } from './test-support.ts';

test('reading a folder loads no HTTP client, git library, watcher or PGP', async (t) => {
  const program = `
    import { registerHooks } from 'node:module';
    const loaded = [];
    registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
    const { openRepository } = await import(${JSON.stringify(join(import.meta.dirname, 'repo.ts'))});
    const source = openRepository({ kind: 'folder', path: ${JSON.stringify(await temporary(t))}, root: '' }, { now: () => new Date(0) });
    await source.snapshot(await source.resolve());
    console.log(JSON.stringify(loaded));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  const loaded = JSON.parse(stdout) as string[];
  assert.ok(loaded.some((url) => url.endsWith('/folder.ts')));
  assert.deepEqual(
    loaded.filter((url) => url.includes('/node_modules/') || /(http|remote|local|ladder|watch)\.ts$/.test(url)),
    [],
  );
});
