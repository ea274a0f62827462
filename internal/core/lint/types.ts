// What the linter is given of a document.

import type { Range, TextPart } from '../../domain/diagnostic.ts';
import type { Routing, Where } from '../../domain/spec.ts';

/** One authored trigger with the places that a warning may point at. */
export interface LintTrigger {
  /** JSON path of the trigger. */
  readonly path: string;
  /** Empty for a heartbeat. */
  readonly events: readonly { readonly key: string; readonly range: Range; readonly path: string }[];
  readonly where: Where;
  /** Places of the keys of `where`. */
  readonly whereRanges: ReadonlyMap<string, Range>;
  readonly fallback: boolean;
  readonly fallbackRange: Range | undefined;
  readonly routing: Routing;
  /** The value that says where the route aims: `target`, `routeBy.kind`, else `kind`. */
  readonly aimRange: Range;
  readonly endpoint: string | undefined;
  readonly connection: string | undefined;
  /** Its message, where it is a text. */
  readonly message?: LintText | undefined;
  /** True where apply may skip the trigger. */
  readonly isOptional: boolean;
}

/** Counts the suggestions made for a document: past some, they cost more than what they are about. */
export interface Suggestions {
  count: number;
}

/** A text of the document, and what its `{{ path }}` tokens are read from. */
export interface LintText {
  readonly text: string;
  readonly range: Range;
  readonly parts?: readonly TextPart[];
  readonly path: string;
  /** `event`: that trigger's payload. `start`: the payload of whatever starts a session, or a caller's own input. */
  readonly reads: 'event' | 'start' | 'nothing';
  /** True where the agent document itself holds it, so that no variable was put in. */
  readonly isOwn: boolean;
}
