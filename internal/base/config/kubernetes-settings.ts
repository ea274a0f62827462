// `sandboxes.kubernetes` of the SVC_CONFIG file (docs/reference/configuration.md): the cluster whose pods sessions run in. The
// kubeconfig itself is read where it is used.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import { mapOf } from '../../../schemas/parse.ts';
import { ConfigError } from './file.ts';

/** A name as the cluster takes one. */
const Name = v.pipe(
  v.string(),
  v.maxLength(63),
  v.regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, 'no name of Kubernetes: at most 63 of a-z, 0-9 and -'),
);

/** `host`, `host:port`, `[address]:port`. */
const placeShape = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]{1,253})(?::(\d{1,5}))?$/;
const Place = v.pipe(
  v.string(),
  v.maxLength(262),
  v.check((text) => Number(placeShape.exec(text)?.[2] ?? 0) < 65_536 && placeShape.test(text), 'not host:port'),
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
  /** Where pods find this daemon, with `wire: dial`. */
  dial: v.optional(v.strictObject({ listen: v.optional(Place), address: v.optional(Place) })),
  /** Pools of agent-sandbox by preset. */
  warmPools: v.optional(mapOf(v.string(), Name), {}),
  /** `required`: no launch where anything but its channels answers from inside. */
  fence: v.optional(v.picklist(['preferred', 'required']), 'preferred'),
});

export interface DialSettings {
  readonly listen: { readonly host: string; readonly port: number };
  /** As pods reach it; absent: the address that this daemon has as a pod. Without a port: the one that is listened on. */
  readonly address?: { readonly host: string; readonly port?: number };
}

export interface KubernetesSettings {
  /** Absolute; absent: the pod's own account. */
  readonly kubeconfig?: string;
  readonly namespace: string;
  readonly runtimeClass?: string;
  readonly fence: 'preferred' | 'required';
  /** Pods come to the daemon; absent: it goes into them by exec. */
  readonly dial?: DialSettings;
  /** The pool by the image of its preset. */
  readonly pools: { readonly [image: string]: string };
}

const dialPort = 4410;

function placeOf(text: string): { readonly host: string; readonly port?: number } {
  const [, host = '', port] = placeShape.exec(text) ?? [];
  return { host: host.replace(/^\[(.*)\]$/, '$1'), ...(port !== undefined && { port: Number(port) }) };
}

function dialSettings({ wire, dial, inCluster }: v.InferOutput<typeof KubernetesSection>): DialSettings | undefined {
  const key = 'sandboxes.kubernetes.dial';
  if (wire !== 'dial') {
    if (dial !== undefined) throw new ConfigError(key, 'cannot be used: it is of wire: dial');
    return undefined;
  }
  const { listen: at = '0.0.0.0', address } = dial ?? {};
  const listen = { port: dialPort, ...placeOf(at) };
  // Outside of the cluster nobody can tell at which of its addresses pods find this machine.
  if (address === undefined && inCluster !== true)
    throw new ConfigError(
      `${key}.address`,
      'cannot be used: wire: dial needs host:port at which pods of the cluster reach this daemon',
    );
  const place = address === undefined ? undefined : placeOf(address);
  if (place?.port === 0 || /^(0\.0\.0\.0|::)$/.test(place?.host ?? ''))
    throw new ConfigError(`${key}.address`, `cannot be used: nobody can be reached at ${address}`);
  return { listen, ...(place !== undefined && { address: place }) };
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
  const { kubeconfig, inCluster = false, namespace, runtimeClass, warmPools, fence } = section;
  if ((kubeconfig !== undefined) === inCluster)
    throw new ConfigError('sandboxes.kubernetes', 'cannot be used: it takes either kubeconfig or inCluster: true');
  const dial = dialSettings(section);
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
    ...(dial !== undefined && { dial }),
    pools: Object.fromEntries(pools),
  };
}
