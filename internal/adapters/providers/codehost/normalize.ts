// A code host's delivery as an event of the catalog (docs/reference/connections.md#intakes): its key, its payload, its routing target, and
// what of it is the service's own doing.

import type { Delivery, DeliveryTarget, NamedEvent } from '../../../domain/delivery.ts';
import { isKnownEvent, targetOf } from '../../../domain/events.ts';
import { idAt, mentionsAny, objectAt, presentOf, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import {
  bareLogin,
  checkRunOf,
  commentOf,
  isBotLogin,
  issueOf,
  pullRequestOf,
  pullRequestOfCheck,
  repositoryOf,
  reviewCommentOf,
  reviewOf,
  senderOf,
  workflowRunOf,
} from './parts.ts';
import { pullHintOf, type PullHint, type PushHint, pushHintOf, pushOf } from './push.ts';

/** Who the service is on this code host, and the names that its agents are called by. */
export interface Self {
  readonly appId?: string | undefined;
  readonly botLogin?: string | undefined;
  readonly usernames: readonly string[];
}

export type CodehostDelivery = Delivery<{ readonly push?: PushHint; readonly pull?: PullHint }>;

interface Reading {
  readonly key: string;
  /** The fields of `codehost` beside those that every event has. */
  readonly parts: { readonly [key: string]: Json | undefined };
  /** Number of the pull request or issue that it concerns. */
  readonly number?: Json | undefined;
  /** What was written, for mentions. */
  readonly text?: Json | undefined;
  /** The application by which it was done. */
  readonly app?: Json | undefined;
}

/** UTF-16 units; the host takes twenty. It becomes part of the event's key, which is in an index. */
const identifierMax = 200;

function readCheckRun(action: string, body: JsonObject): Reading | undefined {
  const run = objectAt(body['check_run']);
  const checkRun = checkRunOf(run, body);
  const identifier = idAt(objectAt(body['requested_action'])['identifier']);
  if (action === 'requested_action' && (identifier === undefined || identifier.length > identifierMax))
    return undefined;
  return {
    key: `codehost.check_run.${action}${action === 'requested_action' ? `.${identifier}` : ''}`,
    parts: { pullRequest: pullRequestOfCheck(run, body), checkRun },
    number: (checkRun['pullRequestNumbers'] as readonly Json[])[0],
    // Whoever presses a button caused the event, not the application that offers it.
    app: action === 'completed' ? run['app'] : undefined,
  };
}

const readers: { readonly [event: string]: (action: string, body: JsonObject) => Reading | undefined } = {
  pull_request(action, body) {
    const pull = objectAt(body['pull_request']);
    const parts = { pullRequest: pullRequestOf(pull, body), label: labelOf(body) };
    return { key: `codehost.pull_request.${action}`, parts, number: pull['number'], text: wordsOf(pull) };
  },
  issues(action, body) {
    const issue = objectAt(body['issue']);
    const parts = { issue: issueOf(issue, body), label: labelOf(body) };
    return { key: `codehost.issue.${action}`, parts, number: issue['number'], text: wordsOf(issue) };
  },
  issue_comment(action, body) {
    const issue = objectAt(body['issue']);
    const comment = objectAt(body['comment']);
    const isPull = issue['pull_request'] !== undefined && issue['pull_request'] !== null;
    return {
      key: isPull ? `codehost.issue_comment.${action}` : `codehost.issue.comment.${action}`,
      parts: {
        ...(isPull ? { pullRequest: pullRequestOf(issue, body, true) } : { issue: issueOf(issue, body) }),
        issueComment: commentOf(comment, body),
      },
      number: issue['number'],
      text: comment['body'],
      app: comment['performed_via_github_app'],
    };
  },
  pull_request_review(action, body) {
    const pull = objectAt(body['pull_request']);
    const review = objectAt(body['review']);
    return {
      key: `codehost.review.${action}`,
      parts: { pullRequest: pullRequestOf(pull, body), review: reviewOf(review) },
      number: pull['number'],
      text: review['body'],
    };
  },
  pull_request_review_comment(action, body) {
    const pull = objectAt(body['pull_request']);
    const comment = objectAt(body['comment']);
    return {
      key: `codehost.pull_request_review_comment.${action}`,
      parts: { pullRequest: pullRequestOf(pull, body), reviewComment: reviewCommentOf(comment, body) },
      number: pull['number'],
      text: comment['body'],
    };
  },
  check_run: readCheckRun,
  workflow_run: (action, body) => ({
    key: `codehost.workflow_run.${action}`,
    parts: { workflowRun: workflowRunOf(objectAt(body['workflow_run'])) },
  }),
  commit_comment(action, body) {
    const comment = objectAt(body['comment']);
    const commitComment = presentOf({
      ...commentOf(comment, body),
      commitId: comment['commit_id'],
      path: comment['path'],
      line: comment['line'],
    });
    return { key: `codehost.commit_comment.${action}`, parts: { commitComment }, text: comment['body'] };
  },
  push: (_action, body) => {
    const push = pushOf(body);
    return push && { key: 'codehost.push', parts: { push } };
  },
};

const labelOf = (body: JsonObject): JsonObject | undefined => {
  const name = textAt(objectAt(body['label'])['name']);
  return name === undefined ? undefined : { name };
};
const wordsOf = (value: JsonObject): string => `${textAt(value['title']) ?? ''}\n${textAt(value['body']) ?? ''}`;

/** The event a delivery carries. `event` and `deliveryId` are the delivery's headers, `body` its parsed JSON. */
export function normalize(event: string, deliveryId: string, body: JsonObject, self: Self): CodehostDelivery {
  const action = textAt(body['action']) ?? '';
  const label = `${event}${action === '' ? '' : `.${action}`}`.slice(0, 100);
  const read = Object.hasOwn(readers, event) ? readers[event] : undefined;
  if (read === undefined) return { kind: 'ignored', reason: `the event ${label} is not in the catalog` };
  const repository = repositoryOf(body['repository']);
  const fullName = textAt(repository['fullName']) ?? '';
  const reading = read(action, body);
  if (reading === undefined || fullName === '') {
    return { kind: 'malformed', reason: `the body is not that of the event ${label}` };
  }
  if (!isKnownEvent(reading.key)) return { kind: 'ignored', reason: `the event ${label} is not in the catalog` };
  const sender = senderOf(body['sender']);
  const authored = isOwn(action, sender, reading.app, self);
  const payload: JsonObject = {
    codehost: presentOf({
      event,
      action: action === '' ? undefined : action,
      deliveryId,
      installationId: objectAt(body['installation'])['id'],
      repository,
      sender,
      ...reading.parts,
      svc: {
        authored,
        externalBot: sender['type'] === 'Bot' && !authored,
        mentioned: mentionsAny(textAt(reading.text) ?? '', namesOf(self)),
        ...previouslyNamed(reading, body, self),
      },
    }),
    svc: { authored },
    raw: body,
  };
  const named = { key: reading.key, payload, ...targetIn(reading, fullName) };
  if (event === 'push') {
    const push = pushHintOf(body, fullName, textAt(repository['defaultBranch']));
    return { kind: 'event', event: named, ...(push !== undefined && { push }) };
  }
  if (event !== 'pull_request') return { kind: 'event', event: named };
  const pull = pullHintOf(body, fullName, textAt(repository['defaultBranch']));
  return { ...withMergeability(named), ...(pull !== undefined && { pull }) };
}

/** `$.codehost.svc.mentioned` is compared with what the text said before it was edited. */
function previouslyNamed(reading: Reading, body: JsonObject, self: Self): JsonObject {
  const changes = objectAt(body['changes']);
  const [title, text] = [objectAt(changes['title'])['from'], objectAt(changes['body'])['from']];
  if (reading.text === undefined || (title === undefined && text === undefined)) return {};
  const parts = Object.values(reading.parts).map(objectAt);
  const now = (field: string): Json | undefined => parts.find((part) => part['previous'] !== undefined)?.[field];
  const before = `${textAt(title ?? now('title')) ?? ''}\n${textAt(text === undefined ? now('body') : text) ?? ''}`;
  return { previous: { mentioned: mentionsAny(before, namesOf(self)) } };
}

function isOwn(action: string, sender: JsonObject, app: Json | undefined, self: Self): boolean {
  const login = textAt(sender['login']);
  if (login !== undefined && self.botLogin !== undefined && isBotLogin(login, self.botLogin)) return true;
  if (self.appId === undefined || idAt(objectAt(app)['id']) !== self.appId) return false;
  // An edited comment still names the application that wrote it; whoever edits it is the sender.
  return action !== 'edited' || (self.botLogin === undefined && sender['type'] === 'Bot');
}

/** The names by which a comment speaks to the service, in lower case; undefined where its bot is not known. */
export const mentionedAs = (self: Self): string[] | undefined =>
  self.botLogin === undefined ? undefined : namesOf(self).map((name) => name.toLowerCase());

const namesOf = (self: Self): string[] => [
  ...self.usernames,
  ...(self.botLogin === undefined ? [] : [bareLogin(self.botLogin)]),
];

function targetIn(reading: Reading, fullName: string): { readonly target?: DeliveryTarget } {
  const type = targetOf(reading.key);
  if (type === null || typeof reading.number !== 'number') return {};
  return { target: { type, key: `${fullName}#${reading.number}` } };
}

/** A pull request that could be merged, as far as was known, and now cannot. */
function withMergeability(event: NamedEvent): CodehostDelivery {
  const codehost = objectAt(event.payload['codehost']);
  const pull = objectAt(codehost['pullRequest']);
  const { mergeable } = pull;
  if (typeof mergeable !== 'boolean' || event.target === undefined) return { kind: 'event', event };
  const fact = { kind: 'mergeable', key: event.target.key.toLowerCase() } as const;
  const isClosed = codehost['action'] === 'closed' || pull['state'] === 'closed';
  return {
    kind: 'event',
    event,
    needs: [fact],
    // A conflict of a closed pull request is told to nobody; remembered, it would not be told once it is open again.
    learns: isClosed && !mergeable ? [] : [{ ...fact, value: String(mergeable) }],
    finish(known) {
      const last = known(fact);
      if (mergeable || last === 'false' || isClosed) return { event };
      const changed = {
        ...pull,
        previous: { ...objectAt(pull['previous']), mergeable: last === 'true' ? true : null },
      };
      const payload = {
        ...event.payload,
        codehost: { ...codehost, action: 'merge_conflict', pullRequest: changed },
      };
      return { event, derived: [{ ...event, key: 'codehost.pull_request.merge_conflict', payload }] };
    },
  };
}
