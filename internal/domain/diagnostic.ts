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
  /** The text of the line, cut to 200 characters, so that a caret can be drawn without the file. */
  readonly excerpt?: string;
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
  readonly excerpt?: string;
}

/** Places of resources' parts: by `Kind/name`, then by JSON path within the stored spec; `''` is the resource itself. */
export interface Places {
  readonly [resource: string]: { readonly [path: string]: Place };
}
