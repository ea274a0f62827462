// A cluster as an engine: boxes are bare pods of one namespace, or claims on pools that stand ready; the wire is an exec to
// the first process, which needs no network of the pod. A claim that cannot be had goes cold at once. The cluster's own
// words stand in every refusal. docs/reference/sessions.md#engines.

import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import type { Duplex } from 'node:stream';
import { unlessAborted } from '../../base/waits.ts';
import type { ClusterAccess } from './kubernetes-access.ts';
import {
  type Cluster,
  deletePod,
  eventsOf,
  makePod,
  podTimeouts,
  type PodTimeouts,
  refOf,
  startPod,
  waitForPod,
} from './kubernetes-boxes.ts';
import { Claims } from './kubernetes-claims.ts';
import { ApiError, KubernetesClient } from './kubernetes-client.ts';
import { exec } from './kubernetes-exec.ts';
import { boxName, containerText, imageLabel, imagePod, pinned, podManifest, resolvedFrom } from './kubernetes-pod.ts';
import { engineError } from './kubernetes-status.ts';
import type { Pod } from './kubernetes-types.ts';
import { listAll, podsPath, PodWatch } from './kubernetes-watch.ts';
import {
  type BoxEvent,
  type BoxRef,
  type BoxSpec,
  type Engine,
  EngineError,
  type EngineFacts,
  type EngineIsolation,
  type ResolvedImage,
} from './types.ts';

export interface KubernetesOptions {
  readonly access: ClusterAccess;
  readonly namespace: string;
  readonly runtimeClass?: string | undefined;
  /** Pools of agent-sandbox by the image, as the presets name it, whose sessions they serve. */
  readonly pools?: { readonly [image: string]: string } | undefined;
  readonly timeouts?: Partial<PodTimeouts>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** What a tag means is asked again after so long: launches at once share one answer. */
const resolvedMs = 60_000;
/** A pod that only found out what an image is, and that nobody deleted. */
const staleImagePodMs = 30 * 60_000;

const needed = [
  ['create', 'pods', ''],
  ['get', 'pods', ''],
  ['list', 'pods', ''],
  ['watch', 'pods', ''],
  ['delete', 'pods', ''],
  ['create', 'pods', 'exec'],
  ['get', 'pods', 'exec'],
] as const;

const isolationOf = (handler: string | undefined): EngineIsolation =>
  /gvisor|runsc/i.test(handler ?? '')
    ? 'gvisor'
    : /kata|firecracker|cloud-hypervisor|\bvm\b/i.test(handler ?? '')
      ? 'vm'
      : 'container';

/** What is asked of an image once for all launches that want to know. */
interface Asking {
  readonly at: number;
  readonly found: Promise<ResolvedImage>;
  waiting: number;
  end(): void;
}

const isNotFound = (error: unknown): boolean => error instanceof ApiError && error.code === 404;

export class KubernetesEngine implements Engine {
  readonly name = 'kubernetes';
  readonly #options: KubernetesOptions;
  readonly #cluster: Cluster;
  readonly #claims: Claims;
  readonly #watches = new Map<string, PodWatch>();
  readonly #images = new Map<string, Asking>();
  /** The image as its preset names it, by what it was resolved to. */
  readonly #asked = new Map<string, string>();
  /** Where a pod of a pool has its program, by the pod's uid. */
  readonly #containers = new Map<string, string>();

  constructor(options: KubernetesOptions) {
    this.#options = options;
    const { access, namespace, runtimeClass, timeouts } = options;
    this.#cluster = { client: new KubernetesClient(access), namespace, timeouts: { ...podTimeouts, ...timeouts } };
    this.#claims = new Claims(this.#cluster, runtimeClass);
  }

  async probe(): Promise<EngineFacts> {
    return this.#said(async () => {
      const { client, namespace } = this.#cluster;
      const { gitVersion = 'of no version' } = await client.request<{ gitVersion?: string }>({
        method: 'GET',
        path: '/version',
      });
      // Also where the namespace is not there, or the credentials are not taken.
      await client.request({ method: 'GET', path: podsPath(namespace), query: { limit: '1' } });
      const denied = await this.#denied();
      if (denied.length > 0)
        throw new EngineError('engine-refused', `the role in namespace ${namespace} lacks ${denied.join(', ')}`);
      const { runtimeClass } = this.#options;
      return {
        version: `Kubernetes ${gitVersion}`,
        runtimes: runtimeClass === undefined ? [] : [runtimeClass],
        runtime: runtimeClass ?? null,
        isolation: isolationOf(await this.#handler()),
        limits: { memory: null, cpu: null, pids: 'the kubelet limits processes of a pod, and does not tell how' },
        fence: null,
        commit: 'a cluster makes no image of a pod that runs',
        warm: Object.keys(this.#options.pools ?? {}).length > 0,
      };
    });
  }

  async resolve(image: string, signal?: AbortSignal): Promise<ResolvedImage> {
    const known = pinned(image);
    if (known !== null) {
      this.#asked.set(known.reference, image);
      return known;
    }
    const asking = this.#asking(image);
    asking.waiting += 1;
    try {
      const resolved = await (signal === undefined ? asking.found : unlessAborted(asking.found, signal));
      this.#asked.set(resolved.reference, image);
      return resolved;
    } finally {
      asking.waiting -= 1;
      // For whoever waits still it goes on, whoever asked first.
      if (asking.waiting === 0) asking.end();
    }
  }

  /** What an image is, as it was asked a while ago, or is now: ended where nobody waits for it any more. */
  #asking(image: string): Asking {
    const before = this.#images.get(image);
    if (before !== undefined && performance.now() - before.at < resolvedMs) return before;
    const given = new AbortController();
    const found = this.#said(() => this.#resolve(image, given.signal));
    let isOver = false;
    const forget = (): void => {
      if (this.#images.get(image) === asking) this.#images.delete(image);
    };
    const end = (): void => {
      if (isOver) return;
      forget();
      given.abort(new Error('nobody waits for the image any more'));
    };
    const asking: Asking = { at: performance.now(), found, waiting: 0, end };
    this.#images.set(image, asking);
    // After a failure the next launch asks again.
    found.then(() => (isOver = true), forget);
    return asking;
  }

  async create(box: BoxSpec): Promise<BoxRef> {
    const pool = this.#poolOf(box);
    const warm = pool === undefined ? null : await this.#said(() => this.#warm(box, pool));
    if (warm !== null) return warm;
    const watch = this.#watch(box.owner.installation);
    const manifest = podManifest(box, this.#options);
    const pod = await startPod(this.#cluster, watch, manifest, box.owner, {
      onStage: box.onStage,
      signal: box.signal,
    });
    const ref = refOf(pod);
    if (ref === null) throw new Error(`the pod ${manifest.metadata.name} has lost its labels`);
    return ref;
  }

  async wire(ref: BoxRef, bridge: readonly string[]): Promise<Duplex> {
    return this.#said(async () => {
      const { client, namespace } = this.#cluster;
      const container = this.#containers.get(ref.uid) ?? (await this.#containerOf(ref));
      const { stream } = await exec(client, { namespace, pod: ref.name, container, argv: bridge });
      return stream;
    });
  }

  async list(installation: string, session?: string): Promise<BoxRef[]> {
    return this.#said(async () => {
      const { client, namespace } = this.#cluster;
      const labels = `svc/installation=${installation}${session === undefined ? '' : `,svc/session=${session}`}`;
      const { items } = await listAll<Pod>(client, podsPath(namespace), labels);
      if (session === undefined) await this.#reapImagePods();
      const refs = items.flatMap((pod) => refOf(pod) ?? []);
      if (Object.keys(this.#options.pools ?? {}).length === 0) return refs;
      const names = new Set(refs.map(({ name }) => name));
      // A claim whose pod never came is an orphan like any other.
      const claims = (await this.#claims.list(labels)).filter(({ pod }) => !names.has(pod));
      return [...refs, ...claims.map(({ ref }) => ref)];
    });
  }

  events(ref: BoxRef, signal: AbortSignal): AsyncIterable<BoxEvent> {
    return eventsOf(this.#watch(ref.owner.installation), ref, signal);
  }

  async destroy(ref: BoxRef): Promise<void> {
    await this.#said(async () => {
      const isCold = ref.name === boxName(ref.owner);
      const hasPools = Object.keys(this.#options.pools ?? {}).length > 0;
      if (hasPools) await this.#claims.release(ref.owner, ref);
      // The claim's controller deletes its pod; one that has lost its claim is deleted here.
      if (isCold || hasPools) await deletePod(this.#cluster, ref.name, ref.uid);
      this.#containers.delete(ref.uid);
    });
  }

  /** What a session has written goes with its pod: `emptyDir` alone needs no right but that to pods. */
  hasVolume(): Promise<boolean> {
    return Promise.resolve(false);
  }

  volumes(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  removeVolume(): Promise<void> {
    return Promise.resolve();
  }

  /** Its API server, as far as it has an address that a pod could reach. */
  async around(): Promise<{ readonly host: string; readonly port: number }[]> {
    const { hostname, port } = new URL(this.#options.access.server);
    const found = await lookup(hostname.replace(/^\[(.*)\]$/, '$1'), { all: true }).catch(() => []);
    return found
      .filter(({ address }) => !/^(127\.|::1$)/.test(address))
      .map(({ address }) => ({ host: address, port: Number(port) || 443 }));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#watches.values()].map((watch) => watch.stop()));
    this.#watches.clear();
    await this.#cluster.client.close();
  }

  async #said<T>(act: () => Promise<T>): Promise<T> {
    try {
      return await act();
    } catch (error) {
      throw engineError(error);
    }
  }

  #watch(installation: string): PodWatch {
    const found = this.#watches.get(installation);
    if (found !== undefined) return found;
    const { client, namespace } = this.#cluster;
    const made = new PodWatch(client, namespace, `svc/installation=${installation}`);
    this.#watches.set(installation, made);
    return made;
  }

  /** What the Role does not give, as the API server answers it about ourselves; it is asked once, at the start. */
  async #denied(): Promise<string[]> {
    const { client, namespace } = this.#cluster;
    const answers = await Promise.all(
      needed.map(async ([verb, resource, subresource]) => {
        const review = {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SelfSubjectAccessReview',
          spec: { resourceAttributes: { namespace, verb, resource, ...(subresource !== '' && { subresource }) } },
        };
        const path = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews';
        const { status } = await client.request<{ status?: { allowed?: boolean } }>({
          method: 'POST',
          path,
          body: review,
        });
        const what = subresource === '' ? resource : `${resource}/${subresource}`;
        return status?.allowed === false ? [`${verb} ${what}`] : [];
      }),
    );
    return answers.flat();
  }

  /** Of the runtime class; its name where the Role does not let us read it. Throws EngineError `runtime-missing`. */
  async #handler(): Promise<string | undefined> {
    const { runtimeClass } = this.#options;
    if (runtimeClass === undefined) return undefined;
    const path = `/apis/node.k8s.io/v1/runtimeclasses/${encodeURIComponent(runtimeClass)}`;
    try {
      const found = await this.#cluster.client.request<{ handler?: string }>({ method: 'GET', path });
      return `${found.handler ?? ''} ${runtimeClass}`;
    } catch (error) {
      if (isNotFound(error)) throw new EngineError('runtime-missing', `there is no runtime class ${runtimeClass}`);
      if (error instanceof ApiError && error.code === 403) return runtimeClass;
      throw error;
    }
  }

  /** By a pod that runs the image for a moment: only a node knows what a tag is, and only it may have the right to pull. */
  async #resolve(image: string, signal?: AbortSignal): Promise<ResolvedImage> {
    const name = `svc-image-${randomBytes(8).toString('hex')}`;
    const { client, namespace, timeouts } = this.#cluster;
    const watch = new PodWatch(client, namespace, `${imageLabel}=true`);
    const owner = { installation: '', session: '', epoch: 0 };
    let uid = '';
    try {
      await watch.ready();
      uid = (await makePod(this.#cluster, imagePod(image, name, this.#options), owner)).metadata?.uid ?? '';
      const isDone = ({ kind }: { kind: string }): boolean => kind === 'ended' || kind === 'running';
      const pod = await waitForPod(watch, timeouts, { name, uid, isDone, signal });
      const found = resolvedFrom(pod.status?.containerStatuses?.[0]?.imageID ?? '', image);
      if (found === null) throw new EngineError('image-missing', `the cluster does not tell what ${image} is`);
      return found;
    } finally {
      await watch.stop();
      if (uid !== '') await deletePod({ ...this.#cluster, timeouts: { ...timeouts, deletingMs: 0 } }, name, uid);
    }
  }

  async #reapImagePods(): Promise<void> {
    const { client, namespace, timeouts } = this.#cluster;
    const { items } = await listAll<Pod>(client, podsPath(namespace), `${imageLabel}=true`);
    for (const { metadata } of items) {
      const age = this.#options.now() - Date.parse(metadata?.creationTimestamp ?? '');
      if (!(age > staleImagePodMs)) continue;
      await deletePod(
        { ...this.#cluster, timeouts: { ...timeouts, deletingMs: 0 } },
        metadata?.name ?? '',
        metadata?.uid ?? '',
      );
    }
  }

  #poolOf(box: BoxSpec): string | undefined {
    const asked = this.#asked.get(box.image.reference) ?? box.image.reference;
    const { pools = {} } = this.#options;
    return box.purpose === 'session' && Object.hasOwn(pools, asked) ? pools[asked] : undefined;
  }

  /** A box of the pool, whose first process is started in it; null where the session starts cold. */
  async #warm(box: BoxSpec, pool: string): Promise<BoxRef | null> {
    box.onStage?.('claiming');
    const claimed = await this.#claims.claim(box, pool);
    if ('cold' in claimed) return null;
    const ref = refOf(claimed.pod);
    if (ref === null) throw new Error('the pod of a claim has lost its labels');
    this.#containers.set(ref.uid, claimed.container);
    box.onStage?.('starting');
    const { client, namespace } = this.#cluster;
    // The pool's own first process stays; ours is a session of its own, whose streams are none of the exec's.
    const argv = ['/bin/sh', '-c', 'setsid "$@" </dev/null >/dev/null 2>&1 &', 'sh', ...box.argv];
    const { stream, ended } = await exec(client, { namespace, pod: ref.name, container: claimed.container, argv });
    stream.resume();
    const { code, reason, stderr } = await ended;
    stream.destroy();
    if (code === 0) return ref;
    await this.destroy(ref);
    throw new EngineError(
      'pod-rejected',
      `the pool ${pool} cannot start a session: ${reason || stderr || `exit code ${code}`}`,
    );
  }

  /** Of a box that an earlier process made. */
  async #containerOf(ref: BoxRef): Promise<string> {
    if (ref.name === boxName(ref.owner)) return containerText;
    const path = `${podsPath(this.#cluster.namespace)}/${encodeURIComponent(ref.name)}`;
    const pod = await this.#cluster.client.request<Pod>({ method: 'GET', path });
    const names = pod.spec?.containers?.map(({ name }) => name) ?? [];
    const found = names.find((name) => name === containerText) ?? names[0] ?? containerText;
    this.#containers.set(ref.uid, found);
    return found;
  }
}
