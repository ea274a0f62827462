import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { GitFixture, largeTree, runGit } from './git-fixture.ts';
import { GitServer } from './git-server.ts';

test('git itself can clone from the server and push to it, where pushing is allowed', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'svc-git-server-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  const repo = await GitFixture.create(join(root, 'demo.git'));
  await repo.commit({ 'a.txt': 'one', 'run.sh': { executable: 'x' }, link: { symlink: 'a.txt' } });
  const server = await new GitServer({ root, allowPush: true, auth: { tokens: ['pass'] } }).start();
  t.after(() => server.stop());
  const url = server.url('demo.git').replace('http://', 'http://user:pass@');
  await runGit(['clone', '-q', url, 'work'], { cwd: root });
  assert.equal(await readFile(join(root, 'work', 'link'), 'utf8'), 'one');
  await writeFile(join(root, 'work', 'a.txt'), 'two\n'.repeat(100_000));
  await runGit(['commit', '-qam', 'Change'], { cwd: join(root, 'work') });
  await runGit(['push', '-q'], { cwd: join(root, 'work') });
  assert.equal(await repo.git(['log', '-1', '--format=%s', 'main']), 'Change');
  assert.ok(server.log.some(({ path }) => path === '/demo.git/git-receive-pack'));
  server.options = { ...server.options, allowPush: false };
  await runGit(['commit', '-q', '--allow-empty', '-m', 'More'], { cwd: join(root, 'work') });
  await assert.rejects(runGit(['push', '-q'], { cwd: join(root, 'work') }), /403/);
  await assert.rejects(runGit(['ls-remote', server.url('demo.git')], { cwd: root }), /failed/);
});

test('equal commits have equal ids, and large trees are made by one process', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'svc-git-fixture-'));
  t.after(() => rm(root, { recursive: true, force: true }));
  const ids = [];
  for (const name of ['one.git', 'two.git']) {
    const repo = await GitFixture.create(join(root, name));
    await repo.commit({ 'odd "name"\n\u00e9': 'x' });
    ids.push(await repo.commitMany(largeTree(500, 20)));
    assert.equal((await repo.git(['ls-tree', '-r', '--name-only', 'HEAD'])).split('\n').length, 521);
  }
  assert.equal(ids[0], ids[1]);
});
