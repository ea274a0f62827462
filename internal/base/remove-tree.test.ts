import assert from 'node:assert/strict';
import { createHook } from 'node:async_hooks';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { removeTree } from './remove-tree.ts';

function tree(t: TestContext, count: number): { readonly path: string; readonly outside: string } {
  const root = mkdtempSync(join(tmpdir(), 'svc-tree-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  const [path, outside] = [join(root, 'tree'), join(root, 'outside')];
  for (const directory of [path, outside]) mkdirSync(directory);
  writeFileSync(join(outside, 'kept.txt'), 'kept');
  for (let n = 0; n < count; n += 1) {
    const directory = join(path, `d${n % 20}/.e`);
    mkdirSync(directory, { recursive: true });
    writeFileSync(join(directory, `-f ${n}\n.txt`), 'x');
  }
  symlinkSync(outside, join(path, 'd0/link'));
  symlinkSync('/nowhere', join(path, 'd1/dangling'));
  chmodSync(join(path, 'd2/.e'), 0o500);
  chmodSync(join(path, 'd3'), 0o000);
  return { path, outside };
}

for (const [count, most] of [
  [20, Infinity],
  // What looks at as many as are few, and a few more.
  [2_000, 1_000],
] as const)
  test(`a tree of ${count} files is removed, and nothing that it leads to`, async (t) => {
    const { path, outside } = tree(t, count);
    let calls = 0;
    const hook = createHook({ init: (_id, type) => void (/^FSREQ/.test(type) && (calls += 1)) }).enable();
    t.after(() => hook.disable());
    await removeTree(path);
    hook.disable();
    assert.deepEqual([existsSync(path), readdirSync(outside)], [false, ['kept.txt']]);
    assert.ok(calls < most, `${calls} calls of this process`);
  });

test('what is not there, a file and a link are removed as they are', async (t) => {
  const { path, outside } = tree(t, 20);
  const kept = Array.from({ length: 1_000 }, (_, n) => `${n}`);
  for (const name of kept) writeFileSync(join(outside, name), name);
  const [file, link] = [join(path, 'd0/.e/-f 0\n.txt'), join(path, 'd0/link')];
  for (const one of [join(path, 'none'), file, link]) {
    await removeTree(one);
    assert.equal(existsSync(one), false);
  }
  assert.equal(readdirSync(outside).length, kept.length + 1);
  chmodSync(join(path, 'd3'), 0o700);
});
