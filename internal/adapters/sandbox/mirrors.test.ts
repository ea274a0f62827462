import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { type FixtureFile, GitFixture } from '../../base/testkit/git-fixture.ts';
import { GitServer } from '../../base/testkit/git-server.ts';
import { Mirrors } from './mirrors.ts';
import { type MountRequest, mountRepository } from './sandbox.ts';
import { open, testPath, temporary } from './test-support.ts';

const time = { timeoutMs: 120_000 };
const tokenText = 'a-token-of-the-installation';
const authorization =
  (token = tokenText) =>
  () =>
    Promise.resolve(`Basic ${Buffer.from(`x:${token}`).toString('base64')}`);

/** A repository that is worth a mirror, its server, and sandboxes that mount it. */
async function setUp(
  t: TestContext,
  { count, ...least }: { count: number; minFiles?: number } = { count: 300, minFiles: 300 },
) {
  const root = temporary(t);
  const repo = await GitFixture.create(join(root, 'wide.git'));
  // What packs badly, so that a difference is small beside the whole.
  const text = (n: number): string => createHash('sha512').update(String(n)).digest('hex');
  const files = Object.fromEntries(Array.from({ length: count }, (_, n) => [`d${n % 50}/f${n}.txt`, `${text(n)}\n`]));
  await repo.commit(files);
  const server = await new GitServer({ root, auth: { tokens: [tokenText] } }).start();
  t.after(() => server.stop());
  const { provider, dataDir } = await open(t, 'process');
  let nowMs = Date.now();
  const troubles: unknown[] = [];
  const options = {
    keepMs: 86_400_000,
    now: () => nowMs,
    onTrouble: (error: unknown) => void troubles.push(error),
    ...least,
  };
  const kept = await Mirrors.open(dataDir, { ...options, maxBytes: 1e9 });
  t.after(() => kept.close());
  const request: MountRequest = {
    url: server.url('wide.git'),
    mountPath: '/workspace/wide',
    authorization: authorization(),
  };
  let boxes = 0;
  /** Mounts into a fresh sandbox; what it is like there, and how many bytes the server sent for it. */
  const mount = async (more: Partial<MountRequest> = {}, scope: string | null = 'a project') => {
    const sandbox = await provider.create({ id: `box${(boxes += 1)}` });
    const before = server.log.length;
    const mounted = await mountRepository(
      sandbox,
      { ...request, ...more },
      {
        allowPrivateNetwork: true,
        path: testPath,
        ...(scope !== null && { mirrors: { kept, scope } }),
      },
    );
    const { output } = await sandbox.run({
      command:
        'git status --short --branch; git for-each-ref --format="%(refname) %(objectname)"; git ls-files -s | git hash-object --stdin; git config remote.origin.url; git fsck --connectivity-only 2>&1 | grep -v "^dangling\\|^notice" ; cat .git/shallow 2>/dev/null; find . -path ./.git -prune -o -type f -print | wc -l',
      cwd: mounted.path,
      ...time,
    });
    await kept.idle();
    const sent = server.log.slice(before).reduce((sum, { bytesDown }) => sum + bytesDown, 0);
    return { mounted, output, sent, sandbox, path: mounted.path };
  };
  const mirrors = (): string[] => readdirSync(join(dataDir, 'mirrors'));
  const clock = { later: (ms: number) => void (nowMs += ms) };
  const mirrorDir = (): string => join(dataDir, 'mirrors', mirrors()[0] ?? '');
  return { repo, server, mount, mirrors, mirrorDir, dataDir, troubles, clock, options, kept, request };
}

for (const [count, kept] of [
  [1_999, 0],
  [2_000, 1],
] as const)
  test(`of ${count} files ${kept} mirrors are kept`, async (t) => {
    const { mount, mirrors, troubles } = await setUp(t, { count });
    await mount();
    assert.deepEqual([mirrors().length, troubles], [kept, []]);
  });

test('a large repository is fetched by difference, and what is mounted is what a clone is', async (t) => {
  const { repo, mount, mirrors, dataDir, troubles } = await setUp(t);
  const first = await mount();
  assert.equal(mirrors().length, 1);
  const mirror = join(dataDir, 'mirrors', mirrors()[0] ?? '');
  const spares = () => readdirSync(mirror).filter((name) => name.startsWith('spare-'));
  assert.deepEqual(spares(), [`spare-${first.mounted.commit}`]);
  const secondOf = (file: string): number =>
    Math.floor(statSync(join(mirror, spares()[0] ?? '', file)).mtimeMs / 1_000);
  assert.ok(secondOf('.git/index') > secondOf('d49/f299.txt'), 'git need not read again what it wrote last');
  const second = await mount();
  assert.deepEqual([second.output, second.mounted.commit], [first.output, first.mounted.commit]);
  assert.ok(second.sent < first.sent / 10, `${second.sent} of ${first.sent} bytes`);
  assert.deepEqual(spares(), [`spare-${first.mounted.commit}`], 'another one is ready');
  // A branch comes, one goes, files change, come and go.
  await repo.git(['branch', 'short-lived']);
  await repo.commit({ 'd1/f1.txt': 'changed\n', 'new.txt': 'new\n', 'd2/f2.txt': null });
  const [third, plain] = [await mount(), await mount({}, null)];
  assert.equal(third.output, plain.output);
  assert.match(third.output, /refs\/remotes\/origin\/short-lived/);
  await repo.git(['branch', '-D', 'short-lived']);
  await repo.git(['branch', 'other', 'main~1']);
  await repo.git(['tag', 'v1', 'main~1']);
  for (const ref of ['v1', 'other', first.mounted.commit]) {
    const [ours, cloned] = [await mount({ ref }), await mount({ ref }, null)];
    assert.deepEqual([ours.output, ours.mounted], [cloned.output, { ...cloned.mounted, path: ours.path }], ref);
  }
  assert.deepEqual(troubles, []);
});

const written = 'how files are written';
const hundred = (text: (n: number) => string, count = 100): Readonly<Record<string, string>> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`many/${n}`, `${text(n)}\n`]));
const pushes: readonly (readonly [what: string, files: Readonly<Record<string, FixtureFile>>])[] = [
  [
    'files come, one changes, one goes; paths in letters of others, like a pattern, like magic',
    {
      ...{ 'new/deep/a.txt': 'a\n', 'd1/f1.txt': 'changed\n', 'd2/f2.txt': null },
      ...{ 'ä\n/ß*.txt': 'x\n', ':(top)y': 'y\n', '*': 'z\n' },
    },
  ],
  [
    'one that reads as a pattern goes and takes nobody along; a mode; links that lead out; a directory goes',
    {
      ...{ '*': null, ':(top)y': null, 'd1/f1.txt': { executable: 'x\n' }, 'd3/f3.txt': { symlink: '../../out' } },
      ...{ way: { symlink: '/tmp' }, new: null },
    },
  ],
  ['a link becomes a file', { 'd3/f3.txt': 'no link\n' }],
  [
    'a directory at the place of a link, and another repository',
    {
      ...{ way: null, 'way/in.txt': 'in\n', module: { submodule: 'b'.repeat(40) } },
    },
  ],
  ['a file at the place of a directory, and no other repository', { way: 'a file\n', module: null }],
  [written, { 'd4/.gitattributes': '*.txt eol=crlf\n', 'd4/f4.txt': 'a\nb\n' }],
  ['a hundred, one of which is written so', { ...hundred(String, 99), 'd4/f54.txt': 'c\nd\n' }],
  ['a hundred and one', hundred((n) => `now ${n}`, 101)],
];
test('what a push changes is written over the spare as a clone has it', async (t) => {
  const { repo, mount, mirrorDir, troubles } = await setUp(t);
  await mount();
  const look = async ({ sandbox, path }: Awaited<ReturnType<typeof mount>>): Promise<string> => {
    const command =
      'git diff-files; git status --short; git ls-files -s; find . -path ./.git -prune -o -printf "%p %y %m %l\\n" | sort; find . -path ./.git -prune -o -type f -exec sha1sum {} + | sort; git config --list --local | sort';
    return (await sandbox.run({ command, cwd: path, ...time })).output;
  };
  for (const [what, files] of pushes) {
    const before = readdirSync(mirrorDir()).find((name) => name.startsWith('spare-')) ?? '';
    const { ino } = statSync(join(mirrorDir(), before, 'd5/f5.txt'));
    await repo.commit(files);
    const [ours, cloned] = [await mount(), await mount({}, null)];
    const [is, asked] = [await look(ours), await look(cloned)].map((said) => new Set(said.split('\n')));
    assert.deepEqual([...(is?.symmetricDifference(asked ?? new Set()) ?? [])], [], what);
    if (what !== written)
      assert.equal(statSync(join(ours.path, 'd5/f5.txt')).ino, ino, `${what}: others are left alone`);
  }
  assert.deepEqual(troubles, []);
});

test('the size of a tree that was not written to its end is none', async (t) => {
  const { repo, mount, mirrorDir } = await setUp(t);
  await mount();
  const size = (): string | undefined => readFileSync(join(mirrorDir(), 'measured'), 'utf8').split('\n')[1];
  assert.match(size() ?? '', /^300 \d+$/);
  const bytes = Number(size()?.slice(4));
  truncateSync(join(mirrorDir(), 'measured'), statSync(join(mirrorDir(), 'measured')).size - 3);
  await repo.commit({ 'new.txt': '12345' });
  await mount();
  assert.equal(size(), `301 ${bytes + 5}`);
});

test('a mirror lets nobody in: not another project, not without the right, and nobody writes into it', async (t) => {
  const { mount, mirrors, dataDir } = await setUp(t);
  const first = await mount();
  const other = await mount({}, 'another project');
  assert.ok(other.sent > first.sent / 2, 'another project fetches for itself');
  assert.equal(mirrors().length, 2);
  await assert.rejects(mount({ authorization: authorization('revoked') }), { code: 'mount-refused' });
  // A session may write into whatever it has been given.
  const own = join(first.path, '.git/objects/pack');
  for (const name of readdirSync(own)) {
    await chmod(join(own, name), 0o600);
    writeFileSync(join(own, name), 'spoiled');
  }
  const next = await mount();
  assert.equal(next.output, first.output);
  for (const name of mirrors()) assert.equal(statSync(join(dataDir, 'mirrors', name)).mode & 0o077, 0, name);
  assert.equal(statSync(join(dataDir, 'mirrors')).mode & 0o077, 0);
});

test('a shallow mount stays shallow, and goes on from the mirror of its ref', async (t) => {
  const { repo, mount } = await setUp(t);
  await repo.commit({ 'x.txt': 'x\n' });
  const first = await mount({ depth: 1 });
  assert.match(first.output, /^[0-9a-f]{40}$/m);
  await repo.commit({ 'y.txt': 'y\n' });
  const [ours, plain] = [await mount({ depth: 1 }), await mount({ depth: 1 }, null)];
  // Where history is cut: a clone of now knows one such place, the mirror earlier ones too.
  const own = (text: string): string => text.replaceAll(/^[0-9a-f]{40}\n/gm, '');
  assert.equal(own(ours.output), own(plain.output));
  assert.ok(ours.sent < plain.sent / 10, `${ours.sent} of ${plain.sent} bytes`);
});

test('a mirror that is broken, too old or too much goes, and mounts go on', async (t) => {
  const { mount, mirrors, dataDir, clock, options } = await setUp(t);
  const first = await mount();
  const mirror = join(dataDir, 'mirrors', mirrors()[0] ?? '');
  const packs = join(mirror, 'bare/objects/pack');
  for (const name of readdirSync(packs)) {
    await chmod(join(packs, name), 0o600);
    truncateSync(join(packs, name), 100);
  }
  const second = await mount();
  assert.equal(second.output, first.output);
  assert.ok(second.sent > first.sent / 2, 'it was cloned afresh');
  assert.equal((await mount()).output, first.output);
  // What a daemon that was killed left half done.
  const left = readFileSync(join(dataDir, 'mirrors', mirrors()[0] ?? '', 'size'), 'utf8');
  assert.ok(Number(left) > 0);
  clock.later(2 * 86_400_000);
  await Mirrors.open(dataDir, { ...options, maxBytes: 1e9 });
  assert.deepEqual(mirrors(), []);
  assert.equal((await mount()).output, first.output);
  assert.equal(mirrors().length, 1);
  await Mirrors.open(dataDir, { ...options, maxBytes: Number(left) - 1 });
  assert.deepEqual(mirrors(), []);
});

test('a spare is taken by who comes while it is made, and not by who comes after the machine has begun anew', async (t) => {
  const { repo, mount, mirrorDir, kept, request, options, dataDir, troubles } = await setUp(t);
  const first = await mount();
  const spare = join(mirrorDir(), `spare-${first.mounted.commit}`);
  const file = 'd1/f1.txt';
  rmSync(spare, { recursive: true });
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  let made = 0;
  kept.prepare(kept.of({ scope: 'a project', url: request.url }), async (cwd, args) => {
    const isLast = args[0] === 'reset';
    if (isLast) begun.resolve();
    if (isLast) await gate.promise;
    const output = execFileSync('git', args, { cwd, encoding: 'utf8' });
    if (isLast) made = statSync(join(cwd, file)).ino;
    return output;
  });
  await begun.promise;
  const coming = mount();
  gate.resolve();
  const second = await coming;
  assert.deepEqual([statSync(join(second.path, file)).ino, second.output], [made, first.output]);
  // Only what a push has changed is written anew.
  const { ino } = statSync(join(spare, file));
  await repo.commit({ 'd2/f2.txt': 'changed\n', 'd3/f3.txt': null, 'more/new.txt': 'new\n' });
  const [third, plain] = [await mount(), await mount({}, null)];
  assert.deepEqual([statSync(join(third.path, file)).ino, third.output], [ino, plain.output]);
  assert.equal(readFileSync(join(third.path, 'd2/f2.txt'), 'utf8'), 'changed\n');
  // Of a run of the machine that is over, files may be empty that the index calls right.
  const old = readdirSync(mirrorDir()).find((name) => name.startsWith('spare-')) ?? '';
  writeFileSync(join(mirrorDir(), 'boot'), 'an earlier run');
  truncateSync(join(mirrorDir(), old, file), 0);
  mkdirSync(join(mirrorDir(), 'making-0a1b2c3d'));
  assert.equal((await mount()).output, plain.output);
  await Mirrors.open(dataDir, { ...options, maxBytes: 1e9 });
  assert.deepEqual(
    readdirSync(mirrorDir()).filter((name) => name.startsWith('making-')),
    [],
  );
  assert.deepEqual(troubles, []);
});

test('a mirror whose objects have rotted is cloned afresh', async (t) => {
  const { mount, mirrorDir } = await setUp(t);
  const first = await mount();
  const mirror = mirrorDir();
  rmSync(join(mirror, `spare-${first.mounted.commit}`), { recursive: true });
  const packs = join(mirror, 'bare/objects/pack');
  const pack = readdirSync(packs).find((name) => name.endsWith('.pack')) ?? '';
  await chmod(join(packs, pack), 0o600);
  const bytes = readFileSync(join(packs, pack));
  // The beginning holds the newest commit, and the fetch reads no more.
  bytes.fill(0xff, bytes.length >> 1);
  writeFileSync(join(packs, pack), bytes);
  const second = await mount();
  assert.deepEqual([second.output, second.sent > first.sent / 2], [first.output, true]);
  assert.equal((await mount()).output, first.output);
});
