import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test, type TestContext } from 'node:test';
import type { EnvironmentSpec } from '../../domain/spec.ts';
import { buildImage, runSetup, type Sandbox, SetupCache, SetupFailed, type StepReport } from './sandbox.ts';
import { runId, commandLines, open, providers, temporary } from './test-support.ts';

const time = { timeoutMs: 120_000 };
const nowTable = new Date('2026-01-02T03:04:05Z');
const later = (seconds: number): Date => new Date(nowTable.getTime() + seconds * 1000);

async function house(t: TestContext, name: (typeof providers)[number] = 'process') {
  const { provider, dataDir } = await open(t, name);
  const cache = await SetupCache.open(dataDir);
  let count = 0;
  const fresh = (): Promise<Sandbox> => provider.create({ id: `s${count++}` });
  const run = async (
    sandbox: Sandbox,
    setup: EnvironmentSpec['setup'],
    more: { now?: Date; ttl?: string; scope?: string; clones?: string[] } = {},
  ) => {
    const steps: StepReport[] = [];
    const { now = nowTable, ttl, scope = 'project', clones = [] } = more;
    await runSetup(sandbox, {
      cache,
      scope,
      now,
      setup,
      clones,
      onStep: (step) => steps.push(step),
      ...(ttl !== undefined && { setupCache: { ttl } }),
    });
    return steps.map((step) => step.cache).join(' ');
  };
  return { fresh, run, cache, dataDir, dir: join(dataDir, 'setup-cache') };
}

const said = async (sandbox: Sandbox, command: string) => (await sandbox.run({ command, ...time })).output.trim();
const install = {
  name: 'install',
  commands: [
    'mkdir -p ~/.cache/x && date +%N > ~/.cache/x/stamp',
    'ln -s /etc/passwd ~/.cache/x/link; chmod 755 ~/.cache/x/stamp',
  ],
  cache: { key: 'deps', files: ['lock.json'], paths: ['/home/user/.cache/x', '/home/user/absent'] },
};

for (const name of providers) {
  test(`${name}: steps run in order, in the working directory, with the environment`, async (t) => {
    const { fresh, cache } = await house(t, name);
    const sandbox = await fresh();
    await said(sandbox, 'mkdir sub');
    await runSetup(sandbox, {
      cache,
      scope: 'p',
      now: nowTable,
      env: { WHO: 'me' },
      workingDirectory: '/workspace/sub',
      setup: [
        { name: 'a', commands: ['echo "$WHO 1" >> log', 'echo 2 >> log'] },
        { name: 'b', commands: ['echo 3 >> log; pwd >> log'] },
      ],
    });
    assert.equal(await said(sandbox, 'cat sub/log'), `me 1\n2\n3\n${sandbox.workDir}/sub`);
  });

  test(`${name}: what a step kept is put back in the next sandbox, and the step is not run`, async (t) => {
    const { fresh, run } = await house(t, name);
    const [first, second] = [await fresh(), await fresh()];
    assert.equal(await run(first, [install], { ttl: '24h' }), 'miss');
    assert.equal(await run(second, [install], { ttl: '24h', now: later(86_400) }), 'hit');
    const show = 'cat ~/.cache/x/stamp; stat -c %a ~/.cache/x/stamp; readlink ~/.cache/x/link';
    const made = await said(first, show);
    assert.match(made, /^\d+\n755\n\/etc\/passwd$/);
    assert.equal(await said(second, show), made);
  });
}

test('another key, command, file, scope or an age past the ttl is a miss', async (t) => {
  const { fresh, run } = await house(t);
  const sandbox = await fresh();
  const seen = async (step: EnvironmentSpec['setup'][number], more: Parameters<typeof run>[2] = {}) => {
    await said(sandbox, 'rm -rf ~/.cache');
    return run(sandbox, [step], more);
  };
  assert.equal(await seen(install), 'miss');
  assert.equal(await seen(install), 'hit');
  assert.equal(await seen(install, { ttl: '59s', now: later(60) }), 'miss');
  assert.equal(await seen(install, { ttl: '1m', now: later(120) }), 'hit');
  assert.equal(await seen(install, { scope: 'other' }), 'miss');
  assert.equal(await seen({ ...install, cache: { ...install.cache, key: 'other' } }), 'miss');
  assert.equal(await seen({ ...install, commands: [...install.commands, 'true'] }), 'miss');
  await said(sandbox, 'echo 1 > lock.json');
  assert.equal(await seen(install), 'miss');
  await said(sandbox, 'echo 2 > lock.json');
  assert.equal(await seen(install), 'miss');
  await said(sandbox, 'rm lock.json; mkdir lock.json; echo 1 > lock.json/a');
  assert.equal(await seen(install), 'miss');
  assert.equal(await seen(install), 'hit');
});

test('a step without a cache always runs', async (t) => {
  const { fresh, run } = await house(t);
  const sandbox = await fresh();
  const step = { name: 'a', commands: ['echo x >> log'] };
  assert.equal(await run(sandbox, [step, step]), 'none none');
  assert.equal(await said(sandbox, 'cat log'), 'x\nx');
});

for (const name of providers) {
  test(`${name}: of a cache without paths, what the step changed in home and work is put back`, async (t) => {
    const { fresh, run } = await house(t, name);
    const [first, second] = [await fresh(), await fresh()];
    for (const sandbox of [first, second])
      await said(sandbox, 'mkdir -p repo; echo old > repo/kept; echo 1 > lock.json');
    const commands = ['mkdir -p repo/modules ~/.tool/empty; echo made > repo/modules/a; echo new > ~/.tool/b'];
    const step = { name: 'install', commands: [...commands, 'ln -s b ~/.tool/c'], cache: { files: ['lock.json'] } };
    assert.equal(await run(first, [step], { ttl: '24h' }), 'miss');
    await said(second, 'echo mine > repo/kept');
    assert.equal(await run(second, [step], { ttl: '24h' }), 'hit');
    const show = 'cat repo/modules/a ~/.tool/c repo/kept; ls -A ~/.tool; ls -A ~ . | grep svc-step';
    assert.equal(await said(second, `${show} || true`), 'made\nnew\nmine\nb\nc\nempty');
    await said(second, 'echo 2 > lock.json');
    await assert.rejects(run(second, [step], { ttl: '24h' }), /ln/);
  });
}

const commit = 'git -c user.name=a -c user.email=a@b commit -q';
test('a clone stands where its session has it, whatever a step did to that of another session', async (t) => {
  const { fresh, run } = await house(t);
  const [first, second] = [await fresh(), await fresh()];
  const clone = `git init -q 'r[1]' && cd 'r[1]' && echo 1 > a && git add a && ${commit} -m one && echo 1 > lock.json`;
  for (const sandbox of [first, second]) await said(sandbox, clone);
  await said(second, `cd 'r[1]' && echo 2 > b && git add b && ${commit} -m two`);
  const commands = [
    "cd 'r[1]' && git config core.hooksPath .husky && mkdir .husky && touch a && git status >/dev/null",
    `cd 'r[1]' && git checkout -q -b side && ${commit} --allow-empty -m made && git pack-refs --all && touch .git/FETCH_HEAD`,
    `git init -q own && cd own && touch x && git add x && ${commit} -m own`,
  ];
  const step = { name: 'install', commands, cache: { key: 'k' } };
  const clones = ['/workspace/r[1]'];
  assert.equal(await run(first, [step], { clones }), 'miss');
  // Where find and tar are small ones.
  const program = join(import.meta.dirname, 'pack-changed.cjs');
  const pack = `node -e "$(cat '${program}')" ./.svc-step '["./r[1]/.git"]' | tar -t`;
  const change = `touch .svc-step; sleep 0.05; find 'r[1]' own -exec touch {} +`;
  const packed = (await said(first, `${change}; ${pack}`)).split('\n');
  assert.ok(packed.includes('./r[1]/.git/config') && packed.includes('./own/.git/index'), packed.join());
  assert.deepEqual(
    packed.filter((path) => /^\.\/r\[1\]\/\.git\/(\w*HEAD|index|packed-refs|refs|logs)/.test(path)),
    [],
  );
  assert.equal(await run(second, [step], { clones }), 'hit');
  const show =
    "cd 'r[1]' && git status --porcelain; git log --format=%s; git config core.hooksPath; ls .git/*_HEAD; git branch";
  assert.match(await said(second, `(${show}) 2>/dev/null`), /^\?\? lock.json\ntwo\none\n.husky\n\* \w+$/);
  assert.equal(await said(second, 'cd own && git log --format=%s && git status --porcelain'), 'own');
});

test('an archive that is damaged, cut, a link or a directory is a miss and is replaced', async (t) => {
  const { fresh, run, dir, dataDir } = await house(t);
  const sandbox = await fresh();
  await run(sandbox, [install]);
  const [name = ''] = await readdir(dir);
  const path = join(dir, name);
  const whole = await readFile(path);
  const flipped = Buffer.from(whole);
  flipped[whole.length >> 1] = (flipped[whole.length >> 1] ?? 0) ^ 1;
  const precious = join(dataDir, 'precious');
  await writeFile(precious, whole);
  for (const spoil of [
    () => writeFile(path, flipped),
    () => truncate(path, whole.length - 1),
    () => truncate(path, 10),
    () => writeFile(path, ''),
    () => writeFile(path, 'x'.repeat(1000)),
    () => rm(path).then(() => symlink(precious, path)),
    () => rm(path).then(() => mkdir(path)),
  ]) {
    await spoil();
    await said(sandbox, 'rm -rf ~/.cache');
    assert.equal(await run(sandbox, [install]), 'miss');
    await said(sandbox, 'rm -rf ~/.cache');
    assert.equal(await run(sandbox, [install]), 'hit');
  }
  assert.deepEqual(await readFile(precious), whole);
  assert.equal((await stat(dir)).mode & 0o777, 0o700);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
});

test('an archive that cannot be unpacked is a miss: the step runs', async (t) => {
  const { fresh, run, cache, dir } = await house(t);
  const sandbox = await fresh();
  await run(sandbox, [install]);
  const [key = ''] = await readdir(dir);
  await cache.save(key, nowTable, Readable.from([Buffer.from('no archive at all')]));
  assert.equal(await run(sandbox, [install]), 'miss');
  assert.equal(await run(sandbox, [install]), 'hit');
});

test('of many that start together one runs the step and the others find it', async (t) => {
  const { fresh, run } = await house(t);
  const sandboxes = [await fresh(), await fresh(), await fresh()];
  const seen = await Promise.all(sandboxes.map((sandbox) => run(sandbox, [install])));
  assert.deepEqual(seen.sort(), ['hit', 'hit', 'miss']);
});

test('writers of one key in two daemons leave one whole archive', async (t) => {
  const dataDir = temporary(t);
  const caches = [await SetupCache.open(dataDir), await SetupCache.open(dataDir)];
  const key = 'a'.repeat(64);
  const body = (letter: string) => Readable.from(Array.from({ length: 50 }, () => Buffer.alloc(10_000, letter)));
  await Promise.all(caches.map((cache, index) => cache.save(key, nowTable, body(String(index)))));
  const read: Buffer[] = [];
  assert.equal(
    await caches[0]?.restore(key, { now: nowTable, ttlMs: null }, async (archive) => {
      for await (const chunk of archive as AsyncIterable<Buffer>) read.push(chunk);
      return true;
    }),
    true,
  );
  const [first] = Buffer.concat(read);
  assert.ok(Buffer.concat(read).equals(Buffer.alloc(500_000, first)));
  assert.deepEqual(await readdir(join(dataDir, 'setup-cache')), [key]);
});

test('an archive that is too large is not kept, and of all the longest unused go', async (t) => {
  const dataDir = temporary(t);
  const cache = await SetupCache.open(dataDir, { maxEntryBytes: 1000, maxTotalBytes: 3000 });
  const bytes = (count: number) => Readable.from([Buffer.alloc(count)]);
  const keys = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(64));
  assert.equal(await cache.save(keys[0] as string, nowTable, bytes(1001)), false);
  for (const [index, key] of keys.entries()) assert.equal(await cache.save(key, later(index), bytes(900)), true);
  assert.deepEqual((await readdir(join(dataDir, 'setup-cache'))).sort(), keys.slice(2));
});

test('a command that fails says which it was and what it printed last, without secrets', async (t) => {
  const { fresh, cache } = await house(t);
  const sandbox = await fresh();
  const setup = [
    { name: 'fine', commands: ['true'] },
    { name: 'broken', commands: ['true', 'seq 1 50; echo "token $TOKEN"; exit 3', 'touch never'] },
  ];
  const request = { cache, scope: 'p', now: nowTable, env: { TOKEN: 'canary-value' }, masked: ['canary-value'] };
  const error = await runSetup(sandbox, { ...request, setup }).then(
    () => assert.fail('it failed'),
    (caught: unknown) => caught,
  );
  assert.ok(error instanceof SetupFailed);
  assert.deepEqual([error.step, error.command, error.exitCode, error.kind], ['broken', 2, 3, 'unprocessable']);
  assert.equal(error.output.split('\n').length, 20);
  assert.match(error.message, /^Setup step broken: command 2 of 3 ended with exit code 3: 32\n[^]*\n50\ntoken \*\*\*$/);
  assert.equal(await said(sandbox, 'ls'), '');
  await assert.rejects(
    runSetup(sandbox, { ...request, setup: [{ name: 'slow', commands: [`sleep 305.25${runId}`] }], timeoutMs: 200 }),
    /Setup step slow: command 1 of 1 took too long and was ended: it printed nothing/,
  );
  const stop = AbortSignal.timeout(200);
  await assert.rejects(
    runSetup(sandbox, { ...request, setup: [{ name: 'slow', commands: [`sleep 305.25${runId}`] }], signal: stop }),
    (caught) => caught === stop.reason,
  );
  assert.deepEqual(commandLines(`305.25${runId}`), []);
});

test('a step that fails is not kept', async (t) => {
  const { fresh, run, dir } = await house(t);
  const step = { ...install, commands: [...install.commands, 'false'] };
  await assert.rejects(run(await fresh(), [step]), SetupFailed);
  assert.deepEqual(await readdir(dir), []);
});

test('build steps run once for each content, and what they made in HOME comes back', async (t) => {
  const { fresh, cache } = await house(t);
  const seen: string[] = [];
  const build = async (steps: string[], image = 'base') => {
    const sandbox = await fresh();
    const onStep = (step: StepReport) => void seen.push(step.cache);
    await buildImage(sandbox, { cache, scope: 'p', now: nowTable, image, steps, env: { A: '1' }, onStep });
    return said(sandbox, 'cat ~/made');
  };
  const first = await build(['date +%N > ~/made']);
  assert.equal(await build(['date +%N > ~/made']), first);
  assert.notEqual(await build(['date +%N > ~/made', 'true']), first);
  assert.notEqual(await build(['date +%N > ~/made'], 'other'), first);
  assert.deepEqual(seen, ['miss', 'hit', 'miss', 'miss']);
  await assert.rejects(build(['exit 4']), /Setup step image: command 1 of 1 ended with exit code 4/);
  const empty = await fresh();
  await buildImage(empty, { cache, scope: 'p', now: nowTable, image: 'base', steps: [] });
  assert.equal(existsSync(join(empty.home, 'made')), false);
});

test('a kept archive cannot leave HOME', async (t) => {
  const { fresh, run } = await house(t);
  const outside = temporary(t);
  const step = {
    name: 'a',
    commands: [`mkdir -p ~/kept && ln -s ${outside} ~/kept/out`, 'true'],
    cache: { paths: ['/home/user/kept'] },
  };
  await run(await fresh(), [step]);
  const next = await fresh();
  assert.equal(await run(next, [step]), 'hit');
  assert.equal(await said(next, 'readlink ~/kept/out'), outside);
  assert.deepEqual(await readdir(outside), []);
  await assert.rejects(run(next, [{ ...step, cache: { paths: ['/etc'] } }]), /is not under \/home\/user/);
});
