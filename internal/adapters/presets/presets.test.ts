// Root file systems kept by content: what enters, what is refused, and that a digest says the same for the same.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { lstat, mkdir, readdir, readFile, rm, symlink, utimes, writeFile, chmod } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';
import { Fault } from '../../domain/fault.ts';
import { PresetStore } from './presets.ts';

const now = new Date('2030-01-02T03:04:05Z');

function temporary(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'svc-presets-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

type Item = Partial<Header> & { readonly name: string; readonly text?: string };
const system: readonly Item[] = [
  { name: './', type: 'directory' },
  { name: './bin', type: 'symlink', linkname: 'usr/bin' },
  { name: './usr/bin/', type: 'directory', mode: 0o755 },
  { name: './usr/bin/sh', mode: 0o4755, text: '#!\n' },
  { name: 'etc/os-release', text: 'NAME=test\n' },
];

async function tar(dir: string, items: readonly Item[], as = 'a.tar'): Promise<string> {
  const out = pack();
  for (const { text, ...header } of items) {
    const entry = { mode: 0o644, mtime: new Date(0), ...header } as Header;
    if (text === undefined) out.entry({ ...entry, size: 0 });
    else out.entry({ ...entry, type: 'file' }, text);
  }
  out.finalize();
  const bytes = await buffer(out);
  const file = join(dir, as);
  await writeFile(file, as.endsWith('gz') ? gzipSync(bytes) : as.endsWith('zst') ? zstdCompressSync(bytes) : bytes);
  return file;
}

const codeOf = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;

test('what a build that was killed has left goes with a later one, and one that is under way stays', async (t) => {
  const dir = temporary(t);
  const kept = join(dir, 'data/presets/store');
  for (const name of ['.draft-dEaD00', '.draft-aLiVe0']) await mkdir(join(kept, name, 'usr/bin'), { recursive: true });
  const before = new Date(Date.now() - 25 * 3_600_000);
  await utimes(join(kept, '.draft-dEaD00'), before, before);
  const { digest } = await new PresetStore(join(dir, 'data')).build('one', await tar(dir, system), { now });
  assert.deepEqual((await readdir(kept)).toSorted(), ['.draft-aLiVe0', digest.replace('sha256:', '')]);
});

test('the same content has one digest, from a directory or an archive however packed', async (t) => {
  const dir = temporary(t);
  const store = new PresetStore(join(dir, 'data'));
  const source = join(dir, 'source');
  await mkdir(join(source, 'usr/bin'), { recursive: true });
  await mkdir(join(source, 'etc'));
  await mkdir(join(source, 'tmp/inside'), { recursive: true });
  await symlink('usr/bin', join(source, 'bin'));
  await writeFile(join(source, 'usr/bin/sh'), '#!\n');
  await chmod(join(source, 'usr/bin/sh'), 0o755);
  await writeFile(join(source, 'etc/os-release'), 'NAME=test\n');
  await chmod(join(source, 'etc/os-release'), 0o644);
  const one = await store.build('one', source, { now });
  assert.match(one.digest, /^sha256:[0-9a-f]{64}$/);
  assert.deepEqual([one.files, one.bytes], [2, 13]);
  assert.deepEqual(await readdir(join(one.rootfs, 'tmp')), []);
  const archives = await Promise.all(['a.tar', 'b.tgz', 'c.tar.zst'].map((as) => tar(dir, system, as)));
  const digests = new Set<string>();
  for (const [index, file] of archives.entries()) {
    const built = await store.build(`packed-${index}`, file, { now });
    digests.add(built.digest);
    assert.equal(await readFile(join(built.rootfs, 'etc/os-release'), 'utf8'), 'NAME=test\n');
    assert.equal((await lstat(join(built.rootfs, 'usr/bin/sh'))).mode & 0o7777, 0o755);
  }
  assert.equal(digests.size, 1);
  execFileSync('tar', ['-C', source, '--exclude=./tmp/inside', '-cf', join(dir, 'd.tar'), '.']);
  assert.equal((await store.build('by-tar', join(dir, 'd.tar'), { now })).digest, one.digest);
  assert.deepEqual(
    (await store.list()).map(({ name }) => name),
    ['by-tar', 'one', 'packed-0', 'packed-1', 'packed-2'],
  );
  assert.equal((await store.directory(source)).digest, one.digest);
});

test('what would leave the root file system, or is none of it, is refused and nothing is left', async (t) => {
  const dir = temporary(t);
  const data = join(dir, 'data');
  const store = new PresetStore(data);
  const hostile: { readonly [what: string]: readonly Item[] } = {
    'a path upwards': [{ name: '../escaped', text: 'x' }],
    'a path upwards, inside': [{ name: 'usr/../../escaped', text: 'x' }],
    'an absolute path': [{ name: '/escaped', text: 'x' }],
    'a character device': [{ name: 'etc/null', type: 'character-device', devmajor: 1, devminor: 3 }],
    'a block device': [{ name: 'dev/sda', type: 'block-device', devmajor: 8, devminor: 0 }],
    'a pipe': [{ name: 'etc/pipe', type: 'fifo' }],
    'through a link': [
      { name: 'out', type: 'symlink', linkname: dir },
      { name: 'out/escaped', text: 'x' },
    ],
    'a hard link to the host': [{ name: 'key', type: 'link', linkname: '/etc/passwd' }],
    'a hard link upwards': [{ name: 'key', type: 'link', linkname: '../../../etc/passwd' }],
    'a hard link through a link': [
      { name: 'host', type: 'symlink', linkname: '/' },
      { name: 'key', type: 'link', linkname: 'host/etc/passwd' },
    ],
    'a file in a file': [{ name: 'etc/os-release/in', text: 'x' }],
    'a directory in place of a link': [{ name: 'bin/', type: 'directory' }],
  };
  for (const [what, items] of Object.entries(hostile)) {
    const file = await tar(dir, [...system, ...items]);
    await assert.rejects(store.build('bad', file, { now }), codeOf('preset-entry'), what);
  }
  const small = await tar(dir, system);
  await assert.rejects(store.build('bad', small, { now, limits: { maxBytes: 12 } }), codeOf('preset-too-large'));
  await assert.rejects(store.build('bad', small, { now, limits: { maxEntries: 3 } }), codeOf('preset-too-large'));
  const shellless = await tar(dir, [{ name: 'etc/os-release', text: 'x' }]);
  await assert.rejects(store.build('bad', shellless, { now }), codeOf('preset-not-a-system'));
  await assert.rejects(store.build('..', small, { now }), codeOf('preset-name'));
  await assert.rejects(store.build('bad', join(dir, 'none'), { now }), codeOf('preset-source'));
  await writeFile(join(dir, 'text'), 'no archive at all'.repeat(100));
  await assert.rejects(store.build('bad', join(dir, 'text'), { now }), codeOf('preset-source'));
  const cut = gzipSync(await readFile(small)).subarray(0, 60);
  await writeFile(join(dir, 'cut.tgz'), cut);
  await assert.rejects(store.build('bad', join(dir, 'cut.tgz'), { now }), codeOf('preset-source'));
  assert.deepEqual(await readdir(join(data, 'presets/store')), []);
  assert.deepEqual((await readdir(dir)).sort(), ['a.tar', 'cut.tgz', 'data', 'text']);
});

test('contents go with their last name, and not while a sandbox stands on them', async (t) => {
  const dir = temporary(t);
  const data = join(dir, 'data');
  const store = new PresetStore(data);
  const first = await store.build('one', await tar(dir, system), { now });
  await store.build('two', await tar(dir, system), { now });
  const sandbox = join(data, 'sandboxes/of-a-session');
  await mkdir(sandbox, { recursive: true });
  await writeFile(join(sandbox, 'sandbox.json'), JSON.stringify({ spec: { rootfs: { path: first.rootfs } } }));
  assert.equal(await store.remove('one'), true);
  await assert.rejects(store.remove('two'), codeOf('preset-in-use'));
  const changed = await store.build('two', await tar(dir, [...system, { name: 'etc/new', text: 'x' }]), { now });
  assert.notEqual(changed.digest, first.digest);
  assert.equal((await readdir(join(data, 'presets/store'))).length, 2);
  await rm(sandbox, { recursive: true });
  assert.equal(await store.remove('two'), true);
  assert.equal(await store.remove('two'), false);
  assert.deepEqual(await readdir(join(data, 'presets/store')), []);
});
