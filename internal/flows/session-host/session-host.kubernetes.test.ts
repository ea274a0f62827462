// Sessions of a real daemon in pods of the fake cluster, which run for real (docs/guides/engines.md#on-kubernetes), with the
// scripted agent. One daemon and one cluster for all.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { digestText, IMAGE, Scene, whyNoPods } from '../../adapters/engine/kubernetes-testkit.ts';
import { SCRIPTED_AGENT } from '../../adapters/harness/harness-testkit.ts';
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
            node24: { image: IMAGE.reference, harnesses: { 'harness-a': ['node', ...SCRIPTED_AGENT.slice(1)] } },
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
