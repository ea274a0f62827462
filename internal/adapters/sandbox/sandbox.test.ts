import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openSandboxes } from './sandbox.ts';
import {
  runId,
  bubblewrap,
  commandLines,
  environments,
  eventually,
  open,
  testPath,
  providers,
  temporary,
} from './test-support.ts';

const time = { timeoutMs: 120_000 };

test('auto is bubblewrap where it works, and else process, which says why', async (t) => {
  const { facts } = await openSandboxes({ dataDir: temporary(t), sandbox: 'auto', host: { PATH: testPath } });
  if (bubblewrap.works) {
    assert.equal(facts.inUse, 'bubblewrap');
    assert.match(facts.why, /bubblewrap .* works here/);
  } else {
    assert.equal(facts.inUse, 'process');
    assert.match(facts.why, /bubblewrap is .*; nothing is isolated/);
  }
});

test('where bubblewrap is missing, auto falls back and bubblewrap by name is refused, both saying why', async (t) => {
  const settings = { dataDir: temporary(t), host: { PATH: '/nonexistent' } };
  const { facts } = await openSandboxes({ ...settings, sandbox: 'auto' });
  assert.equal(facts.inUse, 'process');
  assert.match(facts.why, /not installed/);
  assert.equal(facts.capabilities.isolation, 'none');
  await assert.rejects(openSandboxes({ ...settings, sandbox: 'bubblewrap' }), /SVC_SANDBOX=bubblewrap.*not installed/);
});

test('a bubblewrap that is there and does not work is not used', async (t) => {
  const dataDir = temporary(t);
  const bin = join(dataDir, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'bwrap'), '#!/bin/sh\necho "bwrap: No permissions to create new namespace" >&2\nexit 1\n', {
    mode: 0o755,
  });
  const { facts } = await openSandboxes({ dataDir, sandbox: 'auto', host: { PATH: `${bin}:${testPath}` } });
  assert.equal(facts.inUse, 'process');
  assert.match(facts.why, /cannot make namespaces here: bwrap: No permissions to create new namespace/);
});

for (const name of providers) {
  test(`${name}: a program gets its environment, and no argument list or file shows it`, async (t) => {
    const { provider, dataDir } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const secret = `canary-${runId}-${'x'.repeat(24)}`;
    const child = await sandbox.spawn({
      argv: ['/bin/sh', '-c', 'echo "$TOKEN $HOME $PWD"; cat'],
      env: { TOKEN: secret, HOME: '/elsewhere' },
    });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    assert.equal(line.toString(), `${secret} ${sandbox.home} ${sandbox.workDir}\n`);
    assert.deepEqual(commandLines(secret), []);
    assert.deepEqual(commandLines(dataDir), []);
    const files = await sandbox.run({ command: ['grep', '-r', secret, dataDir], ...time });
    assert.notEqual(files.code, 0);
    child.stdin.end();
    assert.deepEqual(await child.exited, { code: 0, signal: null });
  });

  test(`${name}: nothing of the daemon's own environment is inherited`, async (t) => {
    const { provider } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const { output } = await sandbox.run({ command: 'env', env: { MINE: '1' }, ...time });
    const names = output.split('\n').map((line) => line.split('=')[0]);
    const allowed = ['HOME', 'LANG', 'LOGNAME', 'MINE', 'PATH', 'PWD', 'SHELL', 'SVC_SANDBOX_ID', 'TMPDIR', 'USER'];
    assert.deepEqual(
      names.filter(
        (found) => found !== '' && found !== undefined && !allowed.includes(found) && !/^(_|SHLVL|OLDPWD)$/.test(found),
      ),
      [],
    );
    assert.ok(names.includes('MINE'));
  });

  test(`${name}: a detached grandchild dies with the program that was killed`, async (t) => {
    const { provider } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const mark = `sleep-${name}-detached-${runId}`;
    const child = await sandbox.spawn({
      argv: ['/bin/sh', '-c', `(setsid sh -c 'sleep 300' </dev/null >/dev/null 2>&1 &) ; echo up; exec sleep 300`],
      env: { MARK: mark },
    });
    await once(child.stdout, 'data');
    await child.kill();
    assert.equal((await child.exited).signal, 'SIGKILL');
    assert.deepEqual(environments(mark), []);
  });

  test(`${name}: what a program leaves behind ends with it, even without an environment`, async (t) => {
    const { provider } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const child = await sandbox.spawn({
      argv: [
        '/bin/sh',
        '-c',
        `env -i sleep 301.25${runId} </dev/null >/dev/null 2>&1 & setsid sleep 302.25${runId} & echo up`,
      ],
    });
    await child.exited;
    assert.deepEqual(commandLines(`301.25${runId}`), []);
    assert.deepEqual(commandLines(`302.25${runId}`), []);
  });

  test(`${name}: what a program said is there for whoever reads it after its end`, async (t) => {
    const { provider } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const child = await sandbox.spawn({ argv: ['/bin/sh', '-c', 'echo out; echo err >&2'] });
    await child.exited;
    await sleep(50);
    assert.equal((await child.stdout.toArray()).join(''), 'out\n');
    assert.equal((await child.stderr.toArray()).join(''), 'err\n');
  });

  test(`${name}: a command that runs too long is ended with all it started`, async (t) => {
    const { provider } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const result = await sandbox.run({
      command: `echo begun; sleep 303.25${runId} & sleep 303.25${runId}`,
      timeoutMs: 4_000,
    });
    assert.equal(result.timedOut, true);
    assert.equal(result.output, 'begun\n');
    assert.deepEqual(commandLines(`303.25${runId}`), []);
  });

  test(`${name}: output is the last of it, and values are masked`, async (t) => {
    const { provider } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const long = await sandbox.run({ command: 'yes 0123456789 | head -c 3000000; echo the end', ...time });
    assert.equal(long.code, 0);
    assert.ok(long.output.length <= 16 * 1024 && long.output.endsWith('the end\n'));
    const said = await sandbox.run({
      command: 'echo "$A" >&2',
      env: { A: 'sesame-open' },
      masked: ['sesame-open'],
      ...time,
    });
    assert.equal(said.output, '***\n');
  });

  test(`${name}: files are kept when it is opened again and gone when it is destroyed`, async (t) => {
    const { provider, dataDir } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    await sandbox.writeFile('/home/user/.config/a.json', '{"a":1}', 0o640);
    const starting = sandbox.spawn({ argv: ['sleep', `306.25${runId}`] });
    await sandbox.stop();
    await (await starting).exited;
    assert.deepEqual(commandLines(`306.25${runId}`), []);
    await assert.rejects(sandbox.spawn({ argv: ['true'] }), /was stopped: open it again/);
    const later = await open(t, name, dataDir);
    const again = await later.provider.reopen('one');
    assert.ok(again);
    const { output } = await again.run({ command: 'cat ~/.config/a.json; stat -c %a ~/.config/a.json', ...time });
    assert.equal(output, '{"a":1}640\n');
    await again.destroy();
    assert.equal(existsSync(join(dataDir, 'sandboxes', 'one')), false);
    assert.equal(await later.provider.reopen('one'), null);
  });

  test(`${name}: a declared directory is made where it can be shown, and none of the host's`, async (t) => {
    const { provider, dataDir } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    for (const path of [
      '/workspace/a/b',
      '/home/user/c',
      `/svc-declared-${runId}/d`,
      `/svc-declared-${runId}/d/e`,
      '/tmp/f',
      'below/work',
    ]) {
      const cwd = await sandbox.makeDirectory(path);
      assert.equal(cwd, sandbox.pathIn(path));
      assert.equal((await sandbox.run({ command: 'touch x && pwd', cwd, ...time })).output, `${cwd}\n`);
      const absolute = path.startsWith('/') ? path : `/workspace/${path}`;
      assert.ok(name === 'bubblewrap' ? cwd === absolute : cwd.startsWith(dataDir));
    }
    assert.equal(existsSync(`/svc-declared-${runId}`), false);
    for (const path of ['/', '/usr']) {
      const cwd = await sandbox.makeDirectory(path);
      assert.equal((await sandbox.run({ command: 'pwd', cwd, ...time })).output, `${cwd}\n`);
      if (name === 'bubblewrap') assert.equal(cwd, path);
    }
    await assert.rejects(sandbox.makeDirectory('../out'), /is not an absolute path without \.\./);
    if (name === 'bubblewrap') await assert.rejects(sandbox.makeDirectory('/usr/x'), /belongs to the sandbox itself/);
  });

  test(`${name}: directories are the owner's alone`, async (t) => {
    const { provider, dataDir } = await open(t, name);
    await provider.create({ id: 'one' });
    for (const path of ['.', 'one', 'one/home', 'one/run']) {
      assert.equal(statSync(join(dataDir, 'sandboxes', path)).mode & 0o777, 0o700, path);
    }
  });

  test(`${name}: a new start ends and removes what nobody owns, and nothing of another data directory`, async (t) => {
    const [mine, other] = [await open(t, name), await open(t, name)];
    for (const [id, { provider }] of [
      ['kept', mine],
      ['lost', mine],
      ['lost', other],
    ] as const) {
      const sandbox = await provider.create({ id });
      await sandbox.spawn({
        argv: ['sleep', `304.25${runId}`],
        env: { WHOSE: `${runId}-${name}-${id}-${provider === mine.provider}` },
      });
    }
    const next = await open(t, name, mine.dataDir);
    const asked: string[][] = [];
    const removed = await next.provider.reap((ids) => {
      asked.push([...ids]);
      return Promise.resolve(new Set(['kept']));
    });
    assert.deepEqual([asked, removed], [[['kept', 'lost']], ['lost']]);
    assert.equal(existsSync(join(mine.dataDir, 'sandboxes', 'lost')), false);
    assert.ok(existsSync(join(mine.dataDir, 'sandboxes', 'kept')));
    assert.equal(commandLines(`304.25${runId}`).length >= 2, true);
    assert.ok(existsSync(join(other.dataDir, 'sandboxes', 'lost')));
    await next.provider.reopen('kept');
    assert.deepEqual(environments(`${runId}-${name}-kept-true`), []);
    assert.ok(environments(`${runId}-${name}-lost-false`).length > 0);
  });

  test(`${name}: a program that is not there, a wrong name and a NUL are refused without repeating a value`, async (t) => {
    const { provider } = await open(t, name);
    const sandbox = await provider.create({ id: 'one' });
    const gone = await sandbox.run({ command: ['/no/such/program'], ...time }).catch((error: unknown) => error);
    if (gone instanceof Error) assert.match(gone.message, /cannot be started in the sandbox \(ENOENT\)/);
    else assert.match((gone as { output: string }).output, /No such file/);
    await assert.rejects(sandbox.spawn({ argv: ['true'], env: { 'A=B': 'v' } }), /cannot name an environment variable/);
    await assert.rejects(sandbox.spawn({ argv: ['true'], env: { A: 'v\0w' } }), /value of A holds a NUL/);
    await assert.rejects(provider.create({ id: '../up' }), /cannot be called/);
    await assert.rejects(provider.create({ id: 'x', channels: [{ name: '../m', port: 1 }] }), /channel cannot be/);
  });
}

test('what a sandbox cannot enforce is said of it', async (t) => {
  const { provider } = await open(t, 'process');
  const sandbox = await provider.create({ id: 'one', fenced: true, resources: { memoryMB: 128 } });
  assert.deepEqual(sandbox.notEnforced, ['isolation', 'network', 'resources']);
  assert.equal(sandbox.fenced, false);
});

test('processes end by themselves when the daemon is killed', async (t) => {
  const dataDir = temporary(t);
  const code = `import { openSandboxes } from ${JSON.stringify(new URL('./sandbox.ts', import.meta.url).href)};
    const { provider } = await openSandboxes({ dataDir: ${JSON.stringify(dataDir)}, sandbox: 'process', host: { PATH: '${testPath}' } });
    const sandbox = await provider.create({ id: 'a' });
    const child = await sandbox.spawn({ argv: ['sh', '-c', '(setsid sleep 300 &) ; echo up; exec sleep 300'], env: { MARK: 'alone-${runId}' } });
    child.stdout.pipe(process.stdout);`;
  await writeFile(join(dataDir, 'daemon.mts'), code);
  const daemon = spawn(process.execPath, [join(dataDir, 'daemon.mts')], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => daemon.kill('SIGKILL'));
  await once(daemon.stdout, 'data');
  assert.ok(environments(`alone-${runId}`).length >= 2);
  daemon.kill('SIGKILL');
  assert.ok(await eventually(() => environments(`alone-${runId}`).length === 0));
});

test('a daemon that is killed leaves processes that the next start ends', async (t) => {
  const dataDir = temporary(t);
  for (const name of providers) {
    const { provider } = await open(t, 'process');
    const host = await provider.create({ id: 'host' });
    const code = `import { openSandboxes } from ${JSON.stringify(new URL('./sandbox.ts', import.meta.url).href)};
      const { provider } = await openSandboxes({ dataDir: ${JSON.stringify(dataDir)}, sandbox: '${name}', host: { PATH: '${testPath}' } });
      const sandbox = await provider.create({ id: 'a' });
      const child = await sandbox.spawn({ argv: ['sh', '-c', 'setsid sleep 300 & echo up; exec sleep 300'], env: { MARK: 'killed-${runId}-${name}' } });
      child.stdout.pipe(process.stdout);`;
    await writeFile(join(dataDir, 'daemon.mts'), code);
    // Outside of any sandbox of ours in spirit: only its own marker is looked for below.
    const daemon = await host.spawn({ argv: [process.execPath, join(dataDir, 'daemon.mts')] });
    await once(daemon.stdout, 'data');
    process.kill(daemon.pid, 'SIGKILL');
    await daemon.exited;
    const next = await open(t, name, dataDir);
    assert.deepEqual(await next.provider.reap(() => Promise.resolve(new Set())), ['a']);
    assert.ok(await eventually(() => environments(`killed-${runId}-${name}`).length === 0));
  }
});

test('directories with links and unwritable directories are removed without leaving the sandbox', async (t) => {
  const { provider, dataDir } = await open(t, 'process');
  const outside = join(dataDir, 'outside');
  await mkdir(outside);
  await writeFile(join(outside, 'precious'), 'still here');
  const sandbox = await provider.create({ id: 'one' });
  await symlink(outside, join(dataDir, 'sandboxes/one/home/link'));
  await sandbox.run({ command: 'mkdir -p ~/cache/a && touch ~/cache/a/b && chmod -R a-w ~/cache', ...time });
  await sandbox.destroy();
  assert.equal(existsSync(join(dataDir, 'sandboxes/one')), false);
  assert.equal(await readFile(join(outside, 'precious'), 'utf8'), 'still here');
});
