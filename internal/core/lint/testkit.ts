// What the tests of this room give to the linter.

import type { Finding } from '../../domain/diagnostic.ts';
import type { Routing, Where } from '../../domain/spec.ts';
import type { LintText, LintTrigger } from './types.ts';

/** One place, told by its offset. */
export const at = (start: number) => ({ file: 'f', start, end: start + 1 });
const spawn: Routing = { kind: 'spawn' };

/** A trigger whose events stand at 0, 1, …, its filters at 100, 101, …, its fallback at 200 and its aim at 300. */
export function trigger(
  events: readonly string[],
  parts: {
    where?: Where;
    routing?: Routing;
    fallback?: boolean;
    endpoint?: string;
    connection?: string | undefined;
    isOptional?: boolean;
    message?: LintText;
  } = {},
): LintTrigger {
  const { where = { '$.svc.authored': false }, routing = spawn, fallback = false, endpoint } = parts;
  return {
    path: 'triggers[0]',
    events: events.map((key, index) => ({ key, range: at(index), path: `triggers[0].events[${index}]` })),
    where: events.length === 0 ? (parts.where ?? {}) : where,
    whereRanges: new Map(
      Object.keys(events.length === 0 ? (parts.where ?? {}) : where).map((key, index) => [key, at(100 + index)]),
    ),
    fallback,
    fallbackRange: fallback ? at(200) : undefined,
    routing,
    aimRange: at(300),
    endpoint,
    connection: parts.connection,
    message: parts.message,
    isOptional: parts.isOptional ?? false,
  };
}

/** Findings as lines: code, path and place, message, hint. */
export const told = (findings: readonly Finding[]): string[] =>
  findings.map((finding) => {
    const { severity, code, path, range, message, hint } = finding;
    const what = severity === 'warning' ? code : `${severity} ${code}`;
    return `${what} ${path}@${range?.start}: ${message}${Object.hasOwn(finding, 'hint') ? ` | ${hint}` : ''}`;
  });
/** A document that has nothing to find. */
export const nothing = { rootKeys: [], triggers: [], refs: [], texts: [] };

/** A text of the document beside the messages of triggers. */
export const text = (of: string, parts: Partial<LintText> = {}): LintText => ({
  text: of,
  range: at(7),
  path: 'systemPrompt',
  reads: 'start',
  isOwn: false,
  ...parts,
});
