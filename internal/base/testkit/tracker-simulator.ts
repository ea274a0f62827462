// A stand-in of the tracker over real HTTP: issues of teams, with their states, labels, members and comments. Queries are
// held against an extract of the provider's schema (scripts/extract-tracker.ts): an unknown field or argument is refused with 400. `faults` makes the
// next request that changes something fail, once each.

import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  buildSchema,
  defaultFieldResolver,
  graphql,
  GraphQLError,
  type GraphQLFieldResolver,
  type GraphQLOutputType,
  isEnumType,
  isListType,
  isNonNullType,
  isObjectType,
} from 'graphql';

const sdl = readFileSync(new URL('../../../testdata/providers/tracker.graphql', import.meta.url), 'utf8');

interface Named {
  readonly id: string;
  readonly name: string;
}
export interface SimIssue {
  readonly id: string;
  readonly identifier: string;
  title: string;
  state: Named & { type: string };
  labels: Named[];
  assignee: Named | null;
  priority: number;
}
export type TrackerFault = 'lost' | '500' | 'lost-before' | 'limited';
export const trackerKey = 'lin_api_the-key-of-the-tracker';

const states = [
  { id: 's-todo', name: 'Todo', type: 'unstarted' },
  { id: 's-done', name: 'Done', type: 'completed' },
  { id: 's-twin-1', name: 'Twin', type: 'started' },
  { id: 's-twin-2', name: 'twin', type: 'started' },
];
const person = (id: string, name: string) => ({
  id,
  name,
  displayName: name.toLowerCase(),
  email: `${id}@acme.example`,
});
const pageMost = 250;
interface PageAsked {
  readonly first?: number;
  readonly after?: string | null;
}
/** A page of a connection; a cursor says how many rows stand before it. */
function pageOf<T>(rows: readonly T[], { first = 50, after }: PageAsked) {
  if (first > pageMost)
    throw new GraphQLError('Argument first is too large', { extensions: { type: 'invalid input' } });
  const from = Number(after ?? 0);
  const nodes = rows.slice(from, from + first);
  const hasNextPage = rows.length > from + first;
  return { nodes, pageInfo: { hasNextPage, endCursor: String(from + nodes.length) } };
}

/** What the provider's own client asks for beside: empty, of the type that the schema says. */
const resolve: GraphQLFieldResolver<unknown, unknown> = (source, args, context, info) => {
  const value = defaultFieldResolver(source, args as Record<string, unknown>, context, info);
  return value === undefined ? emptyOf(info.returnType) : value;
};
const empty: { readonly [scalar: string]: unknown } = {
  Boolean: false,
  DateTime: '2026-01-01T00:00:00.000Z',
  Float: 0,
  Int: 0,
  JSONObject: {},
};
function emptyOf(returned: GraphQLOutputType): unknown {
  if (!isNonNullType(returned)) return null;
  const type = returned.ofType as GraphQLOutputType;
  if (isListType(type)) return [];
  if (isObjectType(type)) return {};
  if (isEnumType(type)) return type.getValues()[0]?.value;
  return empty[String(type)] ?? '';
}

export class TrackerSimulator {
  readonly issues: SimIssue[] = [1, 2].map((n) => ({
    id: `00000000-0000-4000-8000-00000000000${n}`,
    identifier: `ABC-${n}`,
    title: `Issue ${n}`,
    state: states[0] as (typeof states)[0],
    labels: [],
    assignee: null,
    priority: 0,
  }));
  readonly comments: { readonly id: string; readonly issueId: string; readonly body: string }[] = [];
  readonly members = [person('u1', 'Ada'), person('u2', 'Bob')];
  readonly labels: Named[] = [
    { id: 'l-bug', name: 'Bug' },
    { id: 'l-ui', name: 'UI' },
  ];
  readonly #team = {
    id: 'team-1',
    key: 'ABC',
    name: 'App',
    states: (asked: PageAsked) => pageOf(states, asked),
    members: (asked: PageAsked) => pageOf(this.members, asked),
  };
  readonly faults: TrackerFault[] = [];
  /** Requests that changed something, also those whose answer was lost. */
  writes = 0;
  retryAfter = 1;
  #schema = buildSchema(sdl);
  #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }
  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this;
  }
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const tell = (status: number, body: unknown, headers = {}): void => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
    };
    if (request.headers.authorization !== trackerKey) {
      return tell(400, { errors: [{ message: 'no', extensions: { type: 'authentication error' } }] });
    }
    const { query: source, variables } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as {
      query: string;
      variables: { [name: string]: unknown };
    };
    const isWrite = source.trimStart().startsWith('mutation');
    const fault = isWrite ? this.faults.shift() : undefined;
    if (fault === 'limited') {
      const errors = [{ message: 'slow', extensions: { type: 'ratelimited' } }];
      return tell(400, { errors }, { 'retry-after': this.retryAfter });
    }
    if (fault === 'lost-before') return void response.destroy();
    const rootValue = this.#root();
    const asked = { schema: this.#schema, source, variableValues: variables, rootValue, fieldResolver: resolve };
    const result = await graphql(asked);
    if (isWrite && result.errors === undefined) this.writes += 1;
    if (fault === 'lost') return void response.destroy();
    if (fault === '500') return tell(500, 'an error');
    tell(result.data === undefined || result.data === null ? 400 : 200, result);
  }

  #find(id: string): SimIssue {
    const issue = this.issues.find((one) => one.id === id || one.identifier === id);
    if (issue === undefined)
      throw new GraphQLError('Entity not found: Issue', { extensions: { type: 'invalid input' } });
    return issue;
  }
  #shown(issue: SimIssue): object {
    const comments = this.comments.filter((one) => one.issueId === issue.id).map((one) => this.#said(one));
    return {
      ...issue,
      description: `About ${issue.identifier}`,
      url: `https://tracker.example/${issue.identifier}`,
      team: this.#team,
      project: null,
      labels: () => ({ nodes: issue.labels }),
      comments: () => ({ nodes: comments }),
    };
  }
  #said(one: { readonly id: string; readonly body: string }): object {
    return {
      ...one,
      url: `https://tracker.example/comment/${one.id}`,
      createdAt: '2026-01-01T00:00:00.000Z',
      user: this.members[0],
    };
  }

  #root(): object {
    return {
      issue: ({ id }: { id: string }) => this.#shown(this.#find(id)),
      comment: ({ id }: { id: string }) => {
        const one = this.comments.find((row) => row.id === id);
        if (one === undefined)
          throw new GraphQLError('Entity not found: Comment', { extensions: { type: 'invalid input' } });
        return { ...this.#said(one), issue: () => this.#shown(this.#find(one.issueId)) };
      },
      viewer: this.members[1],
      searchIssues: ({ term, first = 50 }: { term: string; first?: number }) => {
        const found = this.issues.filter((one) => one.title.toLowerCase().includes(term.toLowerCase()));
        const nodes = found.slice(0, first).map((one) => this.#shown(one));
        return { nodes, pageInfo: { hasNextPage: found.length > first }, totalCount: found.length };
      },
      issueLabels: (asked: PageAsked) => pageOf(this.labels, asked),
      commentCreate: ({ input }: { input: { id: string; issueId: string; body: string } }) => {
        if (this.comments.some((one) => one.id === input.id)) {
          throw new GraphQLError('Conflict on insert', { extensions: { type: 'invalid input' } });
        }
        const issue = this.#find(input.issueId);
        const row = { id: input.id, issueId: issue.id, body: input.body };
        this.comments.push(row);
        return {
          success: true,
          lastSyncId: this.writes + 1,
          comment: { ...this.#said(row), issue: this.#shown(issue) },
        };
      },
      issueUpdate: ({ id, input }: { id: string; input: { [key: string]: unknown } }) => {
        const issue = this.#find(id);
        if (input['stateId'] !== undefined)
          issue.state = states.find((one) => one.id === input['stateId']) ?? issue.state;
        if (input['assigneeId'] !== undefined)
          issue.assignee = this.members.find((one) => one.id === input['assigneeId']) ?? null;
        if (typeof input['priority'] === 'number') issue.priority = input['priority'];
        const added = (input['addedLabelIds'] ?? []) as string[];
        const removed = (input['removedLabelIds'] ?? []) as string[];
        issue.labels = [
          ...issue.labels,
          ...this.labels.filter((one) => added.includes(one.id) && !issue.labels.includes(one)),
        ].filter((one) => !removed.includes(one.id));
        return { success: true, lastSyncId: this.writes + 1, issue: this.#shown(issue) };
      },
    };
  }
}
