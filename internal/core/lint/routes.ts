// Routes that never match, fallbacks that never fire, and triggers that may wake themselves
// (docs/reference/compile.md#triggers, docs/reference/routing.md#matching).

import { canonicalJson } from '../../domain/json.ts';
import type { Finding } from '../../domain/diagnostic.ts';
import { canonicalEventKey, targetOf } from '../../domain/events.ts';
import type { Routing, RouteTarget } from '../../domain/spec.ts';
import type { LintTrigger } from './types.ts';

/** The target that an event must derive for the route to do what it says; null where it asks for none. */
function wantedTarget(routing: Routing): { readonly target: RouteTarget; readonly what: string } | null {
  if (routing.kind === 'bind')
    return routing.target === 'agent.singleton' ? null : { target: routing.target, what: 'a bind route' };
  if (routing.kind === 'spawn')
    return routing.bind === undefined ? null : { target: routing.bind.target, what: 'spawn.bind' };
  if (routing.routeBy?.kind === 'attributedSessions')
    return { target: 'chat.thread', what: 'routeBy attributedSessions' };
  return routing.bind === undefined ? null : { target: routing.bind.target, what: 'deliver.bind' };
}

/** At most one warning: that the route, or what it would bind, asks for a target that an event of the trigger never has. */
export function lintRoutes(trigger: LintTrigger): Finding[] {
  const { routing, path, aimRange: range } = trigger;
  const wanted = wantedTarget(routing);
  if (wanted === null) return [];
  const warning = (code: 'route-never-matches' | 'bind-never-matches', message: string): Finding => {
    return { severity: 'warning', code, message, range, path: `${path}.routing` };
  };
  if (wanted.target === 'agent.singleton') {
    return [warning('bind-never-matches', 'No event has the target agent.singleton, so this spawn binds nothing')];
  }
  const code = routing.kind === 'spawn' ? 'bind-never-matches' : 'route-never-matches';
  if (trigger.events.length === 0)
    return [warning(code, `A heartbeat has no target, so ${wanted.what} on ${wanted.target} never matches`)];
  const never = trigger.events.find(({ key }) => !derives(key, wanted.target, wanted.what));
  if (never === undefined) return [];
  const has = targetOf(never.key);
  const events = `The event ${never.key.slice(0, 80)} has ${has === null ? 'no target' : `the target ${has}`}`;
  return [warning(code, `${events}, so ${wanted.what} on ${wanted.target} never matches`)];
}

/** Attributed sessions are looked up by the event's own target, which on a chat event is its thread. */
function derives(event: string, target: RouteTarget, what: string): boolean {
  const has = targetOf(event);
  return what === 'routeBy attributedSessions' ? has !== null : has === target;
}

/** What a trigger takes: an event key, whichever of its spellings it is, the endpoint and connection that scope it, and the filters. */
const takes = (trigger: LintTrigger, event: string, where: string): string =>
  [canonicalEventKey(event), trigger.endpoint ?? '', trigger.connection ?? '', where].join('\n');
const all = canonicalJson({});

/**
 * A fallback fires only where no other trigger on its key matched: one that takes every event on that key, or that has
 * the fallback's own filters, leaves it nothing, whichever agent it belongs to. One that apply may skip does not count.
 * A heartbeat's key is its own, so a fallback there is never anything else.
 */
export function lintFallbacks(triggers: readonly LintTrigger[]): Finding[] {
  const fallbacks = triggers.filter(({ fallback }) => fallback);
  const asked = new Set(fallbacks.flatMap(({ events }) => events.map(({ key }) => canonicalEventKey(key))));
  const taken = new Set<string>();
  for (const trigger of triggers) {
    if (trigger.fallback || trigger.isOptional) continue;
    const on = trigger.events.filter(({ key }) => asked.has(canonicalEventKey(key)));
    if (on.length === 0) continue;
    const where = canonicalJson(trigger.where);
    for (const { key } of on) taken.add(takes(trigger, key, where));
  }
  const findings: Finding[] = [];
  for (const trigger of fallbacks) {
    if (trigger.fallbackRange === undefined) continue;
    const where = canonicalJson(trigger.where);
    const isTaken = (key: string): boolean =>
      taken.has(takes(trigger, key, all)) || taken.has(takes(trigger, key, where));
    const dead = trigger.events.find(({ key }) => isTaken(key));
    if (dead === undefined) continue;
    const message = `This fallback is never reached on ${dead.key.slice(0, 80)}: another trigger takes every event that it would`;
    findings.push({
      severity: 'warning',
      code: 'fallback-unreachable',
      message,
      range: trigger.fallbackRange,
      path: `${trigger.path}.fallback`,
    });
  }
  return findings;
}

/** Keys that a session causes by what it says; a spawn or delivery on them that does not leave out its own may go round. */
const echoes = [
  'chat.message.',
  'codehost.issue_comment.',
  'codehost.issue.comment.',
  'codehost.review.',
  'codehost.pull_request_review_comment.',
  'tracker.comment.',
];
const mentions = 'chat.message.mentioned';
const isEcho = (key: string): boolean => {
  const canonical = canonicalEventKey(key);
  return canonical !== mentions && echoes.some((prefix) => canonical.startsWith(prefix));
};
const authored = ['$.svc.authored', '$.codehost.svc.authored'];

/** A fresh session for every comment, also for those that sessions write, never ends. */
export function lintLoops(trigger: LintTrigger): Finding[] {
  if (trigger.routing.kind !== 'spawn') return [];
  const echo = trigger.events.find(({ key }) => isEcho(key));
  if (echo === undefined || authored.some((path) => Object.hasOwn(trigger.where, path))) return [];
  const message = `A session that this spawns may cause ${echo.key} itself and so spawn the next`;
  const hint = 'Add "$.svc.authored: false" to where.';
  return [
    {
      severity: 'warning',
      code: 'loop-possible',
      message,
      range: trigger.aimRange,
      path: `${trigger.path}.routing`,
      hint,
    },
  ];
}
