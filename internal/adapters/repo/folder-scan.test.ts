import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isCrowded, scanFolder } from './folder-scan.ts';

/** Until the clock of the file system has moved on: many kernels stamp files by one that stands for milliseconds. */
async function nextTick(directory: string): Promise<void> {
  const probe = join(directory, 'probe');
  const stamp = async (): Promise<bigint> => {
    await writeFile(probe, '');
    return (await stat(probe, { bigint: true })).mtimeNs;
  };
  const first = await stamp();
  while ((await stamp()) === first);
}

test('a look at a folder differs after every kind of change, and not without one', async () => {
  const root = await mkdtemp(join(tmpdir(), 'svc-scan-'));
  const outside = join(root, 'prompt.md');
  const svc = join(root, '.svc');
  const look = (): Promise<string> => scanFolder(svc, [outside], /~$/);
  const changes: readonly (() => Promise<unknown>)[] = [
    () => mkdir(join(svc, 'agents'), { recursive: true }),
    () => writeFile(join(svc, 'agents/a.yaml'), 'one'),
    () => writeFile(join(svc, 'agents/a.yaml'), 'two'),
    () => rename(join(svc, 'agents/a.yaml'), join(svc, 'agents/b.yaml')),
    () => mkdir(join(svc, 'empty')),
    () => writeFile(outside, 'words'),
    () => rm(outside),
    () => rm(join(svc, 'agents/b.yaml')),
    () => rm(svc, { recursive: true }),
  ];
  let before = await look();
  for (const [index, change] of changes.entries()) {
    assert.equal(await look(), before);
    await nextTick(root);
    await change();
    const after = await look();
    assert.notEqual(after, before, `change ${index}`);
    before = after;
  }
  await mkdir(svc);
  before = await look();
  await writeFile(join(svc, 'a.yaml~'), 'an editor');
  assert.equal(await look(), before);
  await rm(root, { recursive: true });
});

test('a folder with more entries than anybody reads is crowded, wherever they lie', async () => {
  const root = await mkdtemp(join(tmpdir(), 'svc-crowd-'));
  assert.equal(await isCrowded(join(root, 'absent')), false);
  for (const part of ['a', 'b']) {
    const dir = join(root, part);
    await mkdir(dir);
    for (let at = 0; at < 5; at += 1) await writeFile(join(dir, `${at}`), '');
    // The directories count too.
    assert.equal(await isCrowded(root, 11), part === 'b');
  }
  await rm(root, { recursive: true });
});
