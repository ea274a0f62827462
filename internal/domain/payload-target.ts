// The routing target that a normalized payload tells of, where only the payload is there: an event that is asked about
// and was never recorded.

import { targetOf } from './events.ts';
import { idAt, listAt, objectAt, textAt } from './fields.ts';
import type { JsonObject } from './json.ts';
import type { BindingTarget } from './spec.ts';

export interface ToldTarget {
  readonly type: BindingTarget;
  readonly key: string;
}

/** Null where events of the key have no target, or the payload does not name it. */
export function targetTold(event: string, payload: JsonObject): ToldTarget | null {
  const type = targetOf(event);
  const key = type === null ? undefined : readers[type](payload);
  return type === null || key === undefined ? null : { type, key };
}

type Reader = (payload: JsonObject) => string | undefined;

const numbered =
  (part: 'pullRequest' | 'issue'): Reader =>
  (payload) => {
    const codehost = objectAt(payload['codehost']);
    const fullName = textAt(objectAt(codehost['repository'])['fullName']);
    const listed = part === 'pullRequest' ? listAt(objectAt(codehost['checkRun'])['pullRequestNumbers'])[0] : undefined;
    const number = objectAt(codehost[part])['number'] ?? listed;
    return fullName === undefined || typeof number !== 'number' ? undefined : `${fullName}#${number}`;
  };

const readers: { readonly [type in BindingTarget]: Reader } = {
  'codehost.pull_request': numbered('pullRequest'),
  'codehost.issue': numbered('issue'),
  'tracker.issue': (payload) => idAt(objectAt(objectAt(payload['tracker'])['issue'])['id']),
  'chat.thread': (payload) => {
    const chat = objectAt(payload['chat']);
    const parts = ['provider', 'workspaceId', 'channelId', 'threadId'].map((name) => textAt(chat[name]));
    return parts.includes(undefined) ? undefined : parts.join(':');
  },
  'svc.session': (payload) => textAt(objectAt(payload['binding'])['sessionId']),
};
