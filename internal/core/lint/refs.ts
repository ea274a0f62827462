// Tokens in a mount's `ref`: it alone is rendered against the session's input `{ triggerEventId, payload }` (docs/reference/compile.md#mounts),
// so that a token which begins with anything else never resolves and the session is refused. So is one that reads what
// the payload of its event does not have.

import type { Finding, Range } from '../../domain/diagnostic.ts';
import { mayHave, payloadPaths, tickPaths } from '../../domain/payloads.ts';
import { parseTemplate } from '../template/template.ts';
import { shown } from './tokens.ts';
import type { LintTrigger } from './types.ts';

export interface LintRef {
  readonly ref: string;
  readonly range: Range;
  readonly path: string;
}

const token = /\{\{\s*([^{}\s.]+)(?:[\s.][^{}]*)?\}\}/g;
const roots = ['payload', 'triggerEventId'];

export function lintRefs(refs: readonly LintRef[]): Finding[] {
  const findings: Finding[] = [];
  for (const { ref, range, path } of refs) {
    const stray = [...ref.matchAll(token)].find(([, root]) => !roots.includes(root ?? ''));
    if (stray === undefined) continue;
    const message = `The token ${shown(stray[0])} never resolves in ref, which reads { triggerEventId, payload }`;
    const hint = 'Write {{ payload.path }} here.';
    findings.push({ severity: 'warning', code: 'ignored-token', message, range, path, hint });
  }
  return findings;
}

/** A path of the payload that a ref reads. */
export interface RefRead {
  readonly at: string;
  readonly path: string;
}
/** Refs that read more paths are judged by these: each costs every trigger a look. */
const readsMax = 100;

/** What the refs of a document read of the payload, each path once. */
export function readsOf(refs: readonly LintRef[]): readonly RefRead[] {
  const reads = new Map<string, RefRead>();
  for (const { ref, path: at } of refs) {
    for (const { path } of parseTemplate(ref).tokens) {
      if (reads.size === readsMax) return [...reads.values()];
      if (path.startsWith(payload) && !reads.has(path)) reads.set(path, { at, path: path.slice(payload.length) });
    }
  }
  return [...reads.values()];
}
const payload = 'payload.';

/** A trigger that starts sessions on an event without what a ref reads: every one of them is refused. */
export function lintStarts(trigger: LintTrigger, reads: readonly RefRead[]): Finding[] {
  const { routing, aimRange: range } = trigger;
  if (routing.kind !== 'spawn' && routing.onUnmatched !== 'spawn') return [];
  for (const { at, path } of reads) {
    const event = firstWithout(trigger, path);
    if (event === undefined) continue;
    const message = `A session that this starts on ${event} is refused: ${at} needs {{ ${shown(payload + path)} }}, which never exists there`;
    const hint = 'Give such events an agent of their own, whose mount has another ref.';
    return [{ severity: 'warning', code: 'payload-path', message, range, path: `${trigger.path}.routing`, hint }];
  }
  return [];
}

/** The first event of a trigger whose payload cannot have a value at a path. */
function firstWithout({ events }: LintTrigger, path: string): string | undefined {
  if (events.length === 0) return mayHave(tickPaths(), path) ? undefined : 'the tick of a heartbeat';
  for (const { key } of events) {
    const list = payloadPaths(key);
    if (list !== null && !mayHave(list, path)) return key.slice(0, 80);
  }
  return undefined;
}
