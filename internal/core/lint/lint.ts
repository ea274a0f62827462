// What applies cleanly and still cannot work (docs/reference/compile.md#bindings and #triggers): event keys that no source
// emits, near-miss root keys, filters on a path that an event never carries, routes and fallbacks that never match, loops.
// Every finding is a warning. Decides nothing about validity, and takes plain values with places, never the tree itself.

import type { Finding, Range } from '../../domain/diagnostic.ts';
import { lintEvents, lintPaths } from './events.ts';
import { lintFilters, lintText } from './tokens.ts';
import type { LintText, LintTrigger, Suggestions } from './types.ts';
import { lintRootKeys } from './root-keys.ts';
import { lintLoops, lintRoutes } from './routes.ts';

export interface LintDocument {
  readonly rootKeys: readonly { readonly key: string; readonly range: Range }[];
  readonly triggers: readonly LintTrigger[];
  /** `ref` of every mount that has one. */
  readonly refs: readonly LintRef[];
  /** Texts beside the messages of triggers: prompts, the title. */
  readonly texts: readonly LintText[];
}

/** All warnings that one agent document can have by itself. */
export function lint(document: LintDocument): Finding[] {
  const findings: Finding[] = [...lintRootKeys(document.rootKeys), ...lintRefs(document.refs)];
  const suggestions = { count: 0 };
  const paths = { count: 0 };
  for (const trigger of document.triggers) {
    findings.push(
      ...lintEvents(trigger, suggestions),
      ...lintPayload(trigger, paths),
      ...lintRoutes(trigger),
      ...lintLoops(trigger),
    );
  }
  // A caller's own input may have any shape, and so has a webhook's body.
  for (const text of document.texts) findings.push(...lintText(text, undefined, paths));
  return findings;
}

function lintPayload(trigger: LintTrigger, paths: Suggestions): Finding[] {
  const authored = lintPaths(trigger);
  const told = new Set(authored.flatMap(({ range }) => range ?? []));
  const message = trigger.message === undefined ? [] : lintText(trigger.message, trigger, paths);
  return [...authored, ...lintFilters(trigger, told, paths), ...message];
}

export { lintFallbacks } from './routes.ts';
export { belongsOf } from './root-keys.ts';

// Tokens in a mount's `ref`: it alone is rendered against the session's input `{ triggerEventId, payload }`
// (docs/reference/compile.md#mounts), so that a token which begins with anything else never resolves and the session is
// refused.

export interface LintRef {
  readonly ref: string;
  readonly range: Range;
  readonly path: string;
}

const token = /\{\{\s*([^{}\s.]+)(?:[\s.][^{}]*)?\}\}/g;
const roots = ['payload', 'triggerEventId'];

/** A warning for each `ref` with a token that never resolves: one a ref, at the first. */
export function lintRefs(refs: readonly LintRef[]): Finding[] {
  const findings: Finding[] = [];
  for (const { ref, range, path } of refs) {
    const stray = [...ref.matchAll(token)].find(([, root]) => !roots.includes(root ?? ''));
    if (stray === undefined) continue;
    const message = `The token ${stray[0].slice(0, 80).toWellFormed()} never resolves in ref, which reads { triggerEventId, payload }`;
    const hint = 'Write {{ payload.path }} here.';
    findings.push({ severity: 'warning', code: 'ignored-token', message, range, path, hint });
  }
  return findings;
}
