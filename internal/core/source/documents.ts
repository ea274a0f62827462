// What the YAML and the JSON reader share: their result and the findings that both make.

import type { DiagnosticCode } from '../../domain/codes.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import type { MapNode } from './node.ts';

export interface ReadDocuments {
  readonly documents: readonly { readonly index: number; readonly root: MapNode; readonly isPartial: boolean }[];
  readonly findings: readonly Finding[];
  /** Values in all documents, also of those that are left out. */
  readonly nodes: number;
}

/** Errors that leave out a key or a value and no more: what else the document says stands, and can be judged. */
export const nonFatalCodes: ReadonlySet<DiagnosticCode> = new Set([
  'duplicate-key',
  'non-string-key',
  'yaml-merge-key',
  'yaml-alias',
  'invalid-value',
  'nul-byte',
  'invalid-utf8',
]);

/** The finding for a key that an earlier entry of the same map has. */
export function duplicateKey(key: string, range: Range, first: Range): Finding {
  return {
    severity: 'error',
    code: 'duplicate-key',
    message: `Duplicate key ${quoted(key)}`,
    range,
    hint: 'Keep one of the two.',
    related: [{ message: 'first written here', range: first }],
  };
}

/** Stands for the findings of a file that are not told one by one. */
export function moreFindings(file: string, count: number): Finding {
  const message = `… and ${count} more in this file`;
  return { severity: 'error', code: 'too-many-findings', message, file };
}

/** What an escape can put into a string though no text file may hold it; null where there is none (docs/reference/compile.md#yaml). */
export function unprintable(value: string): { readonly code: DiagnosticCode; readonly message: string } | null {
  if (value.includes('\0')) return { code: 'nul-byte', message: 'The string holds a NUL character' };
  if (!value.isWellFormed()) return { code: 'invalid-utf8', message: 'The string holds half of a surrogate pair' };
  return null;
}

/** A key or token as a message shows it: quoted, at most 60 units of it. */
export function quoted(text: string): string {
  return JSON.stringify((text.length > 60 ? `${text.slice(0, 60)}…` : text).toWellFormed());
}
