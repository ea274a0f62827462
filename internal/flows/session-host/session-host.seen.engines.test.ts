// What operators see of a session's sandbox, and how they reach into it, on each provider of this machine
// (docs/guides/engines.md): `svc sandbox list|reap`, `svc doctor`, `svc session exec`, and the metrics. Precondition: root, the
// engines and bubblewrap; `make test-engines` installs them.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { lacking, startEngine, type TestEngine, testImage } from '../../adapters/engine/engine-testkit.ts';
import { eventually } from './host-crash-testkit.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';
import { Line } from './line-testkit.ts';

const main = join(import.meta.dirname, '../../../cmd/svc/main.ts');
const value = 'sesame-of-the-program';

const onEngines = [
  { name: 'docker', engine: 'docker', provider: 'docker', isolation: 'container', tells: /docker: .*Docker \d/ },
  { name: 'podman', engine: 'podman', provider: 'docker', isolation: 'container', tells: /docker: .*Podman \d/ },
  {
    name: 'gvisor',
    engine: 'docker',
    provider: 'docker',
    isolation: 'gvisor',
    tells: /docker: .*Docker \d/,
    runtime: 'gvisor',
  },
] as const;
const onThisMachine = [
  { name: 'bubblewrap', provider: 'bubblewrap', isolation: 'namespace', tells: /bubblewrap: / },
  { name: 'process', provider: 'process', isolation: 'none', tells: /process: / },
] as const;

for (const one of [...onEngines, ...onThisMachine]) {
  const missing = 'engine' in one ? lacking(one.name) : null;
  describe(`a session on ${one.name}`, { skip: missing !== null && missing }, () => {
    let engine: TestEngine | undefined;
    let line: Line | undefined;
    let bench: HostBench;
    let session: string;
    before(async () => {
      let docker: { readonly socket: string; readonly runtime?: string } | undefined;
      if ('engine' in one) {
        engine = await startEngine(one.engine);
        const socket = join(dirname(engine.socket), 'line.sock');
        line = await Line.at(socket, engine.socket);
        docker = { socket, ...('runtime' in one && { runtime: one.runtime }) };
      }
      const presets = { base: { image: testImage } };
      const file = docker === undefined ? {} : { sandboxes: { docker, presets } };
      bench = await createHostBench({ config: { sandbox: one.provider, file } });
      await bench.daemon.api('PUT', 'P/secrets/key', { value });
      await bench.apply({ a: { env: { KEY: { $secret: 'key' }, PLAIN: 'seen' } } });
      session = await bench.start('a', '!say ready');
      await bench.until(session, ({ state, said }) => state === 'idle' && said === 'ready');
    });
    after(async () => {
      await bench?.stop();
      await line?.stop();
      await engine?.stop();
    });

    const svc = async (args: readonly string[], input = '') => {
      const { token, dataDir, url } = bench.daemon;
      const names = { SVC_URL: url, SVC_TOKEN: token, SVC_ORG: 'default', SVC_PROJECT: 'default' };
      const child = spawn(process.execPath, [main, ...args], {
        env: { PATH: process.env['PATH'], HOME: dataDir, ...names },
      });
      child.stdin.end(input);
      const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
      const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
      return { code: await ended, out, err };
    };
    const metrics = async (): Promise<string> => (await fetch(`${bench.daemon.url}/metrics`)).text();

    it('is reached with svc session exec: streams, exit code, environment, and an entry of the audit', async () => {
      const lines = 'hello\n'.repeat(30_000);
      const script = 'cat; echo "$PLAIN $KEY" >&2; exit 7';
      const done = await svc(['session', 'exec', session, '--', 'sh', '-c', script], lines);
      assert.deepEqual([done.code, done.out.length, done.err], [7, lines.length, 'seen ***\n']);
      const killed = await svc(['session', 'exec', session, '--', 'sh', '-c', 'kill -9 $$']);
      assert.equal(killed.code, 137);
      const { body } = await bench.daemon.api('GET', 'P/audit?action=session.exec&limit=200');
      const entries = body['items'] as unknown as { detail: { argv: string[] } }[];
      assert.ok(entries.some(({ detail }) => detail.argv[2] === script));
      assert.equal((await svc(['session', 'exec', randomUUID(), '--', 'true'])).code, 255);
    });

    it('is told of by svc doctor and the API: the provider, its version, what it can and why not the rest', async () => {
      const { out } = await svc(['doctor']);
      assert.match(out, one.tells);
      const { body } = await bench.daemon.api('GET', '/api/v1/sandbox');
      const [first] = body['providers'] as unknown as {
        provider: string;
        capabilities: { [name: string]: unknown };
        missing: { [name: string]: string };
      }[];
      assert.equal(first?.provider, one.provider);
      assert.equal(first.capabilities['isolation'], one.isolation);
      const lacks = Object.entries(first.capabilities).flatMap(([name, has]) => (has === false ? [name] : []));
      for (const name of lacks)
        assert.ok((first.missing[name] ?? '').length > 10, `${name} is missing without a reason`);
    });

    /** What is left of a session that nobody knows. */
    const leave = async (): Promise<string> => {
      const id = randomUUID();
      await mkdir(join(bench.daemon.dataDir, 'sandboxes', id));
      if (engine === undefined) return id;
      const filters = encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }));
      const { body } = await engine.api('GET', `/v1.41/containers/json?filters=${filters}`);
      const [own] = body as { Labels: { [name: string]: string } }[];
      const labels = { 'svc/installation': own?.Labels['svc/installation'], 'svc/session': id };
      const made = await engine.api('POST', `/v1.41/containers/create?name=svc-${id}-1`, {
        Image: testImage,
        Cmd: ['sleep', '600'],
        Labels: { ...labels, 'svc/epoch': '1' },
        HostConfig: { NetworkMode: 'none' },
      });
      const { Id } = made.body as { Id: string };
      assert.ok((await engine.api('POST', `/v1.41/containers/${Id}/start`)).status < 300);
      await engine.api('POST', '/v1.41/volumes/create', { Name: `svc-${id}`, Labels: labels });
      return id;
    };
    type Listed = readonly { readonly session: string; readonly state: string; readonly provider: string | null }[];

    it('is in svc sandbox list; what nobody owns is told, and ended by svc sandbox reap', async () => {
      const listed = async (): Promise<Listed> => {
        const { out, err } = await svc(['sandbox', 'list', '--json']);
        assert.equal(err, '');
        const body = JSON.parse(out) as Listed | { readonly items: Listed };
        return 'items' in body ? body.items : (body as Listed);
      };
      const mine = (await listed()).find((found) => found.session === session);
      assert.deepEqual([mine?.state, mine?.provider], ['running', one.provider]);
      // The daemon looks for such ones by itself, and may be quicker.
      for (let isReaped = false; !isReaped; ) {
        const left = await leave();
        if (!(await listed()).some((found) => found.session === left && found.state === 'left')) continue;
        assert.match((await svc(['doctor'])).out, /no live session owns|sandbox/);
        isReaped = (await svc(['sandbox', 'reap', '--json'])).out.includes(left);
        assert.ok((await listed()).every((found) => found.session !== left));
        if (engine === undefined) continue;
        assert.equal((await engine.api('GET', `/v1.41/containers/svc-${left}-1/json`)).status, 404);
        assert.equal((await engine.api('GET', `/v1.41/volumes/svc-${left}`)).status, 404);
      }
      assert.equal((await listed()).find((found) => found.session === session)?.state, 'running');
      const { code, out } = await svc(['session', 'exec', session, '--', 'echo', 'there']);
      assert.deepEqual([code, out], [0, 'there\n']);
    });

    it('is in the metrics, with its start, its end and the cuts of its wire', async () => {
      const before = await metrics();
      assert.match(before, new RegExp(`^svc_sandbox_live\\{provider="${one.provider}"\\} 1$`, 'm'));
      const start = `svc_sandbox_start_seconds_count\\{provider="${one.provider}",path="cold",stage="starting"\\} `;
      assert.match(before, new RegExp(`^${start}`, 'm'));
      assert.match(before, /^svc_sandbox_reaped_total [1-9]/m);
      if (line !== undefined) {
        line.cut();
        line.isCut = false;
        await eventually('the cut is counted', async () => /^svc_wire_cuts_total [1-9]/m.test(await metrics()));
        await eventually(
          'the wire is mended',
          async () => (await bench.view(session)).body['wire'] === ('ok' as never),
        );
        assert.equal((await svc(['session', 'exec', session, '--', 'echo', 'again'])).out, 'again\n');
      }
      await bench.daemon.api('POST', `P/sessions/${session}/archive`, {});
      const over = new RegExp(`^svc_sandbox_live\\{provider="${one.provider}"\\} 0$`, 'm');
      await eventually('it is over', async () => over.test(await metrics()));
    });
  });
}
