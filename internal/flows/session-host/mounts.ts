// Where a mount's repository is and what lets the daemon read it (spec, Mounts): the code host of the project's
// connection, and for `codehostApp` a token of its installation that can do nothing but read this one repository.
// The token is made right before the clone, stays in this process, and is kept nowhere.

import { cloneUrl } from '../../adapters/providers/codehost/codehost.ts';
import type { MountRequest } from '../../adapters/sandbox/sandbox.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { readConnections } from '../../adapters/store/connections/connections.ts';
import { Fault } from '../../domain/fault.ts';
import type { Mount } from '../../domain/spec.ts';
import { type FlowContext, portsOf, type ProjectRef } from '../context.ts';
import { connectionSecrets } from '../sealed.ts';

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined;

/** Active code-host connections of a project. */
async function codehosts(ctx: FlowContext, project: ProjectRef): Promise<SealedConnection[]> {
  const rows = await readConnections(ctx.db, project.id);
  const names = rows.filter((row) => row.provider === 'codehost' && row.active).map((row) => row.name);
  const found = await Promise.all(names.map((name) => connectionByName(ctx.db, project.id, name)));
  return found.filter((one) => one !== undefined);
}

/** What each mount asks of the sandbox. `refs`: rendered, by mount path. Throws Fault where a connection is missing. */
export async function mountRequests(
  ctx: FlowContext,
  project: ProjectRef,
  mounts: readonly Mount[],
  refs: { readonly [mountPath: string]: string },
): Promise<MountRequest[]> {
  if (mounts.length === 0) return [];
  const hosts = await codehosts(ctx, project);
  // One inside another comes after it, in whatever order they are declared: a clone needs a free place.
  const outerFirst = mounts.toSorted((a, b) => (a.mountPath < b.mountPath ? -1 : 1));
  return outerFirst.map((mount) => {
    const { mountPath, repository, depth, auth } = mount;
    const ref = Object.hasOwn(refs, mountPath) ? refs[mountPath] : mount.ref;
    const host = auth.kind === 'none' ? (hosts.length === 1 ? hosts[0] : undefined) : hostOf(mount, hosts);
    return {
      url: cloneUrl(text(host?.config['apiUrl']), repository),
      mountPath,
      ...(ref !== undefined && { ref }),
      ...(depth !== undefined && { depth }),
      ...(auth.kind === 'codehostApp' && {
        authorization: () => authorize(ctx, mount, host as SealedConnection, auth.installationId),
        ...(auth.commitAuthor !== undefined && { commitAuthor: auth.commitAuthor }),
      }),
    };
  });
}

function hostOf({ mountPath, auth }: Mount, hosts: readonly SealedConnection[]): SealedConnection {
  const wanted = auth.kind === 'codehostApp' ? auth.installationId : undefined;
  const of = wanted === undefined ? hosts : hosts.filter((one) => text(one.config['installationId']) === wanted);
  // An installation that no connection names may still be one of the only application that there is.
  const [found, ...others] = of.length === 0 && hosts.length === 1 ? hosts : of;
  if (found !== undefined && others.length === 0) return found;
  const why = found === undefined ? 'no active code-host connection fits' : 'several code-host connections fit';
  throw new Fault(
    'unprocessable',
    'mount-connection',
    `Mount ${mountPath}: ${why}; add one, or name its installationId`,
  );
}

async function authorize(
  ctx: FlowContext,
  { mountPath, repository }: Mount,
  connection: SealedConnection,
  installation: string | undefined,
): Promise<string> {
  const { config, name } = connection;
  const credentials = connectionSecrets(ctx, connection);
  const appId = text(config['appId']);
  const installationId = installation ?? text(config['installationId']);
  const privateKey = text(credentials['privateKey']);
  const apiUrl = text(config['apiUrl']);
  if (privateKey === undefined || appId === undefined || installationId === undefined) {
    throw new Fault(
      'unprocessable',
      'mount-connection',
      `Mount ${mountPath}: connection ${name} needs config.appId, config.installationId and a privateKey`,
    );
  }
  try {
    const { token } = await portsOf(ctx).mintToken({
      appId,
      installationId,
      privateKey,
      now: ctx.runtime.now(),
      ...(apiUrl !== undefined && { apiUrl }),
      scope: { repositories: [repository.slice(repository.indexOf('/') + 1)], reads: ['contents'] },
    });
    return `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`;
  } catch (error) {
    const status = (error as { status?: number }).status;
    const message = `Mount ${mountPath}: connection ${name}: ${(error as Error).message}`;
    throw new Fault(status === undefined || status >= 500 ? 'unavailable' : 'unprocessable', 'mount-token', message);
  }
}
