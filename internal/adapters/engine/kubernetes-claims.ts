// Boxes that stand ready: claims of agent-sandbox on a pool that the operator keeps. A claim holds a name and nothing of a
// session, for a claim with variables or volumes is started cold. Claim and pod are pinned by their uid; what is not what
// was asked for (image, limits, runtime, directories) is given back, and the session starts cold.

import { setTimeout as sleep } from 'node:timers/promises';
import { deleteObject, type Cluster } from './kubernetes-boxes.ts';
import { ApiError } from './kubernetes-client.ts';
import {
  boxName,
  containerText,
  isOwner,
  limitsOf,
  ownerLabels,
  ownerOf,
  policyLabels,
  resolvedFrom,
} from './kubernetes-pod.ts';
import { progressOf } from './kubernetes-status.ts';
import type { Claim, Container, Pod } from './kubernetes-types.ts';
import { listAll, podsPath } from './kubernetes-watch.ts';
import type { BoxOwner, BoxRef, BoxSpec } from './types.ts';

const group = '/apis/extensions.agents.x-k8s.io/v1beta1';
/** The controller's label on a pod: the uid of the claim that has it. */
const claimLabel = 'agents.x-k8s.io/claim-uid';
/** A pool with a sandbox that is ready gives it in some hundred milliseconds. */
const claimMs = 5_000;
/** What was said of a pool is not asked again for so long. */
const rememberedMs = 60_000;

export const claimsPath = (namespace: string): string =>
  `${group}/namespaces/${encodeURIComponent(namespace)}/sandboxclaims`;

/** Not the box's own: a sandbox that is made cold for a claim has its name, and the box that is made then has another. */
const claimName = (owner: BoxOwner): string => `${boxName(owner)}-claim`;

export function claimManifest(box: BoxSpec, pool: string) {
  const labels = ownerLabels(box.owner);
  return {
    apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
    kind: 'SandboxClaim',
    metadata: { name: claimName(box.owner), labels },
    spec: {
      warmPoolRef: { name: pool },
      additionalPodMetadata: { labels: { ...labels, ...policyLabels(box) } },
    },
  };
}

/** Numbers of Kubernetes, so that `2` is `2000m` and `512Mi` is `0.5Gi`. NaN for what is none. */
function quantity(text: string): number {
  const [, digits, unit = ''] = /^([0-9.]+)([a-zA-Z]*)$/.exec(text) ?? [];
  const units: { readonly [unit: string]: number } = {
    '': 1,
    m: 1e-3,
    k: 1e3,
    M: 1e6,
    G: 1e9,
    Ki: 2 ** 10,
    Mi: 2 ** 20,
    Gi: 2 ** 30,
  };
  return Number(digits) * (units[unit] ?? Number.NaN);
}

/** Why a pod of a pool is not the box that was asked for; null where it is. */
export function mismatch(pod: Pod, box: BoxSpec, runtimeClass: string | undefined): string | null {
  const containers = pod.spec?.containers ?? [];
  const container: Container = containers.find(({ name }) => name === containerText) ?? containers[0] ?? {};
  const status = pod.status?.containerStatuses?.find(({ name }) => name === container.name);
  const digest = resolvedFrom(status?.imageID ?? '', '')?.digest;
  if (digest !== box.image.digest) return `its image is ${digest ?? 'not known'}`;
  if ((pod.spec?.runtimeClassName ?? '') !== (runtimeClass ?? '')) return 'its runtime is another';
  for (const [name, wanted] of Object.entries(limitsOf(box.resources)))
    if (quantity(container.resources?.limits?.[name] ?? '') !== quantity(wanted))
      return `its limit of ${name} is another`;
  const mounted = new Set(container.volumeMounts?.flatMap(({ mountPath, readOnly }) => (readOnly ? [] : [mountPath])));
  const missing = box.directories.find(({ path }) => !mounted.has(path));
  return missing === undefined ? null : `it has no directory ${missing.path}`;
}

/** A pod of a pool, or why there is none. */
export type Claimed = { readonly pod: Pod; readonly container: string } | { readonly cold: string };

export class Claims {
  readonly #cluster: Cluster;
  readonly #runtimeClass: string | undefined;
  readonly #refused = new Map<string, { readonly until: number; readonly why: string }>();

  constructor(cluster: Cluster, runtimeClass: string | undefined) {
    this.#cluster = cluster;
    this.#runtimeClass = runtimeClass;
  }

  /** Never throws for a pool that is empty, gone or not what was asked for: the session starts cold then. */
  async claim(box: BoxSpec, pool: string): Promise<Claimed> {
    const key = `${pool} ${JSON.stringify([box.image.digest, box.resources, box.directories])}`;
    const known = this.#refused.get(key);
    if (known !== undefined && known.until > performance.now()) return { cold: known.why };
    this.#refused.delete(key);
    const made = await this.#make(box, pool);
    if ('cold' in made) return made;
    const uid = made.metadata?.uid ?? '';
    const found = await this.#wait(box, uid).catch(async (error: unknown) => {
      await this.#drop(box.owner, uid);
      throw error;
    });
    if ('cold' in found) {
      await this.#drop(box.owner, uid);
      if (found.isKept === true) this.#refused.set(key, { until: performance.now() + rememberedMs, why: found.cold });
    }
    return found;
  }

  /** Claims of an installation, with the names of their pods. */
  async list(labels: string): Promise<readonly { readonly ref: BoxRef; readonly pod: string }[]> {
    const { items } = await listAll<Claim>(this.#cluster.client, claimsPath(this.#cluster.namespace), labels);
    return items.flatMap(({ metadata, status }) => {
      const owner = ownerOf(metadata?.labels);
      const { name, uid } = metadata ?? {};
      if (owner === null || name === undefined || uid === undefined) return [];
      return [{ ref: { owner, name, uid, running: false }, pod: status?.sandbox?.name ?? '' }];
    });
  }

  /** Ends the claim that has this pod, or that this is itself, and with it its pod. Absent is success. */
  async release(owner: BoxOwner, { name, uid }: BoxRef): Promise<void> {
    const claim = await this.#get(owner);
    if (claim === null || !isOwner(ownerOf(claim.metadata?.labels), owner)) return;
    const own = claim.metadata?.uid ?? '';
    if (own === uid || claim.status?.sandbox?.name === name) await this.#drop(owner, own);
  }

  #path(owner: BoxOwner): string {
    return `${claimsPath(this.#cluster.namespace)}/${encodeURIComponent(claimName(owner))}`;
  }

  #drop(owner: BoxOwner, uid: string): Promise<boolean> {
    return deleteObject(this.#cluster.client, this.#path(owner), uid);
  }

  async #get(owner: BoxOwner): Promise<Claim | null> {
    try {
      return await this.#cluster.client.request<Claim>({ method: 'GET', path: this.#path(owner) });
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) return null;
      throw error;
    }
  }

  async #make(box: BoxSpec, pool: string): Promise<Claim | { readonly cold: string }> {
    try {
      const path = claimsPath(this.#cluster.namespace);
      return await this.#cluster.client.request<Claim>({
        method: 'POST',
        path,
        body: claimManifest(box, pool),
      });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const found = error.code === 409 ? await this.#get(box.owner) : null;
      if (found !== null && isOwner(ownerOf(found.metadata?.labels), box.owner)) return found;
      // Agent-sandbox is not there, or its webhook refuses: pods can be made all the same.
      return { cold: `pool-empty: ${error.message}` };
    }
  }

  async #wait(
    box: BoxSpec,
    uid: string,
  ): Promise<{ readonly pod: Pod; readonly container: string } | { readonly cold: string; readonly isKept?: true }> {
    const until = performance.now() + claimMs;
    for (let ms = 50; performance.now() < until; ms = Math.min(500, ms * 1.5)) {
      box.signal?.throwIfAborted();
      const claim = await this.#get(box.owner);
      if (claim?.metadata?.uid !== uid) return { cold: 'pool-empty: the claim was deleted' };
      const name = claim.status?.sandbox?.name ?? '';
      const ready = claim.status?.conditions?.find(({ type }) => type === 'Ready');
      if (/NotFound|InvalidMetadata|Error/.test(ready?.reason ?? ''))
        return { cold: `pool-empty: ${ready?.message ?? ''}`, isKept: true };
      // The controller makes a sandbox of the claim's own name where the pool had none to give.
      if (name !== '' && name === claimName(box.owner)) return { cold: 'pool-empty: no sandbox stood ready' };
      const pod = name === '' ? null : await this.#podOf(name, uid, box.owner);
      if (pod !== null) {
        const wrong = mismatch(pod, box, this.#runtimeClass);
        if (wrong !== null)
          return { cold: `pool-empty: the pool ${name} is not what was asked for: ${wrong}`, isKept: true };
        const containers = pod.spec?.containers ?? [];
        const container = containers.find((one) => one.name === containerText) ?? containers[0];
        return { pod, container: container?.name ?? containerText };
      }
      await sleep(ms);
    }
    return { cold: 'pool-empty: no sandbox was ready in time' };
  }

  /** The pod of a claim, when it runs and the controller has put its claim and our labels on it. */
  async #podOf(name: string, uid: string, owner: BoxOwner): Promise<Pod | null> {
    try {
      const path = `${podsPath(this.#cluster.namespace)}/${encodeURIComponent(name)}`;
      const pod = await this.#cluster.client.request<Pod>({ method: 'GET', path });
      const labels = pod.metadata?.labels;
      const isOurs = labels?.[claimLabel] === uid && isOwner(ownerOf(labels), owner);
      return isOurs && progressOf(pod).kind === 'running' ? pod : null;
    } catch (error) {
      if (error instanceof ApiError && error.code === 404) return null;
      throw error;
    }
  }
}
