// Tokens in a mount's `ref`: it alone is rendered against the session's input `{ triggerEventId, payload }` (docs/reference/compile.md#mounts),
// so that a token which begins with anything else never resolves and the session is refused.

import type { Finding, Range } from '../../domain/diagnostic.ts';

export interface LintRef {
  readonly ref: string;
  readonly range: Range;
  readonly path: string;
}

const TOKEN = /\{\{\s*([^{}\s.]+)(?:[\s.][^{}]*)?\}\}/g;
const ROOTS = ['payload', 'triggerEventId'];

export function lintRefs(refs: readonly LintRef[]): Finding[] {
  const findings: Finding[] = [];
  for (const { ref, range, path } of refs) {
    const stray = [...ref.matchAll(TOKEN)].find(([, root]) => !ROOTS.includes(root ?? ''));
    if (stray === undefined) continue;
    const message = `The token ${stray[0].slice(0, 80).toWellFormed()} never resolves in ref, which reads { triggerEventId, payload }`;
    const hint = 'Write {{ payload.path }} here.';
    findings.push({ severity: 'warning', code: 'ignored-token', message, range, path, hint });
  }
  return findings;
}
