// The parts of a code host's deliveries in the neutral words: repository, sender, pull request, issue, comment, checks.

import { idAt, listAt, objectAt, presentOf, presentOrUndefined, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { OutcomeUnknown } from '../../../domain/outside.ts';
import { withoutEnd } from '../../../domain/text.ts';

export function repositoryOf(value: Json | undefined): JsonObject {
  const repository = objectAt(value);
  const fullName = textAt(repository['full_name']) ?? '';
  const owner = objectAt(repository['owner']);
  return presentOf({
    id: repository['id'],
    fullName,
    owner: textAt(owner['login']) ?? textAt(owner['name']) ?? fullName.split('/')[0],
    name: repository['name'] ?? fullName.split('/').at(-1),
    private: repository['private'],
    defaultBranch: repository['default_branch'] ?? repository['master_branch'],
    htmlUrl: repository['html_url'],
  });
}

export function senderOf(value: Json | undefined): JsonObject {
  const sender = objectAt(value);
  return presentOf({ id: sender['id'], login: sender['login'], type: sender['type'] });
}

/** Of a bot's login, the name that people call it by. */
export const bareLogin = (login: string): string => login.toLowerCase().replace(/\[bot\]$/, '');

/**
 * Whether `login` is the bot that a connection names, in any case. `name` and `name[bot]` are two accounts, and anybody may
 * own the first: only a connection that leaves `[bot]` out means either.
 */
export function isBotLogin(login: string, botLogin: string): boolean {
  const named = botLogin.toLowerCase();
  return named.endsWith('[bot]') ? login.toLowerCase() === named : bareLogin(login) === named;
}

export const loginOf = (value: Json | undefined): string | undefined => textAt(objectAt(value)['login']);
const namesOf = (value: Json | undefined): string[] =>
  listAt(value).flatMap((label) => textAt(objectAt(label)['name']) ?? []);
/** What `changes` says a field was before; null is a value. */
const before = (changes: JsonObject, field: string): Json | undefined => objectAt(changes[field])['from'];

/** `$.x.state` is compared with `$.x.previous.state`: what each action says of the state before it. */
function previousState(action: string, value: JsonObject): { readonly [key: string]: Json | undefined } {
  if (action === 'closed') return { state: 'open', ...(value['merged'] === true && { merged: false }) };
  if (action === 'reopened') return { state: 'closed' };
  if (action === 'ready_for_review') return { draft: true };
  if (action === 'converted_to_draft') return { draft: false };
  return {};
}

/** A pull request; as an issue tells of it (`isIssue`), its branches are unknown. */
export function pullRequestOf(value: JsonObject, body: JsonObject, isIssue = false): JsonObject {
  const changes = objectAt(body['changes']);
  const action = textAt(body['action']) ?? '';
  const head = objectAt(value['head']);
  const base = objectAt(value['base']);
  const baseBefore = objectAt(changes['base']);
  const isMain = body['pull_request'] !== undefined && body['review'] === undefined && body['comment'] === undefined;
  return presentOf({
    number: value['number'],
    title: value['title'],
    body: value['body'],
    state: value['state'],
    draft: value['draft'],
    merged: isIssue
      ? undefined
      : (value['merged'] ?? (value['merged_at'] === undefined ? undefined : value['merged_at'] !== null)),
    mergeable: value['mergeable'],
    htmlUrl: value['html_url'],
    author: loginOf(value['user']),
    labelNames: namesOf(value['labels']),
    head: isIssue
      ? undefined
      : presentOf({
          ref: head['ref'],
          sha: head['sha'],
          repositoryFullName: objectAt(head['repo'])['full_name'],
          previous: action === 'synchronize' ? presentOrUndefined({ sha: textAt(body['before']) }) : undefined,
        }),
    base: isIssue
      ? undefined
      : presentOf({
          ref: base['ref'],
          sha: base['sha'],
          previous: presentOrUndefined({ ref: before(baseBefore, 'ref'), sha: before(baseBefore, 'sha') }),
        }),
    previous: isMain
      ? presentOrUndefined({
          title: before(changes, 'title'),
          body: before(changes, 'body'),
          ...previousState(action, value),
        })
      : undefined,
  });
}

export function issueOf(value: JsonObject, body: JsonObject): JsonObject {
  const changes = objectAt(body['changes']);
  const isMain = body['comment'] === undefined;
  return presentOf({
    number: value['number'],
    title: value['title'],
    body: value['body'],
    state: value['state'],
    htmlUrl: value['html_url'],
    author: loginOf(value['user']),
    labelNames: namesOf(value['labels']),
    assigneeLogins: listAt(value['assignees']).flatMap((user) => loginOf(user) ?? []),
    previous: isMain
      ? presentOrUndefined({
          title: before(changes, 'title'),
          body: before(changes, 'body'),
          ...previousState(textAt(body['action']) ?? '', value),
        })
      : undefined,
  });
}

// A video is attached as its bare address, which may stand within a sentence. Links follow each other without a space, so
// that each is looked at no further than an address goes: anybody may write a comment, and to its end from each of them is
// quadratic.
const linkShape =
  /\[([^\]\n]{0,300})\]\((https?:\/\/[^\s)]{1,1992})\)|<(?:img|video)[^>]{0,500}?\ssrc="(https?:\/\/[^"\s]+)"|(?<=(?:^|\s)[(*_~]{0,2})(https?:\/\/[^\s<>()]+)/g;
const attachmentShape = /\/user-attachments\/(assets|files)\/|^https:\/\/(private-)?user-images\.|\/files\/\d+\//;
/** Of a bare address, what the host links: the signs behind it are the sentence's. */
export const addressIn = (bare: string): string => withoutEnd(bare, `?!.,:;*_~'"`);
const attachmentsMax = 50;
/** As long as the host lets a text be; what is behind it in a delivery is looked at by nobody. */
const textChars = 65_536;

/** Files that people attached to a text: they live at addresses of the host's own. */
function attachmentsOf(text: string): JsonObject[] {
  const found: JsonObject[] = [];
  for (const [, label, linked, image, bare] of text.slice(0, textChars).matchAll(linkShape)) {
    const url = linked ?? image ?? addressIn(bare ?? '');
    if (!attachmentShape.test(url) || found.length === attachmentsMax) continue;
    found.push({ name: label || (url.split('/').at(-1) ?? ''), url });
  }
  return found;
}

export function commentOf(value: JsonObject, body: JsonObject): JsonObject {
  const previous = before(objectAt(body['changes']), 'body');
  return presentOf({
    id: value['id'],
    body: value['body'],
    htmlUrl: value['html_url'],
    author: loginOf(value['user']),
    attachments: attachmentsOf(textAt(value['body']) ?? ''),
    previous: presentOrUndefined({ body: previous }),
  });
}

/** Most reviews have no file: `attachments` is there only where one has. */
export function reviewOf(value: JsonObject): JsonObject {
  const attachments = attachmentsOf(textAt(value['body']) ?? '');
  return presentOf({
    id: value['id'],
    state: textAt(value['state'])?.toLowerCase(),
    body: value['body'],
    htmlUrl: value['html_url'],
    author: loginOf(value['user']),
    attachments: attachments.length > 0 ? attachments : undefined,
  });
}

export function reviewCommentOf(value: JsonObject, body: JsonObject): JsonObject {
  return presentOf({
    ...commentOf(value, body),
    path: value['path'],
    line: value['line'] ?? value['original_line'],
    inReplyToId: value['in_reply_to_id'],
  });
}

/**
 * The pull requests of this repository that a check belongs to. The host tells every one that has its commit, those of
 * other repositories too: their numbers are others' here.
 */
function pullsOfCheck(run: JsonObject, body: JsonObject): JsonObject[] {
  const here = idAt(objectAt(body['repository'])['id']);
  return listAt(run['pull_requests'])
    .map(objectAt)
    .filter((pull) => (idAt(objectAt(objectAt(pull['base'])['repo'])['id']) ?? here) === here);
}

/** The pull request that a check's event has as its target, as far as the host tells of it there: where it stands. */
export function pullRequestOfCheck(run: JsonObject, body: JsonObject): JsonObject | undefined {
  const pull = pullsOfCheck(run, body).find(({ number }) => typeof number === 'number');
  if (pull === undefined) return undefined;
  const side = (name: string): JsonObject | undefined => {
    const { ref, sha } = objectAt(pull[name]);
    return presentOrUndefined({ ref, sha });
  };
  return presentOf({ number: pull['number'], head: side('head'), base: side('base') });
}

/** `headIsCurrent` is absent where the check belongs to no pull request. */
export function checkRunOf(value: JsonObject, body: JsonObject): JsonObject {
  const pulls = pullsOfCheck(value, body);
  const sha = value['head_sha'];
  return presentOf({
    id: value['id'],
    name: value['name'],
    status: value['status'],
    conclusion: value['conclusion'],
    headSha: sha,
    headIsCurrent: pulls.length === 0 ? undefined : pulls.some((pull) => objectAt(pull['head'])['sha'] === sha),
    htmlUrl: value['html_url'],
    pullRequestNumbers: pulls.flatMap((pull) => (typeof pull['number'] === 'number' ? [pull['number']] : [])),
    requestedAction: presentOrUndefined({ identifier: idAt(objectAt(body['requested_action'])['identifier']) }),
  });
}

export function workflowRunOf(value: JsonObject): JsonObject {
  return presentOf({
    id: value['id'],
    name: value['name'],
    status: value['status'],
    conclusion: value['conclusion'],
    headSha: value['head_sha'],
    headBranch: value['head_branch'],
    htmlUrl: value['html_url'],
  });
}

/** Of what was made: its id, and where people see it. */
export const idAndUrl = (json: JsonObject): JsonObject => ({ id: json['id'] ?? null, url: json['html_url'] ?? null });

/** The answer to what made or changed something. Throws OutcomeUnknown where it names nothing: then it is looked for. */
export function named(json: JsonObject): JsonObject {
  if (idAt(json['id']) === undefined) throw new OutcomeUnknown('an answer that names nothing');
  return json;
}
