// The simulated code host's REST answers about issues, pull requests, comments, reviews and labels.

import { type SimAnswer, type Call, type Handler, paged, r, reactTo } from './codehost-call.ts';
import { type Actor, type Comment, invalid, type Issue, notFound, type SimRepository } from './codehost-state.ts';

export const userOf = ({ login, id, type }: Actor) => ({
  login,
  id,
  type,
  html_url: `https://codehost.example/${login}`,
});
export const web = (repo: SimRepository): string => `https://codehost.example/${repo.fullName}`;
export const issueUrl = (repo: SimRepository, { number, pull }: Issue): string =>
  `${web(repo)}/${pull === undefined ? 'issues' : 'pull'}/${number}`;

export function issueOf({ params, repo }: Call, key = 'issue_number'): Issue {
  const found = repo.issues.get(Number(params[key]));
  if (found === undefined) throw notFound();
  return found;
}
const labelsOf = (repo: SimRepository, names: readonly string[]) =>
  names.map((name) => repo.labels.get(name) ?? { name, color: 'ededed', description: null });

export const showIssue = (repo: SimRepository, issue: Issue) => ({
  id: issue.id,
  node_id: `I_${issue.id}`,
  number: issue.number,
  title: issue.title,
  body: issue.body,
  state: issue.state,
  state_reason: issue.stateReason,
  html_url: issueUrl(repo, issue),
  url: `https://api.codehost.example/repos/${repo.fullName}/issues/${issue.number}`,
  repository_url: `https://api.codehost.example/repos/${repo.fullName}`,
  user: userOf(issue.user),
  labels: labelsOf(repo, issue.labels),
  assignees: issue.assignees.map((login) => ({ login })),
  milestone: issue.milestone === null ? null : { number: issue.milestone },
  type: issue.type === null ? null : { name: issue.type },
  comments: repo.comments.filter((one) => one.number === issue.number).length,
  created_at: issue.created,
  updated_at: issue.updated,
  ...(issue.pull !== undefined && { pull_request: { html_url: issueUrl(repo, issue) } }),
});

export const showComment = (repo: SimRepository, comment: Comment, kind = 'issuecomment') => ({
  id: comment.id,
  node_id: `IC_${comment.id}`,
  body: comment.body,
  user: userOf(comment.user),
  created_at: comment.created,
  updated_at: comment.created,
  html_url: `${web(repo)}/issues/${comment.number}#${kind}-${comment.id}`,
  issue_url: `https://api.codehost.example/repos/${repo.fullName}/issues/${comment.number}`,
  ...(comment.path !== undefined && {
    path: comment.path,
    line: comment.line ?? null,
    pull_request_url: `https://api.codehost.example/repos/${repo.fullName}/pulls/${comment.number}`,
    ...(comment.inReplyTo !== undefined && { in_reply_to_id: comment.inReplyTo }),
    pull_request_review_id: comment.reviewId ?? null,
  }),
});

export const text = (value: unknown, fallback = ''): string => (typeof value === 'string' ? value : fallback);

function makeIssue(call: Call): SimAnswer {
  const { repo, body, sim, actor } = call;
  if (text(body['title']).trim() === '') throw invalid('title is missing');
  const issue = newIssue(call, { title: text(body['title']), body: text(body['body']) });
  issue.labels = ((body['labels'] ?? []) as (string | { name: string })[]).map((one) =>
    typeof one === 'string' ? one : one.name,
  );
  issue.assignees = (body['assignees'] ?? []) as string[];
  issue.milestone = (body['milestone'] as number | undefined) ?? null;
  issue.type = (body['type'] as string | undefined) ?? null;
  repo.issues.set(issue.number, issue);
  sim.happened('issues', { action: 'opened', issue: showIssue(repo, issue), sender: userOf(actor) }, repo);
  return { status: 201, body: showIssue(repo, issue) };
}

export function newIssue({ repo, sim, actor }: Call, of: { title: string; body: string }): Issue {
  const at = sim.time();
  return {
    id: sim.nextId(),
    number: repo.nextNumber(),
    user: actor,
    created: at,
    updated: at,
    reactions: [],
    subIssues: [],
    blockedBy: [],
    state: 'open',
    stateReason: null,
    labels: [],
    assignees: [],
    milestone: null,
    type: null,
    ...of,
  };
}

/** Names in any case are those that are there; each once, in an order of the host's own. */
const asKnown = (wanted: readonly string[], known: readonly string[]): string[] => {
  const named = wanted.map((one) => known.find((name) => name.toLowerCase() === one.toLowerCase()) ?? one);
  return [...new Set(named)].sort();
};

function changeIssue(call: Call): SimAnswer {
  const { repo, body, sim } = call;
  const issue = issueOf(call);
  if (typeof body['title'] === 'string') issue.title = body['title'];
  if (typeof body['body'] === 'string') issue.body = body['body'];
  if (body['state'] === 'open' || body['state'] === 'closed') issue.state = body['state'];
  if (body['state_reason'] !== undefined) issue.stateReason = body['state_reason'] as string | null;
  if (body['labels'] !== undefined) {
    const wanted = (body['labels'] as (string | { name: string })[]).map((one) =>
      typeof one === 'string' ? one : one.name,
    );
    issue.labels = asKnown(wanted, [...repo.labels.keys()]);
  }
  if (body['assignees'] !== undefined) issue.assignees = asKnown(body['assignees'] as string[], repo.people);
  if (body['milestone'] !== undefined) issue.milestone = body['milestone'] as number | null;
  if (body['type'] !== undefined) issue.type = body['type'] as string | null;
  issue.updated = sim.time();
  return { body: showIssue(repo, issue) };
}

function makeComment(call: Call): SimAnswer {
  const { repo, body, sim, actor } = call;
  const issue = issueOf(call);
  if (text(body['body']).trim() === '') throw invalid('body cannot be blank');
  if (text(body['body']).length > 262_144) throw invalid('Body is too long (maximum is 65536 characters)');
  const made: Comment = {
    id: sim.nextId(),
    number: issue.number,
    user: actor,
    created: sim.time(),
    reactions: [],
    body: text(body['body']),
  };
  repo.comments.push(made);
  const shown = showComment(repo, made);
  sim.happened(
    'issue_comment',
    { action: 'created', issue: showIssue(repo, issue), comment: shown, sender: userOf(actor) },
    repo,
  );
  return { status: 201, body: shown };
}

export const commentOf = ({ repo, params }: Call, of: 'comments' | 'reviewComments' = 'comments'): Comment => {
  const found = repo[of].find((one) => one.id === Number(params['comment_id']));
  if (found === undefined) throw notFound();
  return found;
};

export const since = (query: URLSearchParams, list: readonly Comment[]): Comment[] =>
  list.filter((one) => one.created >= (query.get('since') ?? ''));

const onIssue = (call: Call): SimAnswer => {
  const { repo, query } = call;
  const { number } = issueOf(call);
  return paged(
    query,
    since(
      query,
      repo.comments.filter((one) => one.number === number),
    ).map((one) => showComment(repo, one)),
  );
};

const byId = (repo: SimRepository, id: number): Issue | undefined =>
  [...repo.issues.values()].find((one) => one.id === id);

function sub(call: Call, change: (parent: Issue, child: Issue) => void, status = 200): SimAnswer {
  const parent = issueOf(call);
  const child = byId(call.repo, Number(call.body['sub_issue_id'] ?? call.body['issue_id'] ?? call.params['issue_id']));
  if (child === undefined) throw notFound();
  change(parent, child);
  return { status, body: showIssue(call.repo, parent) };
}

const listIds = (call: Call, ids: readonly number[]): SimAnswer =>
  paged(
    call.query,
    ids.flatMap((id) => {
      const found = byId(call.repo, id);
      return found === undefined ? [] : [showIssue(call.repo, found)];
    }),
  );

const without = (list: number[], id: number): void => {
  const at = list.indexOf(id);
  if (at >= 0) list.splice(at, 1);
};

function putLabel({ repo, body, params }: Call, status: number): SimAnswer {
  const old = params['name'];
  if (old !== undefined && !repo.labels.has(old)) throw notFound();
  const name = text(body['new_name'] ?? body['name'], old ?? '');
  if (old === undefined && repo.labels.has(name)) throw invalid('already_exists');
  const label = { name, color: text(body['color'], 'ededed'), description: text(body['description']) };
  if (old !== undefined) repo.labels.delete(old);
  repo.labels.set(name, label);
  return { status, body: label };
}

export const issueHandlers: { readonly [operation: string]: Handler } = {
  [`GET ${r}/issues`]: ({ repo, query }) =>
    paged(
      query,
      [...repo.issues.values()].toReversed().map((one) => showIssue(repo, one)),
    ),
  [`POST ${r}/issues`]: makeIssue,
  [`GET ${r}/issues/{issue_number}`]: (call) => ({ body: showIssue(call.repo, issueOf(call)) }),
  [`PATCH ${r}/issues/{issue_number}`]: changeIssue,
  [`GET ${r}/issues/{issue_number}/comments`]: onIssue,
  [`POST ${r}/issues/{issue_number}/comments`]: makeComment,
  [`GET ${r}/issues/comments/{comment_id}`]: (call) => ({ body: showComment(call.repo, commentOf(call)) }),
  [`PATCH ${r}/issues/comments/{comment_id}`]: (call) => {
    const found = commentOf(call);
    found.body = text(call.body['body']);
    return { body: showComment(call.repo, found) };
  },
  [`POST ${r}/issues/comments/{comment_id}/reactions`]: (call) => reactTo(call, commentOf(call).reactions),
  [`POST ${r}/issues/{issue_number}/reactions`]: (call) => reactTo(call, issueOf(call).reactions),
  [`GET ${r}/issues/{issue_number}/labels`]: (call) => paged(call.query, labelsOf(call.repo, issueOf(call).labels)),
  [`PUT ${r}/issues/{issue_number}/labels`]: changeIssue,
  [`GET ${r}/issues/{issue_number}/sub_issues`]: (call) => listIds(call, issueOf(call).subIssues),
  [`POST ${r}/issues/{issue_number}/sub_issues`]: (call) =>
    sub(
      call,
      (parent, child) => {
        if (child.parent !== undefined && call.body['replace_parent'] !== true) throw invalid('it has a parent');
        parent.subIssues.push(child.id);
        child.parent = parent.id;
      },
      201,
    ),
  [`DELETE ${r}/issues/{issue_number}/sub_issue`]: (call) =>
    sub(call, (parent, child) => {
      without(parent.subIssues, child.id);
      delete child.parent;
    }),
  [`PATCH ${r}/issues/{issue_number}/sub_issues/priority`]: (call) =>
    sub(call, (parent, child) => {
      without(parent.subIssues, child.id);
      const behind = parent.subIssues.indexOf(Number(call.body['after_id'] ?? -1));
      parent.subIssues.splice(behind + 1, 0, child.id);
    }),
  [`GET ${r}/issues/{issue_number}/parent`]: (call) => {
    const parent = byId(call.repo, issueOf(call).parent ?? -1);
    if (parent === undefined) throw notFound();
    return { body: showIssue(call.repo, parent) };
  },
  [`GET ${r}/issues/{issue_number}/dependencies/blocked_by`]: (call) => listIds(call, issueOf(call).blockedBy),
  [`POST ${r}/issues/{issue_number}/dependencies/blocked_by`]: (call) =>
    sub(call, (issue, other) => issue.blockedBy.push(other.id), 201),
  [`DELETE ${r}/issues/{issue_number}/dependencies/blocked_by/{issue_id}`]: (call) =>
    sub(call, (issue, other) => without(issue.blockedBy, other.id)),
  [`GET ${r}/issues/{issue_number}/dependencies/blocking`]: (call) => {
    const { id } = issueOf(call);
    const blocked = [...call.repo.issues.values()].filter((one) => one.blockedBy.includes(id));
    return listIds(
      call,
      blocked.map((one) => one.id),
    );
  },
  [`GET ${r}/issue-types`]: () => ({
    body: [
      { id: 1, name: 'Bug' },
      { id: 2, name: 'Task' },
    ],
  }),
  [`GET ${r}/labels`]: ({ repo, query }) => paged(query, [...repo.labels.values()]),
  [`POST ${r}/labels`]: (call) => putLabel(call, 201),
  [`GET ${r}/labels/{name}`]: ({ repo, params }) => {
    const found = repo.labels.get(params['name'] ?? '');
    if (found === undefined) throw notFound();
    return { body: found };
  },
  [`PATCH ${r}/labels/{name}`]: (call) => putLabel(call, 200),
  [`DELETE ${r}/labels/{name}`]: ({ repo, params }) => {
    if (!repo.labels.delete(params['name'] ?? '')) throw notFound();
    return { status: 204 };
  },
};
