// Sessions in boxes whose daemon, wire, first process or box is killed (docs/reference/sessions.md#engines), on the fake
// cluster, whose pods run for real. After each: what was left behind ends by itself, never do two boxes of a session run at
// once, and no message is lost. A box waits for its daemon as long as the settings here say.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it, type TestContext } from 'node:test';
import { imageTable, Scene, whyNoPods } from '../../adapters/engine/kubernetes-testkit.ts';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import {
  atRest,
  type Box,
  hang,
  readSession,
  running,
  saidIn,
  stateOf,
  stream,
  streamed,
  wentOn,
  wentThrough,
} from './boxes-testkit.ts';
import { beginWorker, type CrashBench, createCrashBench, eventually } from './host-crash-testkit.ts';
import { Line } from './line-testkit.ts';

const root = join(import.meta.dirname, '../../..');
const lostSeconds = 5;

/** One that nobody listens on now: daemons come back on theirs. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

const why = await whyNoPods();
for (const wire of ['exec', 'dial'] as const)
  describe(`sessions in boxes by ${wire}`, { skip: why }, () => {
    /** Of pods that dial, one point in the short form. */
    const skip = wire === 'dial' && !isLong ? 'in the long form' : false;
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
      const harnesses = { 'harness-a': ['node', ...scriptedAgent.slice(1)] };
      const presets = { base: { image: imageTable.reference, harnesses } };
      const port = await freePort();
      if (wire === 'dial') scene.ways.all.push({ port, to: port });
      const dial = { wire, dial: { listen: `127.0.0.1:${port}`, address: `127.0.0.1:${port}` } };
      const kubernetes = { kubeconfig, namespace: 'svc', ...(wire === 'dial' && dial) };
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

    /** All connections between daemon and pods, whichever way they go; those to the API server are not made again. */
    const cut = (): void => {
      line.cut();
      scene.ways.cut();
    };

    /** Ended with its test. */
    const start = async (t: TestContext, env: { readonly [name: string]: string } = {}) => {
      const started = await bench.start('home', env);
      t.after(() => started.daemon.kill('SIGTERM'));
      return started;
    };

    it('end by themselves when their daemon is killed, and the next one goes on from there', { skip }, async (t) => {
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

    const restarts = { 'is killed': 'SIGKILL', 'stops in good order': 'SIGTERM' } as const;
    for (const [what, signal] of Object.entries(restarts)) {
      it(`go on in the same turn when their daemon ${what} and comes back`, {
        skip: signal === 'SIGTERM' && skip,
      }, async (t) => {
        const first = await start(t, { SVC_CONFIG: patient });
        const session = await beginWorker(first.api, '!say ready.');
        const pod = await stream(first.api, session, boxesOf);
        const { epoch } = await readSession(first.api, session);
        await first.daemon.kill(signal);
        const second = await start(t, { SVC_CONFIG: patient });
        await atRest(second.api, session, 'after.');
        const told = second.daemon
          .stderr()
          .split('\n')
          .filter((text) => text.includes('taken_up'));
        assert.match(told.join('\n'), /session\.taken_up/);
        assert.equal(await saidIn(second.api, session), `ready.${streamed}after.`);
        await wentThrough(second.api, session, { boxesOf, box: pod });
        const after = await readSession(second.api, session);
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

    it('end by themselves when the wire is lost for good, and their session is launched again', { skip }, async (t) => {
      const { api } = await start(t);
      const session = await beginWorker(api, '!say ready.');
      const pod = await hang(api, session, { boxesOf, hangs });
      scene.ways.isCut = true;
      cut();
      await eventually('the wire is lost', async () => {
        const { wire, state: now } = await readSession(api, session);
        return wire === ('lost' as never) || now === ('suspended' as never);
      });
      await eventually('it is suspended', async () => (await stateOf(api, session)) === 'suspended');
      await hasEnded(session);
      line.isCut = scene.ways.isCut = false;
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
          cut();
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
