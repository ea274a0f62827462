// How a cluster is reached: from a kubeconfig file, or from what a cluster gives a pod. Programs that a kubeconfig names
// are never run, and what this client does not do is refused by name instead of being left out silently.

import { readFileSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { parse } from 'yaml';
import { isLoopback } from '../../domain/loopback.ts';
import { withoutEnd } from '../../domain/text.ts';

/** Where the API server is and who asks. Files are read again when it answers 401: clusters renew them in place. */
export interface ClusterAccess {
  /** `https://host:port`, with a path where one is before the API. */
  readonly server: string;
  readonly serverName?: string;
  /** False where the kubeconfig says so itself. */
  readonly verifies: boolean;
  /** PEM; absent: what this process trusts. */
  readonly ca?: string;
  credentials(): ClusterCredentials;
}
export interface ClusterCredentials {
  readonly token?: string;
  /** PEM, both or neither. */
  readonly cert?: string;
  readonly key?: string;
}

/** What is wrong with a kubeconfig, or with the machine for `inCluster`. One line. */
export class AccessError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message.replaceAll(/\s*\n\s*/g, ' '), options);
    this.name = 'AccessError';
  }
}

type Fields = { readonly [key: string]: unknown };
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const bytesMax = 1 << 20;

function read(path: string, what: string): string {
  try {
    const text = readFileSync(path, 'utf8');
    if (text.length > bytesMax) throw new AccessError(`${what} ${path} is larger than 1 MiB`);
    return text;
  } catch (error) {
    if (error instanceof AccessError) throw error;
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw new AccessError(`${what} ${path} cannot be read: ${code}`, { cause: error });
  }
}

function textOf(fields: Fields, key: string): string | undefined {
  const value = fields[key];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw new AccessError(`${key} is no text`);
  return value;
}

/** `<key>-data` in base64, else the file that `<key>` names, read when it is asked for. */
function pem(fields: Fields, key: string, folder: string): (() => string) | undefined {
  const data = textOf(fields, `${key}-data`);
  if (data !== undefined) {
    const text = Buffer.from(data, 'base64').toString('utf8');
    return () => text;
  }
  const path = textOf(fields, key);
  if (path === undefined) return undefined;
  const place = isAbsolute(path) ? path : join(folder, path);
  return () => read(place, key);
}

/** The entry of a list of `{name, <kind>: {…}}`. */
function named(config: Fields, list: string, kind: string, name: string): Fields {
  const entries = config[list];
  const found = Array.isArray(entries) ? entries.find((one) => isFields(one) && one['name'] === name) : undefined;
  const value: unknown = isFields(found) ? (found[kind] ?? {}) : undefined;
  if (!isFields(value)) throw new AccessError(`there is no ${kind} ${name}`);
  return value;
}

/** Without TLS only this machine itself is reached: a token would be on the network. */
function serverOf(text: string | undefined): string {
  if (text === undefined || !URL.canParse(text)) throw new AccessError('the cluster has no server address');
  const url = new URL(text);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url.hostname)))
    throw new AccessError(`the server ${url.origin} is not https`);
  if (url.username !== '' || url.password !== '') throw new AccessError('the server address holds credentials');
  return `${url.origin}${withoutEnd(url.pathname, '/')}`;
}

const refusedOfUser: { readonly [key: string]: string } = {
  exec: 'an exec plugin, which is refused: give a token, a token file or a client certificate',
  'auth-provider': 'an auth-provider, which is refused: give a token, a token file or a client certificate',
  username: 'a user name and password, which is refused: give a token, a token file or a client certificate',
  as: 'impersonation, which is refused',
  'as-uid': 'impersonation, which is refused',
  'as-groups': 'impersonation, which is refused',
};

/**
 * The cluster and user of the file's current context. Relative paths count from the file's directory. Throws AccessError
 * for an exec plugin and whatever else cannot be used.
 */
export function kubeconfigAccess(path: string): ClusterAccess {
  let config: unknown;
  try {
    config = parse(read(path, 'the file'), { schema: 'core', maxAliasCount: 100 });
  } catch (error) {
    if (error instanceof AccessError) throw error;
    throw new AccessError(`${path} is no YAML`, { cause: error });
  }
  if (!isFields(config)) throw new AccessError(`${path} is no kubeconfig`);
  const current = textOf(config, 'current-context');
  if (current === undefined) throw new AccessError(`${path} has no current-context`);
  const context = named(config, 'contexts', 'context', current);
  const cluster = named(config, 'clusters', 'cluster', textOf(context, 'cluster') ?? '');
  const user = named(config, 'users', 'user', textOf(context, 'user') ?? '');
  for (const [key, what] of Object.entries(refusedOfUser))
    if (user[key] !== undefined) throw new AccessError(`the user ${textOf(context, 'user')} has ${what}`);
  if (cluster['proxy-url'] !== undefined) throw new AccessError('the cluster has a proxy-url, which is refused');
  const folder = dirname(path);
  const ca = pem(cluster, 'certificate-authority', folder)?.();
  const [cert, key] = [pem(user, 'client-certificate', folder), pem(user, 'client-key', folder)];
  if ((cert === undefined) !== (key === undefined))
    throw new AccessError('client-certificate and client-key are given together');
  const tokenFile = textOf(user, 'tokenFile');
  const token = textOf(user, 'token');
  const serverName = textOf(cluster, 'tls-server-name');
  const access: ClusterAccess = {
    server: serverOf(textOf(cluster, 'server')),
    ...(serverName !== undefined && { serverName }),
    verifies: cluster['insecure-skip-tls-verify'] !== true,
    ...(ca !== undefined && { ca }),
    credentials: () => {
      // As every client of Kubernetes: the file, which is renewed, before the text.
      const said =
        tokenFile === undefined
          ? token
          : read(isAbsolute(tokenFile) ? tokenFile : join(folder, tokenFile), 'tokenFile').trim();
      return {
        ...(said !== undefined && { token: said }),
        ...(cert !== undefined && key !== undefined && { cert: cert(), key: key() }),
      };
    },
  };
  access.credentials();
  return access;
}

/** Where a cluster puts the service account of a pod. */
export const serviceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount';

/** As a pod reaches its own cluster. `env` is that of the process. Throws AccessError outside of one. */
export function inClusterAccess(
  env: { readonly [name: string]: string | undefined },
  directory: string = serviceAccountDir,
): ClusterAccess {
  const { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '443' } = env;
  if (host === '') throw new AccessError('this process runs in no pod: KUBERNETES_SERVICE_HOST is not set');
  const access: ClusterAccess = {
    server: serverOf(`https://${host.includes(':') ? `[${host}]` : host}:${port}`),
    verifies: true,
    ca: read(join(directory, 'ca.crt'), 'the certificate of the cluster'),
    credentials: () => ({ token: read(join(directory, 'token'), 'the token of the service account').trim() }),
  };
  access.credentials();
  return access;
}
