// The provider's webhooks: proof over the raw bytes, the resource that the header names held against the body, and what
// happened to an issue in the neutral vocabulary. The signature covers neither header nor time: what arrives twice is known
// by its key, and a body under another resource's name is refused.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { sha256 } from '../../../base/hash.ts';
import { idAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { JsonObject } from '../../../domain/json.ts';
import { uuid } from '../../../domain/uuid.ts';
import { isThere } from './project.ts';

const signature = /^[0-9a-f]{64}$/;

/** True when `header` is the lower-case hex HMAC-SHA256 of the body; an empty secret proves nothing. Constant time. */
export function verifySignature(rawBody: Uint8Array, header: string | undefined, secret: string): boolean {
  if (secret.length === 0 || header === undefined || !signature.test(header)) return false;
  return timingSafeEqual(Buffer.from(header, 'hex'), createHmac('sha256', secret).update(rawBody).digest());
}

interface About {
  /** Canonical UUID. */
  readonly installationId: string;
  /** What tells this delivery from every other one but its own repetition. */
  readonly dedupKey: string;
}
export type ErrtrackDelivery =
  | ({ readonly kind: 'issue'; readonly projectId: string; readonly key: string; readonly payload: JsonObject } & About)
  | ({ readonly kind: 'uninstalled' } & About)
  | { readonly kind: 'ignored'; readonly reason: string }
  | { readonly kind: 'malformed'; readonly reason: string };

/** Which key of `data` each resource has. */
const bodyKeys: { readonly [resource: string]: string } = {
  issue: 'issue',
  error: 'error',
  event_alert: 'event',
  metric_alert: 'metric_alert',
  installation: 'installation',
  comment: 'comment',
};
const actions: { readonly [action: string]: string } = {
  created: 'created',
  resolved: 'resolved',
  unresolved: 'unresolved',
  assigned: 'assigned',
  ignored: 'ignored',
  archived: 'ignored',
};

/** What a delivery says. `resource` and `idempotencyKey` are the headers of that meaning. */
export function normalize(
  body: JsonObject,
  raw: Uint8Array,
  { resource, idempotencyKey }: { readonly resource: string | undefined; readonly idempotencyKey: string | undefined },
): ErrtrackDelivery {
  const action = textAt(body['action']);
  const installationId = uuidAt(objectAt(body['installation'])['uuid']);
  if (resource === undefined || action === undefined || installationId === undefined) {
    return { kind: 'malformed', reason: 'a delivery names its resource, its action and its installation' };
  }
  const name = Object.hasOwn(bodyKeys, resource) ? bodyKeys[resource] : undefined;
  const ignored = {
    kind: 'ignored',
    reason: `the event ${`${resource}.${action}`.slice(0, 100)} is not in the catalog`,
  } as const;
  if (name === undefined) return ignored;
  const data = objectAt(body['data']);
  if (!isThere(data[name]))
    return { kind: 'malformed', reason: 'the body is not of the resource that the header names' };
  const about = (subject: string): About => ({
    installationId,
    dedupKey:
      idempotencyKey !== undefined && idempotencyKey !== '' && idempotencyKey.length <= 200
        ? `key\0${idempotencyKey}`
        : `body\0${installationId}\0${resource}\0${action}\0${subject}\0${sha256(raw)}`,
  });
  if (resource === 'installation' && action === 'deleted') {
    // The tombstone is of the installation that the envelope names: a body about another one proves nothing.
    const named = uuidAt(objectAt(data[name])['uuid']);
    return named === installationId
      ? { kind: 'uninstalled', ...about(installationId) }
      : { kind: 'malformed', reason: 'the body names two installations' };
  }
  if (resource !== 'issue' || !Object.hasOwn(actions, action)) return ignored;
  const issue = objectAt(data['issue']);
  const [id, projectId] = [idAt(issue['id']), idAt(objectAt(issue['project'])['id'])];
  if (id === undefined || projectId === undefined)
    return { kind: 'malformed', reason: 'the issue has no id or no project' };
  const what = actions[action] ?? action;
  return {
    kind: 'issue',
    ...about(id),
    projectId,
    key: `svc.errtrack.issue.${what}`,
    payload: { action: what, issue: issueOf(issue), project: projectOf(issue), ...resolutionOf(issue) },
  };
}

const uuidAt = (value: Parameters<typeof textAt>[0]): string | undefined => {
  const text = textAt(value)?.toLowerCase();
  if (text === undefined) return undefined;
  const dashed = /^[0-9a-f]{32}$/.test(text)
    ? text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
    : text;
  return uuid.test(dashed) ? dashed : undefined;
};

const projectOf = (issue: JsonObject): JsonObject => {
  const project = objectAt(issue['project']);
  return { id: idAt(project['id']) ?? '', slug: textAt(project['slug']) ?? '' };
};

function issueOf(issue: JsonObject): JsonObject {
  const assigned = objectAt(issue['assignedTo']);
  const text = (name: string): JsonObject => {
    const value = textAt(issue[name]);
    return value === undefined ? {} : { [name]: value };
  };
  const permalink = textAt(issue['permalink']) ?? textAt(issue['web_url']);
  const count = idAt(issue['count']);
  return {
    id: idAt(issue['id']) ?? '',
    ...text('shortId'),
    ...text('title'),
    ...text('culprit'),
    ...text('level'),
    ...text('status'),
    ...(permalink !== undefined && { permalink }),
    ...text('firstSeen'),
    ...text('lastSeen'),
    ...(count !== undefined && { count }),
    ...(assigned['id'] !== undefined && {
      assignedTo: {
        type: textAt(assigned['type']) ?? 'user',
        id: idAt(assigned['id']) ?? '',
        ...(textAt(assigned['name']) !== undefined && { name: textAt(assigned['name']) ?? '' }),
      },
    }),
  };
}

/** Which commit or release resolved the issue, as far as the provider says. */
function resolutionOf(issue: JsonObject): JsonObject {
  const details = objectAt(issue['statusDetails']);
  const commit = objectAt(details['inCommit']);
  const release = textAt(details['inRelease']);
  const sha = textAt(commit['id']) ?? textAt(commit['commit']);
  const repository = textAt(objectAt(commit['repository'])['name']) ?? textAt(commit['repository']);
  return {
    ...(release !== undefined && { release: { version: release } }),
    ...(sha !== undefined && { commit: { id: sha, ...(repository !== undefined && { repository }) } }),
  };
}
