// What a session reads of the error tracker. Every call begins and ends with what its project may see at that moment: a
// selection that is taken away while the provider answers takes the answer with it.

import {
  belongsTo,
  projectEvent,
  projectIssue,
  ProviderFailure,
  readEvent,
  readIssue,
  searchIssues,
} from '../../adapters/providers/errtrack/errtrack.ts';
import {
  grantOfConnection,
  type GrantRow,
  type SubscriptionRow,
  subscriptionsOf,
} from '../../adapters/store/connections/errtrack-grants.ts';
import { Fault } from '../../domain/fault.ts';
import { idAt, objectAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { errtrackLimited, withAccess } from './errtrack-tokens.ts';

/** Whose eyes: a project, and the connection by its name there. */
export interface ErrtrackReader {
  readonly projectId: string;
  readonly connection: string;
}

interface Allowed {
  readonly grant: GrantRow;
  readonly projects: readonly SubscriptionRow[];
}

/** Throws Fault `unavailable` where the project is not connected. */
async function allowed(ctx: FlowContext, { projectId, connection }: ErrtrackReader): Promise<Allowed> {
  const grant = await grantOfConnection(ctx.db, projectId, connection);
  if (grant === undefined || grant.status === 'removed') {
    throw new Fault(
      'unavailable',
      'not-connected',
      `The project is not connected to the error tracker as ${connection}.`,
    );
  }
  const projects = (await subscriptionsOf(ctx.db, projectId)).filter((one) => one.grantId === grant.id);
  return { grant, projects };
}

const absent = (): Fault =>
  new Fault('not_found', 'not-found', 'There is no such issue in the projects that this project may investigate.');

/** The projects that may be investigated. */
export async function listAllowed(ctx: FlowContext, reader: ErrtrackReader): Promise<JsonObject> {
  const { grant, projects } = await allowed(ctx, reader);
  return {
    organization: grant.organizationSlug,
    items: projects.map((one) => ({ id: one.errtrackProjectId, slug: one.slug })),
    more: false,
  };
}

export interface IssueQuery {
  readonly project?: string | undefined;
  readonly query: string;
  readonly sort: string;
  readonly limit: number;
  readonly period: string;
}

/** Issues of one project that may be investigated. Throws Fault. */
export async function search(
  ctx: FlowContext,
  reader: ErrtrackReader,
  { project, ...query }: IssueQuery,
): Promise<JsonObject> {
  const before = await allowed(ctx, reader);
  const chosen =
    project === undefined && before.projects.length === 1
      ? before.projects[0]
      : before.projects.find((one) => one.slug === project || one.errtrackProjectId === project);
  if (chosen === undefined) {
    const slugs = before.projects.map((one) => one.slug).join(', ');
    throw new Fault('invalid', 'invalid-input', `project: expected one of ${slugs || 'none: no project is selected'}`);
  }
  const found = await told(() =>
    withAccess(ctx, before.grant, (settings, token) =>
      searchIssues(settings, { organization: before.grant.organizationSlug, project: chosen.slug, token }, query),
    ),
  );
  await stillAllowed(ctx, reader, chosen.errtrackProjectId);
  return {
    project: { id: chosen.errtrackProjectId, slug: chosen.slug },
    items: found,
    more: found.length >= query.limit,
  };
}

/** Whether the project may still see what was read for it. Throws Fault `not_found`. */
async function stillAllowed(ctx: FlowContext, reader: ErrtrackReader, errtrackProjectId: string): Promise<void> {
  const { projects } = await allowed(ctx, reader);
  if (!projects.some((one) => one.errtrackProjectId === errtrackProjectId)) throw absent();
}

interface Found {
  readonly issue: JsonObject;
  readonly id: string;
  readonly projectId: string;
  readonly grant: GrantRow;
}

/** An issue that lies in a project that may be investigated. */
async function find(ctx: FlowContext, reader: ErrtrackReader, issue: string): Promise<Found> {
  const { grant, projects } = await allowed(ctx, reader);
  const at = { region: grant.region, organization: grant.organizationSlug, issue };
  const found = await told(() => withAccess(ctx, grant, (settings, token) => readIssue(settings, at, token)));
  const [id, projectId] = [idAt(found['id']), idAt(objectAt(found['project'])['id'])];
  if (id === undefined || projectId === undefined)
    throw new Fault('unavailable', 'provider-unavailable', 'The error tracker gave no readable answer.');
  if (!projects.some((one) => one.errtrackProjectId === projectId)) throw absent();
  return { issue: found, id, projectId, grant };
}

/** One issue. Throws Fault. */
export async function issueDetails(ctx: FlowContext, reader: ErrtrackReader, issue: string): Promise<JsonObject> {
  const found = await find(ctx, reader, issue);
  await stillAllowed(ctx, reader, found.projectId);
  return { issue: projectIssue(found.issue) };
}

/** The latest event of an issue; `event: null` where it has none. Throws Fault. */
export async function latestEvent(ctx: FlowContext, reader: ErrtrackReader, issue: string): Promise<JsonObject> {
  const { id, projectId, grant, issue: metadata } = await find(ctx, reader, issue);
  await stillAllowed(ctx, reader, projectId);
  const at = { region: grant.region, organization: grant.organizationSlug, issue: id };
  const event = await told(() => withAccess(ctx, grant, (settings, token) => readEvent(settings, at, token)));
  if (event !== null && !belongsTo(event, { id, projectId })) {
    throw new Fault(
      'unavailable',
      'provider-unavailable',
      'The error tracker answered with an event of another issue.',
    );
  }
  await stillAllowed(ctx, reader, projectId);
  const shown = projectIssue(metadata);
  return { issue: { id, shortId: shown['shortId'] ?? null }, event: event === null ? null : projectEvent(event) };
}

/** The provider's failures in the words that agents are told. */
async function told<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    if (error.word === 'not-found' || error.word === 'forbidden') throw absent();
    if (error.word === 'rate-limited') throw errtrackLimited(error.seconds);
    throw new Fault('unavailable', 'provider-unavailable', `The error tracker cannot be read now (${error.word}).`);
  }
}
