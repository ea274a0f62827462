// What a session reads and changes in the issue tracker (docs/reference/tools.md). Names are resolved in the issue's team;
// the id of a comment is ours, so that a repeat cannot make a second one. Writes go through the outbox. Never keeps a text or
// a key, and never reaches another connection than the one that its alias names.

import type { ToolInput } from '../../../schemas/tool-input.ts';
import { outsideFault } from '../../domain/outside.ts';
import { callTracker, madeIn, ownComment } from '../../adapters/providers/tracker/tracker.ts';
import { writeFacts } from '../../adapters/store/connections/provider-facts.ts';
import { connectionById, connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { listAt, objectAt, presentOf, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { insertTies } from '../../adapters/store/sessions/sessions.ts';
import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { isUsable } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { isCredential } from '../../domain/text.ts';
import { withKey } from '../connection-status.ts';
import type { FlowContext } from '../context.ts';
import {
  type Call,
  performRead,
  performSessionWrite,
  refusedBefore,
  type Step,
  withinLimits,
} from '../outbox/outbox.ts';
import { connectionSecrets } from '../sealed.ts';
import type { Found, SoughtStep } from '../ports.ts';

export interface TrackerCaller {
  readonly ctx: FlowContext;
  readonly caller: ToolCaller;
  readonly alias: string;
  /** Name of the connection. */
  readonly connection: string;
}

async function connectionOf(ctx: FlowContext, projectId: string, name: string): Promise<SealedConnection> {
  const connection = await connectionByName(ctx.db, projectId, name);
  if (connection?.provider !== 'tracker' || !isUsable(connection.status)) {
    throw outsideFault('connection-inactive', `there is no active tracker connection ${name}`);
  }
  return connection;
}

/** Runs a call; one that is refused before the provider was asked leaves its row too. */
async function calling<T>(
  of: TrackerCaller,
  { tool, write }: { readonly tool: string; readonly write: boolean },
  run: (tracker: TrackerConnection, row: Call) => Promise<T>,
): Promise<T> {
  const { ctx, caller, alias } = of;
  const row = { project: caller.project, sessionId: caller.sessionId, provider: 'tracker', alias, tool };
  let connection: SealedConnection;
  try {
    connection = await connectionOf(ctx, caller.project.id, of.connection);
  } catch (error) {
    if (error instanceof Fault) await refusedBefore(ctx, { ...row, connectionId: null }, { write, code: error.code });
    throw error;
  }
  return run(new TrackerConnection(ctx, connection), { ...row, connectionId: connection.id });
}

const fields = `id identifier title url priority state { id name type } team { id key name } assignee { id name displayName email }`;
const whole = `${fields} description project { id name } labels(first: 100) { nodes { id name } }`;
const said = 'id body url createdAt user { id name displayName }';

function issueOf(issue: JsonObject): JsonObject {
  const { id, identifier, title, url, priority } = issue;
  const [state, team, assignee] = [issue['state'], issue['team'], issue['assignee']].map(objectAt);
  return presentOf({
    id,
    identifier,
    title,
    description: issue['description'],
    url,
    state: state?.['name'],
    stateType: state?.['type'],
    priority,
    teamKey: team?.['key'],
    projectName: objectAt(issue['project'])['name'],
    assignee: assignee?.['id'] === undefined ? null : presentOf({ id: assignee['id'], name: assignee['name'] }),
    labelNames:
      issue['labels'] === undefined
        ? undefined
        : listAt(objectAt(issue['labels'])['nodes']).map((one) => objectAt(one)['name'] ?? null),
  });
}

const commentOf = (comment: JsonObject): JsonObject => ({
  id: comment['id'] ?? null,
  body: comment['body'] ?? '',
  url: comment['url'] ?? null,
  at: comment['createdAt'] ?? null,
  author: presentOf({ id: objectAt(comment['user'])['id'], name: objectAt(comment['user'])['name'] }),
});

/** An issue with its last fifty comments. */
export function issueGet(of: TrackerCaller, { issue }: ToolInput<'issue_get'>): Promise<Json> {
  return calling(of, { tool: 'issue_get', write: false }, (tracker, row) =>
    performRead(of.ctx, row, async () => {
      const query = `query($id: String!) { issue(id: $id) { ${whole} comments(last: 50) { nodes { ${said} } } } }`;
      const data = await tracker.read(query, { id: issue });
      issueIdIn(data);
      const found = objectAt(data['issue']);
      const comments = listAt(objectAt(found['comments'])['nodes']).map(objectAt).map(commentOf);
      return { ...issueOf(found), comments };
    }),
  );
}

/** Issues that the provider finds for a text; `more` where it has more. */
export function issueSearch(of: TrackerCaller, { query, limit }: ToolInput<'issue_search'>): Promise<Json> {
  return calling(of, { tool: 'issue_search', write: false }, (tracker, row) =>
    performRead(of.ctx, row, async () => {
      const text = `query($term: String!, $first: Int) { searchIssues(term: $term, first: $first) {
        nodes { ${fields} } pageInfo { hasNextPage } } }`;
      const found = objectAt((await tracker.read(text, { term: query, first: limit }))['searchIssues']);
      const items = listAt(found['nodes']).map(objectAt).map(issueOf);
      return { items, more: objectAt(found['pageInfo'])['hasNextPage'] === true };
    }),
  );
}

/** The id of the issue that was asked for. Throws Fault where the answer has none. */
function issueIdIn(data: JsonObject): string {
  const id = textAt(objectAt(data['issue'])['id']);
  if (id === undefined) throw outsideFault('not-found', 'it is absent, or not visible to this connection');
  return id;
}

const commentAnswer = (comment: JsonObject): JsonObject => ({ id: comment['id'] ?? null, url: comment['url'] ?? null });

/** Comments on an issue, once for each key. */
export function issueComment(of: TrackerCaller, input: ToolInput<'issue_comment'>): Promise<Json> {
  return calling(of, { tool: 'issue_comment', write: true }, (tracker, row) =>
    performSessionWrite(of.ctx, of.caller, {
      call: row,
      input,
      run: async (step) => {
        if ([...input.body].length > bodyMost) {
          throw outsideFault('too-large', `body: has more than ${bodyMost} characters; nothing was sent`);
        }
        const issueId = issueIdIn(
          await tracker.read('query($id: String!) { issue(id: $id) { id } }', { id: input.issue }),
        );
        const answer = await sendComment(tracker, step, { issueId, body: input.body, parentId: input.parent });
        await tie(of.ctx, of.caller.project.id, of.caller.sessionId, issueId);
        return { answer, url: textAt(answer['url']) };
      },
    }),
  );
}
const bodyMost = 65_536;

/** The id is ours, so that a repeat cannot make a second one, and so that its delivery is known as our own doing. */
async function sendComment(
  tracker: TrackerConnection,
  step: Step,
  of: { readonly issueId: string; readonly body: string; readonly parentId?: string | undefined },
): Promise<JsonObject> {
  const { ctx, connection } = tracker;
  const id = ctx.runtime.uuid();
  await writeFacts(ctx.db, connection.id, [ownComment(id)], ctx.runtime.now());
  return tracker.write(step, {
    query: `mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success comment { id url } } }`,
    variables: { input: presentOf({ id, ...of }) },
    probe: { kind: 'comment', id, issueId: of.issueId },
    shape: (data) => commentAnswer(madeIn(data['commentCreate'], 'comment')),
  });
}

/** The service itself comments on an issue (its id), as a step of a write. */
export function commentOnIssue(
  ctx: FlowContext,
  of: { readonly connection: SealedConnection; readonly issueId: string; readonly body: string },
  step: Step,
): Promise<JsonObject> {
  const { connection, issueId, body } = of;
  return sendComment(new TrackerConnection(ctx, connection), step, { issueId, body });
}

/** What follows on the issue is attributed to the session. */
async function tie(ctx: FlowContext, projectId: string, sessionId: string, issueId: string): Promise<void> {
  const row = { targetType: 'tracker.issue', targetKey: issueId, sessionId, agent: '', relation: 'posted' } as const;
  await insertTies(ctx.db, projectId, [row], ctx.runtime.now());
}

const page = 'nodes { id name } pageInfo { hasNextPage endCursor }';
const people = 'nodes { id name displayName email } pageInfo { hasNextPage endCursor }';
const teamOf = `query($id: String!) { issue(id: $id) { id team { id } } }`;
const statesOf = `query($id: String!, $after: String) { issue(id: $id) { team { states(first: 250, after: $after) { ${page} } } } }`;
const membersOf = `query($id: String!, $after: String) { issue(id: $id) { team { members(first: 250, after: $after) { ${people} } } } }`;
const labelsOf = `query($team: ID, $after: String) { issueLabels(first: 250, after: $after,
  filter: { or: [{ team: { id: { eq: $team } } }, { team: { null: true } }] }) { ${page} } }`;
const pagesMost = 20;

/** All that there are: of a part nobody knows whether a name is one's alone. Throws Fault. */
async function allNamed(
  tracker: TrackerConnection,
  of: { readonly query: string; readonly variables: JsonObject; readonly field: string },
  at: (data: JsonObject) => Json | undefined,
): Promise<Named[]> {
  const rows: Named[] = [];
  let after: Json = null;
  for (let pages = 0; pages < pagesMost; pages += 1) {
    const found = objectAt(at(await tracker.read(of.query, { ...of.variables, after })));
    for (const node of listAt(found['nodes'])) rows.push(...namedOf(objectAt(node)));
    const { hasNextPage, endCursor } = objectAt(found['pageInfo']);
    if (hasNextPage !== true) return rows;
    after = endCursor ?? null;
  }
  throw outsideFault('too-large', `${of.field}: the team has over ${rows.length} to choose from; nothing was sent`);
}

/** Names of the call as ids of the issue's team. Throws Fault `refused`, `not-found`. */
async function wantedOf(
  tracker: TrackerConnection,
  input: ToolInput<'issue_update'>,
): Promise<{ readonly issueId: string; readonly wanted: JsonObject }> {
  const data = await tracker.read(teamOf, { id: input.issue });
  const [issueId, issue] = [issueIdIn(data), objectAt(data['issue'])];
  const team = objectAt(issue['team'])['id'] ?? null;
  const ofTeam = (query: string, field: 'states' | 'members') =>
    allNamed(tracker, { query, variables: { id: input.issue }, field }, (data) => {
      return objectAt(objectAt(data['issue'])['team'])[field];
    });
  const { state, assignee, priority } = input;
  const states = state === undefined ? [] : await ofTeam(statesOf, 'states');
  const members = typeof assignee === 'string' ? await ofTeam(membersOf, 'members') : [];
  const asksLabels = input.addLabels !== undefined || input.removeLabels !== undefined;
  const asked = { query: labelsOf, variables: { team }, field: 'labels' };
  const labels = asksLabels ? await allNamed(tracker, asked, (data) => data['issueLabels']) : [];
  const ids = (names: readonly string[] | undefined, field: string) =>
    names?.map((name) => chosen(labels, name, field));
  const wanted = presentOf({
    stateId: state === undefined ? undefined : chosen(states, state, 'state'),
    assigneeId: typeof assignee === 'string' ? chosen(members, assignee, 'assignee') : assignee,
    addedLabelIds: ids(input.addLabels, 'addLabels'),
    removedLabelIds: ids(input.removeLabels, 'removeLabels'),
    priority,
  });
  if (Object.keys(wanted).length === 0) throw outsideFault('invalid-input', 'nothing is to be changed');
  return { issueId, wanted };
}

/** Changes an issue, once for each key; names are looked up in its team. */
export function issueUpdate(of: TrackerCaller, input: ToolInput<'issue_update'>): Promise<Json> {
  return calling(of, { tool: 'issue_update', write: true }, (tracker, row) =>
    performSessionWrite(of.ctx, of.caller, {
      call: row,
      input,
      run: async (step) => {
        const { issueId, wanted } = await wantedOf(tracker, input);
        const answer = await tracker.write(step, {
          query: `mutation($id: String!, $input: IssueUpdateInput!) {
          issueUpdate(id: $id, input: $input) { success issue { ${whole} } } }`,
          variables: { id: issueId, input: wanted },
          probe: { kind: 'issue', issueId, wanted },
          shape: (data) => issueOf(madeIn(data['issueUpdate'], 'issue')),
        });
        return { answer, url: textAt(answer['url']) };
      },
    }),
  );
}

/** The reader of `tracker` in the outbox: a comment by the id that we chose, an issue by the fields that were wanted. */
export async function findTrackerStep(ctx: FlowContext, sought: SoughtStep): Promise<Found> {
  const connection = sought.connectionId === null ? undefined : await connectionById(ctx.db, sought.connectionId);
  if (connection === undefined) return { found: false };
  const tracker = new TrackerConnection(ctx, connection);
  const { probe } = sought;
  try {
    return probe['kind'] === 'comment' ? await lookForComment(tracker, sought) : await lookAtIssue(tracker, probe);
  } catch (error) {
    if (error instanceof Fault && error.code === 'not-found') return { found: false };
    throw error;
  }
}

async function lookForComment(tracker: TrackerConnection, { probe, projectId, sessionId }: SoughtStep): Promise<Found> {
  const data = await tracker.read('query($id: String) { comment(id: $id) { id url } }', { id: probe['id'] ?? null });
  const answer = commentAnswer(objectAt(data['comment']));
  if (answer['id'] === null) return { found: false };
  if (sessionId !== null) await tie(tracker.ctx, projectId, sessionId, textAt(probe['issueId']) ?? '');
  const url = textAt(answer['url']);
  return { found: true, answer, ...(url !== undefined && { url }) };
}

async function lookAtIssue(tracker: TrackerConnection, probe: JsonObject): Promise<Found> {
  const data = await tracker.read(`query($id: String!) { issue(id: $id) { ${whole} } }`, {
    id: probe['issueId'] ?? null,
  });
  const issue = objectAt(data['issue']);
  const wanted = objectAt(probe['wanted']);
  const labels = listAt(objectAt(issue['labels'])['nodes']).map((one) => objectAt(one)['id']);
  const holds: { readonly [field: string]: (value: Json) => boolean } = {
    stateId: (value) => objectAt(issue['state'])['id'] === value,
    assigneeId: (value) => (objectAt(issue['assignee'])['id'] ?? null) === value,
    priority: (value) => issue['priority'] === value,
    addedLabelIds: (value) => listAt(value).every((one) => labels.includes(one)),
    removedLabelIds: (value) => listAt(value).every((one) => !labels.includes(one)),
  };
  const isDone = Object.entries(wanted).every(
    ([field, value]) => value !== undefined && holds[field]?.(value) === true,
  );
  return isDone ? { found: true, answer: issueOf(issue) } : { found: false };
}

// A connection of the tracker in use: its key for the moment of a call, and its limits.

const resource = 'graphql';

export class TrackerConnection {
  readonly ctx: FlowContext;
  readonly connection: SealedConnection;

  constructor(ctx: FlowContext, connection: SealedConnection) {
    this.ctx = ctx;
    this.connection = connection;
  }

  /** The data of a query. Throws Fault. */
  read(query: string, variables: JsonObject): Promise<JsonObject> {
    return this.#repeated(() => this.#send(query, variables, false));
  }

  /** Sends as the only step of a write; `shape` makes of the data what the caller is told, as the reader does. */
  write<T extends Json>(
    step: Step,
    of: {
      readonly query: string;
      readonly variables: JsonObject;
      readonly probe: JsonObject;
      shape(data: JsonObject): T;
    },
  ): Promise<T> {
    const { query, variables, probe, shape } = of;
    return this.#repeated(() =>
      step({ probe, last: true }, async () => shape(await this.#send(query, variables, true))),
    );
  }

  #repeated<T>(send: () => Promise<T>): Promise<T> {
    return withinLimits(this.ctx, { connectionId: this.connection.id, resource }, send);
  }

  #send(query: string, variables: JsonObject, isWrite: boolean): Promise<JsonObject> {
    const { ctx, connection } = this;
    const key = connectionSecrets(ctx, connection)['apiKey'];
    if (!isCredential(key)) {
      const what = `connection ${connection.name} has no usable key of the API`;
      throw outsideFault('credential-refused', `${what}; nothing was done`);
    }
    const apiUrl = textAt(connection.config['apiUrl']) ?? ctx.outbox?.trackerApiUrl ?? 'https://api.linear.app';
    const asked = { apiUrl, key, query, variables, isWrite, allowPrivate: ctx.config.allowPrivateNetwork };
    return withKey(ctx, connection, () => callTracker(asked));
  }
}

// Names as people write them, made one id of the issue's team.

export interface Named {
  readonly id: string;
  readonly name: string;
  readonly displayName?: string;
  readonly email?: string;
}

/** A row of the provider's, where it has an id and a name. */
function namedOf(row: JsonObject): Named[] {
  const [id, name, displayName, email] = ['id', 'name', 'displayName', 'email'].map((key) => textAt(row[key]));
  if (id === undefined || name === undefined) return [];
  return [{ id, name, ...(displayName !== undefined && { displayName }), ...(email !== undefined && { email }) }];
}

/** The id that a name means: an id, else exactly that name, else in any case. Throws Fault `not-found`, `refused`. */
export function chosen(rows: readonly Named[], name: string, field: string): string {
  const lower = name.toLowerCase();
  const namesOf = (row: Named): string[] => [row.name, row.displayName ?? row.name, row.email ?? row.name];
  const tries: readonly ((row: Named) => boolean)[] = [
    (row) => row.id === name,
    (row) => namesOf(row).includes(name),
    (row) => namesOf(row).some((one) => one.toLowerCase() === lower),
  ];
  for (const fits of tries) {
    const ids = [...new Set(rows.filter(fits).map((row) => row.id))];
    if (ids.length > 1) throw outsideFault('refused', `${field}: several have this name; pass an id`);
    if (ids[0] !== undefined) return ids[0];
  }
  throw outsideFault('not-found', `${field}: the team of the issue has none of this name`);
}
