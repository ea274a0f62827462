// Sandboxes in pods against the cluster by itself: a pod created, waited for and given one program over the API, in turns,
// on the fake cluster, whose pods are containers of a real dockerd where there is one, else bubblewrap's. Once by exec and once with pods that dial; then a wire that is cut, a pod that
// another life of the daemon takes over, and a stream through a channel.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { kubeconfigAccess, KubernetesEngine } from '../adapters/engine/engine.ts';
import { KubernetesClient } from '../adapters/engine/kubernetes-client.ts';
import { exec } from '../adapters/engine/kubernetes-exec.ts';
import { lacking, startEngine } from '../adapters/engine/engine-testkit.ts';
import { dockerRunner } from '../adapters/engine/kubernetes-docker-testkit.ts';
import { imageTable, Scene, whyNoPods } from '../adapters/engine/kubernetes-testkit.ts';
import type { Pod } from '../adapters/engine/kubernetes-types.ts';
import { openSandboxes, type Sandbox, type SandboxProvider, WireDoor } from '../adapters/sandbox/sandbox.ts';
import { launched, program, relay, takenOver } from './engines.ts';
import { type Bench, type Bencher, medianMs, timed } from './harness.ts';

const rounds = 7;
const namespace = 'svc';
const path = `/api/v1/namespaces/${namespace}/pods`;
const image = imageTable.reference;

async function barePod(client: KubernetesClient, labels: object = {}): Promise<string> {
  const name = `bare-${randomBytes(6).toString('hex')}`;
  const securityContext = {
    runAsNonRoot: true,
    runAsUser: 1000,
    allowPrivilegeEscalation: false,
    seccompProfile: { type: 'RuntimeDefault' },
    capabilities: { drop: ['ALL'] },
  };
  const container = { name: 'svc', image, command: ['sleep', '600'], securityContext };
  const body = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { 'svc/fenced': 'true', ...labels } },
    spec: { restartPolicy: 'Never', automountServiceAccountToken: false, containers: [container] },
  };
  await client.request({ method: 'POST', path, body });
  const running = async (): Promise<boolean> =>
    (await client.request<Pod>({ method: 'GET', path: `${path}/${name}` })).status?.phase === 'Running';
  while (!(await running())) await sleep(5);
  return name;
}

async function bareExec(client: KubernetesClient, pod: string): Promise<void> {
  const { stream, ended } = await exec(client, { namespace, pod, container: 'svc', argv: program });
  stream.resume();
  const { code, reason } = await ended;
  if (code !== 0) throw new Error(`the program ended with ${code}: ${reason}`);
  stream.destroy();
}

const removed = (client: KubernetesClient, pod: string): Promise<unknown> =>
  client.request({ method: 'DELETE', path: `${path}/${pod}` });

/** `labels`: by which policies let it out, as those of ours. */
async function bare(client: KubernetesClient, labels: object): Promise<number> {
  let pod = '';
  const took = await timed(async () => {
    pod = await barePod(client, labels);
    await bareExec(client, pod);
  });
  await removed(client, pod);
  return took;
}

/** Until a wire that was cut carries a program again. */
async function reattach(open: () => Promise<Sandbox>, cut: () => void): Promise<number[]> {
  const sandbox = await open();
  const times: number[] = [];
  let mended: (() => void) | undefined;
  sandbox.onWire?.((state) => state === 'ok' && mended?.());
  for (let round = 0; round < rounds; round += 1) {
    const again = new Promise<void>((resolve) => (mended = resolve));
    const began = performance.now();
    cut();
    await again;
    times.push(performance.now() - began);
  }
  await sandbox.destroy();
  return times;
}

async function openProvider(bench: Bencher, scene: Scene, door: WireDoor | undefined): Promise<SandboxProvider> {
  const engine = new KubernetesEngine({
    access: kubeconfigAccess(await scene.kubeconfig()),
    namespace,
    now: Date.now,
  });
  const choice = { engine, setting: 'sandboxes.kubernetes', fence: 'required', isLocal: false } as const;
  const { provider } = await openSandboxes({
    dataDir: join(await bench.directory(), 'data'),
    sandbox: 'kubernetes',
    host: { PATH: process.env['PATH'] ?? '' },
    engineOf: () => ({ ...choice, ...(door !== undefined && { door }) }),
  });
  bench.atEnd(() => provider.close());
  return provider;
}

async function run(bench: Bencher): Promise<void> {
  const why = await whyNoPods();
  if (why !== false) return bench.skipped('kubernetes: launches', why);
  // What runs the pods is to be as slow as a node's own, where it is here.
  const engine = lacking('docker') === null ? await startEngine('docker') : undefined;
  if (engine !== undefined) bench.atEnd(() => engine.stop());
  const scene = await Scene.start([], engine && ((ways) => dockerRunner(engine, ways)));
  bench.atEnd(() => scene.stop());
  const door = await WireDoor.open({ listen: { host: '127.0.0.1', port: 0 }, address: { host: '127.0.0.1' } });
  bench.atEnd(() => door.close());
  scene.ways.all.push({ port: door.place.port, to: door.place.port });
  const client = new KubernetesClient(kubeconfigAccess(await scene.kubeconfig()));
  bench.atEnd(() => client.close());
  const ways = await Promise.all(
    [
      { name: 'kubernetes by exec', labels: {} },
      { name: 'kubernetes by dial', labels: { 'svc/wire': 'dial' }, door },
    ].map(async (one) => ({
      ...one,
      provider: await openProvider(bench, scene, one.door),
      alone: [] as number[],
      ours: [] as number[],
    })),
  );
  for (let round = -1; round < rounds; round += 1) {
    for (const { provider, labels, alone, ours } of ways) {
      const bareMs = await bare(client, labels);
      let sandbox: Sandbox | undefined;
      const took = await timed(async () => {
        sandbox = await launched(provider, { image });
      });
      await sandbox?.destroy();
      if (round < 0) continue;
      alone.push(bareMs);
      ours.push(took);
    }
  }
  const pod = await barePod(client);
  const execs: number[] = [];
  for (let round = 0; round < rounds; round += 1) execs.push(await timed(() => bareExec(client, pod)));
  await removed(client, pod);
  for (const { name, provider, alone, ours } of ways) {
    const open = (more: object = {}): Promise<Sandbox> => launched(provider, { image, ...more });
    bench.ratio(`${name}: launch / create, start and exec alone`, medianMs(ours), medianMs(alone), 1.5);
    const cuts = await reattach(open, () => {
      scene.cluster.cutExecs();
      scene.ways.cut();
    });
    bench.ratio(`${name}: a cut wire mended / one exec alone`, medianMs(cuts), medianMs(execs), 3);
    const taken = await takenOver(provider, open);
    bench.ratio(`${name}: a box taken over / one exec alone`, medianMs(taken), medianMs(execs), 3);
    await relay(bench, name, open);
  }
}

export const kubernetes: Bench = {
  name: 'engine-kubernetes',
  title: 'sessions’ pods against a cluster alone',
  run,
};
