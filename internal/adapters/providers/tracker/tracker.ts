// The issue tracker's wire: proof of a webhook over its raw bytes within a minute of its own time stamp, and its events in
// the neutral vocabulary (docs/reference/connections.md#intakes, docs/reference/events.md#payloads). A label, state or person
// that a change gives by id alone is named by what earlier deliveries said. Never looks at a project, a trigger or a session.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { type Posted, postOnce } from '../../../base/net/post-once.ts';
import { idAt, listAt, mentionsAny, objectAt, presentOf, presentOrUndefined, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { OutcomeUnknown, outsideFault, ProviderLimited } from '../../../domain/outside.ts';
import type { Delivery, Fact, FactKey, KnownFact, NamedEvent } from '../../../domain/delivery.ts';
import { withoutEnd } from '../../../domain/text.ts';

const signatureShape = /^[0-9a-f]{64}$/i;
const windowMs = 60_000;

/** Who the service is in this workspace, and the names that its agents are called by. */
export interface Self {
  readonly botUserId?: string | undefined;
  readonly usernames: readonly string[];
}

/** True when `header` is the HMAC-SHA256 of the body; an empty secret verifies nothing. Constant time. */
export function verifySignature(rawBody: Uint8Array, header: string | undefined, secret: string): boolean {
  if (secret.length === 0 || header === undefined || !signatureShape.test(header)) return false;
  return timingSafeEqual(Buffer.from(header, 'hex'), createHmac('sha256', secret).update(rawBody).digest());
}

/** True when the body says that it was sent within a minute of `nowMs`; only the signed body counts, never a header. */
export function isTimely(body: JsonObject, nowMs: number): boolean {
  const sentMs = body['webhookTimestamp'];
  return typeof sentMs === 'number' && Math.abs(nowMs - sentMs) <= windowMs;
}

const actions: { readonly [action: string]: string } = { create: 'created', update: 'updated', remove: 'removed' };
const keysOf = (type: string | undefined, action: string): string | undefined => {
  if (type === 'Issue' && Object.hasOwn(actions, action)) return `tracker.issue.${actions[action]}`;
  return type === 'Comment' && action === 'create' ? 'tracker.comment.created' : undefined;
};

/** The event a delivery carries. */
export function normalize(body: JsonObject, self: Self): Delivery {
  const action = textAt(body['action']) ?? '';
  const type = textAt(body['type']);
  const key = keysOf(type, action);
  if (key === undefined) {
    return {
      kind: 'ignored',
      reason: `the event ${`${type ?? 'without a type'}.${action}`.slice(0, 100)} is not in the catalog`,
    };
  }
  const data = objectAt(body['data']);
  const isComment = type === 'Comment';
  const issueId = isComment ? (idAt(data['issueId']) ?? idAt(objectAt(data['issue'])['id'])) : idAt(data['id']);
  // A comment on a document or a project update concerns no issue.
  if (issueId === undefined) {
    return isComment
      ? { kind: 'ignored', reason: 'the comment is on no issue' }
      : { kind: 'malformed', reason: 'the issue has no id' };
  }
  const actor = actorOf(body, data);
  const isBot = self.botUserId !== undefined && idAt(actor['id']) === self.botUserId;
  const text = isComment
    ? textAt(data['body'])
    : `${textAt(data['title']) ?? ''}\n${textAt(data['description']) ?? ''}`;
  const make = (issue: JsonObject, updatedFrom: JsonObject | undefined, authored = isBot): NamedEvent => ({
    key,
    target: { type: 'tracker.issue', key: issueId },
    payload: {
      tracker: presentOf({
        action: key.slice(key.lastIndexOf('.') + 1),
        issue,
        comment: isComment ? commentOf(data, body) : undefined,
        updatedFrom,
        actor,
      }),
      svc: { authored, mentioned: mentionsAny(text ?? '', self.usernames) },
      raw: body,
    },
  });
  if (isComment) {
    const fact = ownComment(idAt(data['id']) ?? '');
    const commented = issueOf(objectAt(data['issue']), issueId);
    return {
      kind: 'event',
      event: make(commented, undefined),
      needs: isBot ? [] : [fact],
      finish: (known) => ({ event: make(commented, undefined, isBot || known(fact) !== undefined) }),
    };
  }
  const issue = issueOf({ ...data, url: data['url'] ?? body['url'] }, issueId);
  const from = objectAt(body['updatedFrom']);
  return {
    kind: 'event',
    event: make(issue, undefined),
    needs: needsOf(from),
    learns: learnsOf(data),
    finish(known) {
      const updatedFrom = presentOrUndefined(updatedFromOf(from, data, known));
      const previous = presentOrUndefined(previousOf(from, known));
      return { event: make(presentOf({ ...issue, previous }), updatedFrom) };
    },
  };
}

/** That the service itself made a comment: which id it gave to it is known before it is sent. */
export const ownComment = (id: string): Fact => ({ kind: 'comment', key: id, value: 'own' });

function actorOf(body: JsonObject, data: JsonObject): JsonObject {
  const actor = objectAt(body['actor']);
  const user = objectAt(data['user']);
  const id = idAt(actor['id']) ?? idAt(data['userId']) ?? idAt(user['id']);
  return presentOf({ id, name: textAt(actor['name']) ?? textAt(user['name']), type: textAt(actor['type']) });
}

function issueOf(data: JsonObject, id: string): JsonObject {
  const state = objectAt(data['state']);
  return presentOf({
    id,
    identifier: data['identifier'],
    title: data['title'],
    description: data['description'],
    url: data['url'],
    state: state['name'],
    stateType: state['type'],
    priority: data['priority'],
    labelNames: data['labels'] === undefined ? undefined : labelsOf(data).map((label) => label.name),
    assignee: data['assignee'] === null ? null : textAt(objectAt(data['assignee'])['name']),
    teamKey: objectAt(data['team'])['key'],
    projectName: objectAt(data['project'])['name'],
  });
}

/** Comments come without an address and often without their author: both stand beside them. */
function commentOf(data: JsonObject, body: JsonObject): JsonObject {
  const actor = objectAt(body['actor']);
  const isActor = data['userId'] === undefined || data['userId'] === actor['id'];
  return presentOf({
    id: data['id'],
    body: data['body'],
    url: data['url'] ?? body['url'],
    author: textAt(objectAt(data['user'])['name']) ?? (isActor ? textAt(actor['name']) : undefined),
    parentId: data['parentId'],
  });
}

function labelsOf(data: JsonObject): { readonly id: string; readonly name: string }[] {
  return listAt(data['labels'])
    .map(objectAt)
    .flatMap((label) => {
      const id = idAt(label['id']);
      const name = textAt(label['name']);
      return id === undefined || name === undefined ? [] : [{ id, name }];
    });
}

const oldLabels = (from: JsonObject): string[] => listAt(from['labelIds']).flatMap((id) => idAt(id) ?? []);

function needsOf(from: JsonObject): FactKey[] {
  const state = idAt(from['stateId']);
  const user = idAt(from['assigneeId']);
  return [
    ...oldLabels(from).map((key) => ({ kind: 'label', key }) as const),
    ...(state === undefined ? [] : [{ kind: 'state', key: state } as const]),
    ...(user === undefined ? [] : [{ kind: 'user', key: user } as const]),
  ];
}

function learnsOf(data: JsonObject): Fact[] {
  const state = objectAt(data['state']);
  const assignee = objectAt(data['assignee']);
  const stateId = idAt(state['id']);
  const userId = idAt(assignee['id']);
  const name = textAt(assignee['name']);
  return [
    ...labelsOf(data).map((label) => ({ kind: 'label', key: label.id, value: label.name }) as const),
    ...(stateId === undefined
      ? []
      : [
          {
            kind: 'state',
            key: stateId,
            value: `${textAt(state['type']) ?? ''} ${textAt(state['name']) ?? ''}`,
          } as const,
        ]),
    ...(userId === undefined || name === undefined ? [] : [{ kind: 'user', key: userId, value: name } as const]),
  ];
}

const plain = ['title', 'description', 'priority', 'estimate', 'dueDate'] as const;

/** What each changed field was; a label or state that was never seen goes by its id. */
function updatedFromOf(
  from: JsonObject,
  data: JsonObject,
  known: KnownFact,
): { readonly [key: string]: Json | undefined } {
  const fields = Object.fromEntries(plain.map((field) => [field, from[field]]));
  const { description: _, ...previous } = previousOf(from, known);
  if (from['labelIds'] === undefined) return { ...fields, ...previous };
  const old = new Set(oldLabels(from));
  const now = labelsOf(data);
  const added = now.filter((label) => !old.has(label.id)).map((label) => label.name);
  const kept = new Set(now.map((label) => label.id));
  const removed = [...old].filter((id) => !kept.has(id)).map((key) => known({ kind: 'label', key }) ?? key);
  return { ...fields, ...previous, labelNames: { added, removed } };
}

function previousOf(from: JsonObject, known: KnownFact): { readonly [key: string]: Json | undefined } {
  const stateId = idAt(from['stateId']);
  const state = stateId === undefined ? undefined : known({ kind: 'state', key: stateId });
  const userId = idAt(from['assigneeId']);
  const assignee = userId === undefined ? from['assigneeId'] : (known({ kind: 'user', key: userId }) ?? userId);
  return {
    title: from['title'],
    description: from['description'],
    priority: from['priority'],
    state: state === undefined ? stateId : state.slice(state.indexOf(' ') + 1),
    stateType: state === undefined ? undefined : state.slice(0, state.indexOf(' ')),
    assignee,
  };
}

// One query to the tracker's GraphQL, and what its answer means in our words. Nothing is sent twice here, and no redirect
// is followed. No message holds a token, a value that was sent, or a host.

export interface TrackerRequest {
  /** Beside which `/graphql` is. */
  readonly apiUrl: string;
  /** A key of the API. */
  readonly key: string;
  readonly query: string;
  readonly variables: JsonObject;
  /** It changes something: what becomes of a lost answer is not known. */
  readonly isWrite: boolean;
  /** Loopback and private addresses, and plain http, may be asked. */
  readonly allowPrivate: boolean;
}

/** Asks once; answers with the data. Throws Fault, ProviderLimited, and OutcomeUnknown for a write. */
export async function callTracker(request: TrackerRequest): Promise<JsonObject> {
  const { key, query, variables, isWrite, allowPrivate } = request;
  const url = new URL(`${withoutEnd(request.apiUrl, '/')}/graphql`);
  const headers = { authorization: key, 'content-type': 'application/json' };
  const body = JSON.stringify({ query, variables });
  return judge(request, await postOnce({ url, headers, body, isWrite, allowPrivate, who: 'the tracker' }));
}

function judge(
  { isWrite }: TrackerRequest,
  { statusCode, headers, json: read, retryAfterSeconds }: Posted,
): JsonObject {
  // What is no JSON says neither yes nor no.
  const json = objectAt(read);
  const [error] = listAt(json['errors']).map(objectAt);
  const extensions = objectAt(error?.['extensions']);
  const type = (textAt(extensions['type']) ?? textAt(extensions['code']) ?? '').toLowerCase().replaceAll('_', ' ');
  if (statusCode === 429 || type === 'ratelimited') {
    throw new ProviderLimited(retryAfterSeconds ?? resetSeconds(headers));
  }
  if (statusCode === 200 && error === undefined && json['data'] !== undefined) return objectAt(json['data']);
  if (statusCode === 401 || type === 'authentication error') {
    throw outsideFault('credential-refused', 'the tracker does not take the key of this connection');
  }
  if (statusCode === 403 || type === 'forbidden') {
    throw outsideFault('permission-missing', 'the key of this connection may not do this');
  }
  if (/not found/i.test(textAt(error?.['message']) ?? '')) {
    throw outsideFault('not-found', 'it is absent, or not visible to this connection');
  }
  const isRefused = error === undefined ? statusCode >= 400 && statusCode < 500 : refusals.test(type);
  if (isRefused) throw outsideFault('refused', `the tracker refused it: ${type === '' ? String(statusCode) : type}`);
  if (isWrite) throw new OutcomeUnknown(`an answer of ${statusCode}`);
  throw outsideFault('provider-unavailable', 'the tracker did not answer as it should');
}

/** Seconds until every limit that is used up begins anew, by the clock that the answer came by; undefined: it names none. */
function resetSeconds(headers: Posted['headers']): number | undefined {
  const resets = ['requests', 'complexity'].flatMap((what) => {
    if (headers[`x-ratelimit-${what}-remaining`] !== '0') return [];
    const seconds = (Number(headers[`x-ratelimit-${what}-reset`]) - Date.parse(String(headers['date']))) / 1_000;
    return Number.isNaN(seconds) ? [] : [Math.max(1, Math.ceil(seconds))];
  });
  return resets.length === 0 ? undefined : Math.max(...resets);
}

const refusals =
  /^(invalid input|user error|graphql error|graphql validation failed|bad user input|feature not accessible|usage limit exceeded)$/;

/** What a mutation has made, by its part of the data. Throws Fault where that says that nothing was done, OutcomeUnknown where it names nothing. */
export function madeIn(answer: Json | undefined, what: 'comment' | 'issue'): JsonObject {
  const payload = objectAt(answer);
  if (payload['success'] === false) throw outsideFault('refused', 'the tracker says that it did nothing');
  const made = objectAt(payload[what]);
  if (idAt(made['id']) === undefined) throw new OutcomeUnknown(`an answer that names no ${what}`);
  return made;
}
