// Sessions of a real daemon in pods of the fake cluster, which run for real (docs/guides/engines.md#on-kubernetes), with the
// scripted agent. One daemon and one cluster for all.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { digestText, imageTable, Scene, whyNoPods } from '../../adapters/engine/kubernetes-testkit.ts';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { Line } from './line-testkit.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';

const root = join(import.meta.dirname, '../../..');

describe('sessions on a cluster', { skip: await whyNoPods() }, () => {
  let scene: Scene;
  let bench: HostBench;
  let line: Line;
  before(async () => {
    scene = await Scene.start(['testdata', 'internal', 'node_modules'].map((name) => join(root, name)));
    const kubeconfig = await scene.kubeconfig();
    line = await Line.before(kubeconfig, true);
    const config = {
      sandbox: 'kubernetes',
      file: {
        sandboxes: {
          kubernetes: { kubeconfig, namespace: 'svc', fence: 'required' },
          presets: {
            node24: { image: imageTable.reference, harnesses: { 'harness-a': ['node', ...scriptedAgent.slice(1)] } },
          },
        },
      },
    } as const;
    bench = await createHostBench({ config });
    const environment = {
      name: 'inside',
      image: { kind: 'preset', name: 'node24' },
      resources: { memoryMB: 512, cpuCount: 1 },
      // A cluster keeps no changed image: they change home.
      steps: ['echo built > $HOME/step'],
    };
    await bench.apply({ inside: { environment } });
  });
  after(async () => {
    await bench?.stop();
    await line?.stop();
    await scene?.stop();
  });
  const podOf = (session: string) =>
    scene.cluster.store.all('pods').find(({ metadata }) => metadata.labels?.['svc/session'] === session);

  it('wait for a cluster that does not answer when the daemon starts, and tell the stages of their launch', async () => {
    const session = await bench.start('inside', '!say at last.');
    const waiting = await bench.until(session, ({ body }) => body['engineReason'] !== undefined);
    assert.deepEqual(
      [waiting.state, waiting.reason, waiting.body['engineReason']],
      ['queued', 'engine', 'engine-unreachable'],
    );
    line.isCut = false;
    const { body } = await bench.until(session, ({ state, said }) => state === 'idle' && said.endsWith('at last.'));
    const stages = body['provisioning'] as unknown as { stage: string; ms: number; at: string }[];
    assert.deepEqual(
      [...new Set(stages.map(({ stage }) => stage))].filter((stage) => stage !== 'pulling'),
      ['scheduling', 'starting', 'setup', 'mounting'],
      JSON.stringify(stages),
    );
    assert.equal(stages[0]?.stage, 'pulling');
    assert.ok(stages.every(({ ms, at }, index) => ms >= 0 && at >= (stages[index - 1]?.at ?? '')));
    await bench.daemon.api('POST', `P/sessions/${session}/archive`, {});
  });

  it('run in pods, recorded with their digest; wait for the cluster; leave no pod', async () => {
    const session = await bench.start('inside', '!exec id -u; pwd; cat ~/step; echo kept > ~/file\n!say .the-end.');
    const view = await bench.until(
      session,
      ({ state, said }) => state === 'failed' || (state === 'idle' && said.endsWith('.the-end.')),
    );
    assert.match(view.said, /^1000\n\/workspace\nbuilt\n/, JSON.stringify(view.body));
    const { provider, isolation, digest, fenced, notEnforced } = view.body['sandbox'] as unknown as {
      [key: string]: unknown;
    };
    assert.deepEqual(
      [provider, isolation, digest, fenced, notEnforced],
      ['kubernetes', 'container', digestText, true, []],
    );
    assert.equal(podOf(session)?.metadata.name, `svc-${session}-${podOf(session)?.metadata.labels?.['svc/epoch']}`);
    scene.cluster.quota = 0;
    const queued = await bench.start('inside', '!say late.');
    const waiting = await bench.until(
      queued,
      ({ state, body }) => state === 'queued' && body['engineReason'] !== undefined,
    );
    assert.deepEqual([waiting.reason, waiting.body['engineReason']], ['engine', 'quota-exceeded']);
    scene.cluster.quota = Number.POSITIVE_INFINITY;
    await bench.until(queued, ({ said }) => said.endsWith('late.'));
    for (const one of [session, queued])
      assert.equal((await bench.daemon.api('POST', `P/sessions/${one}/archive`, {})).status, 200);
    for (let tries = 0; tries < 600 && (podOf(session) ?? podOf(queued)) !== undefined; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 50));
    assert.deepEqual([podOf(session), podOf(queued)], [undefined, undefined]);
  });
});

// As above, with pods that come to the daemon; and what people see of sessions on a cluster, and do with them.
describe('sessions whose pods dial', { skip: await whyNoPods() }, () => {
  const main = join(root, 'cmd/svc/main.ts');
  let scene: Scene;
  let bench: HostBench;
  before(async () => {
    scene = await Scene.start(['testdata', 'internal', 'node_modules'].map((name) => join(root, name)));
    const harnesses = { 'harness-a': ['node', ...scriptedAgent.slice(1)] };
    const kubernetes = {
      kubeconfig: await scene.kubeconfig(),
      namespace: 'svc',
      fence: 'required',
      wire: 'dial',
      dial: { listen: '127.0.0.1:0', address: '127.0.0.1' },
    };
    const presets = { node24: { image: imageTable.reference, harnesses } };
    bench = await createHostBench({ config: { sandbox: 'kubernetes', file: { sandboxes: { kubernetes, presets } } } });
    const environment = { name: 'inside', image: { kind: 'preset', name: 'node24' } };
    await bench.apply({ inside: { environment } });
  });
  after(async () => {
    await bench?.stop();
    await scene?.stop();
  });
  const svc = async (args: readonly string[], input = '') => {
    const { token, dataDir, url } = bench.daemon;
    const env = { PATH: process.env['PATH'], HOME: dataDir, SVC_URL: url, SVC_TOKEN: token };
    const child = spawn(process.execPath, [main, ...args], {
      env: { ...env, SVC_ORG: 'default', SVC_PROJECT: 'default' },
    });
    child.stdin.end(input);
    const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)));
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await ended, out, err };
  };
  const waits = async (what: string, holds: () => boolean | Promise<boolean>, most = 1_200): Promise<void> => {
    for (let tries = 0; tries < most && !(await holds()); tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 50));
    assert.ok(await holds(), what);
  };

  it('run over the network that the policy leaves them, seen and reached by people, and leave no pod', async () => {
    const { body: seen } = await bench.daemon.api('GET', '/api/v1/sandbox');
    const [provider] = seen['providers'] as unknown as {
      provider: string;
      why: string;
      version: string;
      works: boolean;
    }[];
    assert.deepEqual([provider?.provider, provider?.works], ['kubernetes', true]);
    const port = Number(/; pods dial 127\.0\.0\.1:(\d+)$/.exec(provider?.why ?? '')?.[1]);
    assert.ok(port > 0, provider?.why);
    // Nothing lets pods out yet.
    const session = await bench.start('inside', '!exec id -u; pwd\n!say .the-end.');
    await waits('it is told that it reaches nobody', () => scene.cluster.execs.size > 0);
    await bench.daemon.api('POST', `P/sessions/${session}/archive`, {});
    // Nobody waits until the way is given up: an end has half a minute.
    await waits('its pod goes', () => scene.cluster.store.all('pods').length === 0, 600);
    scene.ways.all.push({ port, to: port });
    const second = await bench.start('inside', '!exec id -u; pwd\n!say .the-end.');
    const view = await bench.until(second, ({ state, said }) => state === 'idle' && said.endsWith('.the-end.'));
    assert.match(view.said, /^1000\n\/workspace\n/);
    await waits('no stream through the API server is held', () => scene.cluster.execs.size === 0);
    // A cut, with an API server that is away: the pod comes back by itself.
    const before = scene.ways.count;
    scene.cluster.fault = () => 'cut';
    scene.ways.cut();
    await waits('it comes again', () => scene.ways.count > before);
    await bench.send(second, '!say again.');
    await bench.until(second, ({ state, said }) => state === 'idle' && said.endsWith('again.'));
    scene.cluster.fault = () => undefined;

    const done = await svc(
      ['session', 'exec', second, '--', 'sh', '-c', 'cat; id -u >&2; exit 7'],
      'hello\n'.repeat(30_000),
    );
    assert.deepEqual([done.code, done.out.length, done.err], [7, 180_000, '1000\n']);
    const doctor = await svc(['doctor', '--json']);
    assert.match(
      doctor.out,
      /kubernetes: Kubernetes v1\.[^"]* answers at sandboxes\.kubernetes; pods dial 127\.0\.0\.1:/,
    );
    assert.doesNotMatch(doctor.out, /does not lead to this daemon/);

    // A pod of this installation that no session owns, and one of a stranger.
    const pod = scene.cluster.store.all('pods').find(({ metadata }) => metadata.labels?.['svc/session'] === second);
    assert.ok(pod !== undefined);
    const orphan = randomUUID();
    const like = (name: string, labels: { readonly [name: string]: string }) => {
      const metadata = { ...pod.metadata, name, uid: randomUUID(), labels };
      scene.cluster.store.put('pods', { ...pod, metadata });
    };
    like(`svc-${orphan}-1`, { ...pod.metadata.labels, 'svc/session': orphan, 'svc/epoch': '1' });
    like('svc-stranger-1', { ...pod.metadata.labels, 'svc/installation': 'another' });
    const listed = JSON.parse((await svc(['sandbox', 'list', '--json'])).out) as {
      items: { session: string; state: string; provider: string | null }[];
    };
    const states = new Map(listed.items.map((one) => [one.session, `${one.state} ${one.provider}`]));
    assert.deepEqual([states.get(second), states.get(orphan)], ['running kubernetes', 'left null']);
    assert.match((await svc(['doctor', '--json'])).out, /that no live session owns/);
    const reaped = await svc(['sandbox', 'reap', '--json']);
    assert.ok((JSON.parse(reaped.out) as { reaped: string[] }).reaped.includes(orphan), reaped.out);
    await waits('it is gone', () => !scene.cluster.store.has('pods', `svc-${orphan}-1`));
    assert.ok(scene.cluster.store.has('pods', 'svc-stranger-1'));
    const metrics = await (await fetch(`${bench.daemon.url}/metrics`)).text();
    assert.match(metrics, /^svc_sandbox_live\{provider="kubernetes"\} 1$/m);
    assert.match(metrics, /^svc_sandbox_reaped_total [1-9]/m);
    assert.match(metrics, /^svc_wire_cuts_total [1-9]/m);
    assert.match(
      metrics,
      /^svc_sandbox_start_seconds_count\{provider="kubernetes",path="cold",stage="scheduling"\} [1-9]/m,
    );
    await bench.daemon.api('POST', `P/sessions/${second}/archive`, {});
    await waits('no pod of a session is left', () =>
      scene.cluster.store.all('pods').every(({ metadata }) => metadata.labels?.['svc/installation'] === 'another'),
    );
    // Of a pod of this service that is gone with its files there are boxes alone.
    await waits(
      'nothing lies here any more',
      async () => (await readdir(join(bench.daemon.dataDir, 'sandboxes'))).length === 0,
    );
    const lost = randomUUID();
    like(`svc-${lost}-1`, { ...pod.metadata.labels, 'svc/session': lost, 'svc/epoch': '1' });
    assert.match((await svc(['sandbox', 'list', '--json'])).out, new RegExp(lost));
    assert.match((await svc(['sandbox', 'reap', '--json'])).out, new RegExp(lost));
    assert.ok(!scene.cluster.store.has('pods', `svc-${lost}-1`));
  });
});
