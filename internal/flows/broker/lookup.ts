// Looks whether a step of a write arrived at the code host, by what was planted or aimed at: a mark in a body, a head and
// base, a commit, the digests of fields. Reads once, with the permissions of the call itself.

import { connectionById } from '../../adapters/store/secrets/credentials.ts';
import { idAt, listAt, objectAt, textAt } from '../../domain/fields.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import type { Permissions } from '../installation-token.ts';
import type { Found, SoughtStep } from '../ports.ts';
import { CodehostCall } from './codehost-call.ts';
import { areAmong, digest, digestOf, idNumberUrl, number, numberAndUrl, text } from './tool.ts';
import { tieWritten } from './ties.ts';
import { headOf, pullAt } from './tools-pulls.ts';
import { idAndUrl } from '../../adapters/providers/codehost/codehost.ts';

const none: Found = { found: false };
const found = (answer: Json): Found => {
  const url = textAt(objectAt(answer)['url']);
  return { found: true, answer, ...(url !== undefined && { url }) };
};
const isThat = (is: boolean, answer: Json): Found => (is ? found(answer) : none);

/** The reader of `codehost` in the outbox. */
export async function findCodehostStep(ctx: FlowContext, step: SoughtStep): Promise<Found> {
  const connection = step.connectionId === null ? undefined : await connectionById(ctx.db, step.connectionId);
  if (connection === undefined) return none;
  const { probe } = step;
  const codehost = new CodehostCall({
    ctx,
    project: { id: connection.projectId, orgId: connection.orgId },
    connection,
    installationId: textAt(probe['installationId']),
    repository: text(probe, 'repository'),
    permissions: (probe['permissions'] ?? {}) as Permissions,
    session: null,
  });
  const result = (await looks[text(probe, 'kind')]?.(codehost, probe, step)) ?? none;
  const { projectId, sessionId, tool } = step;
  // The daemon that sent it may have died before it noted whose it is.
  if (result.found && sessionId !== null) {
    const isChange = probe['kind'] === 'fields';
    await tieWritten(ctx, { projectId, sessionId, tool, isChange, url: result.url });
  }
  return result;
}

type Look = (codehost: CodehostCall, probe: JsonObject, step: SoughtStep) => Promise<Found>;

/** Undefined where it is not there. */
async function maybeJson(
  codehost: CodehostCall,
  path: string,
  query?: { readonly [name: string]: string },
): Promise<JsonObject | undefined> {
  try {
    return objectAt(await codehost.json(path, query));
  } catch (error) {
    if (error instanceof Fault && error.code === 'not-found') return undefined;
    throw error;
  }
}

const hasMark = (row: JsonObject, { id }: SoughtStep): boolean =>
  (textAt(row['body']) ?? '').includes(`<!-- svc:call=${id} -->`);

/** A comment or an issue with our mark: the newest pages, from a minute before it was sent. */
const marked: Look = async (codehost, probe, step) => {
  const path = text(probe, 'path');
  const isIssue = probe['answer'] === 'number';
  const query = {
    since: text(probe, 'since'),
    per_page: 100,
    ...(isIssue && { state: 'all', sort: 'created', direction: 'desc' }),
  };
  for (let page = 1; page <= 10; page += 1) {
    const { json, nextPage } = await codehost.read({ path, query: { ...query, page } });
    const row = listAt(json)
      .map(objectAt)
      .find((one) => hasMark(one, step));
    if (row !== undefined) return found(isIssue ? numberAndUrl(row) : idAndUrl(row));
    if (nextPage === undefined) break;
  }
  return none;
};

/** A value by a path of keys. */
const valueAt = (row: JsonObject, path: string): Json | undefined =>
  path.split('.').reduce<Json | undefined>((value, key) => objectAt(value)[key], row);

/** What the provider says of a field, in the form in which it was set. */
function comparable(row: JsonObject, key: string): Json | undefined {
  const value = valueAt(row, key);
  if (key === 'labels') return listAt(value).map((one) => textAt(one) ?? objectAt(one)['name'] ?? null);
  if (key === 'assignees') return listAt(value).map((one) => objectAt(one)['login'] ?? null);
  if (key === 'milestone') return value === null ? null : objectAt(value)['number'];
  if (key === 'type') return value === null ? null : objectAt(value)['name'];
  return value;
}

const fields: Look = async (codehost, probe) => {
  const row = await maybeJson(codehost, text(probe, 'path'));
  if (row === undefined) return none;
  const wanted = Object.entries(objectAt(probe['wanted']));
  const isSet = wanted.every(([key, hash]) => digestOf(key, comparable(row, key)) === hash);
  return isThat(isSet, probe['answer'] === 'number' ? numberAndUrl(row) : idAndUrl(row));
};

const review: Look = async (codehost, probe, step) => {
  const [owner = '', name = ''] = codehost.options.repository.split('/');
  const data = await codehost.query(
    `query($owner: String!, $name: String!, $number: Int!) { repository(owner: $owner, name: $name) {
      pullRequest(number: $number) { reviews(last: 50) { nodes { id url state body } } } } }`,
    { owner, name, number: number(probe, 'pull') },
  );
  const reviews = objectAt(objectAt(objectAt(data['repository'])['pullRequest'])['reviews']);
  // One that was begun and not submitted is none.
  const row = listAt(reviews['nodes'])
    .map(objectAt)
    .find((one) => one['state'] !== 'PENDING' && hasMark(one, step));
  return row === undefined ? none : found({ id: row['id'], url: row['url'], state: row['state'] });
};

const looks: { readonly [kind: string]: Look } = {
  marked,
  fields,
  review,
  async pull(codehost, probe, step) {
    const query = { head: text(probe, 'head'), base: text(probe, 'base'), state: 'all' };
    const row = listAt(await codehost.json('/pulls', query))
      .map(objectAt)
      .find((one) => hasMark(one, step));
    return row === undefined ? none : found(idNumberUrl(row));
  },
  async ref(codehost, { branch, sha }) {
    const at = String(branch).split('/').map(encodeURIComponent).join('/');
    const row = await maybeJson(codehost, `/git/ref/heads/${at}`);
    const isThere = row !== undefined && objectAt(row['object'])['sha'] === sha;
    return isThat(isThere, { ref: `refs/heads/${String(branch)}`, sha });
  },
  async push(codehost, probe) {
    for (const [name, wanted] of Object.entries(objectAt(probe['refs']))) {
      const at = name
        .replace(/^refs\//, '')
        .split('/')
        .map(encodeURIComponent)
        .join('/');
      const row = await maybeJson(codehost, `/git/ref/${at}`);
      const sha = row === undefined ? null : (objectAt(row['object'])['sha'] ?? null);
      if (sha !== wanted) return none;
    }
    return found({ pushed: true });
  },
  async file(codehost, probe) {
    const row = await maybeJson(codehost, `/contents/${text(probe, 'path')}`, { ref: text(probe, 'branch') });
    const sha = row?.['sha'] ?? null;
    return isThat(sha === (probe['blob'] ?? null), {
      path: row?.['path'] ?? null,
      sha,
      commit: null,
      url: row?.['html_url'] ?? null,
    });
  },
  async merged(codehost, probe) {
    const pull = await pullAt(codehost, number(probe, 'pull'));
    return isThat(pull['merged'] === true, { merged: true, sha: pull['merge_commit_sha'] ?? null });
  },
  async autoMerge(codehost, probe) {
    const pull = await pullAt(codehost, number(probe, 'pull'));
    return isThat((pull['auto_merge'] !== null) === probe['isOn'], { autoMerge: probe['isOn'] });
  },
  async branchUpdated(codehost, probe) {
    const head = headOf(await pullAt(codehost, number(probe, 'pull')));
    if (head === probe['expected']) return none;
    const commit = objectAt(await codehost.json(`/commits/${head}`));
    const parents = listAt(commit['parents']).map((one) => objectAt(one)['sha']);
    return isThat(parents.includes(probe['expected']), { accepted: true });
  },
  async reviewers(codehost, probe) {
    const row = objectAt(await codehost.json(`/pulls/${number(probe, 'pull')}/requested_reviewers`));
    const people = listAt(row['users']).map((one) => objectAt(one)['login'] ?? null);
    const teams = listAt(row['teams']).map((one) => objectAt(one)['slug'] ?? null);
    const isAsked = areAmong(listAt(probe['reviewers']), people) && areAmong(listAt(probe['teams']), teams);
    return isThat(isAsked, numberAndUrl(await pullAt(codehost, number(probe, 'pull'))));
  },
  async rerun(codehost, probe) {
    const run = objectAt(await codehost.json(`/actions/runs/${number(probe, 'run')}`));
    return isThat(Number(run['run_attempt'] ?? 0) > Number(probe['before'] ?? 0), { accepted: true });
  },
  async cancelled(codehost, probe) {
    const run = objectAt(await codehost.json(`/actions/runs/${number(probe, 'run')}`));
    return isThat(run['status'] === 'cancelled' || run['conclusion'] === 'cancelled', { accepted: true });
  },
  async secret(codehost, probe) {
    const row = await maybeJson(codehost, text(probe, 'path'));
    const at = textAt(row?.['updated_at']);
    const isNew = at !== undefined && Date.parse(at) >= Date.parse(text(probe, 'at'));
    return isThat(isNew, { name: text(probe, 'name'), created: row?.['created_at'] === row?.['updated_at'] });
  },
  async exists(codehost, probe) {
    const row = await maybeJson(codehost, text(probe, 'path'));
    const name = row?.['name'] ?? probe['name'] ?? decodeURIComponent(text(probe, 'path').split('/').at(-1) ?? '');
    const answers: { readonly [of: string]: Json } = {
      label: { name },
      secret: { name, deleted: true },
      accepted: { accepted: true },
    };
    return isThat((row !== undefined) === probe['isThere'], answers[text(probe, 'answer')] ?? null);
  },
  async thread(codehost, probe) {
    const query = 'query($id: ID!) { node(id: $id) { ... on PullRequestReviewThread { id isResolved } } }';
    const node = objectAt((await codehost.query(query, { id: text(probe, 'id') }))['node']);
    return isThat(node['isResolved'] === probe['isResolved'], { id: probe['id'], isResolved: probe['isResolved'] });
  },
  async subIssue(codehost, probe) {
    const rows = listAt(await codehost.json(text(probe, 'path'), { per_page: 100 })).map(objectAt);
    const isThere = rows.some((one) => idAt(one['id']) === String(probe['id']));
    const issue = objectAt(await codehost.json(text(probe, 'path').replace(/\/sub_issues$/, '')));
    return isThat(isThere === probe['isThere'], numberAndUrl(issue));
  },
  async checkRun(codehost, probe) {
    const query = { check_name: text(probe, 'name'), filter: 'all', per_page: 100 };
    const answer = objectAt(await codehost.json(`/commits/${text(probe, 'commit')}/check-runs`, query));
    const row = listAt(answer['check_runs'])
      .map(objectAt)
      .find((one) => one['external_id'] === probe['externalId']);
    return row === undefined ? none : found(idAndUrl(row));
  },
  // Annotations are added to those that are there, and a check that is concluded stays so.
  async checkChanged(codehost, probe) {
    const row = await maybeJson(codehost, `/check-runs/${text(probe, 'id')}`);
    if (row === undefined) return none;
    const count = Number(objectAt(row['output'])['annotations_count'] ?? 0);
    const isSo =
      count >= Number(probe['annotations']) &&
      (probe['conclusion'] ?? null) === (row['conclusion'] ?? null) &&
      (probe['status'] === undefined || probe['status'] === row['status']);
    return isThat(isSo, idAndUrl(row));
  },
  async status(codehost, probe) {
    const rows = listAt(await codehost.json(`/commits/${text(probe, 'commit')}/statuses`, { per_page: 100 })).map(
      objectAt,
    );
    const newest = rows.find((one) => textAt(one['context'])?.toLowerCase() === text(probe, 'context').toLowerCase());
    const isThere = newest?.['state'] === probe['state'] && digest(newest?.['description']) === probe['description'];
    return isThat(isThere, idAndUrl(newest ?? {}));
  },
  // A repeat is harmless: the provider keeps one of a kind, and whose it is stands in the list.
  async reaction(codehost, probe) {
    const rows = listAt(
      await codehost.json(text(probe, 'path'), { content: text(probe, 'content'), per_page: 100 }),
    ).map(objectAt);
    const own = rows.find((one) => objectAt(one['user'])['type'] === 'Bot');
    return own === undefined ? none : found({ id: own['id'] ?? null, reaction: probe['content'] });
  },
};
