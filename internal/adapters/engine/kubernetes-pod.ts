// The pod of a box, and the image that a pod runs. Nothing of a session but its id is in a manifest: whoever may read
// pods of the namespace reads all of it. It is what the `restricted` level of pod security asks for, and more.

import type { BoxOwner, BoxSpec, ResolvedImage } from './types.ts';

export const containerText = 'svc';
const user = 1000;
/** Of a box's writable directories, each; past it the kubelet evicts the pod. */
const directorySize = '20Gi';
const tmpSize = '4Gi';
/** The first process ends all others itself; what does not end is killed. */
const graceSeconds = 1;
/** Fenced pods carry it: the namespace's NetworkPolicy selects by it (deploy/kubernetes/sandboxes.yaml). */
const fencedLabel = 'svc/fenced';
/** Pods that dial their daemon carry it: a NetworkPolicy lets them out to it alone (deploy/kubernetes/dial.yaml). */
const wireLabel = 'svc/wire';
/** Of a pod that only finds out what an image is. */
export const imageLabel = 'svc/image';

export interface PodOptions {
  readonly runtimeClass?: string | undefined;
}

/** The name of a session's box. Throws where it would be no name of a pod. */
export function boxName({ session, epoch }: BoxOwner): string {
  const name = `svc-${session}-${epoch}`;
  if (name.length > 63 || !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name)) throw new Error(`${name} is no name of a pod`);
  return name;
}

export const ownerLabels = ({ installation, session, epoch }: BoxOwner): Record<string, string> => ({
  'svc/installation': installation,
  'svc/session': session,
  'svc/epoch': String(epoch),
});

/** Those by which the namespace's policies find a box. */
export const policyLabels = ({ fenced, dials = false }: BoxSpec): Record<string, string> => ({
  ...(fenced && { [fencedLabel]: 'true' }),
  ...(dials && { [wireLabel]: 'dial' }),
});

/** Whose an object is; null where its labels are not those of a box. */
export function ownerOf(labels: { readonly [key: string]: string } | undefined): BoxOwner | null {
  const { 'svc/installation': installation, 'svc/session': session, 'svc/epoch': epoch } = labels ?? {};
  if (installation === undefined || session === undefined || !/^\d{1,15}$/.test(epoch ?? '')) return null;
  return { installation, session, epoch: Number(epoch) };
}

export const isOwner = (a: BoxOwner | null, b: BoxOwner): boolean =>
  a !== null && a.installation === b.installation && a.session === b.session && a.epoch === b.epoch;

/** Limits as Kubernetes writes them; requests are equal to them. */
export function limitsOf({ cpuCount, memoryMB }: BoxSpec['resources']): Record<string, string> {
  return {
    ...(cpuCount !== undefined && { cpu: String(cpuCount) }),
    ...(memoryMB !== undefined && { memory: `${memoryMB}Mi` }),
  };
}

interface Shape {
  readonly name: string;
  readonly labels: Record<string, string>;
  readonly image: string;
  readonly argv: readonly string[];
  readonly directories: readonly string[];
  readonly limits: Record<string, string>;
  /** After which the cluster ends the pod. A session's has none: it cannot be put off, and a session has no greatest age. */
  readonly deadlineSeconds?: number;
}

function podOf(shape: Shape, { runtimeClass }: PodOptions) {
  const { name, labels, image, argv, directories, limits, deadlineSeconds } = shape;
  const places = [...directories.map((path) => ({ path, size: directorySize })), { path: '/tmp', size: tmpSize }];
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      labels,
      // A machine that is given back early would take the session's work with it.
      annotations: { 'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false' },
    },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: graceSeconds,
      ...(runtimeClass !== undefined && { runtimeClassName: runtimeClass }),
      ...(deadlineSeconds !== undefined && { activeDeadlineSeconds: deadlineSeconds }),
      securityContext: {
        runAsNonRoot: true,
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [
        {
          name: containerText,
          image,
          imagePullPolicy: 'IfNotPresent',
          command: [...argv],
          resources: { requests: limits, limits },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          volumeMounts: places.map(({ path }, index) => ({ name: `d${index}`, mountPath: path })),
        },
      ],
      volumes: places.map(({ size }, index) => ({ name: `d${index}`, emptyDir: { sizeLimit: size } })),
    },
  };
}

export type PodManifest = ReturnType<typeof podOf>;

/** The manifest of a session's box. */
export function podManifest(box: BoxSpec, options: PodOptions): PodManifest {
  if (box.purpose !== 'session') throw new Error('a cluster makes no images');
  const labels = { ...ownerLabels(box.owner), ...policyLabels(box) };
  const shape = {
    name: boxName(box.owner),
    labels,
    image: box.image.reference,
    argv: box.argv,
    directories: box.directories.map(({ path }) => path).filter((path) => path !== '/tmp'),
    limits: limitsOf(box.resources),
  };
  return podOf(shape, options);
}

/** A pod that ends at once and leaves what its image is in its status. */
export function imagePod(image: string, name: string, options: PodOptions): PodManifest {
  const labels = { [imageLabel]: 'true', [fencedLabel]: 'true' };
  const argv = ['/bin/sh', '-c', ':'];
  const limits = { cpu: '100m', memory: '64Mi' };
  // Long enough for a pull; nobody else ends it where this process does not come back.
  return podOf({ name, labels, image, argv, directories: [], limits, deadlineSeconds: 900 }, options);
}

const digestPattern = /sha256:[0-9a-f]{64}$/;

/** An image that is named by its content already; null for a tag. */
export function pinned(image: string): ResolvedImage | null {
  const digest = /@(sha256:[0-9a-f]{64})$/.exec(image)?.[1];
  return digest === undefined ? null : { reference: image, digest };
}

/**
 * What a container's `imageID` says of the image that was asked for: `repository@sha256:…`, with a scheme before it from some
 * runtimes, or the id alone for an image that was never pulled, which no reference can name.
 */
export function resolvedFrom(imageId: string, asked: string): ResolvedImage | null {
  const text = imageId.replace(/^[a-z-]+:\/\//, '');
  const digest = digestPattern.exec(text)?.[0];
  if (digest === undefined) return null;
  return { reference: text.includes('@') ? text : asked, digest };
}
