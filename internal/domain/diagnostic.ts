// The author's mistakes, as data. Diagnostics are collected, never thrown; positions stay offsets
// until the last moment (`printed`), and a code is a stable word that tests and clients may rely on.

import type { DiagnosticCode } from './codes.ts';

export type Severity = 'error' | 'warning';

/** A stretch of one file's decoded text: UTF-16 offsets, end exclusive. */
export interface Range {
  readonly file: string;
  readonly start: number;
  readonly end: number;
}

/** A part of a text that was joined from several files: where it begins in the text, and where it was written. */
export interface TextPart {
  readonly offset: number;
  readonly range: Range;
}

/** Where the part of a text was written that holds the offset. */
export function writtenAt(
  text: { readonly range: Range; readonly parts?: readonly TextPart[] },
  offset: number,
): Range {
  return text.parts?.findLast((part) => part.offset <= offset)?.range ?? text.range;
}

/** A finding before its position is turned into line and column. `path` is a JSON path such as `triggers[0].where`. */
export interface Finding {
  readonly severity: Severity;
  readonly code: DiagnosticCode;
  readonly message: string;
  /** Absent where the finding is about a whole file or tree; then `file` may still name the file. */
  readonly range?: Range;
  readonly file?: string;
  readonly path?: string;
  /** What to do about it, one sentence. */
  readonly hint?: string;
  /** What no excerpt may show, such as a value that stands where the name of a secret belongs. */
  readonly hides?: Range;
  /** Another place that belongs to the story, such as the other definition of a name. */
  readonly related?: readonly { readonly message: string; readonly range: Range }[];
}

/** Lines around a mistake, each cut to 200 characters, so that a caret can be drawn without the file. */
export interface Excerpt {
  /** Number of the first of `lines`. */
  readonly line: number;
  readonly lines: readonly string[];
  /** Of the mistake in its own line, from 1, in code points; a tab is one. */
  readonly column: number;
  /** Code points that are wrong, within that line. */
  readonly length: number;
}

/** The excerpt of a place, whose line is among `lines`, the first of which has the number `first`. */
export function excerptOf(
  lines: readonly string[],
  first: number,
  at: {
    readonly line?: number | undefined;
    readonly column?: number | undefined;
    readonly endLine?: number | undefined;
    readonly endColumn?: number | undefined;
  },
): Excerpt | undefined {
  const text = at.line === undefined ? undefined : lines[at.line - first];
  if (text === undefined) return undefined;
  const points = (units: string): number => [...units].length;
  const from = (at.column ?? 1) - 1;
  const to = at.endLine === at.line && at.endColumn !== undefined ? at.endColumn - 1 : text.length;
  const length = Math.max(1, points(text.slice(from, Math.min(to, text.length))));
  return { line: first, lines, column: points(text.slice(0, from)) + 1, length };
}

/** A finding as the outside sees it (docs/reference/compile.md#output). Lines and columns count from 1, columns in UTF-16 units. */
export interface Diagnostic {
  readonly severity: Severity;
  readonly code: DiagnosticCode;
  readonly message: string;
  readonly file?: string;
  readonly line?: number;
  readonly column?: number;
  readonly endLine?: number;
  readonly endColumn?: number;
  readonly path?: string;
  readonly hint?: string;
  readonly excerpt?: Excerpt;
  readonly related?: readonly {
    readonly message: string;
    readonly file: string;
    readonly line: number;
    readonly column: number;
  }[];
}

/** Where a part of a resource stands in the files; lines and columns count from 1, columns in UTF-16 units. */
export interface Place {
  readonly file: string;
  readonly line?: number;
  readonly column?: number;
  readonly endLine?: number;
  readonly endColumn?: number;
  readonly excerpt?: Excerpt;
}

/** Places of resources' parts: by `Kind/name`, then by JSON path within the stored spec; `''` is the resource itself. */
export interface Places {
  readonly [resource: string]: { readonly [path: string]: Place };
}

/** How a value of a merged document came to be: written in it, imported, joined by `append`, left out, or of the context. */
export type OriginLayer = 'document' | 'import' | 'append' | 'default' | 'context';
/** Where a value of an agent's spec comes from; a default stands nowhere. */
export interface Origin {
  readonly file: string | null;
  /** From 1. */
  readonly line: number | null;
  readonly layer: OriginLayer;
}
/** By the paths of a spec, `triggers[0].where["$.a.b"]`. */
export type Origins = { readonly [path: string]: Origin };
