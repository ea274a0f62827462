import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { existsSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { connect, createServer as createTcpServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Sandbox, SandboxSpec } from './sandbox.ts';
import { runId, bubblewrap, environments, eventually, open, testPath, temporary } from './test-support.ts';

// Precondition of all but the first: namespaces can be made on this machine. Where not, sandbox.test.ts shows that this
// is found out, that it is said, and that nothing pretends to isolate.
const whenItWorks = (name: string, body: (t: TestContext) => Promise<void>): void => {
  if (bubblewrap.works) test(name, body);
};
const time = { timeoutMs: 120_000 };

async function sandboxOf(t: TestContext, spec: Partial<SandboxSpec> = {}) {
  const { provider, dataDir } = await open(t, 'bubblewrap');
  return { sandbox: await provider.create({ id: 'one', ...spec }), provider, dataDir };
}
const said = async (sandbox: Sandbox, command: string) => (await sandbox.run({ command, ...time })).output.trim();

test('whether namespaces work here is known, and why not', () => {
  if (bubblewrap.works) assert.match(bubblewrap.version, /\d/);
  else assert.match(bubblewrap.why, /not installed|cannot/);
});

whenItWorks('it sees its own processes only, and no setting of bubblewrap among them', async (t) => {
  const { sandbox, dataDir } = await sandboxOf(t);
  const lines = (await said(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'; id -u; hostname")).split('\n');
  assert.deepEqual(lines.slice(-2), ['1000', 'sandbox']);
  assert.equal(lines.includes('--ro-bind') || lines.some((line) => line.includes(dataDir)), false);
  assert.ok(Number(await said(sandbox, 'ls -d /proc/[0-9]* | wc -l')) < 8);
  assert.match(await said(sandbox, 'ls -l /proc/self/fd'), /^(?![^]*\b[34] -> (socket|pipe|anon))/);
  assert.equal(await said(sandbox, "tr '\\0' '\\n' </proc/1/environ | grep -v ^SVC_SANDBOX_ID="), '');
});

whenItWorks('directories of the host are absent, and what is there of it is read-only', async (t) => {
  const { sandbox, dataDir } = await sandboxOf(t);
  const canary = join(dataDir, 'canary');
  await writeFile(canary, 'x');
  for (const path of [dataDir, canary, '/root', '/etc/shadow', '/etc/ssl/private', '/var', '/sys', '/srv', '/boot']) {
    assert.equal(await said(sandbox, `test -e '${path}' && echo there; true`), '', path);
  }
  for (const path of [
    '/usr/x',
    '/etc/x',
    '/x',
    '/run/x',
    '/proc/sys/kernel/hostname',
    '/proc/sys/kernel/core_pattern',
  ]) {
    assert.equal(await said(sandbox, `(: >> '${path}') 2>/dev/null && echo written; true`), '', path);
  }
  assert.equal(
    await said(sandbox, 'for d in /tmp ~ /workspace; do touch $d/x && echo $d; done'),
    '/tmp\n/home/user\n/workspace',
  );
  assert.match(await said(sandbox, 'grep CapEff /proc/self/status'), /0000000000000000$/);
});

whenItWorks('nothing in the environment of a session reaches bubblewrap itself', async (t) => {
  const { sandbox, dataDir } = await sandboxOf(t);
  const trap = join(dataDir, 'trap');
  const result = await sandbox.run({
    command: ['/bin/echo', 'fine'],
    env: {
      LD_PRELOAD: join(dataDir, 'sandboxes/one/home/evil.so'),
      LD_TRACE_LOADED_OBJECTS: '1',
      LD_DEBUG_OUTPUT: trap,
    },
    ...time,
  });
  // Traced, the program's libraries would be listed by the loader: it is the inner program to which this happens.
  assert.match(result.output, /libc/);
  const child = await sandbox.spawn({ argv: ['sleep', '20'], env: { LD_PRELOAD: '/nonexistent/canary.so' } });
  assert.deepEqual(environments('/nonexistent/canary.so').length <= 1, true);
  await child.kill();
});

whenItWorks('SIGKILL of the daemon leaves no process, also no detached one', async (t) => {
  const dataDir = temporary(t);
  const code = `import { openSandboxes } from ${JSON.stringify(new URL('./sandbox.ts', import.meta.url).href)};
    const { provider } = await openSandboxes({ dataDir: ${JSON.stringify(dataDir)}, sandbox: 'bubblewrap', host: { PATH: '${testPath}' } });
    const sandbox = await provider.create({ id: 'a' });
    const child = await sandbox.spawn({ argv: ['sh', '-c', '(setsid sleep 300 &); echo up; exec sleep 300'], env: { MARK: 'dies-with-daemon-${runId}' } });
    child.stdout.pipe(process.stdout);`;
  await writeFile(join(dataDir, 'daemon.mts'), code);
  const daemon = spawn(process.execPath, [join(dataDir, 'daemon.mts')], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => daemon.kill('SIGKILL'));
  await once(daemon.stdout, 'data');
  assert.ok(environments(`dies-with-daemon-${runId}`).length >= 2);
  daemon.kill('SIGKILL');
  assert.ok(await eventually(() => environments(`dies-with-daemon-${runId}`).length === 0));
});

whenItWorks('SIGKILL of bubblewrap leaves no process', async (t) => {
  const { sandbox } = await sandboxOf(t);
  const child = await sandbox.spawn({
    argv: ['sh', '-c', 'sleep 300 & echo up; sleep 300'],
    env: { MARK: `dies-with-bwrap-${runId}` },
  });
  await once(child.stdout, 'data');
  process.kill(child.pid, 'SIGKILL');
  await child.exited;
  assert.ok(await eventually(() => environments(`dies-with-bwrap-${runId}`).length === 0));
});

whenItWorks('a fenced sandbox reaches its channels and nothing else', async (t) => {
  const { sandbox } = await sandboxOf(t, {
    fenced: true,
    channels: [
      { name: 'model', port: 4501 },
      { name: 'tools', port: 4502 },
    ],
  });
  assert.equal(sandbox.fenced, true);
  for (const name of ['model', 'tools']) {
    const server = createServer((request, response) => {
      response.end(`${name} ${request.headers.host} ${request.url}`);
    });
    server.listen(sandbox.socketOf(name));
    await once(server, 'listening');
    t.after(() => server.close());
  }
  const host = createTcpServer((socket) => socket.end('host')).listen(0, '127.0.0.1');
  await once(host, 'listening');
  t.after(() => host.close());
  const { port } = host.address() as AddressInfo;
  const script = `
    const tell = async (what) => console.log(await what.catch((error) => error.cause?.code ?? error.message));
    await tell(fetch('http://127.0.0.1:4501/a').then((r) => r.text()));
    await tell(fetch('http://127.0.0.1:4502/b').then((r) => r.text()));
    await tell(fetch('http://127.0.0.1:${port}/').then((r) => r.text()));
    await tell(fetch('http://192.0.2.1/').then((r) => r.text()));`;
  const run = await sandbox.run({ command: ['/run/svc/node', '--input-type=module', '-e', script], ...time });
  const [model, tools, loopback, outside] = run.output.trim().split('\n');
  assert.deepEqual([model, tools], ['model 127.0.0.1:4501 /a', 'tools 127.0.0.1:4502 /b']);
  assert.deepEqual([loopback, outside], ['ECONNREFUSED', 'ENETUNREACH']);
});

whenItWorks('an unfenced sandbox has the network of the host', async (t) => {
  const { sandbox } = await sandboxOf(t);
  const host = createTcpServer((socket) => socket.end('host\n')).listen(0, '127.0.0.1');
  await once(host, 'listening');
  t.after(() => host.close());
  const { port } = host.address() as AddressInfo;
  assert.equal(sandbox.fenced, false);
  assert.equal(await said(sandbox, `bash -c 'cat < /dev/tcp/127.0.0.1/${port}'`), 'host');
});

whenItWorks('large streams pass the fence whole, and both directions end on their own', async (t) => {
  const { sandbox } = await sandboxOf(t, { fenced: true, channels: [{ name: 'model', port: 4501 }] });
  const bytes = 5_000_000;
  // Answers only when the other side has said all it has to say.
  const echo = createTcpServer({ allowHalfOpen: true }, (socket) => {
    let received = 0;
    socket.on('data', (chunk) => (received += chunk.length)).on('end', () => socket.end(Buffer.alloc(received)));
    socket.on('error', () => undefined); // Of the client that leaves at once.
  });
  echo.listen(sandbox.socketOf('model'));
  await once(echo, 'listening');
  t.after(() => echo.close());
  const command = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/4501; true'; /run/svc/node -e "
    const s = require('net').connect({ port: 4501, allowHalfOpen: true }); let n = 0;
    s.on('data', (c) => (n += c.length)).on('end', () => console.log(n)); s.end(Buffer.alloc(${bytes}));"`;
  assert.equal(await said(sandbox, command), String(bytes));
});

whenItWorks('a fenced program keeps its standard streams, its exit code, its arguments and its signal', async (t) => {
  const { sandbox } = await sandboxOf(t, { fenced: true });
  const child = await sandbox.spawn({
    argv: ['/bin/sh', '-c', 'read a; echo "$a $*"; exit 7', 'sh', '--', '-x', '--y=1'],
  });
  child.stdin.write('hello\n');
  const [answer] = (await once(child.stdout, 'data')) as [Buffer];
  assert.equal(answer.toString(), 'hello -- -x --y=1\n');
  assert.deepEqual(await child.exited, { code: 7, signal: null });
  assert.equal((await sandbox.run({ command: ['/no/such'], ...time })).code, 127);
  assert.equal((await sandbox.run({ command: 'kill -TERM $$', ...time })).code, 143);
});

whenItWorks('programs of a fenced sandbox share a box, until it is to show something else or is gone', async (t) => {
  const { sandbox } = await sandboxOf(t, { fenced: true });
  const seen = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '";
  const first = await sandbox.spawn({
    argv: ['sh', '-c', 'while read line; do echo "$line heard"; done; : mark-of-first'],
  });
  assert.match(await said(sandbox, seen), /mark-of-first/);
  assert.equal(await sandbox.makeDirectory('/data/deep'), '/data/deep');
  assert.doesNotMatch(await said(sandbox, `cd /data/deep && ${seen}`), /mark-of-first/);
  first.stdin.end('hello\n');
  const [answer] = (await once(first.stdout, 'data')) as [Buffer];
  assert.equal(answer.toString(), 'hello heard\n');
  assert.deepEqual(await first.exited, { code: 0, signal: null });
  const other = await sandbox.spawn({ argv: ['sleep', '300'] });
  process.kill(other.pid, 'SIGKILL');
  assert.deepEqual(await other.exited, { code: null, signal: 'SIGKILL' });
  assert.equal(await said(sandbox, 'cd /data/deep && echo again'), 'again');
  const last = await sandbox.spawn({ argv: ['sleep', '300'] });
  assert.deepEqual(await last.kill(), { code: null, signal: 'SIGKILL' });
  await sandbox.stop();
  await assert.rejects(sandbox.spawn({ argv: ['true'] }), /was stopped/);
  assert.equal(existsSync(`/proc/${last.pid}`), false, 'its first process is gone');
});

whenItWorks(
  'read-only paths are seen where they are, and no link of the session leads their mount point out',
  async (t) => {
    const { provider, dataDir } = await sandboxOf(t);
    const program = join(dataDir, 'harness');
    await mkdir(program);
    await writeFile(join(program, 'run'), '#!/bin/sh\necho ran\n', { mode: 0o755 });
    const sandbox = await provider.create({ id: 'two', readOnlyPaths: [program] });
    assert.equal(await said(sandbox, `${program}/run; (: > ${program}/x) 2>/dev/null; ls ${dataDir}`), 'ran\nharness');
    assert.equal(existsSync(join(program, 'x')), false);
    const outside = join(dataDir, 'outside');
    await mkdir(outside);
    const trapped = await provider.create({ id: 'three', readOnlyPaths: ['/home/user/link/in/here'] });
    await symlink(outside, join(dataDir, 'sandboxes/three/home/link'));
    await assert.rejects(trapped.spawn({ argv: ['true'] }), /is no plain directory there/);
    assert.equal(existsSync(join(outside, 'in')), false);
  },
);

whenItWorks('resources hold for all programs of a sandbox together, or are said not to be enforced', async (t) => {
  const { provider, facts } = await open(t, 'bubblewrap');
  const sandbox = await provider.create({
    id: 'one',
    resources: { cpuCount: 1, memoryMB: 256 },
    readOnlyPaths: [process.execPath],
  });
  assert.deepEqual(sandbox.notEnforced, provider.capabilities.resources ? [] : ['resources']);
  if (!provider.capabilities.resources) return;
  assert.equal(await sandbox.outOfMemory(), null);
  const hold = (mb: number) => [
    process.execPath,
    '-e',
    `const held = []; for (let i = 0; i < ${mb}; i++) held.push(Buffer.alloc(1048576, 1)); setTimeout(() => held, 3000)`,
  ];
  // Each alone has room; both together do not.
  const both = await Promise.all([150, 150].map((mb) => sandbox.run({ command: hold(mb), timeoutMs: 60_000 })));
  assert.ok(
    both.some(({ code, signal }) => code === 137 || signal === 'SIGKILL'),
    JSON.stringify(both),
  );
  // Where the limit is a control group of ours the kernel tells of it, and once; a service manager does not.
  const tells = facts.resources === 'enforced by control groups';
  assert.deepEqual([await sandbox.outOfMemory(), await sandbox.outOfMemory()], [tells ? 256 : null, null]);
  const one = await sandbox.run({ command: hold(100), timeoutMs: 60_000 });
  assert.equal(one.code, 0);
  assert.equal(await said(sandbox, 'echo runs'), 'runs');
});

whenItWorks('a session cannot reach the socket of another, nor what listens beside it', async (t) => {
  const { provider, dataDir } = await sandboxOf(t);
  const spec = { fenced: true, channels: [{ name: 'model', port: 4501 }] };
  const [a, b] = [await provider.create({ ...spec, id: 'a' }), await provider.create({ ...spec, id: 'b' })];
  const server = createTcpServer((socket) => socket.end('of a')).listen(a.socketOf('model'));
  await once(server, 'listening');
  t.after(() => server.close());
  const self = connect(a.socketOf('model'));
  assert.equal(String((await once(self, 'data'))[0]), 'of a');
  assert.match(await said(b, 'ls /run/svc/sockets; ls -d /run/svc/../../*'), /^(?![^]*model\.sock)/);
  assert.equal(await said(b, `test -e ${join(dataDir, 'sandboxes/a')} && echo there; true`), '');
});

whenItWorks('it makes no namespace and no mount of its own, and reaches no rare part of the kernel', async (t) => {
  for (const fenced of [false, true]) {
    const { sandbox } = await sandboxOf(t, { fenced });
    for (const command of ['unshare -Ur true', 'unshare -m true', 'mount -t tmpfs x /tmp', 'chroot / true']) {
      const refused = await sandbox.run({ command: `${command} 2>&1 && echo done`, ...time });
      assert.doesNotMatch(refused.output, /^done$/m, command);
      assert.notEqual(refused.code, 0, command);
    }
    // Threads and children as ever: what a harness is made of.
    assert.equal(await said(sandbox, '(echo a | cat) & wait; echo b'), 'a\nb');
    assert.match(await said(sandbox, 'grep Seccomp: /proc/self/status'), /2$/);
  }
});

whenItWorks('it is told which system it stands on', async (t) => {
  const { sandbox } = await sandboxOf(t);
  assert.equal(await said(sandbox, 'cat /etc/os-release'), (await readFile('/etc/os-release', 'utf8')).trim());
});
