import assert from 'node:assert/strict';
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { type FixtureFile, GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { type MountOptions, type MountRequest, mountRepository } from './sandbox.ts';
import { repeatedTree, commandLines, open, testPath, providers, runId, temporary } from './test-support.ts';

const time = { timeoutMs: 120_000 };
const options: MountOptions = { allowPrivateNetwork: true, path: testPath };
const token = `canary-installation-token-${runId}`;
const encoded = Buffer.from(`x-access-token:${token}`).toString('base64');
const authorization = () => Promise.resolve(`Basic ${encoded}`);

async function remote(t: TestContext, files: Readonly<Record<string, FixtureFile>> = { 'a.txt': 'one\n' }) {
  const root = temporary(t);
  const repo = await GitFixture.create(join(root, 'widgets.git'));
  const first = await repo.commit(files);
  const server = await new GitServer({ root, auth: { tokens: [token] } }).start();
  t.after(() => server.stop());
  return { repo, first, server, url: server.url('widgets.git') };
}

async function box(t: TestContext, name: (typeof providers)[number] = 'process') {
  const { provider, dataDir } = await open(t, name);
  return { sandbox: await provider.create({ id: 'one' }), provider, dataDir, dir: join(dataDir, 'sandboxes/one') };
}

const request = (url: string, more: Partial<MountRequest> = {}): MountRequest => ({
  url,
  mountPath: '/workspace/widgets',
  authorization,
  ...more,
});

for (const name of providers) {
  test(`${name}: a clone is there at its path, and its credential nowhere`, async (t) => {
    const { repo, server, url } = await remote(t, { 'a.txt': 'one\n', 'bin/run': { executable: '#!/bin/sh\n' } });
    const head = await repo.commit({ 'a.txt': 'two\n' });
    let shown: string[] = [];
    server.fault = () => {
      shown = [...shown, ...commandLines(token), ...commandLines(encoded)];
      return null;
    };
    const { sandbox, dataDir } = await box(t, name);
    const author = { name: '--unset', email: 'robot@example.com' };
    const mount = await mountRepository(sandbox, request(url, { commitAuthor: author }), options);
    assert.deepEqual([mount.commit, mount.branch, mount.isMoved], [head, 'main', name === 'process']);
    assert.deepEqual(shown, []);
    assert.equal(sandbox.pathIn('/workspace/widgets/bin'), `${mount.path}/bin`);
    const { output } = await sandbox.run({
      command:
        'cat a.txt; test -x bin/run; git status --short --branch; git log --format=%s | wc -l; git config user.name; git remote get-url origin; git config -l --local | grep -ci "header\\|credential"',
      cwd: mount.path,
      ...time,
    });
    assert.deepEqual(output.trim().split('\n'), ['two', '## main...origin/main', '2', '--unset', url, '0']);
    const found = await sandbox.run({ command: ['grep', '-rla', token, dataDir], ...time });
    assert.notEqual(found.code, 0);
    assert.equal(
      (await sandbox.run({ command: `grep -rla '${encoded}' ~ ${mount.path} $TMPDIR || true`, ...time })).output,
      '',
    );
  });

  test(`${name}: a path outside of home and work is shown there where that can be done`, async (t) => {
    const { url } = await remote(t);
    const { sandbox, dir } = await box(t, name);
    const mount = await mountRepository(sandbox, request(url, { mountPath: '/data/x/' }), options);
    assert.equal(mount.path, name === 'process' ? join(dir, 'work/data/x') : '/data/x');
    assert.equal(mount.isMoved, name === 'process');
    const nested = await mountRepository(sandbox, request(url, { mountPath: '/data/x/sub/y' }), options);
    const home = await mountRepository(sandbox, request(url, { mountPath: '/home/user/src/z' }), options);
    await sandbox.makeDirectory('/data');
    for (const path of [mount.path, nested.path, home.path]) {
      assert.equal((await sandbox.run({ command: 'cat a.txt', cwd: path, ...time })).output, 'one\n', path);
    }
    assert.equal(sandbox.pathIn('/data/x/sub/y/a.txt'), `${nested.path}/a.txt`);
  });
}

test('branches, tags, full names and commits are found, a branch before a tag, and with a depth only so far', async (t) => {
  const { repo, first, url } = await remote(t);
  const second = await repo.commit({ 'a.txt': 'two\n' });
  const side = await repo.commit({ 'a.txt': 'side\n' }, { branch: 'feature/x' });
  await repo.git(['tag', '-a', '-m', 'v1', 'v1', first]);
  await repo.git(['tag', 'both', first]);
  await repo.git(['branch', 'both', second]);
  await repo.git(['update-ref', 'refs/pull/7/head', first]);
  const { sandbox } = await box(t);
  const cases: [ref: string | undefined, commit: string, branch: string | null][] = [
    [undefined, second, 'main'],
    ['HEAD', second, 'main'],
    ['feature/x', side, 'feature/x'],
    ['refs/heads/main', second, 'main'],
    ['v1', first, null],
    ['both', second, 'both'],
    ['refs/tags/both', first, null],
    ['refs/pull/7/head', first, null],
    [first, first, null],
  ];
  for (const [index, [ref, commit, branch]] of cases.entries()) {
    for (const depth of [undefined, 1]) {
      const mountPath = `/workspace/${index}-${depth}`;
      const wanted = request(url, {
        mountPath,
        ...(ref !== undefined && { ref }),
        ...(depth !== undefined && { depth }),
      });
      const mount = await mountRepository(sandbox, wanted, options);
      assert.deepEqual([mount.commit, mount.branch], [commit, branch], `${ref}`);
      const { output } = await sandbox.run({
        command: 'git rev-parse HEAD; git rev-list --count HEAD',
        cwd: mount.path,
        ...time,
      });
      const count = depth === 1 || commit === first ? '1' : commit === side ? output.split('\n')[1] : '2';
      assert.equal(output, `${commit}\n${count}\n`);
    }
  }
});

test('what does not exist, is refused or is no ref is said, and leaves nothing', async (t) => {
  const { url, server } = await remote(t);
  const { sandbox, dir } = await box(t);
  const wrong = () => Promise.resolve('Basic d3Jvbmc6d3Jvbmc=');
  const cases: [Partial<MountRequest>, string, RegExp][] = [
    [{ ref: 'nope' }, 'mount-ref', /has no branch or tag nope/],
    [{ ref: 'a'.repeat(40) }, 'mount-ref', /has no commit a{40}/],
    [{ ref: '--upload-pack=touch /tmp/x' }, 'mount-ref', /is not a ref/],
    [{ ref: 'a..b' }, 'mount-ref', /is not a ref/],
    [{ ref: 'a\nb' }, 'mount-ref', /is not a ref/],
    [{ authorization: wrong }, 'mount-refused', /refused to this credential/],
    [{ url: server.url('none.git') }, 'mount-refused', /refused to this credential, or is no repository/],
    [{ url: url.replace('//', '//user:pass@') }, 'mount-url', /no https address/],
    [{ url: 'ssh://git@example.com/a/b' }, 'mount-url', /no https address/],
    [{ url: 'ext::sh -c touch% /tmp/x' }, 'mount-url', /no https address/],
    [{ url: 'file:///etc' }, 'mount-url', /no https address/],
    [{ mountPath: 'relative' }, 'sandbox-path', /is not an absolute path/],
    [{ mountPath: '/workspace/../../etc' }, 'sandbox-path', /is not an absolute path/],
    [{ mountPath: '/etc/ssl' }, 'mount-path', /belongs to the sandbox itself/],
    [{ mountPath: '/' }, 'mount-path', /belongs to the sandbox itself/],
  ];
  for (const [more, code, message] of cases) {
    const error = await mountRepository(sandbox, request(url, more), options).then(
      () => assert.fail(JSON.stringify(more)),
      (caught: unknown) => caught as Error & { code: string },
    );
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    assert.equal(error.message.includes('d3Jvbmc'), false);
  }
  assert.equal(existsSync(join(dir, 'work/widgets')), false);
  await mountRepository(sandbox, request(url), options);
  await assert.rejects(mountRepository(sandbox, request(url), options), /another repository is mounted there/);
});

test('private networks are not reached unless that is allowed', async (t) => {
  const { url } = await remote(t);
  const { sandbox } = await box(t);
  const closed = { ...options, allowPrivateNetwork: false };
  for (const address of [
    'https://127.0.0.1/a/b',
    'https://localhost/a/b',
    'https://[::1]/a/b',
    'https://10.0.0.1/a/b',
  ]) {
    await assert.rejects(
      mountRepository(sandbox, request(address), closed),
      /is not reached .*SVC_ALLOW_PRIVATE_NETWORK/,
    );
  }
  await assert.rejects(mountRepository(sandbox, request(url), closed), /no https address/);
});

test('an answer that leads elsewhere is not followed, and the credential is not sent there', async (t) => {
  const { server, url } = await remote(t);
  const other = await new GitServer({ root: temporary(t) }).start();
  t.after(() => other.stop());
  server.fault = () => ({
    kind: 'status',
    status: 302,
    headers: { location: `${other.url('widgets.git')}/info/refs?service=git-upload-pack` },
  });
  const { sandbox } = await box(t);
  await assert.rejects(mountRepository(sandbox, request(url), options), /cannot be cloned now/);
  assert.equal(other.log.length, 0);
});

test('links, hooks, filters and submodules of a repository do nothing outside', async (t) => {
  const outside = temporary(t);
  const touch = join(outside, 'touched');
  const { url } = await remote(t, {
    up: { symlink: '../../../../outside' },
    abs: { symlink: outside },
    '.gitattributes': '* filter=evil\n*.bin filter=lfs\n',
    'x.bin': 'version https://git-lfs.github.com/spec/v1\n',
    '.gitmodules': `[submodule "s"]\n\tpath = s\n\turl = https://127.0.0.1:1/x\n`,
    s: { submodule: 'a'.repeat(40) },
    'hooks/post-checkout': { executable: `#!/bin/sh\ntouch ${touch}\n` },
  });
  const { sandbox } = await box(t);
  const mount = await mountRepository(sandbox, request(url), options);
  assert.equal(lstatSync(join(mount.path, 'abs')).isSymbolicLink(), true);
  assert.equal(readFileSync(join(mount.path, 'x.bin'), 'utf8'), 'version https://git-lfs.github.com/spec/v1\n');
  assert.equal(existsSync(touch), false);
  assert.equal(existsSync(join(mount.path, '.git/hooks')), false);
  await assert.rejects(
    mountRepository(sandbox, request(url, { mountPath: '/workspace/widgets/abs/in' }), options),
    /abs is no plain directory there/,
  );
  assert.equal(existsSync(join(outside, 'in')), false);
});

test('links that a session left do not lead a clone out', async (t) => {
  const outside = temporary(t);
  const { url } = await remote(t);
  const { sandbox, dir } = await box(t);
  await symlink(outside, join(dir, 'work/link'));
  await mkdir(join(dir, 'work/taken'));
  await writeFile(join(dir, 'work/taken/file'), '');
  for (const mountPath of ['/workspace/link/x', '/workspace/link', '/workspace/taken']) {
    await assert.rejects(
      mountRepository(sandbox, request(url, { mountPath }), options),
      /no plain directory|something else at this path/,
    );
  }
  assert.equal(existsSync(join(outside, 'x')), false);
});

test('a tree that names .git, or climbs, is refused', async (t) => {
  const { repo, url } = await remote(t);
  const blob = await repo.writeObject('blob', Buffer.from('[core]\n\tfsmonitor = touch /tmp/x\n'));
  const entry = (mode: string, name: string, id: string): Buffer =>
    Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')]);
  const config = await repo.writeObject('tree', entry('100644', 'config', blob));
  const { sandbox } = await box(t);
  for (const name of ['.git', '.GIT', '..', '.git\u200c', 'GIT~1', 'a/b']) {
    const tree = await repo.writeObject('tree', entry('40000', name, config));
    await repo.commitTree(tree, { branch: 'evil' });
    await assert.rejects(
      mountRepository(sandbox, request(url, { ref: 'evil', depth: 1, mountPath: '/workspace/evil' }), options),
      (error: Error & { code: string }) => error.code === 'mount-tree',
      name,
    );
  }
  assert.equal(existsSync(sandbox.pathIn('/workspace/evil')), false);
});

test('sizes are measured before files are written, also of a tree that repeats itself', async (t) => {
  const { repo, url } = await remote(t, { 'big.txt': 'x'.repeat(200_000) });
  const { sandbox } = await box(t);
  const limited = (more: Partial<MountOptions>, ref = 'main') =>
    mountRepository(sandbox, request(url, { ref, depth: 1, mountPath: '/workspace/big' }), { ...options, ...more });
  await assert.rejects(limited({ maxTreeBytes: 100_000 }), /more than 100000 bytes of files/);
  await assert.rejects(limited({ maxPackBytes: 100 }), /more than 100 bytes of objects/);
  await repo.commitTree(await repeatedTree(repo, 12), { branch: 'bomb' });
  await assert.rejects(limited({ maxFiles: 50_000 }, 'bomb'), /more than 50000 files/);
  assert.equal(existsSync(sandbox.pathIn('/workspace/big')), false);
});

test('a server that says nothing is left when the time is over, and nothing keeps running', async (t) => {
  const { server, url } = await remote(t);
  server.fault = () => ({ kind: 'slow', delayMs: 5_000 });
  const { sandbox } = await box(t);
  await assert.rejects(
    mountRepository(sandbox, request(url), { ...options, timeoutMs: 400 }),
    /not cloned within 0.4 s/,
  );
  assert.deepEqual(commandLines(new URL(url).host), []);
});

test('a git that is too old to keep the rules, or none, is refused', async (t) => {
  const { url, server } = await remote(t);
  const { sandbox, dataDir } = await box(t);
  const bin = join(dataDir, 'bin');
  await mkdir(bin);
  await assert.rejects(mountRepository(sandbox, request(url), { ...options, path: bin }), /no git program/);
  await writeFile(join(bin, 'git'), '#!/bin/sh\necho git version 2.30.2\n', { mode: 0o755 });
  await assert.rejects(mountRepository(sandbox, request(url), { ...options, path: bin }), /need git 2.37 .* 2.30.2/);
  assert.equal(server.log.length, 0);
});

test('mounts are remembered by a sandbox that is opened again', async (t) => {
  const { url } = await remote(t);
  const { sandbox, provider } = await box(t);
  const mount = await mountRepository(sandbox, request(url, { mountPath: '/srv/widgets' }), options);
  await sandbox.stop();
  const again = await provider.reopen('one');
  assert.equal(again?.pathIn('/srv/widgets/a.txt'), `${mount.path}/a.txt`);
});
