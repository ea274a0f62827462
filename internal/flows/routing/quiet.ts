// Routes several projects in one transaction: those in which little waits, and nothing that is more than sessions and
// messages. Whatever else a project needs, it gets in a transaction of its own (batch.ts): it is left out here. Either all
// of those that are routed are, or nothing is.

import { readBodies } from '../../adapters/store/routing/routing.ts';
import { type QuietProject, takeQuiet } from '../../adapters/store/routing/quiet.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { mapInSlices } from '../../base/concurrency.ts';
import { sessionSettings } from '../../base/config/session-settings.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { Json } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { aloneAtEnds } from '../in-hand.ts';
import { type BatchOptions, parsed, type Routed } from './batch.ts';
import { type BatchEvent, decideEvent, matchIn, type RoutingContext } from './decide.ts';
import { addPlan, emptyPlan, isFull, isPlain, type Plan, writePlainPlan, writeTexts } from './plan.ts';
import { load, type RoutingState, stateBeside } from './routing-state.ts';
import type { ProjectTriggers } from './triggers.ts';

const limits = {
  /** Events of one project. */
  events: 8,
  /** Bytes of bodies of all that are held in memory. */
  bodyBytes: 8 * 1_048_576,
  /** Sessions and messages of one project. */
  planned: 500,
} as const;

export type QuietOptions = Pick<BatchOptions, 'cache' | 'nextId' | 'now' | 'take' | 'last'> & {
  readonly projectIds: readonly string[];
};

export interface QuietResult {
  readonly routed: readonly Routed[];
  /** Whether more waits. */
  readonly more: boolean;
}

interface Project extends QuietProject {
  readonly triggers: ProjectTriggers;
}

/** Routes what it can of the projects; those that need a transaction of their own are not in the answer. */
export async function routeQuiet(
  ctx: FlowContext,
  tx: Sql,
  { projectIds, cache, nextId, now, take, last }: QuietOptions,
): Promise<ReadonlyMap<string, QuietResult>> {
  const results = new Map<string, QuietResult>();
  const taken = await takeQuiet(tx, projectIds, limits.events);
  for (const { projectId, waiting } of taken) {
    if (waiting.length === 0) results.set(projectId, { routed: [], more: false });
  }
  const open = taken.filter((one) => one.isPlain && one.waiting.length > 0);
  if (open.length === 0) return results;
  failpoint('route.begun');
  const ends = await take(open.flatMap((one) => one.waiting.map((event) => event.id)));
  const projects: Project[] = [];
  for (const one of open) {
    if (one.waiting.some((event) => (ends.get(event.id) ?? 0) >= aloneAtEnds)) continue;
    projects.push({ ...one, triggers: await cache.get(tx, one.projectId, one.generation) });
  }
  const events = await readEvents(ctx, tx, projects);
  const { messageMaxBytes } = sessionSettings(ctx.config.file);
  const shared = stateBeside();
  const contexts = projects.flatMap((project): (Project & { context: RoutingContext; own: BatchEvent[] })[] => {
    const own = events.get(project.projectId);
    if (own === undefined) return [];
    const { projectId, triggers } = project;
    const state: RoutingState = stateBeside(shared);
    return [{ ...project, context: { projectId, triggers, state, plan: emptyPlan(), nextId, messageMaxBytes }, own }];
  });
  const first = contexts.flatMap(({ context, own }) => own.flatMap((event) => matchIn(context, event).triggers));
  await load(shared, tx, first);
  const plan = emptyPlan();
  const marks: { projectId: string; routedTo: number }[] = [];
  for (const { projectId, upTo, waiting, context, own } of contexts) {
    if (!decideAll(context, own)) continue;
    const more = waiting.length >= limits.events;
    const { settled } = context.plan;
    const routed = own.map(
      ({ id, receivedMs }, at) => ({ eventId: id, receivedMs, status: settled[at]?.status ?? 'failed' }) as const,
    );
    results.set(projectId, { routed, more });
    marks.push({ projectId, routedTo: more ? (own.at(-1)?.seq ?? 0) : upTo });
    addPlan(plan, context.plan);
    if (isFull(plan)) await writeTexts(tx, plan, now);
  }
  if (marks.length > 0) await writePlainPlan(tx, plan, { now, marks, last });
  return results;
}

/** Decides the events of a project; false where that is more than can be written with those of others. */
function decideAll(context: RoutingContext, events: readonly BatchEvent[]): boolean {
  const { plan } = context;
  for (const event of events) {
    failpoint('route.event', event.key);
    const decided = decideEvent(context, event, matchIn(context, event));
    if (decided.next().done !== true || !isOfFew(plan)) return false;
  }
  return isPlain(plan);
}

const isOfFew = (plan: Plan): boolean => plan.spawned.length + plan.messages.length <= limits.planned;

/** The events with their bodies where a trigger listens; a project of which not all can be read is left out. */
async function readEvents(
  ctx: FlowContext,
  tx: Sql,
  projects: readonly Project[],
): Promise<ReadonlyMap<string, BatchEvent[]>> {
  const payloads = new Map<string, Json>();
  const wanted = new Map<string, boolean>();
  for (const { waiting, triggers } of projects) {
    for (const { id, key } of waiting) {
      const body = ctx.ingest?.takeBody(id);
      if (body !== undefined) payloads.set(id, body);
      wanted.set(id, triggers.listens(key));
    }
  }
  const asked = [...wanted].filter(([id, isWanted]) => isWanted && !payloads.has(id)).map(([id]) => id);
  const { bodies } = await readBodies(tx, asked, limits.bodyBytes);
  await mapInSlices([...bodies], ([id, body]) => payloads.set(id, parsed(body)));
  const events = new Map<string, BatchEvent[]>();
  for (const { projectId, waiting } of projects) {
    if (waiting.some(({ id }) => wanted.get(id) === true && !payloads.has(id))) continue;
    events.set(
      projectId,
      waiting.map((event) => ({ ...event, payload: payloads.get(event.id), marked: [] })),
    );
  }
  return events;
}
