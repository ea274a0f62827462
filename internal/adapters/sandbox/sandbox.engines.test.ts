// The suite of sandboxes over real engines of this machine (`make test-engines` installs them). Precondition: root, and
// the programs of the engine; where they are not, its tests are skipped and say why.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Duplex, Readable } from 'node:stream';
import { after, before, describe, it, type TestContext } from 'node:test';
import { sha256 } from '../../base/hash.ts';
import { answered, attemptArgv, attempts } from '../../base/testkit/attempts.ts';
import { lacking, startEngine, testImage, type TestEngine } from '../engine/engine-testkit.ts';
import { DockerEngine } from '../engine/engine.ts';
import type { BoxRef } from '../engine/types.ts';
import { openSandboxes, type SandboxProvider } from './sandbox.ts';
import type { Place } from './wire-door.ts';
import { runId, eventually, testPath, temporary } from './test-support.ts';

/** The streams that the newest wires have taken over from their boxes. */
const cuts: Duplex[] = [];
class Watched extends DockerEngine {
  override async attach(ref: BoxRef): Promise<Duplex> {
    const stream = await super.attach(ref);
    cuts.push(stream);
    return stream;
  }
}

const time = { timeoutMs: 60_000 };
const image = { image: testImage };

const suites = [
  { name: 'docker', kind: 'docker' },
  { name: 'podman', kind: 'podman' },
  // Docker with another kernel, in user space.
  { name: 'gvisor', kind: 'docker', runtime: 'gvisor' },
] as const;

for (const { name, kind, ...more } of suites) {
  const missing = lacking(name);
  describe(`${name}:`, { skip: missing !== null && missing }, () => {
    let engine: TestEngine;
    let count = 0;
    before(async () => {
      engine = await startEngine(kind);
    });
    after(() => engine?.stop());

    const open = async (
      t: TestContext,
      dataDir = temporary(t),
      { fence = 'required', ...rest }: { fence?: 'preferred' | 'required'; around?: readonly Place[] } = {},
    ) => {
      const { provider, facts } = await openSandboxes({
        dataDir,
        sandbox: 'docker',
        host: { PATH: testPath },
        engineOf: () => ({
          engine: new Watched({ socket: engine.socket, ...more }),
          setting: 'sandboxes.docker',
          fence,
          isLocal: true,
          ...rest,
        }),
      });
      t.after(() => provider.close());
      return { provider: provider satisfies SandboxProvider, facts, dataDir };
    };
    const made = async (t: TestContext, more: object = {}) => {
      const { provider, dataDir } = await open(t);
      count += 1;
      const id = `s${count}`;
      const sandbox = await provider.create({ id, ...image, ...more });
      return { provider, sandbox, dataDir, box: `svc-${id}-1` };
    };

    it('tells what it is and what it can', async (t) => {
      const { facts } = await open(t);
      assert.match(String(facts.version), kind === 'docker' ? /^Docker \d/ : /^Podman \d/);
      const { isolation, networkFence, injectionEdge, images, commit, resources } = facts.capabilities;
      assert.deepEqual(
        [isolation, networkFence, injectionEdge, images, commit, resources],
        [name === 'gvisor' ? 'gvisor' : 'container', true, true, true, true, true],
      );
    });

    it('a program gets its environment, and nothing of the engine shows it', async (t) => {
      const { sandbox, box } = await made(t);
      const secret = `canary-${runId}-${'x'.repeat(24)}`;
      const child = await sandbox.spawn({
        argv: ['/bin/sh', '-c', 'echo "$TOKEN $HOME $PWD"; cat'],
        env: { TOKEN: secret, HOME: '/elsewhere' },
      });
      const [line] = (await once(child.stdout, 'data')) as [Buffer];
      assert.equal(line.toString(), `${secret} /home/user /workspace\n`);
      const { body } = await engine.api('GET', `/v1.41/containers/${box}/json`);
      assert.equal(JSON.stringify(body).includes(secret), false);
      for (const exec of (body as { ExecIDs: string[] | null }).ExecIDs ?? []) {
        const told = await engine.api('GET', `/v1.41/exec/${exec}/json`);
        assert.equal(JSON.stringify(told.body).includes(secret), false);
      }
      child.stdin.end();
      assert.deepEqual(await child.exited, { code: 0, signal: null });
      const { output } = await sandbox.run({ command: 'env', env: { MINE: '1' }, ...time });
      const names = output.split('\n').map((text) => text.split('=')[0]);
      const allowed = [
        'HOME',
        'LANG',
        'LOGNAME',
        'MINE',
        'PATH',
        'PWD',
        'SHELL',
        'SHLVL',
        'SVC_SANDBOX_ID',
        'TMPDIR',
        'USER',
        '',
      ];
      assert.deepEqual(
        names.filter((found) => !allowed.includes(found ?? '')),
        [],
      );
    });

    it('is user 1000 without rights, and only home, work, /tmp and what was declared can be written', async (t) => {
      const { sandbox, box } = await made(t, { directories: ['/srv/repo'], resources: { memoryMB: 256, cpuCount: 1 } });
      const script = `id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'
        for path in /x /usr/x /etc/x /run/x /dev/x /home/x /srv/x /home/user/x /workspace/x /tmp/x /srv/repo/x; do
        (: > $path) 2>/dev/null && echo wrote $path; done; true`;
      const { output } = await sandbox.run({ command: script, ...time });
      const writable = ['/home/user/x', '/workspace/x', '/tmp/x', '/srv/repo/x']
        .map((path) => `wrote ${path}\n`)
        .join('');
      // Another kernel filters by itself, and tells neither.
      const kernel = name === 'gvisor' ? '' : 'NoNewPrivs:1\nSeccomp:2\n';
      assert.ok(output.startsWith(`1000\nCapEff:${'0'.repeat(16)}\nCapBnd:${'0'.repeat(16)}\n${kernel}`), output);
      assert.ok(output.endsWith(writable) && !output.includes('wrote /x') && !output.includes('wrote /run'), output);
      const { body } = await engine.api('GET', `/v1.41/containers/${box}/json`);
      const { HostConfig: host, Config: config } = body as {
        HostConfig: { Memory: number; MemorySwap: number; NanoCpus: number; PidsLimit: number; NetworkMode: string };
        Config: { Labels: Record<string, string> };
      };
      const bytes = 256 * 1024 * 1024;
      assert.deepEqual([host.Memory, host.MemorySwap, host.NanoCpus, host.NetworkMode], [bytes, bytes, 1e9, 'none']);
      assert.ok(host.PidsLimit > 0);
      assert.equal(config.Labels['svc/session'], box.slice(4, -2));
      assert.equal(config.Labels['svc/epoch'], '1');
      assert.ok((config.Labels['svc/installation'] ?? '').length > 8);
    });

    it('what a program leaves behind ends with it, detached or without an environment', async (t) => {
      const { sandbox } = await made(t);
      const child = await sandbox.spawn({
        argv: [
          '/bin/sh',
          '-c',
          '(setsid sleep 300 </dev/null >/dev/null 2>&1 &); env -i sleep 301 </dev/null >/dev/null 2>&1 & echo up; exec sleep 300',
        ],
      });
      await once(child.stdout, 'data');
      const other = await sandbox.spawn({ argv: ['sleep', '302'] });
      await child.kill();
      assert.equal((await child.exited).signal, 'SIGKILL');
      const { output } = await sandbox.run({
        command: 'ps | grep -c "[s]leep 30[01]"; ps | grep -c "[s]leep 302"',
        ...time,
      });
      assert.equal(output, '0\n1\n');
      await other.kill();
    });

    it('output is kept until it is read, masked, and the last of it; a long command is ended', async (t) => {
      const { sandbox } = await made(t);
      const child = await sandbox.spawn({ argv: ['/bin/sh', '-c', 'echo out; echo err >&2'] });
      await child.exited;
      assert.equal((await child.stdout.toArray()).join(''), 'out\n');
      assert.equal((await child.stderr.toArray()).join(''), 'err\n');
      const long = await sandbox.run({ command: 'yes 0123456789 | head -c 3000000; echo the end', ...time });
      assert.ok(long.output.length <= 16 * 1024 && long.output.endsWith('the end\n'));
      const said = await sandbox.run({
        command: 'echo "$A" >&2',
        env: { A: 'sesame-open' },
        masked: ['sesame-open'],
        ...time,
      });
      assert.equal(said.output, '***\n');
      // Two of them would part a client from its engine, were it a terminal.
      const bytes = Buffer.from(Array.from({ length: 200_000 }, (_, n) => n % 256));
      const hashed = await sandbox.run({
        command: 'sha256sum; cat >/dev/null',
        input: Readable.from([bytes]),
        ...time,
      });
      assert.equal(hashed.output, `${sha256(bytes)}  -\n`);
      const late = await sandbox.run({ command: 'echo begun; sleep 303 & sleep 303', timeoutMs: 2_000 });
      assert.deepEqual([late.timedOut, late.output], [true, 'begun\n']);
    });

    it('files are kept when it is opened again, under a new epoch, and gone when it is destroyed', async (t) => {
      const { provider, dataDir } = await open(t);
      const sandbox = await provider.create({ id: 'kept', ...image, epoch: 3 });
      await sandbox.writeFile('/home/user/.config/a.json', '{"a":1}', 0o640);
      await sandbox.run({ command: 'echo work > /workspace/w', ...time });
      await sandbox.stop();
      await assert.rejects(sandbox.spawn({ argv: ['true'] }), /was stopped: open it again/);
      const later = await open(t, dataDir);
      const again = await later.provider.reopen('kept', { ...image, epoch: 7 });
      assert.ok(again);
      const { output } = await again.run({
        command: 'cat ~/.config/a.json; stat -c %a ~/.config/a.json; cat w',
        ...time,
      });
      assert.equal(output, '{"a":1}640\nwork\n');
      const { status } = await engine.api('GET', '/v1.41/containers/svc-kept-7/json');
      assert.equal(status, 200);
      await again.destroy();
      assert.equal(existsSync(join(dataDir, 'sandboxes', 'kept')), false);
      assert.equal((await engine.api('GET', '/v1.41/volumes/svc-kept')).status, 404);
      assert.equal(await later.provider.reopen('kept'), null);
    });

    it('a channel leads to a socket of the daemon, and nothing else answers from inside', async (t) => {
      const { sandbox } = await made(t, { channels: [{ name: 'model', port: 4401 }] });
      const server: Server = createServer((request, response) => request.pipe(response));
      await new Promise<void>((resolve) => server.listen(sandbox.socketOf('model'), resolve));
      t.after(() => server.close());
      const post = `fetch('http://127.0.0.1:4401/', {method: 'POST', body: 'x'.repeat(3000000)}).then((r) => r.text()).then((t) => console.log(t.length))`;
      assert.equal((await sandbox.run({ command: ['node', '-e', post], ...time })).output, '3000000\n');
      // What a leak would reach: the machine's own loopback has a server, and the engine its socket.
      const open = createServer((_request, response) => response.end('open'));
      await new Promise<void>((resolve) => open.listen(0, '127.0.0.1', resolve));
      t.after(() => open.close());
      const { port } = open.address() as AddressInfo;
      const around = { daemonPort: port, databasePort: port, openPort: port, sockets: [engine.socket] };
      const wanted = attempts(around);
      assert.ok(wanted.length >= 400);
      const tried = await sandbox.run({ command: attemptArgv('node', wanted), ...time });
      assert.deepEqual(answered(tried.output), { count: wanted.length, open: [] }, tried.output);
    });

    it('a fence that lets something through ends the launch where it is required, and is told where it is not', async (t) => {
      // Its own loopback answers whatever the engine does: for what is tried, that is a leak.
      const around = [{ host: '127.0.0.1', port: 9 }];
      const strict = await open(t, temporary(t), { around });
      await assert.rejects(strict.provider.create({ id: 'leaks', ...image }), {
        code: 'fence-leaks',
        message: 'From inside the fence 127.0.0.1:9 answered',
      });
      assert.equal((await engine.api('GET', '/v1.41/containers/svc-leaks-1/json')).status, 404);
      const lax = await open(t, temporary(t), { around, fence: 'preferred' });
      const sandbox = await lax.provider.create({ id: 'lax', ...image });
      assert.deepEqual(sandbox.notEnforced, ['network']);
      await sandbox.destroy();
    });

    it('a program that is not there, a wrong name and a NUL are refused without repeating a value', async (t) => {
      const { sandbox, provider } = await made(t);
      await assert.rejects(
        sandbox.run({ command: ['/no/such/program'], ...time }),
        /cannot be started in the sandbox \(ENOENT\)/,
      );
      await assert.rejects(
        sandbox.spawn({ argv: ['true'], env: { 'A=B': 'v' } }),
        /cannot name an environment variable/,
      );
      await assert.rejects(sandbox.spawn({ argv: ['true'], env: { A: 'v\0w' } }), /value of A holds a NUL/);
      await assert.rejects(provider.create({ id: '../up', ...image }), /cannot be called/);
      await assert.rejects(
        provider.create({ id: 'x', ...image, channels: [{ name: '../m', port: 1 }] }),
        /channel cannot be/,
      );
    });

    it('an image that is not there, and a registry that does not answer, are told by their words', async (t) => {
      const { provider } = await open(t);
      await assert.rejects(provider.create({ id: 'no1', image: '127.0.0.1:1/none:x' }), { code: 'pull-failed' });
      assert.equal((await engine.api('GET', '/v1.41/containers/svc-no1-1/json')).status, 404);
    });

    it('past its memory a program is ended, and the limit is told', async (t) => {
      const { sandbox } = await made(t, { resources: { memoryMB: 192 } });
      assert.equal(await sandbox.outOfMemory(), null);
      const eat = `const all = []; for (;;) all.push(Buffer.alloc(8 << 20, 1));`;
      const { code, signal } = await sandbox.run({ command: ['node', '-e', eat], ...time });
      assert.ok(code !== 0 || signal !== null);
      assert.equal(await sandbox.outOfMemory(), 192);
      assert.equal(await sandbox.outOfMemory(), null);
    });

    it('a start ends and removes what nobody owns, and nothing of another data directory or without the label', async (t) => {
      const [mine, other] = [await open(t), await open(t)];
      await mine.provider.create({ id: 'keep', ...image });
      await mine.provider.create({ id: 'lost', ...image });
      await other.provider.create({ id: 'foreign', ...image });
      // Moved between the two.
      await other.provider.create({ id: 'moved', ...image });
      await mine.provider.create({ id: 'moved', ...image, epoch: 2 });
      const next = await open(t, mine.dataDir);
      assert.deepEqual(
        (await next.provider.list()).filter(({ running }) => running).map(({ id }) => id),
        ['keep', 'lost', 'moved'],
      );
      assert.deepEqual(await next.provider.reap(() => Promise.resolve(new Set(['keep', 'moved']))), ['lost']);
      const there = async (id: string) => (await engine.api('GET', `/v1.41/containers/svc-${id}-1/json`)).status;
      assert.deepEqual([await there('keep'), await there('lost'), await there('foreign')], [200, 404, 200]);
      assert.equal((await engine.api('GET', '/v1.41/volumes/svc-lost')).status, 404);
      for (const { provider } of [await open(t, other.dataDir), next])
        await provider.reap(() => Promise.resolve(new Set()));
      assert.doesNotMatch(JSON.stringify((await engine.api('GET', '/v1.41/volumes')).body), /"svc-moved/);
    });

    it('a box that somebody removes is told to its programs at once', async (t) => {
      const { sandbox, box } = await made(t);
      const child = await sandbox.spawn({ argv: ['sleep', '300'] });
      await engine.api('DELETE', `/v1.41/containers/${box}?force=true`);
      assert.deepEqual(await child.exited, { code: null, signal: 'SIGKILL' });
      await assert.rejects(sandbox.spawn({ argv: ['true'] }), /is gone/);
    });

    it('a stream that is cut is dialed again, and its programs have lost nothing', async (t) => {
      const { sandbox } = await made(t);
      const states: string[] = [];
      sandbox.onWire?.((state) => states.push(state));
      const child = await sandbox.spawn({
        argv: [
          '/bin/sh',
          '-c',
          'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ $((i % 1000)) = 0 ] && sleep 1; done',
        ],
      });
      child.stdin.end();
      const read = child.stdout.toArray();
      await once(child.stdout, 'readable').catch(() => undefined);
      // Its own streams first, and then the program that carries them inside.
      cuts.at(-1)?.destroy();
      assert.ok(await eventually(() => states.includes('lost') && states.at(-1) === 'ok'));
      await sandbox.run({
        command: `for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q "@svc-wire *$" && kill -9 \${p#/proc/}; done; true`,
        ...time,
      });
      const lines = Buffer.concat(await read)
        .toString()
        .trim()
        .split('\n');
      assert.deepEqual([lines.length, lines[0], lines.at(-1)], [3000, '1', '3000']);
      assert.ok(await eventually(() => states.includes('lost') && states.at(-1) === 'ok'));
    });

    it('steps change the whole image once, and the next sandbox begins with it', async (t) => {
      const { provider } = await open(t);
      const build = {
        steps: ['echo built > /usr/built; id -u >> /usr/built', 'echo "$WORD" > $HOME/.step'],
        env: { WORD: `w${runId}` },
      };
      const options = (ran: string[]) => ({
        networkEnv: {},
        runStep: async (run: (typeof sandbox)['run'], step: number, env: Readonly<Record<string, string>>) => {
          const command = build.steps[step] ?? '';
          ran.push(command);
          assert.equal((await run({ command, env, ...time })).code, 0);
        },
      });
      const sandbox = await provider.create({ id: 'b1', ...image, build });
      const ran: string[] = [];
      assert.equal(await sandbox.build?.(options(ran)), 'miss');
      assert.equal(ran.length, 2);
      const look = { command: 'cat /usr/built ~/.step; stat -c %u ~/.step; id -u; : > /usr/x', ...time };
      assert.match(
        (await sandbox.run(look)).output,
        new RegExp(`^built\n0\nw${runId}\n1000\n1000\n.*(Read-only|denied)`, 's'),
      );
      const next = await provider.create({ id: 'b2', ...image, build });
      assert.equal(await next.build?.(options(ran)), 'hit');
      assert.equal(ran.length, 2);
      assert.match((await next.run(look)).output, /^built\n0\n/);
    });

    it('files of this machine are shown read-only, and none of the service’s own', async (t) => {
      const { provider, dataDir } = await open(t);
      const shown = join(dataDir, 'shown');
      await mkdir(shown);
      await writeFile(join(shown, 'word'), 'seen');
      const sandbox = await provider.create({ id: 'ro', ...image, readOnlyPaths: [shown] });
      const { output } = await sandbox.run({
        command: ['/bin/sh', '-c', 'cat "$1/word"; : > "$1/x"', 'sh', shown],
        ...time,
      });
      assert.match(output, /^seen.*(Read-only|denied)/s);
      await assert.rejects(
        provider.create({ id: 'ro2', ...image, readOnlyPaths: [dataDir] }),
        /holds files of the service/,
      );
    });
  });
}
