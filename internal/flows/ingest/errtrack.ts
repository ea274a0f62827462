// Webhooks of the error tracker, which come to one address for everybody (docs/reference/error-tracking.md#intake): proof
// over the raw bytes, then who hears of it. An issue is an event of every project with a subscription to its provider
// project, at the moment of the delivery; a removed installation ends its grant. Codes that come along are neither used
// nor kept.

import { sha256Bytes } from '../../base/hash.ts';
import { type ErrtrackDelivery, normalize, verifySignature } from '../../adapters/providers/errtrack/errtrack.ts';
import {
  connectionOfGrant,
  grantByInstallation,
  type GrantRow,
  projectsAt,
  setSubscriptions,
  oldestProject,
  subscribersOf,
  uninstall,
} from '../../adapters/store/connections/errtrack-grants.ts';
import { lockInstallation } from '../../adapters/store/connections/errtrack-attempts.ts';
import { enqueueRouting, type RecordedEvent, recordEvents } from '../../adapters/store/events/events.ts';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import { lockProject } from '../../adapters/store/routing/project-lock.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { changeStatus, serviceActor } from '../connection-status.ts';
import type { FlowContext } from '../context.ts';
import { errtrackApplication, errtrackSecret, setupUnavailable } from '../errtrack-application.ts';
import { parseBody } from './body.ts';
import type { Intake } from './outcome.ts';
import { logUnreadable } from './rejected.ts';

interface Delivery {
  readonly raw: Buffer;
  readonly headers: { readonly [name: string]: string | undefined };
}

/** Throws Fault `unauthenticated`, `invalid`, or `unavailable` where the installation has no application there. */
export async function takeErrtrack(ctx: FlowContext, delivery: Delivery): Promise<Intake> {
  errtrackApplication(ctx);
  const scope = await oldestProject(ctx.db, undefined);
  if (scope === undefined) throw setupUnavailable();
  const secret = await errtrackSecret(ctx, scope);
  return toldOf(ctx, () => takeSigned(ctx, delivery, secret));
}

async function toldOf<T>(ctx: FlowContext, take: () => Promise<T>): Promise<T> {
  try {
    return await take();
  } catch (error) {
    // The application is the installation's: no connection's name, and no project.
    logUnreadable(ctx, { kind: 'connection', name: 'the error tracker' }, error);
    throw error;
  }
}

async function takeSigned(ctx: FlowContext, { raw, headers }: Delivery, secret: string): Promise<Intake> {
  if (!verifySignature(raw, headers['sentry-hook-signature'], secret)) {
    throw new Fault('unauthenticated', 'bad-signature', 'the signature is missing, or not that of the body');
  }
  const names = { resource: headers['sentry-hook-resource'], idempotencyKey: headers['idempotency-key'] };
  const body = parseBody(raw);
  const said = normalize(body, raw, names);
  if (said.kind === 'malformed') throw new Fault('invalid', 'invalid-body', said.reason);
  if (said.kind === 'ignored') return { ignored: true, reason: said.reason };
  return said.kind === 'uninstalled' ? removeInstallation(ctx, said) : recordIssue(ctx, said, raw);
}

async function recordIssue(
  ctx: FlowContext,
  said: Extract<ErrtrackDelivery, { kind: 'issue' }>,
  raw: Buffer,
): Promise<Intake> {
  const grant = await grantByInstallation(ctx.db, said.installationId);
  if (grant === undefined || grant.status === 'removed') return { ignored: true, reason: 'no such installation' };
  const now = ctx.runtime.now();
  const recorded = await ctx.db.tx(async (tx) => {
    const subscribers = await subscribersOf(tx, grant.id, said.projectId);
    const byProject = subscribers.map(
      (one): NewEvent => ({
        id: timeOrderedId(ctx.runtime),
        projectId: one.projectId,
        key: said.key,
        // A project that is connected again has another subscription, and knows what came by the one before all the same.
        dedupHash: sha256Bytes(`errtrack\0${said.installationId}\0${said.dedupKey}`),
        raw,
        payload: JSON.stringify(payloadOf(said.payload, one.connection, grant)),
        receivedAt: now,
        connectionId: one.connectionId,
      }),
    );
    return byProject.length === 0 ? [] : recordEvents(tx, byProject, { routing: ctx.ingest?.needsJob() === true });
  });
  const [first] = recorded as readonly RecordedEvent[];
  if (first === undefined) return { ignored: true, reason: 'no project is subscribed to it' };
  const created = recorded.find((one) => one.created) ?? first;
  const subscribers = await subscribersOf(ctx.db, grant.id, said.projectId);
  for (const { projectId } of subscribers) ctx.ingest?.recorded(projectId);
  ctx.runtime.log.info({ event: said.key, projects: recorded.length, created: created.created }, 'event.received');
  return { eventRecordId: created.id, created: created.created, routerStatus: created.routerStatus };
}

const payloadOf = (said: JsonObject, connection: string, grant: GrantRow): JsonObject => ({
  errtrack: {
    connection,
    organization: { slug: grant.organizationSlug },
    ...(said as { readonly [key: string]: Json }),
  },
  svc: { authored: false },
});

/** More projects are connected than were held. */
class MoreConnected extends Error {}

/** The provider says that the installation is gone: its credential, its subscriptions and its connections go with it. */
async function removeInstallation(ctx: FlowContext, said: { readonly installationId: string }): Promise<Intake> {
  const now = ctx.runtime.now();
  const known = await grantByInstallation(ctx.db, said.installationId);
  const projectIds = known === undefined ? [] : (await projectsAt(ctx.db, known.id)).map(({ id }) => id);
  const removing = ctx.db.tx(async (tx) => {
    // In one order, so that two of these never wait for each other.
    for (const id of projectIds) await lockProject(tx, id);
    await lockInstallation(tx, said.installationId);
    const grant = await uninstall(tx, said.installationId, now);
    if (grant === undefined) return [];
    const held = await projectsAt(tx, grant.id);
    if (held.some(({ id }) => !projectIds.includes(id))) throw new MoreConnected();
    const events: string[] = [];
    for (const projectId of projectIds) events.push(...(await disconnect(ctx, tx, { projectId, grant, now })));
    await enqueueRouting(tx, ctx.ingest, projectIds);
    return events;
  });
  const recorded = await removing.catch((error: unknown) => {
    if (error instanceof MoreConnected) return undefined;
    throw error;
  });
  if (recorded === undefined) return removeInstallation(ctx, said);
  for (const id of projectIds) ctx.ingest?.recorded(id);
  const [first] = recorded;
  ctx.runtime.log.warn({ projects: recorded.length }, 'errtrack.uninstalled');
  if (first !== undefined) return { eventRecordId: first, created: true, routerStatus: 'pending' };
  const isKnown = known?.status === 'removed';
  return { ignored: true, reason: isKnown ? 'no-change' : 'the installation is noted as removed' };
}

/** The event of it; none where the project has no connection of the grant any more. */
async function disconnect(
  ctx: FlowContext,
  tx: Sql,
  at: { readonly projectId: string; readonly grant: Pick<GrantRow, 'id' | 'orgId'>; readonly now: Date },
): Promise<string[]> {
  const { projectId, grant, now } = at;
  await setSubscriptions(tx, { projectId, grantId: grant.id, now }, []);
  const row = await connectionOfGrant(tx, { projectId, grantId: grant.id });
  if (row === undefined) return [];
  const id = await changeStatus(ctx, tx, {
    connection: { ...row, provider: 'errtrack', projectId, orgId: grant.orgId },
    to: 'removed',
    reason: 'uninstalled',
    actor: serviceActor('errtrack'),
  });
  return id === undefined ? [] : [id];
}
