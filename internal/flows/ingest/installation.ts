// Deliveries about an installation of the code host itself (docs/reference/connections.md#state-of-a-connection): the status
// of the connection follows, cached tokens are dropped, and one event tells of a change. What changes nothing leaves nothing.

import { readInstallation } from '../../adapters/providers/codehost/codehost.ts';
import { setObserved } from '../../adapters/store/connections/connections.ts';
import {
  deliveredEvent,
  lockInstallation,
  mountedRepositories,
} from '../../adapters/store/connections/installations.ts';
import { wishPullLooks } from '../../adapters/store/repositories/pull-polls.ts';
import { wishFailing } from '../../adapters/store/repositories/resyncs.ts';
import { dropTokensOf } from '../../adapters/store/outbox/tokens.ts';
import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { afterInstallation, type InstallationAnswer } from '../../core/installation/installation.ts';
import type { InstallationChange } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { apiUrlOf, settingText } from '../codehost-mounts.ts';
import { changeStatus, serviceActor, recordStatusChange } from '../connection-status.ts';
import type { FlowContext } from '../context.ts';
import { connectionSecrets } from '../sealed.ts';
import type { Intake } from './outcome.ts';

/** Whether a delivery is of the connection's installation: its own, or one that a mount names; any where it names none. */
export async function isOwnInstallation(
  ctx: FlowContext,
  connection: SealedConnection,
  installationId: string | undefined,
): Promise<boolean> {
  const own = settingText(connection.config['installationId']);
  if (own === undefined || installationId === undefined || own === installationId) return true;
  const mounts = await mountedRepositories(ctx.db, connection.projectId);
  return mounts.some((mount) => mount.installationId === installationId);
}

export interface InstallationDelivery {
  readonly change: InstallationChange;
  readonly installationId: string | undefined;
  readonly dedupHash: Buffer;
}

/** The delivery's proof has been held; it is of this connection's installation. */
export async function takeInstallation(
  ctx: FlowContext,
  connection: SealedConnection,
  { change, installationId, dedupHash }: InstallationDelivery,
): Promise<Intake> {
  const seen = await ask(ctx, connection, change, installationId);
  const mounts = await mountedRepositories(ctx.db, connection.projectId);
  const own = settingText(connection.config['installationId']) ?? installationId;
  const wanted = mounts.filter((one) => (one.installationId ?? own) === installationId).map((one) => one.repository);
  const taken = await ctx.db.tx(async (tx): Promise<Intake> => {
    const now = await lockInstallation(tx, connection.id);
    if (now === undefined) throw new Fault('not_found', 'connection-not-found', 'there is no such connection');
    const known = await deliveredEvent(tx, connection.projectId, dedupHash);
    if (known !== undefined) return { eventRecordId: known.id, created: false, routerStatus: known.routerStatus };
    // What an installation may do has changed: tokens from before say nothing of it.
    await dropTokensOf(tx, connection.id);
    const next = afterInstallation(now, change, seen, wanted);
    await setObserved(tx, connection.id, next.observed);
    if (!next.isChange) return { ignored: true, reason: 'no-change' };
    // What it was not permitted to read, or to say, it may be by now.
    await wishPullLooks(tx, { projectId: connection.projectId, connection: connection.name });
    await wishFailing(tx, { projectId: connection.projectId, except: null });
    const said = { connection, to: next.status, actor: serviceActor('codehost'), dedupHash };
    const id =
      (await changeStatus(ctx, tx, { ...said, reason: next.reason })) ??
      (await recordStatusChange(ctx, tx, {
        ...said,
        reason: next.detail ?? next.reason,
        what: 'changed',
        before: now.status,
      }));
    return { eventRecordId: id, created: true, routerStatus: 'pending' };
  });
  if ('created' in taken && taken.created) ctx.ingest?.recorded(connection.projectId);
  ctx.runtime.log.info({ connectionId: connection.id, change: change.what }, 'connection.delivery');
  return taken;
}

/** What the provider says now, where a delivery says that something is to be had: it may be late, or sent again. */
async function ask(
  ctx: FlowContext,
  connection: SealedConnection,
  { what }: InstallationChange,
  installationId: string | undefined,
): Promise<InstallationAnswer | undefined> {
  if ((what !== 'established' && what !== 'permissions') || installationId === undefined) return undefined;
  const privateKey = settingText(connectionSecrets(ctx, connection)['privateKey']);
  const appId = settingText(connection.config['appId']);
  // A connection that only takes deliveries has nobody to ask.
  if (privateKey === undefined || appId === undefined) return undefined;
  const apiUrl = apiUrlOf(ctx, connection);
  const { word } = await readInstallation({
    appId,
    installationId,
    privateKey,
    now: ctx.runtime.now(),
    allowPrivate: ctx.config.allowPrivateNetwork,
    ...(apiUrl !== undefined && { apiUrl }),
  });
  return word === 'limited' ? 'unavailable' : word;
}
