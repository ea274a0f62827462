// Pull requests that no delivery tells of: looked for at the code host, by the clock where none come, and for all when the
// commit that they would be merged onto has been applied anew, or somebody has wished for it. A head that is known is wished
// for only in these two cases, and told only where its plan has become another, or was told to nobody.

import {
  claimPullPolls,
  ensurePullPolls,
  knownHeads,
  releasePullPoll,
  type PullPoll,
} from '../../adapters/store/repositories/pull-polls.ts';
import { wishPlan } from '../../adapters/store/repositories/pull-plans.ts';
import { Fault } from '../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { isLanding, roomFor } from '../in-flight.ts';
import { type Note, processInHand } from '../in-hand.ts';
import { fullNameOf } from '../sync/sync.ts';
import { codehostCallOf, type Hub, hubOf } from './hub.ts';

const batch = 8;
const leaseSeconds = 120;
/** Between two looks by the clock, at least; and after one that failed. */
const seconds = { least: 60, failed: 600 } as const;
const pages = 3;

/** Looks where it is due; answers with how many repositories these were. */
export async function pollPulls(ctx: FlowContext): Promise<number> {
  await ensurePullPolls(ctx.db);
  const { daemonId } = ctx;
  const due = await claimPullPolls(ctx.db, { daemonId, leaseSeconds, ...roomFor(ctx, 'look', batch) });
  await processInHand(ctx, {
    kind: 'look',
    rows: due,
    leaseSeconds,
    idOf: ({ repositoryId }) => repositoryId,
    nameOf: ({ repositoryId }) => repositoryId,
    projectOf: ({ projectId }) => projectId,
    tell: (one) => lookAt(ctx, one),
    // Each time that it is due again, until a person asks for a sync.
    park: (one) => releasePullPoll(ctx.db, one, { daemonId, afterSeconds: seconds.failed, isDone: true }),
  });
  return due.length;
}

async function lookAt(ctx: FlowContext, one: PullPoll): Promise<Note> {
  let afterSeconds: number = seconds.failed;
  let isDone = false;
  try {
    const hub = await hubOf(ctx, one.repositoryId);
    if (hub !== undefined && wantsPlans(hub)) await look(hub, one);
    afterSeconds = Math.max(seconds.least, hub?.repository.intervalSeconds ?? seconds.failed);
    // Whoever may not ask yet asks again.
    isDone = hub !== undefined;
  } catch (error) {
    // What a daemon that stops has broken off is for whoever comes next.
    if (isLanding(ctx)) afterSeconds = 0;
    const code = error instanceof Fault ? error.code : undefined;
    const fields = { repositoryId: one.repositoryId, code, ...(code === undefined && { err: error }) };
    ctx.runtime.log[code === undefined ? 'warn' : 'info'](fields, 'plan.not_looked');
  }
  return () => releasePullPoll(ctx.db, one, { daemonId: ctx.daemonId, afterSeconds, isDone });
}

const wantsPlans = ({ repository }: Hub): boolean =>
  fullNameOf(repository).includes('/') && (repository.plan.comment !== false || repository.plan.check !== false);

async function look(hub: Hub, one: PullPoll): Promise<void> {
  const { repositoryId, lookedCommit, appliedCommit, isWished, branch } = one;
  const { ctx, repository } = hub;
  const fullName = fullNameOf(repository);
  const known = await knownHeads(ctx.db, repositoryId);
  // What was never looked at has nothing that was told of another base.
  const isMoved = lookedCommit !== null && lookedCommit !== appliedCommit;
  // Of a head that is known the telling may have been passed over, for want of a connection or of whoever wants it.
  const isAnew = isMoved || isWished;
  const codehost = codehostCallOf(hub, fullName, { pull_requests: 'read' });
  const query = { state: 'open', sort: 'updated', direction: 'desc', per_page: 100, ...(branch && { base: branch }) };
  for (let page: number | undefined = 1; page !== undefined && page <= pages; ) {
    const { json, nextPage } = await codehost.read({ path: '/pulls', query: { ...query, page } });
    for (const pull of listAt(json).map(objectAt)) {
      const wish = wishOf(pull, fullName, branch);
      if (wish === undefined || (wish.isFork && repository.plan.forks !== true)) continue;
      if (known.get(wish.number) === wish.head && !isAnew) continue;
      await wishPlan(ctx.db, { ...wish, repositoryId, fullName, at: wish.at ?? ctx.runtime.now() });
    }
    page = nextPage;
  }
}

/** What its listing says of a pull request; undefined where it is to be merged elsewhere. */
function wishOf(pull: JsonObject, fullName: string, branch: string | null) {
  const [head, base] = [objectAt(pull['head']), objectAt(pull['base'])];
  const [number, sha, ref] = [Number(pull['number']), textAt(head['sha']), textAt(base['ref'])];
  if (!Number.isSafeInteger(number) || sha === undefined || (branch !== null && ref !== branch)) return undefined;
  const from = textAt(objectAt(head['repo'])['full_name']);
  const at = new Date(textAt(pull['updated_at']) ?? Number.NaN);
  return {
    number,
    head: sha,
    // A fork that was deleted has no repository.
    isFork: from?.toLowerCase() !== fullName.toLowerCase(),
    at: Number.isNaN(at.getTime()) ? undefined : at,
  };
}
