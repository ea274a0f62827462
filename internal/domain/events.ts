// Event keys as data (docs/reference/events.md): which source a prefix names and what apply asks of it, the keys
// that some source emits, and the routing target that each derives. Keys beyond the prefix are an open set.

import type { BindingTarget } from './spec.ts';

export const eventSources = ['codehost', 'tracker', 'chat', 'webhook', 'svc'] as const;
export type EventSource = (typeof eventSources)[number];

/** What apply asks of an event of a source: a connection of that provider, a webhook endpoint, or nothing. */
export const sourceNeeds: { readonly [source in EventSource]: 'connection' | 'endpoint' | 'nothing' } = {
  codehost: 'connection',
  tracker: 'connection',
  chat: 'connection',
  webhook: 'endpoint',
  svc: 'nothing',
};

/** The source of an event key by its first segment, or null where no source has that prefix. */
export function sourceOf(event: string): EventSource | null {
  const dot = event.indexOf('.');
  if (dot < 0) return null;
  const prefix = event.slice(0, dot);
  return eventSources.find((source) => source === prefix) ?? null;
}

const keys = (prefix: string, names: string): readonly string[] => names.split(' ').map((name) => prefix + name);

/** Keys that a known source emits. Code-host actions are those that the provider documents. */
export const knownEvents: ReadonlySet<string> = new Set([
  ...keys(
    'codehost.pull_request.',
    'opened reopened synchronize edited closed labeled unlabeled ready_for_review converted_to_draft merge_conflict ' +
      'assigned unassigned review_requested review_request_removed locked unlocked enqueued dequeued milestoned ' +
      'demilestoned auto_merge_enabled auto_merge_disabled',
  ),
  ...keys(
    'codehost.issue.',
    'opened edited closed reopened labeled unlabeled assigned unassigned deleted transferred pinned unpinned locked ' +
      'unlocked milestoned demilestoned typed untyped comment.created comment.edited',
  ),
  ...keys('codehost.issue_comment.', 'created edited'),
  ...keys('codehost.review.', 'submitted edited dismissed'),
  ...keys('codehost.pull_request_review.', 'submitted edited dismissed'),
  ...keys('codehost.pull_request_review_comment.', 'created edited'),
  ...keys('codehost.check_run.', 'completed'),
  ...keys('codehost.', 'workflow_run.completed push commit_comment.created'),
  ...keys('tracker.', 'issue.created issue.updated issue.removed comment.created'),
  ...keys('chat.message.', 'mentioned direct subscribed edited'),
  ...keys('chat.reaction.', 'added removed'),
  ...keys('svc.session.binding.', 'bound updated unbound'),
  ...keys('svc.project_resource_apply.', 'started completed failed'),
  ...keys('svc.', 'connection.changed connection.established connection.removed project.onboarded'),
  ...keys('svc.errtrack.issue.', 'created resolved unresolved assigned ignored'),
]);

/** Families whose last segment the sender chooses. */
export const openEvents: readonly string[] = ['codehost.check_run.requested_action.', 'webhook.'];

const review = 'codehost.review.';
const reviewAlias = 'codehost.pull_request_review.';

/** The one spelling of an event key: the two of reviews are the same event (docs/reference/events.md). */
export const canonicalEventKey = (event: string): string =>
  event.startsWith(reviewAlias) ? review + event.slice(reviewAlias.length) : event;

/** Both spellings of an event key where it has two, the canonical one first. */
export function eventKeySpellings(event: string): string[] {
  const canonical = canonicalEventKey(event);
  return canonical.startsWith(review) ? [canonical, reviewAlias + canonical.slice(review.length)] : [canonical];
}

/** True where some known source can emit the key. */
export function isKnownEvent(event: string): boolean {
  if (knownEvents.has(event)) return true;
  return openEvents.some((prefix) => event.startsWith(prefix) && event.length > prefix.length);
}

/** Routing target by the beginning of the key; the first row that fits decides (docs/reference/routing.md#targets). */
export const eventTargets: readonly (readonly [prefix: string, target: BindingTarget])[] = [
  ['codehost.pull_request.', 'codehost.pull_request'],
  ['codehost.pull_request_review.', 'codehost.pull_request'],
  ['codehost.pull_request_review_comment.', 'codehost.pull_request'],
  ['codehost.issue_comment.', 'codehost.pull_request'],
  ['codehost.review.', 'codehost.pull_request'],
  ['codehost.check_run.', 'codehost.pull_request'],
  ['codehost.issue.', 'codehost.issue'],
  ['tracker.issue.', 'tracker.issue'],
  ['tracker.comment.', 'tracker.issue'],
  ['chat.message.', 'chat.thread'],
  ['chat.reaction.', 'chat.thread'],
  ['svc.session.binding.', 'svc.session'],
];

/** The type of target that events of this key derive, or null where they have none (pushes, ticks, webhooks). */
export function targetOf(event: string): BindingTarget | null {
  for (const [prefix, target] of eventTargets) if (event.startsWith(prefix)) return target;
  return null;
}

/** The three events on which a route may observe another session's binding (docs/reference/routing.md#observed-targets). */
export const bindingEvents: readonly string[] = keys('svc.session.binding.', 'bound updated unbound');

/** Only on these may a trigger declare checks (docs/reference/compile.md#triggers). */
export const checkEventsPrefix = 'codehost.pull_request.';

/** When a schedule is due that has no further time: it stays, and does not tick. */
export const noTick = new Date('9999-12-31T23:59:00Z');
