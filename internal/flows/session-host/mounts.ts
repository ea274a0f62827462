// Where a mount's repository is and what lets the daemon read it (docs/reference/compile.md#mounts): the code host of the project's
// connection, and for `codehostApp` a token of its installation that can do nothing but read this one repository.
// The token stays in this process.

import type { MountRequest } from '../../adapters/sandbox/sandbox.ts';
import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { Fault } from '../../domain/fault.ts';
import type { Mount } from '../../domain/spec.ts';
import { codehostOf, codehosts, gitUrlOf, settingText } from '../codehost-mounts.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { installationToken } from '../installation-token.ts';

/** A mount without contents carries capabilities alone. */
export const isCloned = ({ auth }: Mount): boolean =>
  auth.kind !== 'codehostApp' || auth.capabilities.contents !== 'none';

/** Whose commits are: the declared author's, else those of the connection's bot. */
function authorOf(mount: Mount, host: SealedConnection | undefined): MountRequest['commitAuthor'] {
  if (mount.auth.kind === 'codehostApp' && mount.auth.commitAuthor !== undefined) return mount.auth.commitAuthor;
  const bot = settingText(host?.config['botLogin']);
  return bot === undefined ? undefined : { name: bot, email: `${bot}@users.noreply.github.com` };
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
  const outerFirst = mounts.filter(isCloned).toSorted((a, b) => (a.mountPath < b.mountPath ? -1 : 1));
  return outerFirst.map((mount) => {
    const { mountPath, repository, depth, auth } = mount;
    const ref = Object.hasOwn(refs, mountPath) ? refs[mountPath] : mount.ref;
    const host = auth.kind === 'none' ? (hosts.length === 1 ? hosts[0] : undefined) : codehostOf(mount, hosts);
    const author = auth.kind === 'codehostApp' ? authorOf(mount, host) : undefined;
    return {
      url: gitUrlOf(ctx, host, repository),
      mountPath,
      ...(ref !== undefined && { ref }),
      ...(depth !== undefined && { depth }),
      ...(author !== undefined && { commitAuthor: author }),
      ...(auth.kind === 'codehostApp' && {
        authorization: () => authorize(ctx, mount, host as SealedConnection, auth.installationId),
      }),
    };
  });
}

async function authorize(
  ctx: FlowContext,
  { mountPath, repository }: Mount,
  connection: SealedConnection,
  installation: string | undefined,
): Promise<string> {
  try {
    const of = { connection, installationId: installation, repository, permissions: { contents: 'read' } } as const;
    const { token } = await installationToken(ctx, of);
    return `Basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const isPassing = error.kind === 'unavailable' || error.kind === 'rate_limited';
    const message = `Mount ${mountPath}: connection ${connection.name}: ${error.message}`;
    throw new Fault(isPassing ? 'unavailable' : 'unprocessable', 'mount-token', message);
  }
}
