// What a batch writes, gathered in memory event by event and written set-wise in one transaction: sessions with their
// claims, messages, bindings with their events, ties, decisions, and what stands on the events themselves.

import { beginChecks, type NewCycle, passChecks } from '../../adapters/store/sessions/checks.ts';
import { type Binding, insertBindings, updateBindings } from '../../adapters/store/routing/bindings.ts';
import {
  insertRoutes,
  type Mark,
  type RouteInsert,
  type Settled,
  type SettledRange,
  settleEvents,
  settleQuiet,
} from '../../adapters/store/events/event-routes.ts';
import {
  claimThreads,
  insertMessages,
  type MessageInsert,
  type ThreadHeir,
} from '../../adapters/store/sessions/inbox.ts';
import {
  type Heir,
  inheritedMessages,
  type PassedMessage,
  passMessages,
} from '../../adapters/store/sessions/passed-on.ts';
import type { RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { insertTies, type AttributionInsert } from '../../adapters/store/sessions/sessions.ts';
import { insertSpawned, type SpawnedInsert } from '../../adapters/store/routing/spawned.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { FlowContext } from '../context.ts';
import { type ClaimHeir, passWaiting, recordTransitions, type Transition } from '../sessions/sessions.ts';

export interface Plan {
  /** Sessions and messages that are written already. */
  written: number;
  /** Characters of the texts of `spawned` and `messages`. */
  textSize: number;
  /** With their start messages, which come before whatever else they are told. */
  readonly spawned: SpawnedInsert[];
  /** Of `spawned`: those that take a slot in which a session failed, and begin with what that one has left. */
  readonly heirs: (Heir & ThreadHeir)[];
  /** To sessions, in the order in which they are said. */
  readonly messages: MessageInsert[];
  /** By id, as they are at the end of the batch. */
  readonly madeBindings: Map<string, Binding>;
  readonly movedBindings: Map<string, Binding>;
  readonly transitions: Transition[];
  /** By agent: who gets those of its claims that wait for a holder and are not among the moved. */
  readonly inherited: Map<string, ClaimHeir>;
  readonly ties: AttributionInsert[];
  /** Decisions that made no session. */
  readonly routes: RouteInsert[];
  readonly settled: Settled[];
  readonly checks: NewCycle[];
}

export const emptyPlan = (): Plan => ({
  textSize: 0,
  written: 0,
  spawned: [],
  heirs: [],
  messages: [],
  madeBindings: new Map(),
  movedBindings: new Map(),
  transitions: [],
  inherited: new Map(),
  ties: [],
  routes: [],
  settled: [],
  checks: [],
});

/** Characters that wait in memory before they are written: one event may reach many sessions, each with a text of its own. */
const textSizeMax = 4 * 1_048_576;

/** Whether what is said has to be written before more is added. */
export const isFull = (plan: Plan): boolean => plan.textSize >= textSizeMax;

/** Whether it says no more than what is true of single events and sessions: nothing that is a project's. */
export const isPlain = (plan: Plan): boolean =>
  plan.madeBindings.size + plan.movedBindings.size + plan.inherited.size === 0 &&
  plan.transitions.length + plan.ties.length + plan.checks.length === 0;

/** Adds what a plain plan says to another one. */
export function addPlan(plan: Plan, { spawned, heirs, messages, routes, settled, textSize }: Plan): void {
  for (const one of spawned) plan.spawned.push(one);
  for (const one of heirs) plan.heirs.push(one);
  for (const one of messages) plan.messages.push(one);
  for (const one of routes) plan.routes.push(one);
  for (const one of settled) plan.settled.push(one);
  plan.textSize += textSize;
}

/** A decision that made no session, as it is recorded. */
export const routeRow = (
  eventId: string,
  { agentId, ordinal, agent, decision, because, severity }: Omit<RouteInsert, 'eventId' | 'sessionIds'>,
  sessionIds: readonly string[],
): RouteInsert => ({ eventId, agentId, ordinal, agent, decision, sessionIds, because, severity });

/** What sessions that failed have left to others: checks, and the messages that are to pass. */
async function inherit(tx: Sql, heirs: readonly Heir[]): Promise<PassedMessage[]> {
  await passChecks(
    tx,
    heirs.map(({ sessionId, failedId }) => ({ sessionId, before: failedId })),
  );
  return inheritedMessages(tx, heirs);
}

/** Writes sessions and what is said, in the order in which it came, and makes room for more of the same batch. */
export async function writeTexts(tx: Sql, plan: Plan, now: Date): Promise<void> {
  plan.written += plan.spawned.length + plan.messages.length;
  // Before they have their numbers: what is left to a session comes before what it is told first. Where nothing is, nothing
  // is waited for: the brief form is written in one breath.
  const heirs = plan.heirs.splice(0);
  const left = heirs.length === 0 ? [] : await inherit(tx, heirs);
  await insertSpawned(tx, plan.spawned.splice(0), now);
  if (heirs.length > 0) await claimThreads(tx, heirs);
  failpoint('route.sessions-written');
  if (left.length > 0) await passMessages(tx, left, now);
  await insertMessages(tx, plan.messages.splice(0), now);
  plan.textSize = 0;
}

/** Whether sessions and decisions are all that it writes, of the first without more than they begin with. */
const isBrief = (plan: Plan): boolean => isPlain(plan) && plan.messages.length + plan.heirs.length === 0;

interface Brief {
  readonly now: Date;
  readonly last: () => void;
  readonly settle: () => Promise<void>;
}

/**
 * The brief form: one message, for none of its statements waits for the answer to another, nor the commit for any: it
 * stands only where all of them went through.
 */
async function writeBrief(tx: Sql, plan: Plan, { now, last, settle }: Brief): Promise<void> {
  // There is nothing between these: the process ends before the message is sent or after.
  for (const name of ['before-write', 'messages-written', 'bindings-written', 'before-commit'])
    failpoint(`route.${name}`);
  const written = [writeTexts(tx, plan, now), insertRoutes(tx, plan.routes), settle()];
  last();
  await Promise.all(written);
}

/** Writes all of it; a number of statements that does not depend on how many rows there are. */
export async function writePlan(
  ctx: FlowContext,
  tx: RoutingTx,
  plan: Plan,
  { now, range, last }: { readonly now: Date; readonly range: SettledRange; readonly last: () => void },
): Promise<void> {
  const settle = (): Promise<void> => settleEvents(tx, plan.settled, range);
  if (isBrief(plan)) return writeBrief(tx, plan, { now, last, settle });
  failpoint('route.before-write');
  await writeTexts(tx, plan, now);
  failpoint('route.messages-written');
  // First what is released, for a new binding may take its place.
  await updateBindings(tx, [...plan.movedBindings.values()], now);
  await insertBindings(tx, [...plan.madeBindings.values()], now);
  await recordTransitions(ctx, tx, plan.transitions, now);
  await passWaiting(ctx, tx, plan.inherited);
  await insertTies(tx, tx.projectId, plan.ties, now);
  failpoint('route.bindings-written');
  await insertRoutes(tx, plan.routes);
  await beginChecks(tx, now, plan.checks);
  await settle();
  failpoint('route.before-commit');
}

/** The same for a plain plan of several projects, each with the number up to which nothing of it waits any more. */
export async function writePlainPlan(
  tx: Sql,
  plan: Plan,
  { now, marks, last }: { readonly now: Date; readonly marks: readonly Mark[]; readonly last: () => void },
): Promise<void> {
  const settle = (): Promise<void> => settleQuiet(tx, plan.settled, marks);
  if (isBrief(plan)) return writeBrief(tx, plan, { now, last, settle });
  failpoint('route.before-write');
  await writeTexts(tx, plan, now);
  failpoint('route.messages-written');
  await insertRoutes(tx, plan.routes);
  await settle();
  failpoint('route.before-commit');
}
