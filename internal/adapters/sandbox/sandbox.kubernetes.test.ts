// Sandboxes in pods: over the fake cluster of testdata/kubernetes, whose pods run for real, or over a cluster of one's own
// (`make test-kubernetes`), whose namespace and image the environment names. Once by exec, once with pods that dial: of the
// fake cluster's all of them in the long form, with pods that are containers of a real dockerd
// where there is one; of one's own where the environment says at which address pods reach this machine.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it, type TestContext } from 'node:test';
import { isLong } from '../../base/testkit/long.ts';
import { answered, attemptArgv, attempts } from '../../base/testkit/attempts.ts';
import { AccessError, kubeconfigAccess, KubernetesEngine } from '../engine/engine.ts';
import { lacking, startEngine, type TestEngine } from '../engine/engine-testkit.ts';
import { dockerRunner } from '../engine/kubernetes-docker-testkit.ts';
import { imageTable, Scene, whyNoPods } from '../engine/kubernetes-testkit.ts';
import { openSandboxes, packPart, restoreParts, type SandboxSpec, snapshotParts, WireDoor } from './sandbox.ts';
import { eventually, testPath, runId, temporary } from './test-support.ts';

const time = { timeoutMs: 60_000 };
const {
  SVC_TEST_KUBECONFIG: config,
  SVC_TEST_NAMESPACE: namespace = 'svc',
  SVC_TEST_IMAGE,
  SVC_TEST_DIAL,
} = process.env;
const image = config === undefined ? imageTable.reference : (SVC_TEST_IMAGE ?? '');
const why = config === undefined ? await whyNoPods() : false;

const shortOnly = isLong || config !== undefined ? false : 'in the long form';
const noDial = config !== undefined && (SVC_TEST_DIAL ?? '') === '' ? 'DIAL names no host:port of this machine' : false;

/** Where pods of either cluster come to. */
async function openDoor(scene: Scene | undefined): Promise<WireDoor> {
  const [, host = '127.0.0.1', port] = /^\[?(.*?)\]?:(\d+)$/.exec(SVC_TEST_DIAL ?? '') ?? [];
  const given = scene === undefined;
  const listen = { host: given ? '0.0.0.0' : host, port: given ? Number(port) : 0 };
  const door = await WireDoor.open({ listen, address: { host } });
  scene?.ways.all.push({ port: door.place.port, to: door.place.port });
  return door;
}

for (const wire of ['exec', 'dial'] as const)
  describe(`kubernetes, by ${wire}:`, { skip: why || (wire === 'dial' && noDial) }, () => {
    let door: WireDoor | undefined;
    let scene: Scene | undefined;
    let node: TestEngine | undefined;
    let access: ReturnType<typeof kubeconfigAccess>;
    let count = 0;
    before(async () => {
      node = config === undefined && isLong && lacking('docker') === null ? await startEngine('docker') : undefined;
      const by = node;
      scene = config === undefined ? await Scene.start([], by && ((ways) => dockerRunner(by, ways))) : undefined;
      access = kubeconfigAccess(config ?? (await scene?.kubeconfig()) ?? '');
      if (config !== undefined && image === '') throw new AccessError('IMAGE names no image');
      if (wire === 'dial') door = await openDoor(scene);
    });
    after(async () => {
      await door?.close();
      await scene?.stop();
      await node?.stop();
    });

    const open = async (t: TestContext, dataDir = temporary(t)) => {
      const engine = new KubernetesEngine({ access, namespace, now: Date.now });
      const choice = {
        engine,
        setting: 'sandboxes.kubernetes',
        fence: 'required',
        isLocal: false,
        ...(door && { door }),
      } as const;
      const { provider, facts } = await openSandboxes({
        dataDir,
        sandbox: 'kubernetes',
        host: { PATH: testPath },
        engineOf: () => choice,
      });
      t.after(() => provider.close());
      return { provider, facts, dataDir, engine };
    };
    const made = async (t: TestContext, more: Partial<SandboxSpec> = {}) => {
      const opened = await open(t);
      const id = `t${Date.now().toString(36)}${(count += 1)}`;
      const resources = { cpuCount: 1, memoryMB: 256 };
      const sandbox = await opened.provider.create({ id, image, resources, ...more });
      return { ...opened, sandbox, id, box: `svc-${id}-1` };
    };

    it('a program gets its environment, is nobody special, and nothing of the pod shows what it was given', async (t) => {
      const { facts, sandbox, box } = await made(t);
      assert.match(String(facts.version), /^Kubernetes v1\./);
      const { isolation, networkFence, images, commit, survivesRestart } = facts.capabilities;
      assert.deepEqual([networkFence, images, commit, survivesRestart], [true, true, false, true]);
      assert.ok(['container', 'gvisor', 'vm'].includes(isolation));
      const secret = `canary-${runId}-${'x'.repeat(24)}`;
      const script = `echo "$TOKEN $HOME $PWD"; id -u; grep CapEff /proc/self/status | tr -d '\\t'
      for path in /x /usr/x /etc/x /home/x /home/user/x /workspace/x /tmp/x; do (: > $path) 2>/dev/null && echo wrote $path; done; true`;
      const { output } = await sandbox.run({ command: script, env: { TOKEN: secret, HOME: '/elsewhere' }, ...time });
      const writable = 'wrote /home/user/x\nwrote /workspace/x\nwrote /tmp/x\n';
      // Who dials needs nobody to hold a stream into the pod.
      if (scene !== undefined) assert.equal(scene.cluster.execs.size, wire === 'dial' ? 0 : 1);
      assert.equal(output, `${secret} /home/user /workspace\n1000\nCapEff:0000000000000000\n${writable}`);
      if (scene !== undefined) {
        assert.equal(JSON.stringify(scene.cluster.pod(box)).includes(secret), false);
        assert.equal(scene.cluster.requests.join('\n').includes(secret), false);
      }
    });

    it('a channel leads to a socket of the daemon, and nothing else answers from inside', async (t) => {
      const { sandbox } = await made(t, { channels: [{ name: 'model', port: 4401 }] });
      assert.deepEqual(sandbox.notEnforced, []);
      const server = createServer((request, response) => request.pipe(response));
      await new Promise<void>((resolve) => server.listen(sandbox.socketOf('model'), resolve));
      t.after(() => server.close());
      const post = `fetch('http://127.0.0.1:4401/', {method: 'POST', body: 'x'.repeat(3000000)}).then((r) => r.text()).then((t) => console.log(t.length))`;
      assert.equal((await sandbox.run({ command: ['node', '-e', post], ...time })).output, '3000000\n');
      const clusterPort = Number(new URL(access.server).port) || 443;
      const open = createServer((_request, response) => response.end('open'));
      await new Promise<void>((resolve) => open.listen(0, '127.0.0.1', resolve));
      t.after(() => open.close());
      const { port: openPort } = open.address() as AddressInfo;
      const around = { daemonPort: openPort, databasePort: openPort, openPort, otherPorts: [clusterPort], sockets: [] };
      const wanted = attempts(around);
      assert.ok(wanted.length >= 400);
      const tried = await sandbox.run({ command: attemptArgv('node', wanted), ...time });
      assert.deepEqual(answered(tried.output), { count: wanted.length, open: [] }, tried.output);
    });

    it('an exec that is cut again and again loses and repeats no line', async (t) => {
      const { sandbox } = await made(t);
      const states: string[] = [];
      sandbox.onWire?.((state) => states.push(state));
      const lines = 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; [ $((i % 1000)) = 0 ] && sleep 1; done';
      const child = await sandbox.spawn({ argv: ['/bin/sh', '-c', lines] });
      child.stdin.end();
      const read = child.stdout.toArray();
      for (let cuts = 0; cuts < 4 && scene !== undefined; cuts += 1) {
        scene.cluster.cutExecs();
        scene.ways.cut();
        assert.ok(await eventually(() => states.filter((state) => state === 'ok').length > cuts));
      }
      const told = Buffer.concat(await read)
        .toString()
        .trim()
        .split('\n');
      assert.deepEqual([told.length, told[0], told[1_999], told.at(-1)], [3000, '1', '2000', '3000']);
    });

    it('its work is packed, and put back into another pod', { skip: wire === 'dial' && shortOnly }, async (t) => {
      const { sandbox } = await made(t, { directories: ['/srv/repo'] });
      await sandbox.writeFile('/home/user/.config/a.json', '{"a":1}', 0o640);
      const write =
        'mkdir -p /workspace/d && echo work > /workspace/d/w && ln -s d/w /workspace/l && echo other > /srv/repo/x';
      assert.equal((await sandbox.run({ command: write, ...time })).code, 0);
      (sandbox as unknown as { mounted: Set<string> }).mounted.add('/srv/repo');
      const parts = snapshotParts(sandbox);
      assert.deepEqual(
        parts.map(({ root }) => root),
        ['home', 'work', 'mount'],
      );
      const archives: Buffer[] = [];
      for (const part of parts)
        archives.push(Buffer.concat(await Array.fromAsync(packPart(sandbox, part, AbortSignal.timeout(30_000)))));
      const { Readable } = await import('node:stream');
      const { sandbox: next } = await made(t, { directories: ['/srv/repo'] });
      await restoreParts(next, parts, (part) => Readable.from([archives[part] ?? Buffer.alloc(0)]));
      const look =
        'cat ~/.config/a.json; stat -c %a ~/.config/a.json; cat /workspace/l /srv/repo/x; ls -A /workspace /home/user';
      assert.equal(
        (await next.run({ command: look, ...time })).output,
        '{"a":1}640\nwork\nother\n/home/user:\n.config\n\n/workspace:\nd\nl\n',
      );
    });

    it('a pod that somebody deletes is told to its programs; a start removes what nobody owns', async (t) => {
      const { sandbox, id, provider, engine, dataDir } = await made(t);
      const child = await sandbox.spawn({ argv: ['sleep', '300'] });
      const [box] = await engine.list((provider as unknown as { installation: string }).installation, id);
      assert.ok(box);
      await engine.destroy(box);
      assert.deepEqual(await child.exited, { code: null, signal: 'SIGKILL' });
      await assert.rejects(sandbox.spawn({ argv: ['true'] }));
      assert.equal(await provider.reopen(id), null);
      await provider.create({ id: `${id}k`, image });
      await provider.create({ id: `${id}l`, image });
      const next = await open(t, dataDir);
      const removed = await next.provider.reap(() => Promise.resolve(new Set([`${id}k`])));
      assert.deepEqual(
        removed.filter((one) => one.startsWith(`${id}l`)),
        [`${id}l`],
      );
      assert.deepEqual(
        (await next.provider.list()).flatMap((one) => (one.running ? [one.id] : [])),
        [`${id}k`],
      );
      await next.provider.reap(() => Promise.resolve(new Set()));
    });
  });
