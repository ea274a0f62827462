// The simulated code host's GraphQL: requests are held against the provider's published schema (@octokit/graphql-schema)
// and executed over the simulator's state. What the schema refuses is answered with 400.

import { readFileSync } from 'node:fs';
import { buildSchema, execute, type GraphQLSchema, parse, validate } from 'graphql';
import type { Call } from './codehost-call.ts';
import { issueUrl } from './codehost-issues.ts';
import { showReview } from './codehost-pulls.ts';
import type { Issue, SimRepository, Thread } from './codehost-state.ts';

let built: GraphQLSchema | undefined;
function schema(): GraphQLSchema {
  const path = new URL('schema.graphql', import.meta.resolve('@octokit/graphql-schema'));
  // The published text declares a field twice.
  built ??= buildSchema(readFileSync(path, 'utf8'), { assumeValidSDL: true, noLocation: true });
  return built;
}

/** A mistake that is told with a type, as the provider does: the answer is 200 all the same. */
class Told extends Error {
  readonly extensions: { readonly type: string };
  constructor(type: string, message: string) {
    super(message);
    this.extensions = { type };
  }
}
const notFound = (what: string): Told => new Told('NOT_FOUND', `Could not resolve to a ${what}.`);
const refused = (message: string): Told => new Told('UNPROCESSABLE', message);

export type GraphqlCall = Omit<Call, 'repo' | 'params' | 'query'>;

/** Answers a request: its status and body. */
export async function answerGraphql(
  call: GraphqlCall,
  given: { readonly query?: unknown; readonly variables?: unknown; readonly [key: string]: unknown },
): Promise<{ readonly status: number; readonly body: object }> {
  const bad = (message: string) => ({ status: 400, body: { message } });
  const unknown = Object.keys(given).find((key) => !['query', 'variables', 'operationName'].includes(key));
  if (unknown !== undefined) return bad(`body /${unknown}: unknown key`);
  if (typeof given.query !== 'string') return bad('A query attribute must be specified and must be a string.');
  let document: ReturnType<typeof parse>;
  try {
    document = parse(given.query);
  } catch (error) {
    return bad((error as Error).message);
  }
  const wrong = validate(schema(), document);
  if (wrong.length > 0) return bad(wrong.map((one) => one.message).join('; '));
  const variableValues = (given.variables ?? {}) as { readonly [name: string]: unknown };
  const { data, errors } = await execute({ schema: schema(), document, rootValue: root(call), variableValues });
  if (errors !== undefined && data === undefined) return bad(errors.map((one) => one.message).join('; '));
  const told = errors?.map(({ message, path, originalError }) => {
    const type = (originalError as Told | undefined)?.extensions?.type;
    return { message, path, ...(type !== undefined && { type }) };
  });
  return { status: 200, body: { data: data ?? null, ...(told !== undefined && { errors: told }) } };
}

const idOf = (nodeId: string): number => Number(nodeId.slice(nodeId.indexOf('_') + 1));

interface Located<T> {
  readonly repo: SimRepository;
  readonly it: T;
}
function pullById({ sim, covers }: GraphqlCall, nodeId: string): Located<Issue> {
  for (const repo of sim.repositories.filter((one) => covers.includes(one.fullName))) {
    const it = [...repo.issues.values()].find((one) => one.id === idOf(nodeId) && one.pull !== undefined);
    if (it !== undefined) return { repo, it };
  }
  throw notFound(`node with the global id of '${nodeId}'`);
}
function threadById({ sim, covers }: GraphqlCall, nodeId: string): Located<Thread> | undefined {
  for (const repo of sim.repositories.filter((one) => !one.private || covers.includes(one.fullName))) {
    const it = repo.threads.find((one) => one.id === idOf(nodeId));
    if (it !== undefined) return { repo, it };
  }
  return undefined;
}

function root(call: GraphqlCall): object {
  return {
    viewer: { login: call.actor.login, __typename: 'User' },
    repository: ({ owner, name }: { owner: string; name: string }) => repositoryNode(call, owner, name),
    node: ({ id }: { id: string }) => {
      const found = id.startsWith('PRRT_') ? threadById(call, id) : undefined;
      return found === undefined ? null : threadNode(found);
    },
    ...mutations(call),
  };
}

function threadNode({ repo, it }: Located<Thread>): object {
  return {
    __typename: 'PullRequestReviewThread',
    id: `PRRT_${it.id}`,
    isResolved: it.resolved,
    isOutdated: false,
    path: it.path,
    line: repo.reviewComments.find((one) => one.threadId === it.id)?.line ?? null,
    repository: { nameWithOwner: repo.fullName, id: `R_${repo.id}` },
    pullRequest: { number: it.number, id: `PR_${repo.issues.get(it.number)?.id ?? 0}` },
    comments: () => {
      const found = repo.reviewComments.filter((one) => one.threadId === it.id);
      return connection(
        found.map((one) => ({
          id: `PRRC_${one.id}`,
          databaseId: one.id,
          body: one.body,
          url: `${issueUrl(repo, repo.issues.get(it.number) as Issue)}#discussion_r${one.id}`,
          author: { __typename: 'Bot', login: one.user.login.replace(/\[bot\]$/, '') },
          createdAt: one.created,
        })),
        {},
      );
    },
  };
}

function connection(all: readonly object[], { first, after }: { first?: number; after?: string | null }): object {
  const start = after === undefined || after === null ? 0 : Number(Buffer.from(after, 'base64').toString());
  const nodes = all.slice(start, start + (first ?? 100));
  const end = start + nodes.length;
  return {
    nodes,
    totalCount: all.length,
    pageInfo: { hasNextPage: end < all.length, endCursor: Buffer.from(String(end)).toString('base64') },
  };
}

function repositoryNode(call: GraphqlCall, owner: string, name: string): object {
  const wanted = `${owner}/${name}`.toLowerCase();
  const repo = call.sim.repositories.find(
    (one) => one.fullName.toLowerCase() === wanted && (!one.private || call.covers.includes(one.fullName)),
  );
  if (repo === undefined) throw notFound(`Repository with the name '${owner}/${name}'`);
  return {
    id: `R_${repo.id}`,
    nameWithOwner: repo.fullName,
    pullRequest: ({ number }: { number: number }) => {
      const issue = repo.issues.get(number);
      if (issue?.pull === undefined) throw notFound(`PullRequest with the number of ${number}`);
      return pullNode(repo, issue);
    },
    issues: (of: IssueFilter) => {
      const found = [...repo.issues.values()]
        .filter((one) => one.pull === undefined)
        .filter((one) => of.states?.includes(one.state.toUpperCase()) ?? true)
        .filter((one) => of.labels?.some((label) => one.labels.includes(label)) ?? true)
        .filter((one) => one.updated >= (of.filterBy?.since ?? ''));
      const list = of.orderBy?.direction === 'ASC' ? found : found.toReversed();
      return connection(
        list.map((one) => issueNode(repo, one)),
        of,
      );
    },
    object: async ({ expression }: { expression: string }) => {
      const sha = await repo.sha(expression);
      if (sha === undefined) return null;
      const author = (await repo.log(sha, [], 1))[0]?.author;
      const commit = { __typename: 'Commit', oid: sha, author: { name: author?.name }, messageHeadline: '' };
      return { ...commit, blame: () => ({ ranges: [{ startingLine: 1, endingLine: 1, age: 1, commit }] }) };
    },
  };
}

interface IssueFilter {
  readonly first?: number;
  readonly after?: string | null;
  readonly states?: readonly string[];
  readonly labels?: readonly string[];
  readonly filterBy?: { readonly since?: string };
  readonly orderBy?: { readonly direction: 'ASC' | 'DESC' };
}

const issueNode = (repo: SimRepository, issue: Issue): object => ({
  number: issue.number,
  title: issue.title,
  body: issue.body,
  state: issue.state.toUpperCase(),
  url: issueUrl(repo, issue),
  databaseId: issue.id,
  createdAt: issue.created,
  updatedAt: issue.updated,
  author: { __typename: 'User', login: issue.user.login.replace(/\[bot\]$/, '') },
  labels: () =>
    connection(
      issue.labels.map((name) => ({ name })),
      {},
    ),
  assignees: () =>
    connection(
      issue.assignees.map((login) => ({ login })),
      {},
    ),
  comments: { totalCount: repo.comments.filter((one) => one.number === issue.number).length },
});

const pullNode = (repo: SimRepository, issue: Issue): object => ({
  id: `PR_${issue.id}`,
  number: issue.number,
  isDraft: issue.pull?.draft ?? false,
  url: issueUrl(repo, issue),
  state: issue.state === 'open' ? 'OPEN' : issue.pull?.merged === true ? 'MERGED' : 'CLOSED',
  autoMergeRequest:
    issue.pull?.autoMerge === null
      ? null
      : { mergeMethod: issue.pull?.autoMerge?.toUpperCase(), enabledAt: issue.created },
  reviewThreads: (of: { first?: number; after?: string | null }) =>
    connection(
      repo.threads.filter((one) => one.number === issue.number).map((it) => threadNode({ repo, it })),
      of,
    ),
  reviews: (of: { last?: number; states?: readonly string[] }) => {
    const found = repo.reviews
      .filter((one) => one.number === issue.number && of.states?.includes(one.state) !== false)
      .slice(-(of.last ?? 100));
    return connection(
      found.map((one) => ({
        id: `PRR_${one.id}`,
        body: one.body,
        state: one.state,
        url: showReview(repo, one).html_url,
        submittedAt: one.at,
        author: { __typename: 'Bot', login: one.user.login.replace(/\[bot\]$/, '') },
      })),
      {},
    );
  },
});

interface ReviewInput {
  readonly pullRequestId: string;
  readonly body?: string;
  readonly event?: string;
  readonly commitOID?: string;
  readonly threads?: readonly { readonly path: string; readonly body: string; readonly line?: number }[];
}

async function addReview(call: GraphqlCall, input: ReviewInput): Promise<object> {
  const { repo, it } = pullById(call, input.pullRequestId);
  const { sim, actor } = call;
  if (input.event === 'APPROVE' && it.user.login === actor.login) {
    throw refused('Can not approve your own pull request');
  }
  const isPending = (one: {
    readonly number: number;
    readonly state: string;
    readonly user: { readonly login: string };
  }) => one.number === it.number && one.state === 'PENDING' && one.user.login === actor.login;
  if (repo.reviews.some(isPending)) throw refused('User can only have one pending review per pull request');
  const states: { readonly [event: string]: string } = { APPROVE: 'APPROVED', REQUEST_CHANGES: 'CHANGES_REQUESTED' };
  const review = {
    id: sim.nextId(),
    number: it.number,
    user: actor,
    body: input.body ?? '',
    state: states[input.event ?? ''] ?? (input.event === 'COMMENT' ? 'COMMENTED' : 'PENDING'),
    commitId: input.commitOID ?? (await repo.headOf(it)),
    at: sim.time(),
  };
  repo.reviews.push(review);
  for (const { path, body, line } of input.threads ?? []) {
    const thread = { id: sim.nextId(), number: it.number, path, resolved: false };
    repo.threads.push(thread);
    const { id, number, user, at } = { ...review, id: sim.nextId() };
    repo.reviewComments.push({
      id,
      number,
      user,
      created: at,
      body,
      path,
      line: line ?? null,
      reviewId: review.id,
      threadId: thread.id,
      reactions: [],
    });
  }
  const shown = showReview(repo, review);
  return {
    clientMutationId: null,
    pullRequestReview: { id: `PRR_${review.id}`, url: shown.html_url, state: review.state, body: review.body },
  };
}

interface ThreadInput {
  readonly pullRequestId?: string;
  readonly path: string;
  readonly body: string;
  readonly subjectType?: string;
}

/** The review that somebody has begun on a pull request. */
function begun(call: GraphqlCall, pullRequestId: string | undefined) {
  const { repo, it } = pullById(call, pullRequestId ?? '');
  const at = repo.reviews.findIndex(
    (one) => one.number === it.number && one.state === 'PENDING' && one.user.login === call.actor.login,
  );
  const review = repo.reviews[at];
  if (review === undefined) throw notFound('pending review');
  return { repo, it, at, review };
}

function addThread(call: GraphqlCall, input: ThreadInput): object {
  const { repo, it, review } = begun(call, input.pullRequestId);
  if (input.path.endsWith('.refused')) throw refused('The path is not part of the pull request');
  const thread = { id: call.sim.nextId(), number: it.number, path: input.path, resolved: false };
  repo.threads.push(thread);
  repo.reviewComments.push({
    ...{ id: call.sim.nextId(), number: it.number, user: call.actor, created: call.sim.time(), body: input.body },
    ...{ path: input.path, line: null, reviewId: review.id, threadId: thread.id, reactions: [] },
  });
  return { thread: threadNode({ repo, it: thread }) };
}

function submitReview(
  call: GraphqlCall,
  input: { readonly pullRequestId?: string; readonly event: string; readonly body?: string },
): object {
  const { repo, at, review } = begun(call, input.pullRequestId);
  const states: { readonly [event: string]: string } = { APPROVE: 'APPROVED', REQUEST_CHANGES: 'CHANGES_REQUESTED' };
  const made = { ...review, body: input.body ?? review.body, state: states[input.event] ?? 'COMMENTED' };
  repo.reviews[at] = made;
  const shown = showReview(repo, made);
  return { pullRequestReview: { id: `PRR_${made.id}`, url: shown.html_url, state: made.state, body: made.body } };
}

function deleteReview(call: GraphqlCall, id: string): object {
  for (const repo of call.sim.repositories) {
    const at = repo.reviews.findIndex((one) => one.id === idOf(id) && one.state === 'PENDING');
    const [gone] = at < 0 ? [] : repo.reviews.splice(at, 1);
    if (gone !== undefined) return { pullRequestReview: { id } };
  }
  throw notFound('node');
}

function mutations(call: GraphqlCall): object {
  const setResolved = (resolved: boolean) => {
    return ({ input }: { input: { threadId: string } }) => {
      const found = threadById(call, input.threadId);
      if (found === undefined || !call.covers.includes(found.repo.fullName)) throw notFound('node');
      found.it.resolved = resolved;
      return { thread: threadNode(found) };
    };
  };
  const setDraft = (draft: boolean) => {
    return ({ input }: { input: { pullRequestId: string } }) => {
      const { repo, it } = pullById(call, input.pullRequestId);
      if (it.pull !== undefined) it.pull.draft = draft;
      return { pullRequest: pullNode(repo, it) };
    };
  };
  return {
    addPullRequestReview: ({ input }: { input: ReviewInput }) => addReview(call, input),
    addPullRequestReviewThread: ({ input }: { input: ThreadInput }) => addThread(call, input),
    submitPullRequestReview: ({ input }: { input: { event: string } }) => submitReview(call, input),
    deletePullRequestReview: ({ input }: { input: { pullRequestReviewId: string } }) =>
      deleteReview(call, input.pullRequestReviewId),
    resolveReviewThread: setResolved(true),
    unresolveReviewThread: setResolved(false),
    convertPullRequestToDraft: setDraft(true),
    markPullRequestReadyForReview: setDraft(false),
    enablePullRequestAutoMerge: ({ input }: { input: { pullRequestId: string; mergeMethod?: string } }) => {
      const { repo, it } = pullById(call, input.pullRequestId);
      if (it.pull?.mergeable === true) throw refused('Pull request Pull request is in clean status');
      if (it.pull !== undefined) it.pull.autoMerge = (input.mergeMethod ?? 'MERGE').toLowerCase();
      return { pullRequest: pullNode(repo, it) };
    },
    disablePullRequestAutoMerge: ({ input }: { input: { pullRequestId: string } }) => {
      const { repo, it } = pullById(call, input.pullRequestId);
      if (it.pull !== undefined) it.pull.autoMerge = null;
      return { pullRequest: pullNode(repo, it) };
    },
  };
}
