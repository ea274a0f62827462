// Sessions in boxes whose daemon, wire, first process or box is killed (docs/reference/sessions.md#engines), on the fake
// cluster, whose pods run for real. After each: what was left behind ends by itself, never do two boxes of a session run at
// once, and no message is lost. A box waits for its daemon as long as the settings here say.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { IMAGE, Scene, whyNoPods } from '../../adapters/engine/kubernetes-testkit.ts';
import { SCRIPTED_AGENT } from '../../adapters/harness/harness-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import { atRest, type Box, hang, readSession, running, saidIn, stateOf, wentOn } from './boxes-testkit.ts';
import { beginWorker, type CrashBench, createCrashBench, eventually } from './host-crash-testkit.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import { Line } from './line-testkit.ts';

const root = join(import.meta.dirname, '../../..');
const lostSeconds = 5;
const chunks = 200;

describe('sessions in boxes', { skip: await whyNoPods() }, () => {
  let scene: Scene;
  let bench: CrashBench;
  let line: Line;
  let patient: string;
  /** Pairs of boxes of one session that ran at the same time. */
  const twins: string[] = [];

  const boxesOf = (session: string): Box[] =>
    scene.cluster.store
      .all('pods')
      .filter(({ metadata }) => metadata.labels?.['svc/session'] === session)
      .map(({ metadata, status }) => ({
        name: metadata.name,
        epoch: Number(metadata.labels?.['svc/epoch']),
        runs: status?.['phase'] === 'Running',
      }));
  // The files of a pod go with it.
  const hangs = ({ name }: Box): string => `test $(hostname) = ${name}`;
  const hasEnded = (session: string) =>
    eventually('its box has ended', () => boxesOf(session).every(({ runs }) => !runs));

  before(async () => {
    scene = await Scene.start(['testdata', 'internal', 'node_modules'].map((name) => join(root, name)));
    scene.cluster.store.on(({ object }) => {
      const session = object.metadata.labels?.['svc/session'];
      if (session === undefined) return;
      const both = boxesOf(session).flatMap(({ name, runs }) => (runs ? [name] : []));
      if (both.length > 1) twins.push(both.join(' and '));
    });
    const kubeconfig = await scene.kubeconfig();
    line = await Line.before(kubeconfig, false);
    const file = join(scene.folder, 'svc.json');
    const harnesses = { 'harness-a': ['node', ...SCRIPTED_AGENT.slice(1)] };
    const presets = { base: { image: IMAGE.reference, harnesses } };
    const kubernetes = { kubeconfig, namespace: 'svc' };
    await writeFile(file, JSON.stringify({ sandboxes: { kubernetes, presets, lostSeconds } }));
    // However long a daemon takes to come back, its boxes wait.
    patient = join(scene.folder, 'patient.json');
    await writeFile(patient, JSON.stringify({ sandboxes: { kubernetes, presets } }));
    bench = await createCrashBench('kubernetes', { SVC_CONFIG: file });
  });
  after(async () => {
    await bench?.remove();
    await line?.stop();
    await scene?.stop();
  });

  /** Ended with its test. */
  const start = async (t: TestContext, env: { readonly [name: string]: string } = {}) => {
    const started = await bench.start('home', env);
    t.after(() => started.daemon.kill('SIGTERM'));
    return started;
  };

  it('end by themselves when their daemon is killed, and the next one goes on from there', async (t) => {
    const first = await start(t);
    const session = await beginWorker(first.api, '!say ready.');
    const pod = await hang(first.api, session, { boxesOf, hangs });
    await first.daemon.kill('SIGKILL');
    await hasEnded(session);
    const second = await start(t);
    await wentOn(second.api, session, { boxesOf, before: pod });
    assert.deepEqual(twins, []);
    await second.api('POST', `P/sessions/${session}/archive`);
    await eventually('no box is left', () => boxesOf(session).length === 0);
  });

  /** A turn that streams until the file appears in its box, with the pod that it runs in. */
  const stream = async (api: Api, session: string): Promise<Box> => {
    await atRest(api, session, 'ready.');
    const [box] = await running(boxesOf, session);
    assert.ok(box !== undefined);
    const sent = await api('POST', `P/sessions/${session}/messages`, { text: `!stream ${chunks} 20\n!say after.` });
    assert.ok(sent.status < 300, JSON.stringify(sent.body));
    await eventually('it has begun', async () => (await saidIn(api, session)).includes('chunk 5 '));
    return box;
  };
  const streamed = Array.from({ length: chunks }, (_, n) => `chunk ${n + 1} `).join('');
  const restarts = { 'is killed': 'SIGKILL', 'stops in good order': 'SIGTERM' } as const;
  for (const [what, signal] of Object.entries(restarts)) {
    it(`go on in the same turn when their daemon ${what} and comes back`, async (t) => {
      const first = await start(t, { SVC_CONFIG: patient });
      const session = await beginWorker(first.api, '!say ready.');
      const pod = await stream(first.api, session);
      const { epoch } = await readSession(first.api, session);
      await first.daemon.kill(signal);
      const second = await start(t, { SVC_CONFIG: patient });
      await atRest(second.api, session, 'after.');
      const { body } = await second.api('GET', `P/sessions/${session}/messages?limit=200`);
      const items = body['items'] as unknown as { kind: string; text: string }[];
      const told = second.daemon
        .stderr()
        .split('\n')
        .filter((text) => text.includes('taken_up'));
      assert.match(told.join('\n'), /session\.taken_up/);
      assert.equal(await saidIn(second.api, session), `ready.${streamed}after.`);
      assert.deepEqual(
        items.filter(({ kind }) => kind === 'notice').map(({ text }) => text),
        [],
      );
      const after = await readSession(second.api, session);
      assert.deepEqual(after['inbox'], { pending: 0, inFlight: 0, done: 2, failed: 0 });
      assert.deepEqual(
        (await running(boxesOf, session)).map(({ name }) => name),
        [pod.name],
      );
      assert.notEqual(after['epoch'] ?? 'new', epoch ?? 'old');
      // The next turn goes to the same harness.
      await second.api('POST', `P/sessions/${session}/messages`, { text: '!say again.' });
      await atRest(second.api, session, 'again.');
      assert.deepEqual(twins, []);
      await second.api('POST', `P/sessions/${session}/archive`);
      await eventually('no box is left', () => boxesOf(session).length === 0);
      await second.daemon.kill('SIGTERM');
    });
  }

  it('end by themselves when the wire is lost for good, and their session is launched again', async (t) => {
    const { api } = await start(t);
    const session = await beginWorker(api, '!say ready.');
    const pod = await hang(api, session, { boxesOf, hangs });
    line.cut();
    await eventually('the wire is lost', async () => {
      const { wire, state: now } = await readSession(api, session);
      return wire === ('lost' as never) || now === ('suspended' as never);
    });
    await eventually('it is suspended', async () => (await stateOf(api, session)) === 'suspended');
    await hasEnded(session);
    line.isCut = false;
    await wentOn(api, session, { boxesOf, before: pod });
    assert.deepEqual(twins, []);
  });

  const killPod = async ({ name }: Box): Promise<void> => {
    const pod = scene.cluster.store.all('pods').find(({ metadata }) => metadata.name === name);
    const run = scene.cluster.kubelet.running.get(pod?.metadata.uid ?? '');
    assert.ok(run !== undefined);
    await run.kill();
  };
  const kills: { readonly [what: string]: (pod: Box) => Promise<void> } = {
    'its pod': killPod,
    'its pod, after five cuts of the wire,': async (pod) => {
      for (let count = 0; count < 5; count += 1) {
        line.cut();
        line.isCut = false;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      await killPod(pod);
    },
  };
  for (const [what, kill] of Object.entries(isLong ? kills : {})) {
    it(`go on in a new one when ${what} is killed`, async (t) => {
      const { api } = await start(t);
      const session = await beginWorker(api, '!say ready.');
      const pod = await hang(api, session, { boxesOf, hangs });
      await kill(pod);
      await wentOn(api, session, { boxesOf, before: pod });
      assert.deepEqual(twins, []);
    });
  }

  const points = [
    'claimed',
    'sandbox-open',
    'provisioned',
    'spawned',
    'opened',
    'turn-begun',
    'turn-ended',
    'turn-settled',
  ];
  for (const point of isLong ? points : []) {
    it(`are left by none that is killed at session.${point}`, async (t) => {
      const first = await start(t, { SVC_FAILPOINT: `session.${point}` });
      const session = await beginWorker(first.api, '!say first.');
      assert.equal((await first.daemon.exited).signal, 'SIGKILL');
      await hasEnded(session);
      const second = await start(t);
      await atRest(second.api, session, 'first.');
      assert.equal((await readSession(second.api, session))['inbox']?.['failed'], 0);
      assert.deepEqual(twins, []);
      // One that was killed between two turns has nothing to launch its session for.
      assert.ok((await running(boxesOf, session)).length <= 1);
      await second.daemon.kill('SIGTERM');
      await hasEnded(session);
    });
  }
});
