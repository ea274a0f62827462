// The second half of a setup: the selection, a last look at everything that may have changed, the one confirmation, and
// the one transaction that publishes. A confirmation that was sent and not answered, or a publication that failed after
// one, leaves the attempt uncertain: an operator compares both sides, nothing is undone or sent again.

import { confirmInstallation, ProviderFailure, readInstallation } from '../../adapters/providers/errtrack/errtrack.ts';
import {
  activeProjects,
  attemptById,
  type AttemptRow,
  isUninstalled,
  lockInstallation,
  step,
} from '../../adapters/store/connections/errtrack-attempts.ts';
import {
  grantOfProvider,
  type GrantRow,
  insertGrant,
  isNameFree,
  projectsAt,
  uninstall,
} from '../../adapters/store/connections/errtrack-grants.ts';
import { lockProject } from '../../adapters/store/routing/project-lock.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import { type Recipient, selection } from '../../core/attempt/attempt.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { errtrackApplication } from '../errtrack-application.ts';
import { persist } from '../persist.ts';
import { requireAdministrator, type SetupCaller } from './errtrack-authority.ts';
import { select } from './errtrack-selection.ts';
import { auditSetup, end, readSetup, wrongState } from './errtrack-status.ts';
import { openTokens } from './errtrack-tokens.ts';

/**
 * Publishes what the person chose. Throws Fault `forbidden`, `not_found`, `conflict` where the attempt waits for no
 * selection, `invalid` for recipients that are none of its projects or choices.
 */
export async function selectRecipients(
  ctx: FlowContext,
  caller: SetupCaller,
  id: string,
  recipients: readonly Recipient[],
): Promise<AttemptRow> {
  const row = await readSetup(ctx, caller, id);
  if (row.state !== 'awaiting_selection') throw wrongState(row.state);
  const named = recipients.map((one) => ({ ...one, projectId: one.projectId.toLowerCase() }));
  const chosen = selection(named, row.destinations, row.choices ?? []);
  if (typeof chosen === 'string') throw new Fault('invalid', 'invalid-selection', `recipients: ${chosen}.`);
  const isMine = await ctx.db.tx(async (tx) => {
    const mine = await step(tx, row.id, { taken: 'select', from: row.state, now: ctx.runtime.now() });
    if (mine) await auditSetup(tx, caller, row, 'selected');
    return mine;
  });
  const after = (await attemptById(ctx.db, row.id)) ?? row;
  if (!isMine) throw wrongState(after.state);
  return complete(ctx, caller, after, chosen);
}

/** From `completing` to an end. */
export async function complete(
  ctx: FlowContext,
  caller: SetupCaller,
  row: AttemptRow,
  chosen: readonly Recipient[],
): Promise<AttemptRow> {
  failpoint('errtrack.completing');
  const settings = errtrackApplication(ctx);
  const { installationId, organization } = row;
  if (installationId === null || organization === null)
    throw new Error('a setup is completing without an installation');
  const wrong = await lastLook(ctx, caller, row, chosen);
  if (wrong !== undefined) return end(ctx, row, 'completing', 'refused', wrong);
  const { token } = await openTokens(ctx, { orgId: row.orgId, installationId, generation: 1, tokenId: row.tokenId });
  failpoint('errtrack.confirming');
  const confirmed = await confirmInstallation(settings, { installationId, token });
  failpoint('errtrack.confirmed');
  if (confirmed.outcome === 'refused') return end(ctx, row, 'completing', 'refused', 'confirmation-refused');
  if (confirmed.outcome === 'unknown') return end(ctx, row, 'completing', 'unknown', 'confirmation-unknown');
  try {
    // The provider has it as installed by now: a project that is busy, or a database that breaks off, is waited for.
    await persist(() => ctx.db.tx((tx) => publish(ctx, caller, tx, { row, chosen, appSlug: settings.appSlug })));
  } catch (error) {
    if (error instanceof Uninstalled) return end(ctx, row, 'completing', 'refused', 'uninstalled');
    const after = await attemptById(ctx.db, row.id);
    ctx.runtime.log.error({ attempt: row.id, err: error }, 'errtrack.publication_failed');
    // Cancelled meanwhile: the provider has a confirmed installation that nobody here uses; the log says so.
    if (after !== undefined && after.state !== 'completing') return after;
    return end(ctx, row, 'completing', 'unknown', 'publication-failed');
  }
  failpoint('errtrack.published');
  return (await attemptById(ctx.db, row.id)) ?? row;
}

/** The provider took the installation away after it was confirmed: there is nothing left that an operator could compare. */
class Uninstalled extends Error {}

/** What has changed since the person began that makes the publication wrong. */
async function lastLook(
  ctx: FlowContext,
  caller: SetupCaller,
  row: AttemptRow,
  chosen: readonly Recipient[],
): Promise<string | undefined> {
  const { installationId, organization, tokenId } = row;
  if (installationId === null || organization === null) return 'readback-mismatch';
  try {
    await requireAdministrator(ctx.db, caller, row.orgId);
  } catch (error) {
    if (error instanceof Fault) return 'authority-lost';
    throw error;
  }
  const wanted = [...new Set(chosen.map(({ projectId }) => projectId))];
  const active = await ctx.db.tx((tx) => activeProjects(tx, row.orgId, wanted));
  if (active.length !== wanted.length) return 'destination-gone';
  if (await isUninstalled(ctx.db, installationId)) return 'uninstalled';
  const holder = await grantOfProvider(ctx.db, organization.id);
  if (holder !== undefined && holder.orgId !== row.orgId) return 'organization-claimed';
  const { token } = await openTokens(ctx, { orgId: row.orgId, installationId, generation: 1, tokenId });
  try {
    const settings = errtrackApplication(ctx);
    const found = await readInstallation(settings, installationId, token);
    const isSame =
      found.installationId.toLowerCase() === installationId &&
      found.appSlug === settings.appSlug &&
      found.organization.id === organization.id &&
      found.organization.slug === organization.slug;
    if (!isSame) return 'readback-mismatch';
    return found.status === 'pending' ? undefined : 'installation-not-pending';
  } catch (error) {
    if (error instanceof ProviderFailure) return `read-failed: ${error.word}`;
    throw error;
  }
}

const baseName = 'errtrack';

/**
 * The provider has one installation of the application for an organization: with a new one, the one before is gone, and
 * its word that it is may never come. What projects had of it ends as if they gave it up.
 */
async function replace(
  ctx: FlowContext,
  caller: SetupCaller,
  tx: Sql,
  at: {
    readonly row: AttemptRow;
    readonly old: GrantRow;
    readonly held: readonly { readonly id: string; readonly slug: string }[];
  },
): Promise<void> {
  const { orgId, orgSlug } = at.row;
  for (const { id, slug } of at.held) {
    await select(ctx, tx, { project: { id, slug, orgId, orgSlug }, actor: caller.actor, grant: at.old, ids: [] });
  }
  await uninstall(tx, at.old.installationId, ctx.runtime.now());
}

/** Holds what is published until the end of the transaction. Throws Uninstalled. */
async function hold(tx: Sql, installationId: string, projectIds: readonly string[]): Promise<void> {
  // In one order, so that nobody who locks several waits for another.
  for (const id of [...new Set(projectIds)].sort()) await lockProject(tx, id);
  await lockInstallation(tx, installationId);
  if (await isUninstalled(tx, installationId)) throw new Uninstalled();
}

/**
 * One transaction: grant, subscriptions, connections, events, audit, and the attempt's end. The attempt's step is the
 * guard: where it is not taken, everything is rolled back.
 */
async function publish(
  ctx: FlowContext,
  caller: SetupCaller,
  tx: Sql,
  {
    row,
    chosen,
    appSlug,
  }: { readonly row: AttemptRow; readonly chosen: readonly Recipient[]; readonly appSlug: string },
): Promise<void> {
  const { organization, region, choices, installationId, tokenId, tokenExpiresAt } = row;
  if (
    organization === null ||
    region === null ||
    choices === null ||
    installationId === null ||
    tokenId === null ||
    tokenExpiresAt === null
  ) {
    throw new Error('a setup is completing without what it publishes');
  }
  const now = ctx.runtime.now();
  const projectIds = [...new Set(chosen.map((one) => one.projectId))].sort();
  const old = await grantOfProvider(tx, organization.id);
  const held = old === undefined ? [] : await projectsAt(tx, old.id);
  await hold(tx, installationId, [...projectIds, ...held.map((one) => one.id)]);
  if (old?.orgId === row.orgId) await replace(ctx, caller, tx, { row, old, held });
  const isFree = await isNameFree(tx, row.orgId, baseName, projectIds);
  const grantId = ctx.runtime.uuid();
  const grant = {
    id: grantId,
    orgId: row.orgId,
    name: isFree ? baseName : `${baseName}-${row.id.slice(0, 8)}`,
    installationId,
    organizationSlug: organization.slug,
    organizationName: organization.name,
    region,
    projects: choices,
  };
  const made = await insertGrant(tx, {
    ...grant,
    appSlug,
    organizationId: organization.id,
    tokenId,
    tokenExpiresAt,
    now,
  });
  if (!made) throw new Error('the provider organization has a grant already');
  for (const { id, slug } of await activeProjects(tx, row.orgId, projectIds)) {
    const ids = chosen.filter((one) => one.projectId === id).map((one) => one.errtrackProjectId);
    await select(ctx, tx, {
      project: { id, slug, orgId: row.orgId, orgSlug: row.orgSlug },
      actor: caller.actor,
      grant,
      ids,
    });
  }
  await recordAudit(tx, {
    orgId: row.orgId,
    projectId: row.projectId,
    principal: caller.actor,
    action: 'errtrack.setup_completed',
    subject: { kind: 'SetupAttempt', name: row.id },
    detail: { connection: grant.name, organization: organization.slug, region, recipients: chosen.length },
  });
  if (!(await step(tx, row.id, { taken: 'published', from: 'completing', now, learned: { grantId } }))) {
    throw new Error('the setup was ended elsewhere');
  }
}
