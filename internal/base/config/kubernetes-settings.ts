// `sandboxes.kubernetes` of the SVC_CONFIG file (docs/reference/configuration.md): the cluster whose pods sessions run in. The
// kubeconfig itself is read where it is used.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import { ConfigError } from './file.ts';

/** A name as the cluster takes one. */
const Name = v.pipe(
  v.string(),
  v.maxLength(63),
  v.regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, 'no name of Kubernetes: at most 63 of a-z, 0-9 and -'),
);

export const KubernetesSection = v.strictObject({
  /** A file; its current context is used, and a program that it names is never run. */
  kubeconfig: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(4096))),
  /** As the pod that this daemon is. */
  inCluster: v.optional(v.boolean()),
  namespace: Name,
  runtimeClass: v.optional(Name),
  /** How the daemon speaks with a box. */
  wire: v.optional(v.picklist(['exec', 'dial']), 'exec'),
  /** Pools of agent-sandbox by preset. */
  warmPools: v.optional(v.record(v.string(), Name), {}),
  /** `required`: no launch where anything but its channels answers from inside. */
  fence: v.optional(v.picklist(['preferred', 'required']), 'preferred'),
});

export interface KubernetesSettings {
  /** Absolute; absent: the pod's own account. */
  readonly kubeconfig?: string;
  readonly namespace: string;
  readonly runtimeClass?: string;
  readonly fence: 'preferred' | 'required';
  /** The pool by the image of its preset. */
  readonly pools: { readonly [image: string]: string };
}

/**
 * Relative paths count from `base`. `imageOf` gives the image of a preset that has one. Throws ConfigError naming the key
 * that cannot be used.
 */
export function kubernetesSettings(
  section: v.InferOutput<typeof KubernetesSection>,
  base: string,
  imageOf: (preset: string) => string | undefined,
): KubernetesSettings {
  const { kubeconfig, inCluster = false, namespace, runtimeClass, wire, warmPools, fence } = section;
  if ((kubeconfig !== undefined) === inCluster)
    throw new ConfigError('sandboxes.kubernetes', 'cannot be used: it takes either kubeconfig or inCluster: true');
  if (wire === 'dial')
    throw new ConfigError(
      'sandboxes.kubernetes.wire',
      'cannot be used: dial is not built in this version, leave it out or set it to exec',
    );
  const pools = Object.entries(warmPools).map(([preset, pool]) => {
    const image = imageOf(preset);
    if (image !== undefined) return [image, pool] as const;
    const key = `sandboxes.kubernetes.warmPools.${preset}`;
    throw new ConfigError(key, `cannot be used: set sandboxes.presets.${preset}.image`);
  });
  return {
    ...(kubeconfig !== undefined && { kubeconfig: isAbsolute(kubeconfig) ? kubeconfig : resolve(base, kubeconfig) }),
    namespace,
    ...(runtimeClass !== undefined && { runtimeClass }),
    fence,
    pools: Object.fromEntries(pools),
  };
}
