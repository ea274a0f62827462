// The cluster of a daemon that runs sessions as pods, and where pods find the daemon.

import { networkInterfaces } from 'node:os';
import {
  AccessError,
  inClusterAccess,
  kubeconfigAccess,
  KubernetesEngine,
} from '../../internal/adapters/engine/engine.ts';
import { type EngineChoice, WireDoor } from '../../internal/adapters/sandbox/sandbox.ts';
import { errorCode } from '../../internal/adapters/store/store.ts';
import { type Config, ConfigError } from '../../internal/base/config/config.ts';
import { sandboxesSettings } from '../../internal/base/config/sandbox-settings.ts';

/** Of this machine, the first address that others have a way to; undefined where it has none. */
function outerAddress(): string | undefined {
  const outer = Object.values(networkInterfaces())
    .flatMap((found) => found ?? [])
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80:'));
  return (outer.find(({ family }) => family === 'IPv4') ?? outer[0])?.address;
}

export const isAnywhere = (hostname: string): boolean => hostname === '0.0.0.0' || hostname === '[::]';

/** Of a daemon that listens everywhere, an address that others have a way to. */
export function addressOf(url: URL): string {
  if (!isAnywhere(url.hostname)) return url.origin;
  const host = outerAddress() ?? '127.0.0.1';
  return `http://${host.includes(':') ? `[${host}]` : host}:${url.port}`;
}

/**
 * Where pods come to this daemon, opened; undefined without `wire: dial`, and where no session runs on the cluster.
 * Throws ConfigError for what cannot be listened on, or has no address.
 */
export async function doorOf({ sandbox, file, fileDir }: Config): Promise<WireDoor | undefined> {
  const { kubernetes, presets } = sandboxesSettings(file, fileDir);
  const isUsed = sandbox === 'kubernetes' || Object.values(presets).some(({ provider }) => provider === 'kubernetes');
  if (kubernetes?.dial === undefined || !isUsed) return undefined;
  const key = 'sandboxes.kubernetes.dial';
  const { listen } = kubernetes.dial;
  const host = outerAddress();
  const address = kubernetes.dial.address ?? (host === undefined ? undefined : { host });
  if (address === undefined)
    throw new ConfigError(`${key}.address`, 'cannot be used: this machine has no address that pods could reach');
  try {
    return await WireDoor.open({ listen, address });
  } catch (error) {
    const place = `${listen.host}:${listen.port}`;
    throw new ConfigError(`${key}.listen`, `cannot be used: ${place} cannot be listened on (${errorCode(error)})`);
  }
}

/** `url` is where the API of this daemon listens. Throws ConfigError for a kubeconfig that cannot be used. */
export function clusterOf(config: Config, door: WireDoor | undefined, url: string): EngineChoice | undefined {
  const { kubernetes, lostSeconds } = sandboxesSettings(config.file, config.fileDir);
  if (kubernetes === undefined) return undefined;
  const { kubeconfig, namespace, runtimeClass, fence, pools } = kubernetes;
  try {
    const access = kubeconfig === undefined ? inClusterAccess(process.env) : kubeconfigAccess(kubeconfig);
    const engine = new KubernetesEngine({ access, namespace, runtimeClass, pools, now: Date.now });
    const choice = { engine, setting: 'sandboxes.kubernetes', fence, isLocal: false, lostSeconds } as const;
    return { ...choice, around: aroundOf(new URL(addressOf(new URL(url)))), ...(door !== undefined && { door }) };
  } catch (error) {
    if (!(error instanceof AccessError)) throw error;
    const key = kubeconfig === undefined ? 'inCluster' : 'kubeconfig';
    throw new ConfigError(`sandboxes.kubernetes.${key}`, `cannot be used: ${error.message}`);
  }
}

/** What is loopback here is another loopback in a pod. */
function aroundOf({ hostname, port, protocol }: URL): { readonly host: string; readonly port: number }[] {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (/^(localhost|127\..*|::1)$/.test(host)) return [];
  return [{ host, port: Number(port) || (protocol === 'https:' ? 443 : 80) }];
}
