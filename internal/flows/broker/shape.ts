// What a session is shown of the provider's answers: what says something to a model, without the addresses of the API.
// Lists are `{items, more, next?}` and end at an item where they would be longer than a model reads.

import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';

const dropped = new Set([
  'node_id',
  '_links',
  'url',
  'performed_via_github_app',
  'gravatar_id',
  'site_admin',
  'user_view_type',
  'reactions',
  'active_lock_reason',
  'temp_clone_token',
  'permissions',
  'verification',
  'sub_issues_summary',
  'issue_dependencies_summary',
]);

/** Members of one object: what the provider says of a thing has some hundred, and each costs more than a part of a list. */
const membersMax = 5_000;

/** Without addresses of the API, and without what nobody reads. Throws Fault `too-large`. */
export function shown(value: Json | undefined): Json {
  if (Array.isArray(value)) return (value as readonly Json[]).map(shown);
  if (value === null || value === undefined || typeof value !== 'object') return value ?? null;
  const members = Object.entries(value as JsonObject);
  if (members.length > membersMax) throw outsideFault('too-large', 'the code host answered with more than can be read');
  return Object.fromEntries(
    members
      .filter(([key]) => !dropped.has(key) && (!key.endsWith('_url') || key === 'html_url'))
      .map(([key, member]) => [key, shown(member)]),
  );
}

/** The fields that were asked for, where some were. */
export const only = (item: Json, fields: Json | undefined): Json => {
  if (!Array.isArray(fields) || fields.length === 0 || item === null || typeof item !== 'object') return item;
  return Object.fromEntries(Object.entries(item).filter(([key]) => fields.includes(key)));
};

const answerCharsMax = 390_000;

/** A list as tools answer it; `next` is what the caller passes on to go on. */
export function listed(items: readonly Json[], next: Json | undefined, beside: JsonObject = {}): Json {
  let chars = 200;
  const kept: Json[] = [];
  for (const item of items) {
    chars += JSON.stringify(item).length + 1;
    if (chars > answerCharsMax) break;
    kept.push(item);
  }
  const isCut = kept.length < items.length;
  // What was cut is not on the next page: the way to it is a smaller page.
  return { ...beside, items: kept, more: isCut || next !== undefined, ...(!isCut && next !== undefined && { next }) };
}

const bodyPointsMax = 65_536;
/** What a session writes may not pass for what another one, or the service, has marked. */
const harmless = (text: string): string => text.replace(/<!--(\s*)svc:/gi, '<!--$1svc\u200B:');

/** A body with the marks at its end. Throws Fault `too-large` where that is more than the provider takes. */
export function marked(
  text: string,
  by: { readonly session: { readonly id: string; readonly agent: string } | null; readonly callId: string },
): string {
  const { session, callId } = by;
  const marks = [
    ...(session === null ? [] : [`<!-- svc:v=1 session=${session.id} agent=${session.agent} -->`]),
    `<!-- svc:call=${callId} -->`,
  ];
  const body = `${harmless(text).trimEnd()}\n\n${marks.join('\n')}`.trimStart();
  if ([...body].length > bodyPointsMax) {
    throw outsideFault(
      'too-large',
      `a body has at most ${bodyPointsMax} characters, the hidden marks included; nothing was sent`,
    );
  }
  return body;
}
