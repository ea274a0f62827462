import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdir, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { coalesce } from './folder-watch.ts';
import { openRepository } from './repo.ts';
import { type Cleanup, condition, contents, temporary } from './test-support.ts';
import type { OpenOptions } from './types.ts';

async function folder(t: Cleanup, files: Record<string, string | Buffer>) {
  const path = await temporary(t);
  const put = async (name: string, content: string | Buffer) => {
    await mkdir(dirname(join(path, name)), { recursive: true });
    await writeFile(join(path, name), content);
  };
  for (const [name, content] of Object.entries(files)) await put(name, content);
  const source = (root = '', options: Partial<OpenOptions> = {}) =>
    openRepository({ kind: 'folder', path, root }, { now: () => new Date(0), ...options });
  return { path, put, source };
}

const tree = { '.svc/agents/a.yaml': 'a', '.svc/shared/b.yaml': 'b', 'prompts/p.md': 'p', 'other.txt': 'o' };

test('a folder is its .svc/ and what is asked for outside, under a content hash', async (t) => {
  const { path, put, source } = await folder(t, tree);
  const read = source();
  const tip = await read.resolve();
  assert.match(tip.commit, /^folder:[0-9a-f]{64}$/);
  const first = await read.snapshot(tip, { wantPaths: ['prompts/p.md', 'prompts/none', '../x', 'prompts'] });
  assert.deepEqual(contents(first), { '.svc/agents/a.yaml': 'a', '.svc/shared/b.yaml': 'b', 'prompts/p.md': 'p' });
  assert.deepEqual([...(first.bundle?.absent ?? [])], ['../x', 'prompts', 'prompts/none']);
  assert.deepEqual(
    [first.via, first.svcTree, first.bundle?.entries.get('.svc/agents/a.yaml')?.oid],
    ['folder', null, '2e65efe2a145dda7ee51d1741299f848e5bf752e'],
  );
  const same = await read.snapshot(await read.resolve(), { prior: first.record });
  assert.deepEqual([same.unchanged, same.bundle, same.commit], [true, null, first.commit]);
  await put('other.txt', 'changed');
  assert.equal((await source().resolve()).commit, first.commit, 'a file that nobody asked for is no change');
  await put('prompts/p.md', 'changed');
  assert.notEqual((await source().resolve()).commit, first.commit, 'one that was asked for is, also to a new source');
  await put('prompts/p.md', 'p');
  assert.equal(
    (await source().resolve(undefined, first.record)).commit,
    first.commit,
    'equal contents are equal commits',
  );
  await rename(join(path, '.svc/agents/a.yaml'), join(path, '.svc/agents/z.yaml'));
  assert.equal((await read.snapshot(tip, { prior: first.record })).unchanged, false);
});

test('links are named and never followed, in .svc/ and on the way to a file outside', async (t) => {
  const { path, source, put } = await folder(t, tree);
  const elsewhere = await temporary(t);
  await writeFile(join(elsewhere, 'secret.md'), 'secret');
  await symlink(join(elsewhere, 'secret.md'), join(path, '.svc/agents/link.yaml'));
  await symlink(elsewhere, join(path, '.svc/dir'));
  await symlink(elsewhere, join(path, 'out'));
  await symlink('p.md', join(path, 'prompts/l.md'));
  const snapshot = await source().snapshot({ commit: '' }, { wantPaths: ['out/secret.md', 'prompts/l.md'] });
  assert.deepEqual(contents(snapshot), {
    '.svc/agents/a.yaml': 'a',
    '.svc/agents/link.yaml': '<symlink>',
    '.svc/dir': '<symlink>',
    '.svc/shared/b.yaml': 'b',
    out: '<symlink>',
    'prompts/l.md': '<symlink>',
  });
  assert.deepEqual([...(snapshot.bundle?.absent ?? [])], ['out/secret.md']);
  await put('sub/x', 'x');
  await symlink(join(path, '.svc'), join(path, 'sub/.svc'));
  await assert.rejects(source('sub').resolve(), condition('hostile', /symbolic link/));
  await symlink(join(path, 'sub'), join(path, 'subl'));
  await assert.rejects(source('subl').resolve(), condition('hostile', /symbolic link/));
});

test('a submodule on the way to a file outside is named and not gone into, but for what the folder is itself', async (t) => {
  const { put, path, source } = await folder(t, {
    ...tree,
    '.git/HEAD': 'ref',
    'sub/.svc/agents/a.yaml': 'a',
    'sub/p.md': 'p',
  });
  await put('prompts/.git', 'gitdir: ../.git/modules/prompts');
  await put('sub/.git', 'gitdir: ../.git/modules/sub');
  const read = source();
  const first = await read.snapshot({ commit: '' }, { wantPaths: ['prompts/p.md', 'other.txt'] });
  const files = { '.svc/agents/a.yaml': 'a', '.svc/shared/b.yaml': 'b', 'other.txt': 'o' };
  assert.deepEqual(contents(first), { ...files, prompts: '<submodule>' });
  assert.deepEqual([...(first.bundle?.absent ?? [])], ['prompts/p.md']);
  const { sub } = contents(await read.snapshot({ commit: '' }, { wantPaths: ['sub'] }));
  assert.equal(sub, '<submodule>');
  assert.deepEqual(contents(await source('sub').snapshot({ commit: '' }, { wantPaths: ['p.md'] }))['p.md'], 'p');
  await rm(join(path, 'prompts/.git'));
  const next = await read.snapshot(await read.resolve(), { prior: first.record });
  assert.deepEqual([next.unchanged, contents(next)], [false, { ...files, 'prompts/p.md': 'p' }]);
});

test('a root directory holds the .svc/, and files above it are within the repository', async (t) => {
  const { source } = await folder(t, { 'one/.svc/agents/a.yaml': 'a', 'one/p.md': 'p', 'shared/s.md': 's' });
  const snapshot = await source('one/').snapshot(
    { commit: '' },
    { wantPaths: ['p.md', '../shared/s.md', '../../etc/passwd'] },
  );
  assert.deepEqual(contents(snapshot), { '../shared/s.md': 's', '.svc/agents/a.yaml': 'a', 'p.md': 'p' });
  assert.deepEqual([...(snapshot.bundle?.absent ?? [])], ['../../etc/passwd']);
  await assert.rejects(source('../one').resolve(), condition('not-found', /root directory/));
});

test('no folder, no .svc/ and an empty .svc/ are three things', async (t) => {
  const { path, source } = await folder(t, { x: 'x' });
  assert.equal((await source().snapshot({ commit: '' })).bundle?.hasSvc, false);
  const none = (await source().resolve()).commit;
  await mkdir(join(path, '.svc'));
  assert.equal((await source().snapshot({ commit: '' })).bundle?.hasSvc, true);
  assert.notEqual((await source().resolve()).commit, none);
  await assert.rejects(source('', { verify: { keys: [] } }).resolve(), condition('signature-rejected'));
  const lost = openRepository({ kind: 'folder', path: join(path, 'none'), root: '' }, { now: () => new Date(0) });
  await assert.rejects(lost.resolve(), condition('not-found'));
});

test('the bounds and names of git hold for folders, editor leftovers and sockets are passed over', async (t) => {
  const { path, put, source } = await folder(t, {
    ...tree,
    '.svc/agents/.a.yaml.swp': 's',
    '.svc/agents/a.yaml~': 't',
    '.svc/agents/4913': 'u',
  });
  await writeFile(join(path, '.svc/big.md'), '');
  await truncate(join(path, '.svc/big.md'), 600 * 1024 * 1024);
  const socket = createServer().listen(join(path, '.svc/socket'));
  t.after(async () => {
    socket.close();
  });
  await once(socket, 'listening');
  const snapshot = await source().snapshot({ commit: '' });
  assert.deepEqual(contents(snapshot), {
    '.svc/agents/a.yaml': 'a',
    '.svc/big.md': '<too large>',
    '.svc/shared/b.yaml': 'b',
  });
  assert.deepEqual(
    snapshot.findings.map(({ rule }) => rule),
    ['too-large'],
  );
  await assert.rejects(source('', { caps: { files: 1, outsidePaths: 0 } }).resolve(), condition('too-large'));
  await assert.rejects(source('', { caps: { dirs: 2 } }).resolve(), condition('too-large'));
  await assert.rejects(source('', { caps: { totalBytes: 1 } }).resolve(), condition('too-large'));
  await put(`.svc/${'d/'.repeat(16)}x`, 'x');
  await assert.rejects(source().resolve(), condition('too-large', /16 deep/));
  await rm(join(path, '.svc/d'), { recursive: true });
  await put('.svc/module/.git', 'gitdir: elsewhere');
  assert.equal(contents(await source().snapshot({ commit: '' }))['.svc/module'], '<submodule>');
  await put('.svc/a\\b.yaml', 'x');
  await assert.rejects(source().resolve(), condition('hostile', /backslash/));
});

test('events are folded into one call after a pause, or after half a second without one', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let clock = 0;
  t.mock.method(performance, 'now', () => clock);
  let calls = 0;
  const bits = coalesce(() => {
    calls += 1;
  });
  const pass = (ms: number) => {
    clock += ms;
    t.mock.timers.tick(ms);
  };
  bits.dirty();
  bits.dirty();
  pass(74);
  assert.equal(calls, 0);
  pass(1);
  assert.equal(calls, 1);
  for (let n = 0; n < 10; n += 1) {
    bits.dirty();
    pass(60);
  }
  assert.equal(calls, 2);
  bits.dirty();
  bits.cancel();
  pass(1000);
  assert.equal(calls, 2);
});

test('a watched folder tells of changes, of .svc/ coming, going and coming back, and of files outside', async (t) => {
  const { path, put, source } = await folder(t, { 'prompts/p.md': 'p' });
  const read = source();
  let told = 0;
  const watching = await read.watch?.(() => {
    told += 1;
  });
  t.after(async () => watching?.stop());
  const after = async (what: string, change: () => Promise<unknown>) => {
    const before = told;
    await change();
    for (let waited = 0; told === before; waited += 20) {
      assert.ok(waited < 120_000, `nothing was told of ${what}`);
      await sleep(20);
    }
    // The watchers are rearranged after the call; the next change must not fall between.
    await sleep(300);
  };
  await after('.svc/ coming', () => put('.svc/agents/a.yaml', 'a'));
  await after('a changed file', () => put('.svc/agents/a.yaml', 'b'));
  await after('a file renamed over', async () => {
    await writeFile(join(path, '.svc/agents/new.tmp'), 'c');
    await rename(join(path, '.svc/agents/new.tmp'), join(path, '.svc/agents/a.yaml'));
  });
  await after('.svc/ going', () => rm(join(path, '.svc'), { recursive: true }));
  await after('.svc/ coming back', () => put('.svc/agents/a.yaml', 'a'));
  await read.snapshot({ commit: '' }, { wantPaths: ['prompts/p.md'] });
  await after('another change', () => put('.svc/agents/b.yaml', 'b'));
  await after('a file outside', () => put('prompts/p.md', 'q'));
  await watching?.stop();
});
