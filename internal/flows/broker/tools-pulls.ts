// Tools about pull requests, and merging.

import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { Fault } from '../../domain/fault.ts';
import { outsideFault } from '../../domain/outside.ts';
import type { Want } from './confine.ts';
import type { CodehostCall } from './codehost-call.ts';
import { listed, shown } from './shape.ts';
import {
  body,
  type BrokerTool,
  digest,
  given,
  idNumberUrl,
  maybe,
  needs,
  number,
  numberAndUrl,
  paging,
  text,
} from './tool.ts';
import { page } from './tools-issues.ts';
import { named } from '../../adapters/providers/codehost/codehost.ts';

const pullsRead = (): readonly Want[] => ['pullRequests:read'];
const pullsWrite = (): readonly Want[] => ['pullRequests:write'];

export const pullAt = async (codehost: CodehostCall, number: number): Promise<JsonObject> =>
  objectAt(await codehost.json(`/pulls/${number}`));
export const headOf = (pull: JsonObject): string => textAt(objectAt(pull['head'])['sha']) ?? '';

/** `ORG/team` names a team of the owner, everything else a person. */
function reviewersOf(input: JsonObject): JsonObject {
  const all = listAt(input['reviewers']).map(String);
  const teams = all.filter((one) => one.includes('/')).map((one) => one.slice(one.indexOf('/') + 1));
  const people = all.filter((one) => !one.includes('/'));
  return { ...(people.length > 0 && { reviewers: people }), ...(teams.length > 0 && { team_reviewers: teams }) };
}

function askReviewers(codehost: CodehostCall, pull: number, input: JsonObject): Promise<Json> {
  const wanted = reviewersOf(input);
  const probe = {
    kind: 'reviewers',
    pull,
    reviewers: wanted['reviewers'] ?? [],
    teams: wanted['team_reviewers'] ?? [],
  };
  return codehost.write(
    { method: 'POST', path: `/pulls/${pull}/requested_reviewers`, body: wanted },
    { probe, shape: (json) => numberAndUrl(named(json)) },
  );
}

const createPullRequest: BrokerTool = {
  about: 'Open a pull request.',
  effect: 'adds',
  write: true,
  wants: pullsWrite,
  run: async (codehost, { input }) => {
    const head = text(input, 'head');
    const fields = given(input, 'title', 'head', 'base', 'draft', 'maintainer_can_modify');
    const isLast = listAt(input['reviewers']).length === 0;
    const probe = {
      kind: 'pull',
      head: head.includes(':') ? head : `${codehost.owner}:${head}`,
      base: text(input, 'base'),
    };
    const made = await codehost.write(
      { method: 'POST', path: '/pulls', body: { ...fields, body: body(codehost, text(input, 'body')) } },
      { probe, isLast, shape: (json) => idNumberUrl(named(json)) },
    );
    if (!isLast) await after(['created'], () => askReviewers(codehost, number(made, 'number'), input));
    return made;
  },
};

/** Runs a later step of a write; where it is refused, the Fault says what was done before. */
async function after<T>(done: readonly string[], step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof Fault) || done.length === 0) throw error;
    const { retryAfterSeconds } = error;
    throw new Fault(error.kind, error.code, `done so far: ${done.join(', ')}; then: ${error.message}`, {
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    });
  }
}

const setDraft = (codehost: CodehostCall, pull: JsonObject, draft: boolean, isLast: boolean): Promise<Json> => {
  const mutation = draft
    ? 'mutation($input: ConvertPullRequestToDraftInput!) { convertPullRequestToDraft(input: $input) { pullRequest { isDraft } } }'
    : 'mutation($input: MarkPullRequestReadyForReviewInput!) { markPullRequestReadyForReview(input: $input) { pullRequest { isDraft } } }';
  const path = `/pulls/${number(pull, 'number')}`;
  const probe = { kind: 'fields', path, wanted: { draft: digest(draft) }, answer: 'number' };
  return codehost.mutate(
    mutation,
    { pullRequestId: pull['node_id'] ?? '' },
    { probe, isLast, shape: () => numberAndUrl(pull) },
  );
};

async function changePull(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const path = `/pulls/${number(input, 'pullNumber')}`;
  const pull = await pullAt(codehost, number(input, 'pullNumber'));
  const said = maybe(input, 'body');
  const fields: JsonObject = {
    ...given(input, 'title', 'state', 'base', 'maintainer_can_modify'),
    ...(said !== undefined && { body: body(codehost, said) }),
  };
  const wantsDraft = typeof input['draft'] === 'boolean' && input['draft'] !== pull['draft'];
  const wantsReviewers = listAt(input['reviewers']).length > 0;
  const done: string[] = [];
  if (Object.keys(fields).length > 0) {
    const { base, maintainer_can_modify: _, ...compared } = fields;
    const wanted: { [key: string]: string } = {};
    for (const [key, value] of Object.entries(compared)) wanted[key] = digest(value);
    if (base !== undefined) wanted['base.ref'] = digest(base);
    const probe = { kind: 'fields', path, wanted, answer: 'number' };
    await codehost.write(
      { method: 'PATCH', path, body: fields },
      { probe, isLast: !wantsDraft && !wantsReviewers, shape: (json) => numberAndUrl(named(json)) },
    );
    done.push(...Object.keys(fields));
  }
  if (wantsDraft) {
    await after(done, () => setDraft(codehost, pull, input['draft'] === true, !wantsReviewers));
    done.push('draft');
  }
  if (wantsReviewers) {
    await after(done, () => askReviewers(codehost, number(pull, 'number'), input));
    done.push('reviewers');
  }
  return { ...numberAndUrl(pull), done };
}

const updated = ['title', 'body', 'state', 'draft', 'base', 'maintainer_can_modify', 'reviewers'] as const;
const updatePullRequest: BrokerTool = {
  about: 'Change a pull request: title, body, state, draft, base, reviewers.',
  effect: 'takes',
  write: true,
  wants: pullsWrite,
  check(input) {
    if (updated.every((key) => input[key] === undefined))
      throw outsideFault('invalid-input', 'nothing to change is given');
  },
  run: (codehost, { input }) => changePull(codehost, input),
};

const updateBranch: BrokerTool = {
  about: 'Bring the base into the branch of a pull request.',
  effect: 'adds',
  write: true,
  wants: pullsWrite,
  run: async (codehost, { input }) => {
    const pull = number(input, 'pullNumber');
    const expected = maybe(input, 'expectedHeadSha') ?? headOf(await pullAt(codehost, pull));
    return codehost.write(
      { method: 'PUT', path: `/pulls/${pull}/update-branch`, body: { expected_head_sha: expected } },
      { probe: { kind: 'branchUpdated', pull, expected }, shape: (): Json => ({ accepted: true }) },
    );
  },
};

const listPulls: BrokerTool = {
  about: 'List the pull requests of a repository.',
  effect: 'none',
  write: false,
  wants: pullsRead,
  run: async (codehost, { input }) => {
    const head = maybe(input, 'head');
    const full = head === undefined || head.includes(':') ? head : `${codehost.owner}:${head}`;
    const query = { ...given(input, 'state', 'base', 'sort', 'direction'), ...(full !== undefined && { head: full }) };
    return page(codehost, '/pulls', input, query);
  },
};

const threadsQuery = `query($owner: String!, $name: String!, $number: Int!, $first: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    reviewThreads(first: $first, after: $after) { totalCount pageInfo { hasNextPage endCursor }
      nodes { id isResolved isOutdated path line
        comments(first: 100) { nodes { databaseId body url createdAt author { login } } } } } } } }`;

async function threads(codehost: CodehostCall, input: JsonObject): Promise<Json> {
  const [owner = '', name = ''] = codehost.options.repository.split('/');
  const variables = {
    owner,
    name,
    number: number(input, 'pullNumber'),
    first: Number(input['perPage'] ?? 30),
    after: maybe(input, 'after') ?? null,
  };
  const data = await codehost.query(threadsQuery, variables);
  const found = objectAt(objectAt(objectAt(data['repository'])['pullRequest'])['reviewThreads']);
  const items = listAt(found['nodes'])
    .map(objectAt)
    .map((one) => ({
      ...one,
      comments: listAt(objectAt(one['comments'])['nodes'])
        .map(objectAt)
        .map((said) => ({
          id: said['databaseId'],
          body: said['body'],
          url: said['url'],
          user: objectAt(said['author'])['login'] ?? null,
          created_at: said['createdAt'],
        })),
    }));
  const info = objectAt(found['pageInfo']);
  return listed(items, info['hasNextPage'] === true ? info['endCursor'] : undefined, {
    totalCount: found['totalCount'],
  });
}

/** What all statuses of a commit come to, with a page of them. */
async function combinedStatus(codehost: CodehostCall, sha: string, input: JsonObject): Promise<Json> {
  const { json, nextPage } = await codehost.read({ path: `/commits/${sha}/status`, query: paging(input) });
  return { ...objectAt(shown(json)), more: nextPage !== undefined, ...(nextPage !== undefined && { next: nextPage }) };
}

const pullRequestRead: BrokerTool = {
  about: 'Read a pull request: itself, its diff, files, commits, reviews, comments, threads, status or checks.',
  effect: 'none',
  write: false,
  wants: (input) => {
    if (input['method'] === 'get_status') return ['pullRequests:read', 'statuses:read'];
    return input['method'] === 'get_check_runs' ? ['pullRequests:read', 'checks:read'] : pullsRead();
  },
  run: async (codehost, { input }) => {
    const at = number(input, 'pullNumber');
    switch (text(input, 'method')) {
      case 'get_diff': {
        const accept = 'application/vnd.github.diff';
        const asked = { path: `/pulls/${at}`, accept, isPlain: true, mostBytes: 32 * 1024 * 1024 };
        const { bytes } = await codehost.read(asked);
        const diff = bytes.toString('utf8');
        const cut = diff.slice(0, 380_000).toWellFormed();
        return { diff: cut, more: cut.length < diff.length };
      }
      case 'get_files':
        return page(codehost, `/pulls/${at}/files`, input);
      case 'get_commits':
        return page(codehost, `/pulls/${at}/commits`, input);
      case 'get_reviews':
        return page(codehost, `/pulls/${at}/reviews`, input);
      case 'get_comments':
        return page(codehost, `/issues/${at}/comments`, input);
      case 'get_review_comments':
        return threads(codehost, input);
      case 'get_status':
        return combinedStatus(codehost, headOf(await pullAt(codehost, at)), input);
      case 'get_check_runs':
        return page(codehost, `/commits/${headOf(await pullAt(codehost, at))}/check-runs`, input, {}, 'check_runs');
      default:
        return shown(await pullAt(codehost, at));
    }
  },
};

const mergePullRequest: BrokerTool = {
  about: 'Merge a pull request, at the head that is expected.',
  effect: 'takes',
  write: true,
  wants: () => ['contents:write', 'pullRequests:write', 'merge:write'],
  run: async (codehost, { input }) => {
    const pull = number(input, 'pullNumber');
    // Nobody merges what has come since: without a head of the caller's, the one that is there just now.
    const sha = maybe(input, 'expectedHeadSha') ?? headOf(await pullAt(codehost, pull));
    const fields = given(input, 'merge_method', 'commit_title', 'commit_message');
    return codehost.write(
      { method: 'PUT', path: `/pulls/${pull}/merge`, body: { ...fields, sha } },
      {
        probe: { kind: 'merged', pull, sha },
        shape: (json): Json => ({ merged: json['merged'] === true, sha: json['sha'] ?? null }),
      },
    );
  },
};

const autoMerge = (isOn: boolean): BrokerTool => ({
  about: isOn ? 'Have a pull request merged by itself when it may be.' : 'Take auto merge of a pull request back.',
  effect: 'takes',
  write: true,
  wants: () => [
    'contents:write',
    'pullRequests:write',
    ...(isOn ? (['merge:write'] as const) : []),
    'workflows:write?',
  ],
  run: async (codehost, { input }) => {
    const pull = await pullAt(codehost, number(input, 'pullNumber'));
    const name = isOn ? 'enablePullRequestAutoMerge' : 'disablePullRequestAutoMerge';
    const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
    const method = maybe(input, 'merge_method');
    return codehost.mutate(
      `mutation($input: ${type}!) { ${name}(input: $input) { pullRequest { number } } }`,
      {
        pullRequestId: pull['node_id'] ?? '',
        ...(isOn && { expectedHeadOid: headOf(pull) }),
        ...(isOn && method !== undefined && { mergeMethod: method.toUpperCase() }),
      },
      { probe: { kind: 'autoMerge', pull: number(pull, 'number'), isOn }, shape: (): Json => ({ autoMerge: isOn }) },
    );
  },
});

/** A tool that changes one thing of a pull request. */
const setter = (about: string): BrokerTool => ({
  about,
  effect: 'takes',
  write: true,
  wants: pullsWrite,
  run: (codehost, { input }) => changePull(codehost, input),
});

export const pullTools: { readonly [name: string]: BrokerTool } = {
  create_pull_request: createPullRequest,
  update_pull_request: updatePullRequest,
  update_pull_request_branch: updateBranch,
  list_pull_requests: listPulls,
  pull_request_read: pullRequestRead,
  merge_pull_request: mergePullRequest,
  enable_pull_request_auto_merge: autoMerge(true),
  disable_pull_request_auto_merge: autoMerge(false),
  request_pull_request_reviewers: {
    ...setter('Ask for reviews of a pull request.'),
    effect: 'adds',
    check: (input) => needs(input, 'reviewers'),
    run: (codehost, { input }) => askReviewers(codehost, number(input, 'pullNumber'), input),
  },
  update_pull_request_title: setter('Change the title of a pull request.'),
  update_pull_request_body: setter('Change the body of a pull request.'),
  update_pull_request_state: setter('Open or close a pull request.'),
  update_pull_request_draft_state: setter('Make a pull request a draft, or ready for review.'),
};
