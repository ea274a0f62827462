// Reviews. A draft is rows of ours, of one session: the provider knows one pending review of all sessions' bot, and it
// could be another session's. What is submitted is one mutation with everything in it.

import { addDraft, dropDraft, dropSent, readDraft, takeDraft } from '../../adapters/store/outbox/drafts.ts';
import { Fault } from '../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { isSameRepository, type Want } from './confine.ts';
import type { CodehostCall } from './codehost-call.ts';
import {
  type Asked,
  body,
  type BrokerTool,
  given,
  invalidInput,
  maybe,
  needs,
  number,
  sentSince,
  text,
} from './tool.ts';
import { headOf, pullAt } from './tools-pulls.ts';
import { idAndUrl, named } from '../../adapters/providers/codehost/codehost.ts';

const pullsWrite = (): readonly Want[] => ['pullRequests:write'];
const commentsMax = 200;

/** As the database numbers pull requests. */
const pullMax = 2 ** 31 - 1;

function draftOf(codehost: CodehostCall, { caller, input }: Asked) {
  const pull = number(input, 'pullNumber');
  if (!Number.isInteger(pull) || pull < 1 || pull > pullMax)
    throw invalidInput('pullNumber: no pull request has this number');
  return { sessionId: caller.sessionId, repository: codehost.options.repository.toLowerCase(), pull };
}

function checkLines(input: JsonObject): void {
  if (text(input, 'subjectType') === 'LINE') needs(input, 'line');
  if (input['startLine'] !== undefined) needs(input, 'line');
}

const addComment: BrokerTool = {
  about: 'Add a comment to the review that this session is writing; nothing is sent until it is submitted.',
  effect: 'adds',
  write: false,
  wants: pullsWrite,
  check: checkLines,
  run: async (codehost, asked) => {
    const { ctx, input } = asked;
    const of = draftOf(codehost, asked);
    const there = await readDraft(ctx.db, of);
    if ((there?.comments.length ?? 0) >= commentsMax)
      throw outsideFault('too-large', `a review has at most ${commentsMax} comments`);
    if ([...text(input, 'body')].length > 65_000)
      throw outsideFault('too-large', 'a comment has at most 65000 characters');
    const comment = given(input, 'path', 'body', 'subjectType', 'line', 'side', 'startLine', 'startSide');
    const row = { id: ctx.runtime.uuid(), comment, commitId: null, body: null, now: ctx.runtime.now() };
    return { pending: await addDraft(ctx.db, of, row) };
  },
};

const reviewQuery = `mutation($input: AddPullRequestReviewInput!) {
  addPullRequestReview(input: $input) { pullRequestReview { id url state } } }`;

interface Review {
  readonly event: string;
  readonly said: string | undefined;
  readonly commitId: string | undefined;
  readonly comments: readonly Json[];
}

/** Sends a review: one mutation. */
async function sendReview(codehost: CodehostCall, pullNumber: number, review: Review): Promise<Json> {
  const pull = await pullAt(codehost, pullNumber);
  const comments = review.comments.map(objectAt);
  const threads = comments
    .filter((one) => one['subjectType'] !== 'FILE')
    .map((one) => ({ ...said(codehost, one), ...given(one, 'line', 'side', 'startLine', 'startSide') }));
  const files = comments.filter((one) => one['subjectType'] === 'FILE').map((one) => said(codehost, one));
  const pullRequestId = pull['node_id'] ?? '';
  const input = {
    pullRequestId,
    body: body(codehost, review.said ?? ''),
    commitOID: review.commitId ?? headOf(pull),
    ...(threads.length > 0 && { threads }),
  };
  const probe = { kind: 'review', pull: pullNumber };
  if (files.length > 0) return sendWithFiles(codehost, { input, files, event: review.event, probe, pullNumber });
  return codehost.mutate(
    reviewQuery,
    { ...input, event: review.event },
    { probe, shape: reviewOf('addPullRequestReview') },
  );
}

const said = (codehost: CodehostCall, one: JsonObject): JsonObject => ({
  path: one['path'],
  body: body(codehost, textAt(one['body']) ?? ''),
});
const reviewOf =
  (mutation: string) =>
  (data: JsonObject): Json => {
    const made = named(objectAt(objectAt(data[mutation])['pullRequestReview']));
    return { id: made['id'] ?? null, url: made['url'] ?? null, state: made['state'] ?? null };
  };

/** A comment on a whole file is no part of the mutation that makes a review: it is begun, added to and submitted in one request. */
async function sendWithFiles(
  codehost: CodehostCall,
  of: {
    readonly input: JsonObject;
    readonly files: readonly JsonObject[];
    readonly event: string;
    readonly probe: JsonObject;
    readonly pullNumber: number;
  },
): Promise<Json> {
  const { input, files, event, probe, pullNumber } = of;
  const pullRequestId = input['pullRequestId'];
  const document = `mutation($begin: AddPullRequestReviewInput!, ${files
    .map((_one, at) => `$file${at}: AddPullRequestReviewThreadInput!, `)
    .join('')}$submit: SubmitPullRequestReviewInput!) {
    addPullRequestReview(input: $begin) { pullRequestReview { id } }
    ${files.map((_one, at) => `file${at}: addPullRequestReviewThread(input: $file${at}) { thread { id } }`).join('\n')}
    submitPullRequestReview(input: $submit) { pullRequestReview { id url state } } }`;
  const variables = {
    begin: input,
    ...Object.fromEntries(
      files.map((one, at) => [`file${at}`, { pullRequestId, ...one, subjectType: 'FILE' } as JsonObject]),
    ),
    submit: { pullRequestId, body: input['body'], event },
  };
  try {
    return await codehost.mutateAll(document, variables, { probe, shape: reviewOf('submitPullRequestReview') });
  } catch (error) {
    if (error instanceof Fault && error.code !== 'outcome-unknown') await dropBegun(codehost, pullNumber);
    throw error;
  }
}

const begun = `query($owner: String!, $name: String!, $number: Int!) { repository(owner: $owner, name: $name) {
  pullRequest(number: $number) { reviews(last: 20, states: [PENDING]) { nodes { id body } } } } }`;
const drop = `mutation($input: DeletePullRequestReviewInput!) {
  deletePullRequestReview(input: $input) { pullRequestReview { id } } }`;

/** What a refused request has begun would be in the way of every later review: the bot has one at a time. */
async function dropBegun(codehost: CodehostCall, number: number): Promise<void> {
  const [owner = '', name = ''] = codehost.options.repository.split('/');
  const found = objectAt((await codehost.query(begun, { owner, name, number }))['repository']);
  const reviews = listAt(objectAt(objectAt(found['pullRequest'])['reviews'])['nodes']).map(objectAt);
  const own = reviews.find((one) => (textAt(one['body']) ?? '').includes(`svc:call=${codehost.callId}`));
  if (own === undefined) return;
  const probe = { kind: 'none' };
  await codehost.mutate(
    drop,
    { pullRequestReviewId: own['id'] ?? '' },
    { probe, isLast: false, shape: (): Json => null },
  );
}

async function create(codehost: CodehostCall, asked: Asked): Promise<Json> {
  const { ctx, input } = asked;
  const event = maybe(input, 'event');
  const pullNumber = number(input, 'pullNumber');
  if (event !== undefined) {
    return sendReview(codehost, pullNumber, {
      event,
      said: maybe(input, 'body'),
      commitId: maybe(input, 'commitID'),
      comments: [],
    });
  }
  const row = {
    id: ctx.runtime.uuid(),
    comment: null,
    commitId: maybe(input, 'commitID') ?? null,
    body: maybe(input, 'body') ?? null,
  };
  return { pending: await addDraft(ctx.db, draftOf(codehost, asked), { ...row, now: ctx.runtime.now() }) };
}

async function submit(codehost: CodehostCall, asked: Asked): Promise<Json> {
  const { ctx, input } = asked;
  const of = draftOf(codehost, asked);
  const draft = await takeDraft(ctx.db, of, codehost.callId);
  if (draft === undefined) throw outsideFault('not-found', 'this session has no pending review of that pull request');
  const sent = await sendReview(codehost, of.pull, {
    event: maybe(input, 'event') ?? 'COMMENT',
    said: maybe(input, 'body') ?? draft.body ?? undefined,
    commitId: maybe(input, 'commitID') ?? draft.commitId ?? undefined,
    comments: draft.comments,
  });
  await dropSent(ctx.db, codehost.callId);
  return sent;
}

async function remove(codehost: CodehostCall, asked: Asked): Promise<Json> {
  const dropped = await dropDraft(asked.ctx.db, draftOf(codehost, asked));
  if (dropped === 0) throw outsideFault('not-found', 'this session has no pending review of that pull request');
  return { deleted: true };
}

const thread = `query($id: ID!) { node(id: $id) {
  ... on PullRequestReviewThread { id isResolved repository { nameWithOwner } } } }`;

/** Resolves a thread, after looking whose it is: its id says nothing of a repository. */
async function resolve(codehost: CodehostCall, id: string, isResolved: boolean): Promise<Json> {
  const node = objectAt((await codehost.query(thread, { id }))['node']);
  const where = textAt(objectAt(node['repository'])['nameWithOwner']);
  if (where === undefined || !isSameRepository(where, codehost.options.repository)) {
    throw outsideFault('not-found', 'there is no such thread in this repository');
  }
  const name = isResolved ? 'resolveReviewThread' : 'unresolveReviewThread';
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
  return codehost.mutate(
    `mutation($input: ${type}!) { ${name}(input: $input) { thread { id isResolved } } }`,
    { threadId: id },
    { probe: { kind: 'thread', id, isResolved }, shape: (): Json => ({ id, isResolved }) },
  );
}

const sends = (input: JsonObject): boolean => {
  const method = text(input, 'method');
  return method === 'create' ? input['event'] !== undefined : method !== 'delete_pending';
};

const reviewWrite: BrokerTool = {
  about: 'Begin, submit or delete the review of this session, or resolve a thread.',
  effect: 'takes',
  write: true,
  isWrite: sends,
  wants: (input) =>
    text(input, 'method').endsWith('resolve_thread') ? ['pullRequests:write', 'contents:write'] : pullsWrite(),
  check(input) {
    if (text(input, 'method').endsWith('resolve_thread')) needs(input, 'threadId');
  },
  run: (codehost, asked) => {
    const { input } = asked;
    switch (text(input, 'method')) {
      case 'create':
        return create(codehost, asked);
      case 'submit_pending':
        return submit(codehost, asked);
      case 'delete_pending':
        return remove(codehost, asked);
      default:
        return resolve(codehost, text(input, 'threadId'), text(input, 'method') === 'resolve_thread');
    }
  },
};

const reply: BrokerTool = {
  about: 'Answer a review comment, or react to it.',
  effect: 'adds',
  write: true,
  wants: pullsWrite,
  check(input) {
    if ((maybe(input, 'body') === undefined) === (maybe(input, 'reaction') === undefined)) {
      throw invalidInput('give exactly one of body and reaction');
    }
  },
  run: async (codehost, { input }) => {
    const comment = number(input, 'commentId');
    const content = maybe(input, 'reaction');
    if (content !== undefined) {
      const path = `/pulls/comments/${comment}/reactions`;
      const probe = { kind: 'reaction', path, content };
      return codehost.write(
        { method: 'POST', path, body: { content } },
        { probe, shape: (json): Json => ({ id: named(json)['id'] ?? null, reaction: content }) },
      );
    }
    const pull = input['pullNumber'] === undefined ? await pullOf(codehost, comment) : number(input, 'pullNumber');
    const since = sentSince(codehost);
    return codehost.write(
      {
        method: 'POST',
        path: `/pulls/${pull}/comments/${comment}/replies`,
        body: { body: body(codehost, text(input, 'body')) },
      },
      { probe: { kind: 'marked', path: `/pulls/${pull}/comments`, since }, shape: (json) => idAndUrl(named(json)) },
    );
  },
};

async function pullOf(codehost: CodehostCall, comment: number): Promise<number> {
  const found = objectAt(await codehost.json(`/pulls/comments/${comment}`));
  const at = /\/pulls\/(\d+)$/.exec(textAt(found['pull_request_url']) ?? '')?.[1];
  if (at === undefined) throw outsideFault('not-found', 'the comment belongs to no pull request');
  return Number(at);
}

const addReviewComment: BrokerTool = {
  about: 'Comment on a line of a pull request at once.',
  effect: 'adds',
  write: true,
  wants: pullsWrite,
  check: checkLines,
  run: async (codehost, { input }) => {
    const path = `/pulls/${number(input, 'pullNumber')}/comments`;
    const sent: JsonObject = {
      body: body(codehost, text(input, 'body')),
      commit_id: headOf(await pullAt(codehost, number(input, 'pullNumber'))),
      path: text(input, 'path'),
      ...given(input, 'line', 'side'),
      ...(input['startLine'] !== undefined && {
        start_line: input['startLine'],
        start_side: input['startSide'] ?? input['side'] ?? 'RIGHT',
      }),
      ...(text(input, 'subjectType') === 'FILE' && { subject_type: 'file' }),
    };
    return codehost.write(
      { method: 'POST', path, body: sent },
      { probe: { kind: 'marked', path, since: sentSince(codehost) }, shape: (json) => idAndUrl(named(json)) },
    );
  },
};

const resolveTool = (isResolved: boolean): BrokerTool => ({
  about: isResolved ? 'Resolve a review thread.' : 'Open a resolved review thread again.',
  effect: 'takes',
  write: true,
  wants: () => ['pullRequests:write', 'contents:write'],
  run: (codehost, { input }) => resolve(codehost, text(input, 'threadID'), isResolved),
});

export const reviewTools: { readonly [name: string]: BrokerTool } = {
  add_comment_to_pending_review: addComment,
  pull_request_review_write: reviewWrite,
  add_reply_to_pull_request_comment: reply,
  add_pull_request_review_comment: addReviewComment,
  create_pull_request_review: {
    ...reviewWrite,
    about: 'Submit a review, or begin one.',
    effect: 'adds',
    isWrite: (input) => input['event'] !== undefined,
    wants: pullsWrite,
    check: () => undefined,
    run: create,
  },
  submit_pending_pull_request_review: {
    ...reviewWrite,
    about: 'Submit the review that this session is writing.',
    isWrite: () => true,
    wants: pullsWrite,
    check: () => undefined,
    run: submit,
  },
  delete_pending_pull_request_review: {
    ...reviewWrite,
    about: 'Delete the review that this session is writing.',
    isWrite: () => false,
    wants: pullsWrite,
    check: () => undefined,
    run: remove,
  },
  resolve_review_thread: resolveTool(true),
  unresolve_review_thread: resolveTool(false),
};
