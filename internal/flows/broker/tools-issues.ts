// Tools about issues and comments.

import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import type { Want } from './confine.ts';
import type { CodehostCall } from './codehost-call.ts';
import { listed, only, shown } from './shape.ts';
import {
  body,
  type BrokerTool,
  digest,
  digestOf,
  given,
  invalidInput,
  maybe,
  needs,
  number,
  numberAndUrl,
  paging,
  sentSince,
  text,
} from './tool.ts';
import { idAndUrl, named } from '../../adapters/providers/codehost/codehost.ts';

const talkRead = (): readonly Want[] => ['talk:read'];
const talkWrite = (): readonly Want[] => ['talk:write'];
const issuesRead = (): readonly Want[] => ['issues:read'];
const issuesWrite = (): readonly Want[] => ['issues:write'];

/** A list of the provider as ours, with its next page. */
export async function page(
  codehost: CodehostCall,
  path: string,
  input: JsonObject,
  more: JsonObject = {},
  at?: string,
): Promise<Json> {
  const query = { ...paging(input), ...(more as { [name: string]: string }) };
  const { json, nextPage } = await codehost.read({ path, query });
  const rows = at === undefined ? listAt(json) : listAt(objectAt(json)[at]);
  const total = objectAt(json)['total_count'];
  const items = rows.map((one) => only(shown(one), input['fields']));
  return listed(items, nextPage, total === undefined ? {} : { totalCount: total });
}

function reaction(codehost: CodehostCall, path: string, content: string): Promise<Json> {
  // A repeat is harmless: the provider keeps one of a kind.
  const probe = { kind: 'reaction', path, content };
  return codehost.write(
    { method: 'POST', path, body: { content } },
    { probe, shape: (json) => ({ id: named(json)['id'] ?? null, reaction: content }) },
  );
}

const addIssueComment: BrokerTool = {
  about: 'Comment on an issue or pull request, or react to it or to one of its comments.',
  effect: 'adds',
  write: true,
  wants: (input) => (maybe(input, 'reaction') === undefined ? talkWrite() : issuesWrite()),
  check(input) {
    if ((maybe(input, 'body') === undefined) === (maybe(input, 'reaction') === undefined)) {
      throw invalidInput('give exactly one of body and reaction');
    }
  },
  run: async (codehost, { input }) => {
    const issue = number(input, 'issue_number');
    const content = maybe(input, 'reaction');
    if (content !== undefined) {
      const of = input['comment_id'] === undefined ? `${issue}` : `comments/${number(input, 'comment_id')}`;
      return reaction(codehost, `/issues/${of}/reactions`, content);
    }
    const path = `/issues/${issue}/comments`;
    const probe = { kind: 'marked', path, since: sentSince(codehost) };
    return codehost.write(
      { method: 'POST', path, body: { body: body(codehost, text(input, 'body')) } },
      { probe, shape: (json) => idAndUrl(named(json)) },
    );
  },
};

const updateIssueComment: BrokerTool = {
  about: 'Change a comment that this agent wrote.',
  effect: 'takes',
  write: true,
  wants: talkWrite,
  run: async (codehost, { input }) => {
    const path = `/issues/comments/${number(input, 'comment_id')}`;
    const there = objectAt(await codehost.json(path));
    const { session, connection } = codehost.options;
    const user = objectAt(there['user']);
    const bot = textAt(connection.config['botLogin']);
    const bare = (login: string): string => login.replace(/\[bot\]$/, '').toLowerCase();
    const isBot = user['type'] === 'Bot' && (bot === undefined || bare(textAt(user['login']) ?? '') === bare(bot));
    const said = textAt(there['body']) ?? '';
    const isOwn = new RegExp(
      `<!-- svc:v=1 session=[0-9a-f-]{36} agent=${RegExp.escape(session?.agent ?? '')} -->`,
    ).test(said);
    if (!isBot || !isOwn) throw outsideFault('refused', 'comment_id: only comments of this agent may be changed');
    const wanted = body(codehost, text(input, 'body'));
    const probe = { kind: 'fields', path, wanted: { body: digest(wanted) }, answer: 'id' };
    return codehost.write(
      { method: 'PATCH', path, body: { body: wanted } },
      { probe, shape: (json) => idAndUrl(named(json)) },
    );
  },
};

const reads: { readonly [method: string]: string } = {
  get_comments: '/comments',
  get_sub_issues: '/sub_issues',
  get_labels: '/labels',
};
const issueRead: BrokerTool = {
  about: 'Read an issue, its comments, labels, parent or sub-issues.',
  effect: 'none',
  write: false,
  wants: talkRead,
  run: async (codehost, { input }) => {
    const base = `/issues/${number(input, 'issue_number')}`;
    const list = reads[text(input, 'method')];
    if (list !== undefined) return page(codehost, `${base}${list}`, input);
    return shown(await codehost.json(text(input, 'method') === 'get_parent' ? `${base}/parent` : base));
  },
};

const issueFields = ['title', 'labels', 'assignees', 'milestone', 'type', 'state', 'state_reason'] as const;

/** Changes fields of an issue: a set, so that looking again compares them. */
export function patchIssue(codehost: CodehostCall, issue: number, fields: JsonObject): Promise<Json> {
  const path = `/issues/${issue}`;
  const wanted = Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, digestOf(key, value)]));
  return codehost.write(
    { method: 'PATCH', path, body: fields },
    { probe: { kind: 'fields', path, wanted, answer: 'number' }, shape: (json) => numberAndUrl(named(json)) },
  );
}

const issueWrite: BrokerTool = {
  about: 'Create an issue, or change one: title, body, state, labels, assignees, milestone, type.',
  effect: 'takes',
  write: true,
  wants: issuesWrite,
  check(input) {
    if (text(input, 'method') === 'create') needs(input, 'title');
    else needs(input, 'issue_number');
    if (input['issue_fields'] !== undefined || input['duplicate_of'] !== undefined) {
      throw outsideFault(
        'not-available',
        'issue fields and duplicates need a permission that no mount has; nothing was done',
      );
    }
  },
  run: async (codehost, { input }) => {
    const fields = given(input, ...issueFields);
    const said = maybe(input, 'body');
    if (text(input, 'method') !== 'create') {
      return patchIssue(codehost, number(input, 'issue_number'), {
        ...fields,
        ...(said !== undefined && { body: body(codehost, said) }),
      });
    }
    const { state: _, state_reason: __, ...made } = fields;
    return createIssue(codehost, made, said ?? '');
  },
};

function createIssue(codehost: CodehostCall, fields: JsonObject, said: string): Promise<Json> {
  return codehost.write(
    { method: 'POST', path: '/issues', body: { ...fields, body: body(codehost, said) } },
    {
      probe: { kind: 'marked', path: '/issues', since: sentSince(codehost), answer: 'number' },
      shape: (json) => numberAndUrl(named(json)),
    },
  );
}

const listIssuesQuery = `query($owner: String!, $name: String!, $first: Int!, $after: String, $states: [IssueState!],
  $labels: [String!], $filterBy: IssueFilters, $orderBy: IssueOrder) {
  repository(owner: $owner, name: $name) {
    issues(first: $first, after: $after, states: $states, labels: $labels, filterBy: $filterBy, orderBy: $orderBy) {
      totalCount pageInfo { hasNextPage endCursor }
      nodes { number title body state url databaseId createdAt updatedAt author { login } labels(first: 50) { nodes { name } }
        assignees(first: 20) { nodes { login } } comments { totalCount } } } } }`;

const listIssues: BrokerTool = {
  about: 'List the issues of a repository.',
  effect: 'none',
  write: false,
  wants: issuesRead,
  check(input) {
    if (input['field_filters'] !== undefined) {
      throw outsideFault('not-available', 'issue fields need a permission that no mount has; nothing was done');
    }
  },
  run: async (codehost, { input }) => {
    const [owner = '', name = ''] = codehost.options.repository.split('/');
    const data = await codehost.query(listIssuesQuery, {
      owner,
      name,
      first: Math.min(100, Number(input['perPage'] ?? 30)),
      after: maybe(input, 'after') ?? null,
      states: input['state'] === undefined ? ['OPEN', 'CLOSED'] : [text(input, 'state')],
      ...given(input, 'labels'),
      ...(input['since'] !== undefined && { filterBy: { since: text(input, 'since') } }),
      orderBy: { field: maybe(input, 'orderBy') ?? 'CREATED_AT', direction: maybe(input, 'direction') ?? 'DESC' },
    });
    const issues = objectAt(objectAt(data['repository'])['issues']);
    const items = listAt(issues['nodes']).map((one) => only(showNode(objectAt(one)), input['fields']));
    const info = objectAt(issues['pageInfo']);
    const next = info['hasNextPage'] === true ? info['endCursor'] : undefined;
    return listed(items, next, { totalCount: issues['totalCount'] });
  },
};

const names = (value: Json | undefined, key: string): Json =>
  listAt(objectAt(value)['nodes']).map((one) => objectAt(one)[key] ?? null);
const showNode = (one: JsonObject): JsonObject => ({
  number: one['number'],
  title: one['title'],
  body: one['body'],
  state: one['state'],
  url: one['url'],
  user: objectAt(one['author'])['login'] ?? null,
  labels: names(one['labels'], 'name'),
  assignees: names(one['assignees'], 'login'),
  comments: objectAt(one['comments'])['totalCount'] ?? 0,
  created_at: one['createdAt'],
  updated_at: one['updatedAt'],
});

/** A tool that sets one field of an issue. */
const setter = (about: string, fields: (input: JsonObject, codehost: CodehostCall) => JsonObject): BrokerTool => ({
  about,
  effect: 'takes',
  write: true,
  wants: issuesWrite,
  run: (codehost, { input }) => patchIssue(codehost, number(input, 'issue_number'), fields(input, codehost)),
});
const plainNames = (value: Json | undefined, key: string): Json =>
  listAt(value).map((one) => (typeof one === 'string' ? one : (objectAt(one)[key] ?? '')));

const subIssue = (codehost: CodehostCall, input: JsonObject, method: string): Promise<Json> => {
  const base = `/issues/${number(input, 'issue_number')}`;
  const id = number(input, 'sub_issue_id');
  const probe = { kind: 'subIssue', path: `${base}/sub_issues`, id, isThere: method !== 'remove' };
  if (method === 'remove') {
    return codehost.write(
      { method: 'DELETE', path: `${base}/sub_issue`, body: { sub_issue_id: id } },
      { probe, shape: numberAndUrl },
    );
  }
  if (method === 'add') {
    const sent = { sub_issue_id: id, ...given(input, 'replace_parent') };
    return codehost.write({ method: 'POST', path: `${base}/sub_issues`, body: sent }, { probe, shape: numberAndUrl });
  }
  const sent = { sub_issue_id: id, ...given(input, 'after_id', 'before_id') };
  return codehost.write(
    { method: 'PATCH', path: `${base}/sub_issues/priority`, body: sent },
    { probe, shape: numberAndUrl },
  );
};
const subTool = (about: string, method: string | undefined): BrokerTool => ({
  about,
  effect: method === 'add' ? 'adds' : 'takes',
  write: true,
  wants: issuesWrite,
  check(input) {
    if (!['add', 'remove', 'reprioritize'].includes(method ?? text(input, 'method'))) {
      throw invalidInput('method: expected one of add, remove, reprioritize');
    }
  },
  run: (codehost, { input }) => subIssue(codehost, input, method ?? text(input, 'method')),
});

const labelWrite: BrokerTool = {
  about: 'Create, change or delete a label of a repository.',
  effect: 'takes',
  write: true,
  wants: issuesWrite,
  run: async (codehost, { input }) => {
    const name = text(input, 'name');
    const path = `/labels/${encodeURIComponent(name)}`;
    const fields = given(input, 'color', 'description', 'new_name');
    const after = maybe(input, 'new_name') ?? name;
    const probe = (isThere: boolean) => ({
      kind: 'exists',
      path: `/labels/${encodeURIComponent(isThere ? after : name)}`,
      isThere,
      answer: 'label',
    });
    const shape = (): Json => ({ name: after });
    if (text(input, 'method') === 'delete')
      return codehost.write({ method: 'DELETE', path }, { probe: probe(false), shape });
    if (text(input, 'method') === 'update')
      return codehost.write({ method: 'PATCH', path, body: fields }, { probe: probe(true), shape });
    const { new_name: _, ...made } = fields;
    return codehost.write({ method: 'POST', path: '/labels', body: { name, ...made } }, { probe: probe(true), shape });
  },
};

const react = (about: string, path: (input: JsonObject) => string, wants: () => readonly Want[]): BrokerTool => ({
  about,
  effect: 'adds',
  write: true,
  wants,
  run: (codehost, { input }) => reaction(codehost, path(input), text(input, 'content')),
});

const dependencies: { readonly [method: string]: string } = { get_blocked_by: 'blocked_by', get_blocking: 'blocking' };

export const issueTools: { readonly [name: string]: BrokerTool } = {
  add_issue_comment: addIssueComment,
  update_issue_comment: updateIssueComment,
  issue_read: issueRead,
  issue_write: issueWrite,
  list_issues: listIssues,
  create_issue: {
    ...issueWrite,
    about: 'Create an issue.',
    effect: 'adds',
    check: () => undefined,
    run: (codehost, { input }) => createIssue(codehost, given(input, 'title'), text(input, 'body')),
  },
  update_issue_title: setter('Change the title of an issue.', (input) => given(input, 'title')),
  update_issue_body: setter('Change the body of an issue.', (input, codehost) => ({
    body: body(codehost, text(input, 'body')),
  })),
  update_issue_assignees: setter('Set the assignees of an issue.', (input) => ({
    assignees: plainNames(input['assignees'], 'login'),
  })),
  update_issue_labels: setter('Set the labels of an issue.', (input) => ({
    labels: plainNames(input['labels'], 'name'),
  })),
  update_issue_milestone: setter('Set the milestone of an issue.', (input) => given(input, 'milestone')),
  update_issue_type: setter('Set the type of an issue.', (input) => ({
    type: typeof input['issue_type'] === 'object' ? null : text(input, 'issue_type'),
  })),
  update_issue_state: setter('Open or close an issue.', (input) => given(input, 'state', 'state_reason')),
  add_sub_issue: subTool('Add a sub-issue to an issue.', 'add'),
  remove_sub_issue: subTool('Remove a sub-issue from an issue.', 'remove'),
  reprioritize_sub_issue: subTool('Change the order of sub-issues.', 'reprioritize'),
  sub_issue_write: subTool('Add, remove or reorder sub-issues.', undefined),
  label_write: labelWrite,
  get_label: {
    about: 'Read a label of a repository.',
    effect: 'none',
    write: false,
    wants: issuesRead,
    run: async (codehost, { input }) =>
      shown(await codehost.json(`/labels/${encodeURIComponent(text(input, 'name'))}`)),
  },
  list_label: {
    about: 'List the labels of a repository.',
    effect: 'none',
    write: false,
    wants: issuesRead,
    run: (codehost, { input }) => page(codehost, '/labels', input),
  },
  add_issue_reaction: react(
    'React to an issue.',
    (input) => `/issues/${number(input, 'issue_number')}/reactions`,
    issuesWrite,
  ),
  add_issue_comment_reaction: react(
    'React to a comment on an issue.',
    (input) => `/issues/comments/${number(input, 'comment_id')}/reactions`,
    issuesWrite,
  ),
  add_pull_request_review_comment_reaction: react(
    'React to a review comment.',
    (input) => `/pulls/comments/${number(input, 'comment_id')}/reactions`,
    () => ['pullRequests:write'],
  ),
  issue_dependency_read: {
    about: 'List what an issue is blocked by, or blocks.',
    effect: 'none',
    write: false,
    wants: issuesRead,
    run: (codehost, { input }) => {
      const which = dependencies[text(input, 'method')] ?? 'blocked_by';
      return page(codehost, `/issues/${number(input, 'issue_number')}/dependencies/${which}`, input);
    },
  },
};
