// The setup of an error-tracking connection (docs/reference/error-tracking.md#setup): start, callback, status, cancel. The
// order is the safety: who calls, whether the attempt still waits, the claim of the code, the one exchange, the readback,
// the claim of the installation. Nothing is sent twice, and an outcome that nobody knows is parked.

import { sha256Bytes } from '../../base/hash.ts';
import {
  consentUrl,
  type ErrtrackSettings,
  exchangeCode,
  ProviderFailure,
  readInstallation,
  readOrganization,
  readProjectPage,
} from '../../adapters/providers/errtrack/errtrack.ts';
import {
  activeProjects,
  attemptById,
  attemptByState,
  type AttemptRow,
  attemptsOf,
  claimCode,
  claimInstallation,
  holdPending,
  insertAttempt,
  isUninstalled,
  step,
} from '../../adapters/store/connections/errtrack-attempts.ts';
import { failpoint } from '../../base/failpoint.ts';
import { addPage, attemptMs, isResumable, isSlug, type ProviderProject } from '../../core/attempt/attempt.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { errtrackApplication, errtrackSecret } from '../errtrack-application.ts';
import {
  requireAdministrator,
  requireSomeAdministrator,
  type SetupCaller,
  setupForbidden,
  setupScope,
} from './errtrack-authority.ts';
import { persist } from '../persist.ts';
import { complete } from './errtrack-publish.ts';
import { auditSetup, current, end, noAttempt, readSetup, wrongState } from './errtrack-status.ts';
import { isUuid } from '../../domain/uuid.ts';
import { keepTokens } from './errtrack-tokens.ts';

export interface SetupInput {
  readonly organizationId: string;
  readonly projectId: string;
  readonly destinationProjectIds?: readonly string[] | undefined;
  readonly resume?: boolean | undefined;
}

/**
 * Begins an attempt, or with `resume` goes on with the caller's own. Throws Fault `forbidden`, `invalid` for destinations
 * that are no active projects of the organization, `unavailable` where the installation has no application there.
 */
export async function startSetup(
  ctx: FlowContext,
  caller: SetupCaller,
  input: SetupInput,
): Promise<{ readonly attempt: AttemptRow; readonly authorizationUrl: string | null }> {
  const scope = await setupScope(ctx.db, caller, input);
  const settings = errtrackApplication(ctx);
  await errtrackSecret(ctx, scope);
  if (input.resume === true) {
    const now = ctx.runtime.now();
    const open = await attemptsOf(ctx.db, caller.principalId, scope.id);
    const found = open.find((one) => isResumable(one.state, one.expiresAt, now));
    if (found !== undefined) return { attempt: found, authorizationUrl: null };
  }
  const wanted = [...new Set((input.destinationProjectIds ?? [scope.id]).map((one) => one.toLowerCase()))];
  const state = Buffer.from(ctx.runtime.randomBytes(32)).toString('base64url');
  const id = ctx.runtime.uuid();
  const now = ctx.runtime.now();
  await ctx.db.tx(async (tx) => {
    const destinations = (await activeProjects(tx, scope.orgId, wanted.filter(isUuid))).map((one) => one.id);
    if (destinations.length !== wanted.length) {
      throw new Fault(
        'invalid',
        'invalid-destination',
        'destinationProjectIds: each must be the id of an active project of the organization.',
      );
    }
    await insertAttempt(tx, {
      id,
      orgId: scope.orgId,
      projectId: scope.id,
      userId: caller.principalId,
      destinations,
      stateHash: sha256Bytes(state),
      now,
      expiresAt: new Date(now.getTime() + attemptMs),
    });
    await auditSetup(tx, caller, { orgId: scope.orgId, projectId: scope.id, id }, 'started');
  });
  const attempt = await attemptById(ctx.db, id);
  if (attempt === undefined) throw new Error('an attempt is gone that was just made');
  return { attempt, authorizationUrl: consentUrl(settings, state) };
}

/** Cancels an unfinished attempt; its pending credential is deleted here, and nothing is undone at the provider. */
export async function cancelSetup(ctx: FlowContext, caller: SetupCaller, id: string): Promise<AttemptRow> {
  const row = await readSetup(ctx, caller, id);
  const now = ctx.runtime.now();
  const isDone = await ctx.db.tx(async (tx) => {
    const done = await step(tx, row.id, { taken: 'cancel', from: row.state, now });
    if (done) await auditSetup(tx, caller, row, 'cancelled');
    return done;
  });
  const after = (await attemptById(ctx.db, row.id)) ?? row;
  if (!isDone) throw wrongState(after.state);
  return after;
}

export interface CallbackInput {
  readonly state: string;
  readonly installationId: string;
  readonly code: string;
}

/**
 * Takes the browser back from the provider. Throws Fault `forbidden` (also for another person's attempt), `not_found` for a
 * state that nobody was given, `conflict` where the attempt does not wait any more or the code or installation is taken.
 */
export async function takeCallback(ctx: FlowContext, caller: SetupCaller, input: CallbackInput): Promise<AttemptRow> {
  await requireSomeAdministrator(ctx.db, caller);
  const settings = errtrackApplication(ctx);
  const found = await attemptByState(ctx.db, sha256Bytes(input.state));
  if (found === undefined) throw noAttempt();
  if (found.userId !== caller.principalId) throw setupForbidden();
  await requireAdministrator(ctx.db, caller, found.orgId);
  const secret = await errtrackSecret(ctx, { id: found.projectId, orgId: found.orgId });
  const row = await current(ctx, found);
  if (row.state !== 'awaiting_authorization') throw wrongState(row.state);
  const installationId = input.installationId.toLowerCase();
  const now = ctx.runtime.now();
  // The claim and the step are one: who loses either has exchanged nothing, and has claimed nothing.
  await ctx.db.tx(async (tx) => {
    if (!(await claimCode(tx, sha256Bytes(input.code), row.id, now))) throw wrongState('waiting for another code');
    const taken = { taken: 'callback' as const, from: row.state, now, learned: { installationId } };
    if (!(await step(tx, row.id, taken))) throw wrongState('not waiting any more');
    await auditSetup(tx, caller, row, 'returned');
  });
  failpoint('errtrack.code-claimed');
  const exchanged = await exchangeCode(settings, secret, { installationId, code: input.code });
  failpoint('errtrack.exchanged');
  if (exchanged.outcome !== 'done') {
    const isKnown = exchanged.outcome !== 'unknown';
    return end(
      ctx,
      row,
      'exchanging',
      isKnown ? 'refused' : 'unknown',
      isKnown ? 'exchange-refused' : 'exchange-unknown',
    );
  }
  const { outcome: _, ...pair } = exchanged;
  // What the provider gives for a code, and says of an installation that waits, it may say once.
  await persist(() =>
    ctx.db.tx(async (tx) => {
      const tokenId = await keepTokens(ctx, tx, { orgId: row.orgId, installationId, generation: 1 }, pair);
      await holdPending(tx, { id: row.id, tokenId, tokenExpiresAt: pair.expiresAt });
    }),
  );
  return learn(ctx, caller, { row, settings, installationId, token: pair.token });
}

interface Learning {
  readonly row: AttemptRow;
  readonly settings: ErrtrackSettings;
  readonly installationId: string;
  readonly token: string;
}

/** What the provider says of the installation, its organization and projects; then the choice, or the only one. */
async function learn(ctx: FlowContext, caller: SetupCaller, at: Learning): Promise<AttemptRow> {
  const { row, installationId } = at;
  let read: Awaited<ReturnType<typeof discover>>;
  try {
    read = await discover(ctx, at);
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    read = `read-failed: ${error.word}`;
  }
  if (typeof read === 'string') return end(ctx, row, 'exchanging', 'refused', read);
  const { organization, region, choices } = read;
  const now = ctx.runtime.now();
  const isOnly = choices.length === 1 && row.destinations.length === 1;
  const isTaken = await persist(() =>
    ctx.db.tx(async (tx) => {
      if (!(await claimInstallation(tx, { installationId, attemptId: row.id, orgId: row.orgId, now }))) return true;
      const learned = { organization, region, choices };
      await step(tx, row.id, { taken: isOnly ? 'only-choice' : 'choices', from: 'exchanging', now, learned });
      return false;
    }),
  );
  if (isTaken) {
    await end(ctx, row, 'exchanging', 'refused', 'installation-claimed');
    throw new Fault('conflict', 'installation-claimed', 'The installation belongs to another setup.');
  }
  const after = (await attemptById(ctx.db, row.id)) ?? row;
  const [only] = choices;
  const [destination] = row.destinations;
  if (!isOnly || after.state !== 'completing' || only === undefined || destination === undefined) return after;
  return complete(ctx, caller, after, [{ projectId: destination, errtrackProjectId: only.id }]);
}

interface Discovered {
  readonly organization: { readonly id: string; readonly slug: string; readonly name: string };
  readonly region: 'us' | 'de';
  readonly choices: readonly ProviderProject[];
}

/** What was read, or why it is not enough. Throws ProviderFailure. */
async function discover(ctx: FlowContext, { settings, installationId, token }: Learning): Promise<Discovered | string> {
  const installation = await readInstallation(settings, installationId, token);
  if (installation.installationId.toLowerCase() !== installationId) return 'readback-mismatch';
  if (installation.appSlug !== settings.appSlug || !isSlug(installation.organization.slug)) return 'readback-mismatch';
  if (installation.status !== 'pending') return 'installation-not-pending';
  if (await isUninstalled(ctx.db, installationId)) return 'uninstalled';
  const { organization } = installation;
  const known = await readOrganization(settings, 'base', organization.slug, token);
  const again = await readOrganization(settings, known.region, organization.slug, token);
  for (const one of [known, again]) {
    if (one.id !== organization.id || one.slug !== organization.slug || one.region !== known.region)
      return 'organization-mismatch';
  }
  const choices = await enumerate(settings, { region: known.region, organization: organization.slug }, token);
  if (typeof choices === 'string') return `enumeration-rejected: ${choices}`;
  if (choices.length === 0) return 'no-projects';
  return { organization: { id: known.id, slug: known.slug, name: known.name }, region: known.region, choices };
}

async function enumerate(
  settings: ErrtrackSettings,
  at: { readonly region: 'us' | 'de'; readonly organization: string },
  token: string,
): Promise<readonly ProviderProject[] | string> {
  let seen: { readonly projects: readonly ProviderProject[]; readonly cursors: readonly string[] } = {
    projects: [],
    cursors: [],
  };
  for (;;) {
    const page = await readProjectPage(settings, { ...at, cursor: seen.cursors.at(-1) ?? null }, token);
    const added = addPage(seen, page);
    if (typeof added === 'string') return added;
    if (!added.more) return added.projects;
    seen = added;
  }
}
