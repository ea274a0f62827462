// The part of the fake cluster behind its API: takes pods to its one node, has their images or has not, runs them for real,
// tells their state, and keeps pools of sandboxes that stand ready as agent-sandbox does.

import { randomUUID } from 'node:crypto';
import type { RunningPod, Runner } from './runner.ts';
import type { Fields, Store, Stored } from './store.ts';

export interface Waiting {
  readonly reason: string;
  readonly message: string;
}
interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly volumeMounts?: readonly { readonly mountPath: string }[];
}
export interface PodSpec {
  readonly containers: readonly Container[];
  readonly activeDeadlineSeconds?: number;
  readonly nodeName?: string;
}
export interface Pool {
  readonly spec: PodSpec;
  /** How many stand ready at once. */
  readonly replicas: number;
}

export const NODE = 'node-1';
export const CLAIMS = 'sandboxclaims.extensions.agents.x-k8s.io';
const CLAIM_LABEL = 'agents.x-k8s.io/claim-uid';
const now = (): string => new Date().toISOString().replace(/\.\d+Z$/, 'Z');
export const specOf = (pod: Stored): PodSpec => pod.spec as unknown as PodSpec;

export class Kubelet {
  /** By the reference that a pod names: the `imageID`, or why there is none. */
  readonly images = new Map<string, string | Waiting>();
  /** Why no node takes a pod; absent: one does. */
  unschedulable: string | undefined;
  readonly pools = new Map<string, Pool>();
  readonly running = new Map<string, RunningPod>();
  readonly #store: Store;
  readonly #runner: Runner;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #work = new Set<Promise<void>>();
  #isStopped = false;

  constructor(store: Store, runner: Runner) {
    this.#store = store;
    this.#runner = runner;
    store.on(({ type, resource, object }) => {
      if (type !== 'ADDED' || this.#isStopped) return;
      if (resource === 'pods') this.#do(this.#start(object));
      if (resource === CLAIMS) this.#do(this.#claim(object));
    });
  }

  /** Makes a pool and waits until it stands ready. */
  async addPool(name: string, pool: Pool): Promise<void> {
    this.pools.set(name, pool);
    for (let count = 0; count < pool.replicas; count += 1) this.#warm(name);
    while (this.ready(name).length < pool.replicas) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** Pods of a pool that nobody has claimed. */
  ready(pool: string): readonly Stored[] {
    return this.#store
      .all('pods')
      .filter(
        ({ metadata, status }) =>
          metadata.labels?.['pool'] === pool &&
          !(CLAIM_LABEL in (metadata.labels ?? {})) &&
          status?.['phase'] === 'Running',
      );
  }

  /** As the node does when the API server has marked a pod for deletion. */
  delete(pod: Stored): void {
    this.#do(this.#end(pod));
  }

  /** By the node, for its own reasons. */
  async evict(pod: Stored, reason: string, message: string): Promise<void> {
    this.#status(pod, { phase: 'Failed', reason, message });
    await this.running.get(pod.metadata.uid)?.kill();
  }

  /** The kernel ends the pod for want of memory. */
  async outOfMemory(pod: Stored): Promise<void> {
    this.#terminated(pod, 137, 'OOMKilled');
    await this.running.get(pod.metadata.uid)?.kill();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all([...this.running.values()].map((pod) => pod.kill()));
    await Promise.all(this.#work);
  }

  #do(work: Promise<void>): void {
    const done = work.finally(() => this.#work.delete(done));
    this.#work.add(done);
  }

  #status(pod: Stored, status: Fields): void {
    this.#store.update('pods', pod, (found) => ({ ...found, status: { ...found.status, ...status } }));
  }

  #state(pod: Stored, phase: string, state: Fields, imageId = ''): void {
    const { name, image } = specOf(pod).containers[0] ?? { name: '', image: '' };
    const ready = 'running' in state;
    const conditions = [
      { type: 'PodScheduled', status: 'True' },
      { type: 'Ready', status: ready ? 'True' : 'False' },
    ];
    const containerStatuses = [{ name, image, imageID: imageId, ready, restartCount: 0, started: ready, state }];
    this.#status(pod, { phase, conditions, containerStatuses });
  }

  #terminated(pod: Stored, exitCode: number, reason: string): void {
    this.#store.update('pods', pod, (found) => {
      const before = (found.status?.['containerStatuses'] as readonly Fields[] | undefined)?.[0];
      // What the node or the kernel has said of its end is not taken back by the end itself.
      if (found.status?.['phase'] === 'Failed' || found.status?.['phase'] === 'Succeeded') return found;
      const state = { terminated: { exitCode, reason, startedAt: now(), finishedAt: now() } };
      const phase = exitCode === 0 ? 'Succeeded' : 'Failed';
      return { ...found, status: { ...found.status, phase, containerStatuses: [{ ...before, ready: false, state }] } };
    });
  }

  async #start(pod: Stored): Promise<void> {
    // Those who watch hear of the pod before they hear what became of it.
    await Promise.resolve();
    this.#status(pod, { phase: 'Pending', qosClass: 'Guaranteed' });
    if (this.unschedulable !== undefined) {
      const why = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: this.unschedulable };
      return this.#status(pod, { conditions: [why] });
    }
    this.#store.update('pods', pod, (found) => ({ ...found, spec: { ...found.spec, nodeName: NODE } }));
    const { image, command = [], volumeMounts = [] } = specOf(pod).containers[0] ?? { image: '' };
    const digest = this.images.get(image);
    if (digest === undefined || typeof digest !== 'string') {
      const waiting = digest ?? {
        reason: 'ErrImagePull',
        message: `failed to resolve reference "${image}": not found`,
      };
      return this.#state(pod, 'Pending', { waiting });
    }
    this.#state(pod, 'Pending', { waiting: { reason: 'ContainerCreating' } });
    const run = await this.#runner({
      name: pod.metadata.name,
      image,
      argv: command,
      mounts: volumeMounts.map(({ mountPath }) => mountPath),
      isFenced: pod.metadata.labels?.['svc/fenced'] === 'true',
      isLetOut: pod.metadata.labels?.['svc/wire'] === 'dial',
    });
    this.running.set(pod.metadata.uid, run);
    this.#state(pod, 'Running', { running: { startedAt: now() } }, digest);
    const deadline = specOf(pod).activeDeadlineSeconds;
    if (deadline !== undefined) {
      const late = setTimeout(
        () =>
          this.#do(
            this.evict(pod, 'DeadlineExceeded', 'Pod was active on the node longer than the specified deadline'),
          ),
        deadline * 1_000,
      );
      this.#timers.add(late);
      late.unref();
    }
    const { code } = await run.ended;
    this.running.delete(pod.metadata.uid);
    this.#terminated(pod, code, code === 0 ? 'Completed' : 'Error');
    await run.kill();
  }

  async #end(pod: Stored): Promise<void> {
    await this.running.get(pod.metadata.uid)?.kill();
    this.#store.remove('pods', pod);
  }

  #warm(pool: string): void {
    const found = this.pools.get(pool);
    if (found === undefined || this.#isStopped) return;
    const name = `${pool}-${randomUUID().slice(0, 5)}`;
    this.#make(name, { pool }, found.spec as unknown as Fields);
  }

  #make(name: string, labels: Readonly<Record<string, string>>, spec: Fields): void {
    const metadata = {
      name,
      namespace: 'svc',
      uid: randomUUID(),
      resourceVersion: '',
      creationTimestamp: now(),
      labels,
    };
    this.#store.put('pods', { apiVersion: 'v1', kind: 'Pod', metadata, spec });
  }

  /** What agent-sandbox does with a claim: a sandbox that stands ready takes its labels, or one is made under its name. */
  async #claim(claim: Stored): Promise<void> {
    await Promise.resolve();
    const spec = claim.spec as unknown as {
      warmPoolRef: { name: string };
      additionalPodMetadata?: { labels?: Record<string, string> };
    };
    const labels = { ...spec.additionalPodMetadata?.labels, [CLAIM_LABEL]: claim.metadata.uid };
    const pool = this.pools.get(spec.warmPoolRef.name);
    const told = (name: string, status: 'True' | 'False', reason: string, message = ''): void => {
      const condition = { type: 'Ready', status, reason, message, lastTransitionTime: now() };
      this.#store.update(CLAIMS, claim, (found) => ({
        ...found,
        status: { conditions: [condition], sandbox: { name } },
      }));
    };
    if (pool === undefined)
      return told('', 'False', 'WarmPoolNotFound', `SandboxWarmPool "${spec.warmPoolRef.name}" not found`);
    const [pod] = this.ready(spec.warmPoolRef.name);
    if (pod === undefined) {
      this.#make(claim.metadata.name, labels, pool.spec as unknown as Fields);
      return told(claim.metadata.name, 'False', 'DependenciesNotReady', 'Pod exists with phase: Pending');
    }
    this.#store.update('pods', pod, (found) => ({ ...found, metadata: { ...found.metadata, labels } }));
    told(pod.metadata.name, 'True', 'DependenciesReady');
  }

  /** The pods of a claim go with it. */
  released(claim: Stored): void {
    for (const pod of this.#store.all('pods'))
      if (pod.metadata.labels?.[CLAIM_LABEL] === claim.metadata.uid) this.delete(pod);
  }
}
