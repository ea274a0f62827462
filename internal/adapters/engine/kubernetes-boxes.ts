// One box as a pod: made and waited for, followed to its end, deleted. A request whose answer was lost is made again, for a
// name is taken once; what stands under the name already is ours, or is replaced, or is somebody else's and left alone.

import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError, type KubernetesClient, UnreachableError } from './kubernetes-client.ts';
import { boxName, isOwner, ownerOf, type PodManifest } from './kubernetes-pod.ts';
import { engineError, type Progress, progressOf } from './kubernetes-status.ts';
import type { Pod } from './kubernetes-types.ts';
import { podsPath, type PodWatch } from './kubernetes-watch.ts';
import { type BoxEvent, type BoxOwner, type BoxRef, type BoxStage, EngineError } from './types.ts';

/** How long a launch waits at most; each counts from the begin of its stage. */
export interface PodTimeouts {
  /** A cluster that grows by itself takes a pod that does not fit as the sign to: the next try finds the machine. */
  readonly schedulingMs: number;
  readonly pullingMs: number;
  readonly startingMs: number;
  readonly deletingMs: number;
}
export const podTimeouts: PodTimeouts = {
  schedulingMs: 60_000,
  pullingMs: 600_000,
  startingMs: 120_000,
  deletingMs: 15_000,
};

export interface Cluster {
  readonly client: KubernetesClient;
  readonly namespace: string;
  readonly timeouts: PodTimeouts;
}

/** A pod as a box; null where its labels are not those of one. */
export function refOf(pod: Pod): BoxRef | null {
  const owner = ownerOf(pod.metadata?.labels);
  const { name, uid } = pod.metadata ?? {};
  if (owner === null || name === undefined || uid === undefined) return null;
  const node = pod.spec?.nodeName;
  return { owner, name, uid, running: progressOf(pod).kind === 'running', ...(node !== undefined && { node }) };
}

/** Deletes what still has this uid. True: it is being deleted; false: it is gone, or another has its name. */
export async function deleteObject(client: KubernetesClient, path: string, uid: string): Promise<boolean> {
  try {
    await client.request({
      method: 'DELETE',
      path,
      body: { kind: 'DeleteOptions', apiVersion: 'v1', preconditions: { uid }, propagationPolicy: 'Background' },
    });
    return true;
  } catch (error) {
    // 409: what stands there now has another uid.
    if (error instanceof ApiError && (error.code === 404 || error.code === 409)) return false;
    throw error;
  }
}

const podPath = ({ namespace }: Cluster, name: string): string => `${podsPath(namespace)}/${encodeURIComponent(name)}`;

async function getPod(cluster: Cluster, name: string): Promise<Pod | null> {
  try {
    return await cluster.client.request<Pod>({ method: 'GET', path: podPath(cluster, name) });
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) return null;
    throw error;
  }
}

/** Ends a pod and waits until the cluster has let it go; a lost machine's pod stays, and is waited for no longer than that. */
export async function deletePod(cluster: Cluster, name: string, uid: string): Promise<void> {
  const until = performance.now() + cluster.timeouts.deletingMs;
  if (!(await deleteObject(cluster.client, podPath(cluster, name), uid))) return;
  for (let ms = 50; performance.now() < until; ms = Math.min(1_000, ms * 2)) {
    const pod = await getPod(cluster, name);
    if (pod === null || pod.metadata?.uid !== uid) return;
    await sleep(ms);
  }
}

/** Of the requests that lose a race inside the cluster, or their answer, and may be made again. */
function isAgain(error: unknown): boolean {
  if (error instanceof UnreachableError) return true;
  if (!(error instanceof ApiError)) return false;
  // A quota that two requests count at once: `Operation cannot be fulfilled on resourcequotas`.
  return error.code === 409 && error.status.reason === 'Conflict';
}

/** The pod of this manifest: new, or the one that an earlier request has made. */
export async function makePod(cluster: Cluster, manifest: PodManifest, owner: BoxOwner): Promise<Pod> {
  const { client, namespace } = cluster;
  for (let tries = 1; ; tries += 1) {
    try {
      return await client.request<Pod>({ method: 'POST', path: podsPath(namespace), body: manifest });
    } catch (error) {
      if (tries >= 4) throw error;
      if (isAgain(error)) await sleep(100 * tries);
      else if (error instanceof ApiError && error.code === 409) {
        const found = await getPod(cluster, manifest.metadata.name);
        if (found === null) continue;
        if (!isOwner(ownerOf(found.metadata?.labels), owner))
          throw new EngineError(
            'pod-rejected',
            `a pod named ${manifest.metadata.name} is there and not of this session`,
          );
        const { kind } = progressOf(found);
        if (kind !== 'ended' && kind !== 'evicted' && kind !== 'failed') return found;
        await deletePod(cluster, manifest.metadata.name, found.metadata?.uid ?? '');
      } else throw error;
    }
  }
}

const timeoutOf = (timeouts: PodTimeouts, kind: Progress['kind']): number =>
  kind === 'scheduling' ? timeouts.schedulingMs : kind === 'pulling' ? timeouts.pullingMs : timeouts.startingMs;

function outOfTime(at: Progress): EngineError {
  if (at.kind === 'scheduling')
    return new EngineError('unschedulable', at.unschedulable ?? 'no node was chosen in time');
  if (at.kind === 'pulling') return new EngineError('pull-failed', 'the image was not there in time');
  return new EngineError('engine-unreachable', 'the node did not start the pod in time');
}

/** What a pod that will not run any more means to its launch. */
function failure(at: Progress): EngineError | null {
  if (at.kind === 'failed') return new EngineError(at.code, at.reason);
  if (at.kind === 'evicted') return new EngineError('unschedulable', `the pod was evicted: ${at.reason}`);
  if (at.kind !== 'ended') return null;
  const code = at.code === null ? '' : ` with ${at.code}`;
  return new EngineError('pod-rejected', `the first process ended${code}${at.reason === '' ? '' : `: ${at.reason}`}`);
}

export interface Waiting {
  readonly name: string;
  readonly uid: string;
  /** What is waited for: that it runs, or that it has ended. */
  isDone(at: Progress): boolean;
  readonly onStage?: ((stage: BoxStage) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The pod when it is so far. Throws EngineError where it will not be, and the reason of the signal. */
export function waitForPod(watch: PodWatch, timeouts: PodTimeouts, waiting: Waiting): Promise<Pod> {
  const { name, uid, signal, onStage } = waiting;
  const { promise, resolve, reject } = Promise.withResolvers<Pod>();
  let at: Progress = { kind: 'scheduling' };
  let isSeen = false;
  let timer = setTimeout(() => reject(outOfTime(at)), timeouts.schedulingMs);
  onStage?.('scheduling');
  const leave = watch.on(name, (pod) => {
    const isOurs = pod?.metadata?.uid === uid;
    if (!isOurs) {
      // Before it was seen at all the watch is only late.
      if (isSeen) reject(new EngineError('unschedulable', 'the pod was deleted by somebody else'));
      return;
    }
    isSeen = true;
    const before = at.kind;
    at = progressOf(pod);
    if (waiting.isDone(at)) return resolve(pod);
    const failed = failure(at);
    if (failed !== null) return reject(failed);
    if (at.kind === before) return;
    if (at.kind === 'pulling' || at.kind === 'starting') onStage?.(at.kind);
    clearTimeout(timer);
    timer = setTimeout(() => reject(outOfTime(at)), timeoutOf(timeouts, at.kind));
  });
  const give = (): void => reject(signal?.reason as Error);
  if (signal?.aborted === true) give();
  signal?.addEventListener('abort', give, { once: true });
  return promise.finally(() => {
    clearTimeout(timer);
    leave();
    signal?.removeEventListener('abort', give);
  });
}

const eventOf = (at: Progress): BoxEvent | null => {
  if (at.kind === 'running' || at.kind === 'ended' || at.kind === 'evicted') return at as BoxEvent;
  return at.kind === 'failed' ? { kind: 'image-error', code: at.code, reason: at.reason } : null;
};

/** What becomes of a box, each change once, until the signal or its end. */
export async function* eventsOf(watch: PodWatch, ref: BoxRef, signal: AbortSignal): AsyncGenerator<BoxEvent, void> {
  const queue: BoxEvent[] = [];
  let wake: (() => void) | undefined;
  let last = '';
  let isSeen = false;
  const put = (event: BoxEvent | null): void => {
    if (event === null || event.kind === last) return;
    last = event.kind;
    queue.push(event);
    wake?.();
  };
  await watch.ready().catch((error: unknown) => {
    throw engineError(error);
  });
  const leave = watch.on(ref.name, (pod) => {
    if (pod?.metadata?.uid === ref.uid) {
      isSeen = true;
      put(eventOf(progressOf(pod)));
    } else if (isSeen) put({ kind: 'evicted', reason: 'the pod is gone' });
  });
  const stop = (): void => wake?.();
  signal.addEventListener('abort', stop, { once: true });
  try {
    // A watch that has not heard of a new pod yet says the same of it as of one that is gone: the first seconds tell.
    const late = setTimeout(() => {
      if (!isSeen) put({ kind: 'evicted', reason: 'the pod is gone' });
    }, 5_000);
    late.unref();
    try {
      while (!signal.aborted) {
        const event = queue.shift();
        if (event !== undefined) yield event;
        if (event !== undefined && event.kind !== 'running') return;
        if (queue.length === 0 && !signal.aborted) await new Promise<void>((resolve) => (wake = resolve));
      }
    } finally {
      clearTimeout(late);
    }
  } finally {
    signal.removeEventListener('abort', stop);
    leave();
  }
}

/** The manifest's pod, when it runs; what could not be is removed again. Throws EngineError. */
export async function startPod(
  cluster: Cluster,
  watch: PodWatch,
  manifest: PodManifest,
  owner: BoxOwner,
  waiting: Pick<Waiting, 'onStage' | 'signal'>,
): Promise<Pod> {
  waiting.signal?.throwIfAborted();
  try {
    await watch.ready();
    const made = await makePod(cluster, manifest, owner);
    const uid = made.metadata?.uid ?? '';
    try {
      return await waitForPod(watch, cluster.timeouts, {
        name: boxName(owner),
        uid,
        isDone: ({ kind }) => kind === 'running',
        ...waiting,
      });
    } catch (error) {
      await deletePod(cluster, boxName(owner), uid);
      throw error;
    }
  } catch (error) {
    throw engineError(error);
  }
}
