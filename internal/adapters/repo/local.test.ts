import assert from 'node:assert/strict';
import { appendFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { setTimeout as sleep } from 'node:timers/promises';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { openRepository } from './repo.ts';
import { condition, contents, MemoryBlobs, temporary } from './test-support.ts';

const tree = { '.svc/agents/a.yaml': 'a', '.svc/link': { symlink: 'agents' }, 'lib/p.md': 'p', 'x.txt': 'x' };

function local(path: string, more: { branch?: string; root?: string; blobs?: MemoryBlobs } = {}) {
  const { branch = 'main', root = '', ...options } = more;
  return openRepository({ kind: 'local', path, branch, root }, { now: () => new Date(0), ...options });
}

test('the commits of a work tree, a linked work tree and a bare repository are read, packed or not', async (t) => {
  const dir = await temporary(t);
  const repo = await GitFixture.create(join(dir, 'work'), { bare: false });
  const first = await repo.commit(tree);
  await repo.git(['worktree', 'add', '-q', '-b', 'topic', join(dir, 'linked')]);
  await repo.git(['clone', '-q', '--bare', repo.dir, join(dir, 'bare.git')]);
  await writeFile(join(dir, 'work', 'uncommitted'), 'x');
  for (const [path, branch] of [
    ['work', 'main'],
    ['linked', 'topic'],
    ['bare.git', 'main'],
  ] as const) {
    const source = local(join(dir, path), { branch });
    const tip = await source.resolve();
    assert.deepEqual(tip, { commit: first, ref: `refs/heads/${branch}` });
    const snapshot = await source.snapshot(tip, { wantPaths: ['lib/p.md', 'lib/none'] });
    assert.deepEqual(contents(snapshot), { '.svc/agents/a.yaml': 'a', '.svc/link': '<symlink>', 'lib/p.md': 'p' });
    assert.deepEqual([snapshot.via, snapshot.svcTree], ['local', await repo.git(['rev-parse', 'main:.svc'])]);
    const grown = await source.more(snapshot, ['x.txt']);
    assert.equal(contents(grown)['x.txt'], 'x');
  }
  await repo.git(['gc', '-q', '--prune=now']);
  const source = local(repo.dir, { blobs: new MemoryBlobs() });
  const before = await source.snapshot(await source.resolve());
  await repo.commit({ 'x.txt': 'y' });
  assert.equal((await source.snapshot(await source.resolve(), { prior: before.record })).unchanged, true);
  await repo.commit({ '.svc/agents/b.yaml': 'b' });
  await repo.git(['pack-refs', '--all']);
  const after = await source.snapshot(await source.resolve(), { prior: before.record });
  assert.deepEqual(contents(after), { '.svc/agents/a.yaml': 'a', '.svc/agents/b.yaml': 'b', '.svc/link': '<symlink>' });
});

/** Turns the packs of a repository into loose objects. */
async function explode(repo: GitFixture): Promise<void> {
  const packs = join(repo.dir, 'objects', 'pack');
  for (const file of (await readdir(packs)).filter((name) => name.endsWith('.pack'))) {
    const bytes = await readFile(join(packs, file));
    await rm(join(packs, file));
    await rm(join(packs, file.replace(/pack$/, 'idx')));
    await repo.git(['unpack-objects', '-q'], bytes);
  }
}

test('what cannot be read has a condition that says what to do', async (t) => {
  const dir = await temporary(t);
  const repo = await GitFixture.create(join(dir, 'r.git'));
  await assert.rejects(local(repo.dir).resolve(), condition('ref-missing'));
  await repo.commit(tree);
  await assert.rejects(local(repo.dir, { branch: 'gone' }).resolve(), condition('ref-missing', /"gone"/));
  await assert.rejects(local(repo.dir).snapshot({ commit: 'a'.repeat(40) }), condition('ref-missing'));
  const oid = await repo.git(['rev-parse', 'main:.svc/agents/a.yaml']);
  const loose = join(repo.dir, 'objects', oid.slice(0, 2), oid.slice(2));
  const tip = await local(repo.dir).resolve();
  await explode(repo);
  await rm(loose);
  await assert.rejects(local(repo.dir).snapshot(tip), condition('corrupt', /lacks the object/));
  await writeFile(loose, deflateSync(Buffer.from('blob 1\0b')));
  await assert.rejects(local(repo.dir).snapshot(tip), condition('corrupt'));
  await mkdir(join(dir, 'plain'));
  await assert.rejects(local(join(dir, 'plain')).resolve(), condition('not-found', /leave out the branch/));
  await appendFile(join(repo.dir, 'config'), '[extensions]\n\trefStorage = reftable\n');
  await assert.rejects(local(repo.dir).resolve(), condition('corrupt', /reftable/));
  const other = await GitFixture.create(join(dir, 'sha256.git'), { objectFormat: 'sha256' });
  await assert.rejects(local(other.dir).resolve(), condition('corrupt', /SHA-256/));
});

test('a watched repository tells of commits and of packed refs, and a packed ref is not a deleted one', async (t) => {
  const repo = await GitFixture.create(join(await temporary(t), 'r.git'));
  const first = await repo.commit(tree);
  const source = local(repo.dir);
  let told = 0;
  const watching = await source.watch?.(() => {
    told += 1;
  });
  t.after(async () => watching?.stop());
  const heard = async (what: string, before: number) => {
    for (let waited = 0; told === before; waited += 20) {
      assert.ok(waited < 120_000, `nothing was told of ${what}`);
      await sleep(20);
    }
  };
  let before = told;
  await repo.git(['pack-refs', '--all']);
  await heard('packed refs', before);
  assert.equal((await source.resolve()).commit, first);
  await sleep(200);
  before = told;
  const second = await repo.commit({ 'x.txt': 'z' });
  await heard('a commit', before);
  assert.equal((await source.resolve()).commit, second);
  await watching?.stop();
});
