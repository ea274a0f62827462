// Event keys that no source emits, and filters on an `authored` path that the payload of the event cannot carry
// (docs/reference/connections.md#intakes: codehost payloads have it at `$.svc` and `$.codehost.svc`, the others at `$.svc` alone).

import type { Finding } from '../../domain/diagnostic.ts';
import type { EventSource } from '../../domain/events.ts';
import { eventSources, isKnownEvent, knownEvents, sourceOf } from '../../domain/events.ts';
import { nearest } from '../../domain/nearest.ts';
import type { LintTrigger, Suggestions } from './types.ts';

const openExamples = ['codehost.check_run.requested_action.<identifier>', 'webhook.received'];

/** A document with more unknown keys than this gets no further suggestions: they cost more than the keys. */
const suggestionsMax = 100;

/** A warning for each event key that no source emits; `made` counts them over the whole document, which bounds the suggestions. */
export function lintEvents(trigger: LintTrigger, made: Suggestions): Finding[] {
  const findings: Finding[] = [];
  for (const { key, range, path } of trigger.events) {
    if (isKnownEvent(key)) continue;
    made.count += 1;
    const near = made.count > suggestionsMax ? undefined : nearestEvent(key);
    const message = `No known source emits the event ${key.slice(0, 80)}; the trigger applies and never fires`;
    const hint = near === undefined ? {} : { hint: `Did you mean ${near}?` };
    findings.push({ severity: 'warning', code: 'event-unknown', message, range, path, ...hint });
  }
  return findings;
}

/** The nearest known key: by edits where it is close, else one that has the same last segments. */
function nearestEvent(key: string): string | undefined {
  const close = nearest(key, [...knownEvents, ...openExamples], Math.max(3, Math.floor(key.length / 3)));
  if (close !== undefined) return close;
  const last = key.slice(key.lastIndexOf('.'));
  return [...knownEvents].find((known) => sourceOf(known) === sourceOf(key) && known.endsWith(last));
}

/** Where each source's payload says who caused the event. Webhook bodies are the caller's own, so any path may exist. */
const authoredPaths: { readonly [source in EventSource | 'heartbeat']: readonly string[] | null } = {
  codehost: ['$.svc.authored', '$.codehost.svc.authored'],
  tracker: ['$.svc.authored'],
  chat: ['$.svc.authored'],
  svc: ['$.svc.authored'],
  webhook: null,
  heartbeat: [],
};
const spellings = new Set([
  'authored',
  '$.authored',
  '$.auto.authored',
  ...eventSources.flatMap((source) => [`$.${source}.svc.authored`, `$.${source}.authored`]),
]);

/** A warning for each filter on an `authored` path that some event of the trigger does not carry. */
export function lintPaths(trigger: LintTrigger): Finding[] {
  const findings: Finding[] = [];
  for (const [path, range] of trigger.whereRanges) {
    if (!spellings.has(path)) continue;
    const source = firstWithout(trigger, path);
    if (source === undefined) continue;
    const right = authoredPaths[source]?.[0];
    findings.push({
      severity: 'warning',
      code: 'authored-path',
      message: `${path} never exists in ${source} payloads`,
      range,
      path: `${trigger.path}.where[${JSON.stringify(path)}]`,
      ...(right === undefined ? {} : { hint: `Use ${right}.` }),
    });
  }
  return findings;
}

/** The first source among a trigger's events whose payload lacks the path. */
function firstWithout(trigger: LintTrigger, path: string): EventSource | 'heartbeat' | undefined {
  if (trigger.events.length === 0) return 'heartbeat';
  for (const { key } of trigger.events) {
    const source = sourceOf(key);
    if (source === null) continue;
    const paths = authoredPaths[source];
    if (paths !== null && !paths.includes(path)) return source;
  }
  return undefined;
}
