// What is wrong with a project's repositories, events, schedules and jobs, and what to do about each (`svc doctor`).
// Looking reads only; jobs that gave up run again when a person says so.

import type { RepoConditionWord } from '../adapters/repo/types.ts';
import { recordAudit } from '../adapters/store/tenancy/audit.ts';
import { retryParkedJobs } from '../adapters/store/operations/jobs.ts';
import { firstOrgId } from '../adapters/store/secrets/keys.ts';
import { liveRoles } from '../adapters/store/operations/peers.ts';
import { readRejected } from '../adapters/store/events/rejected.ts';
import {
  breakGlassSince,
  findTroubles,
  type ParkedWork,
  type Troubles,
} from '../adapters/store/operations/troubles.ts';
import { type Role, roleNames } from '../base/config/config.ts';
import { isReservedSlug } from '../domain/slug.ts';
import { endedTheProcess } from './in-hand.ts';
import type { Actor, FlowContext, ProjectRef } from './context.ts';

export interface DoctorCheck {
  readonly name: string;
  readonly status: 'ok' | 'warning' | 'error';
  readonly message: string;
  readonly hint?: string;
}

/** A repository that has not been read for so many of its intervals, and at least a quarter of an hour, is stalled. */
const stalledIntervals = 20;

/** NAME stands for the repository's. */
const hints: { readonly [condition in RepoConditionWord]: string } = {
  'auth-failed': 'check the secret or connection that its auth names, then: svc repo sync NAME',
  'not-found': 'check the url, and whether the credentials may see the repository',
  moved: 'the detail says where it leads: set the url to the address where the repository is now',
  'ref-missing': 'the branch does not exist (or the repository is empty); push it, or change branch',
  unreachable: 'check the network between this daemon and the server; private addresses need SVC_ALLOW_PRIVATE_NETWORK',
  'rate-limited': 'nothing to do: it is tried again when the server allows; raise the interval if it stays',
  'server-lacks-filter': 'the server cannot serve parts of a repository, and this one is too large to read whole',
  'too-large': 'make .svc/ smaller; the detail names what is over its limit',
  hostile: 'the tree holds names or objects that are refused; the detail names them',
  'signature-rejected': 'sign the tip with a key of the policy, or change verify',
  corrupt: 'the server, or what stands before it, answers with what git cannot read: try git clone, and git fsck there',
  stale:
    'what the run was to repeat is not stored any more: pin the commit instead, which reads it anew: svc repo pin NAME COMMIT',
};

/** The same of a folder or a repository on the daemon's machine, where no server and no network stands between. */
const hintsOfPaths: { readonly [condition in RepoConditionWord]?: (name: string) => string } = {
  'not-found': (name) => `is the path right, and there on the daemon's machine? else: svc repo edit ${name} --path DIR`,
  unreachable: () => "let the daemon's user read the path and all that lies below .svc/",
  corrupt: () => 'look at the repository with git fsck',
};

function hintOf({ name, condition, isPath }: Troubles['conditions'][number]): string {
  const word = condition as RepoConditionWord;
  return (isPath ? hintsOfPaths[word]?.(name) : undefined) ?? hints[word].replace('NAME', () => name);
}

const dayMs = 24 * 60 * 60 * 1_000;

/** What stands in the way of pages, and who came in by the way that is for emergencies. */
async function signinChecks(ctx: FlowContext, project: ProjectRef): Promise<DoctorCheck[]> {
  const checks: DoctorCheck[] = [];
  if (isReservedSlug(project.orgSlug)) {
    const message = `the organization ${project.orgSlug} has a name that is an address of the service: its pages cannot be reached`;
    checks.push({
      name: 'slug',
      status: 'warning',
      message,
      hint: `give the organization another slug: PATCH /api/v1/orgs/${project.orgSlug} {"slug": …}`,
    });
  }
  const count = await breakGlassSince(ctx.db, project.orgId, new Date(ctx.runtime.now().getTime() - dayMs));
  if (count > 0) {
    const message = `${count} sign-in${count === 1 ? '' : 's'} with the token of the data directory within a day`;
    checks.push({
      name: 'sign-in',
      status: 'warning',
      message,
      hint: 'svc audit list --org --action auth.break_glass',
    });
  }
  return checks;
}

/** Senders that are not believed. */
async function rejectedChecks(ctx: FlowContext, project: ProjectRef): Promise<DoctorCheck[]> {
  const rows = await readRejected(ctx.db, project.id);
  return rows.map(({ kind, name, count, why, lastAt }) => ({
    name: 'rejected',
    status: 'warning',
    message: `${kind} ${name} refused at least ${many(Number(count), 'delivery')} within a day, the latest at ${lastAt.toISOString()}: ${why}`,
    hint:
      kind === 'endpoint'
        ? `svc endpoint show ${name} says what a sender has to show; compare its secret`
        : `compare the secret there: svc connection set-credentials ${name} --from-file FILE`,
  }));
}

/** What waits while no daemon has a role; whoever is asked has that of the API. */
const without: { readonly [role in Exclude<Role, 'api'>]: string } = {
  sync: 'repositories are not read',
  route: 'events are not routed',
  schedule: 'schedules do not fire',
  session: 'sessions are not run',
};

/** Roles that nobody has: told before anything is late for it. */
export async function diagnoseRoles(ctx: FlowContext): Promise<DoctorCheck[]> {
  const live = await liveRoles(ctx.db);
  return roleNames.flatMap((role) =>
    role === 'api' || live.has(role)
      ? []
      : [
          {
            name: 'roles',
            status: 'warning',
            message: `no daemon has the role ${role}: ${without[role]}`,
            hint: `start one: svcd --roles ${role}; svc daemon list shows those that run`,
          },
        ],
  );
}

/**
 * Every check that found something; one `ok` check where nothing did. What work gave up over is told to who `operates` the
 * installation: it may be another organization's.
 */
export async function diagnose(
  ctx: FlowContext,
  project: ProjectRef,
  { operates }: { readonly operates: boolean },
): Promise<DoctorCheck[]> {
  const now = ctx.runtime.now();
  const found = await findTroubles(ctx.db, project, { now, stalledIntervals });
  const checks: DoctorCheck[] = [];
  for (const row of found.conditions) {
    const message = `repository ${row.name} cannot be read (${row.condition}, ${row.failures} in a row): ${row.detail}`;
    checks.push({ name: 'repository', status: 'error', message, hint: hintOf(row) });
  }
  for (const row of found.runs) {
    const isHeld = row.status === 'held';
    checks.push({
      name: isHeld ? 'held' : 'sync',
      status: isHeld ? 'warning' : 'error',
      message: `repository ${row.name}: commit ${row.commit ?? 'unknown'} is ${row.status}: ${row.detail ?? 'see the run'}`,
      hint: isHeld ? `svc repo approve ${row.name} ${row.id}` : `svc reconcile show ${row.id}`,
    });
  }
  for (const name of found.stalled) {
    const message = `repository ${name} has been due for long and nobody looks at it`;
    checks.push({ name: 'stalled', status: 'error', message, hint: 'is a daemon with the role sync running?' });
  }
  for (const row of found.secrets) {
    const message = `secret ${row.secret}, which repository ${row.repository} reads with, does not exist or has expired`;
    checks.push({ name: 'secret', status: 'error', message, hint: `svc secret set ${row.secret}` });
  }
  if (found.jobs.length > 0 && !operates) {
    const message = 'jobs of the installation gave up';
    checks.push({ name: 'jobs', status: 'warning', message, hint: 'svc doctor of its administrators says which' });
  }
  for (const row of operates ? found.jobs : []) {
    const message = `${row.count} job${row.count === 1 ? '' : 's'} ${row.task} gave up: ${row.error}`;
    checks.push({ name: 'jobs', status: 'error', message, hint: 'remove the cause, then: svc doctor --retry-jobs' });
  }
  checks.push(...lateChecks(found), ...(await rejectedChecks(ctx, project)), ...(await signinChecks(ctx, project)));
  if (checks.length > 0) return checks;
  return [{ name: 'repositories', status: 'ok', message: `${found.repositories} watched, all as they should be` }];
}

const many = (count: number, what: string): string =>
  `${count} ${count === 1 ? what : what.endsWith('y') ? `${what.slice(0, -1)}ies` : `${what}s`}`;

/** What is tried again only when a person asks for it, and then with nothing beside it. */
function parkedCheck({ kind, name, eventId }: ParkedWork): DoctorCheck {
  const sync = `svc repo sync ${name.replace(/#\d+$/, '')}`;
  const replay = `svc event replay ${eventId}`;
  const { [kind]: said } = {
    sync: [`the sync of repository ${name}`, sync],
    tick: [`the tick of ${name}`, replay],
    event: [`event ${eventId} (${name})`, replay],
    plan: [`the plan of pull request ${name}`, sync],
    look: [`the look for pull requests of repository ${name}`, sync],
    status: [`the status of a commit of repository ${name}`, sync],
    notice: [`the notification ${name}`, 'it is not told; the next notice is'],
    call: [`the look for what became of a call of ${name}`, 'look at the provider whether it arrived'],
  } as const satisfies { readonly [one in ParkedWork['kind']]: readonly [what: string, hint: string] };
  const [what, hint] = said;
  return {
    name: 'parked',
    status: 'error',
    message: `${what} ended the daemon three times in a row and is not tried any more (${endedTheProcess})`,
    hint,
  };
}

function lateChecks(found: Troubles): DoctorCheck[] {
  const checks = found.parked.map(parkedCheck);
  const { failedEvents: failed, pendingEvents: pending } = found;
  if (failed !== undefined) {
    const why = failed.reason === '' ? '' : `; the latest: ${failed.reason}`;
    const message = `${many(failed.count, 'event')} could not be routed${why}`;
    checks.push({ name: 'events', status: 'error', message, hint: `svc event show ${failed.id}; svc event replay ID` });
  }
  if (pending !== undefined) {
    const message = `${many(pending.count, 'event')} not routed yet, for up to ${pending.seconds} s`;
    checks.push({ name: 'events', status: 'error', message, hint: 'is a daemon with the role route running?' });
  }
  if (found.lateSchedules > 0) {
    const message = `${many(found.lateSchedules, 'schedule')} due for more than a minute`;
    checks.push({ name: 'schedules', status: 'error', message, hint: 'is a daemon with the role schedule running?' });
  }
  if (found.missedTicks > 0) {
    const message = `${many(found.missedTicks, 'schedule')} missed the latest tick: no daemon was up within a minute of it`;
    checks.push({
      name: 'schedules',
      status: 'warning',
      message,
      hint: 'svc schedule list; missed ticks are not made up for',
    });
  }
  for (const row of found.checks) {
    const message = `the code host did not take check ${row.name} on ${row.target}: ${row.error}`;
    checks.push({
      name: 'checks',
      status: 'warning',
      message,
      hint: 'the next event on the pull request tells it anew',
    });
  }
  return checks;
}

/** Gives every job of the installation that gave up its attempts back; answers with how many. */
export async function retryJobs(ctx: FlowContext, actor: Actor): Promise<number> {
  return ctx.db.tx(async (tx) => {
    const tasks = await retryParkedJobs(tx);
    const count = tasks.reduce((sum, task) => sum + task.count, 0);
    if (count === 0) return 0;
    await recordAudit(tx, {
      orgId: await firstOrgId(tx),
      projectId: null,
      principal: actor,
      action: 'jobs.retried',
      detail: Object.fromEntries(tasks.map(({ task, count: jobs }) => [task, jobs])),
    });
    return count;
  });
}
