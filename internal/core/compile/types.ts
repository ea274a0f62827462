// The shapes that the two halves of compile share: layers (imports, variables, remove, merge) hand merged
// documents to checks (validate, canonical form, cross checks, generated resources).

import type { Bundle, ResolvedTemplate, TemplateLock, UnresolvedTemplate } from '../../domain/bundle.ts';
import type { Catalog } from '../../domain/catalog.ts';
import type { Diagnostic, Finding, Origins, Places } from '../../domain/diagnostic.ts';
import type { Resource } from '../../domain/spec.ts';
import type { MapNode } from '../source/node.ts';

export interface CompileInput {
  readonly bundle: Bundle;
  /** The directory of the repository that the tree begins at, whose paths may lead above it; absent: it is the repository. */
  readonly root?: string;
  /** Context variables, beneath each document's own `variables`. */
  readonly context: { readonly [name: string]: string };
  readonly catalog: Catalog;
  /** By specifier `@scope/name@requested`. What is absent is reported in `needs`. */
  readonly templates: ReadonlyMap<string, ResolvedTemplate | UnresolvedTemplate>;
  /** Lower-case hex SHA-256; passed in because the core takes nothing from node:crypto. */
  readonly sha256: (bytes: Uint8Array | string) => string;
  /** Parses and merged agents of earlier compiles, by content; a caller that keeps one gets incremental compiles. */
  readonly cache?: CompileCache;
  /**
   * Says where each value of each agent comes from: of the whole tree, or of the agents in these files, and then nothing
   * else is compiled.
   */
  readonly origins?: 'all' | readonly string[];
  /** The tree came along with the question, and may never be seen again: of a large one nothing is kept. */
  readonly isSent?: boolean;
  /**
   * Told behind each agent file that was compiled anew how many bytes it has: what was made on the way to its resources is
   * not needed any more.
   */
  readonly passed?: (bytes: number) => void;
}

/** Opaque to callers: made with `createCompileCache()`, bounded, safe to share between trees. */
export interface CompileCache {
  readonly kind: 'compile-cache';
}

export interface CompileNeeds {
  /** Paths outside `.svc/` that imports or `file:` name and the bundle neither has nor lists as absent. */
  readonly paths: readonly string[];
  /** Template specifiers that are not in `templates`. */
  readonly templates: readonly string[];
}

export interface CompileOutput {
  /** True when there is no error. Where something is still needed, false. */
  readonly ok: boolean;
  /** Sorted by kind, then name; empty unless `ok`. */
  readonly resources: readonly Resource[];
  /** Sorted by file, line, column. */
  readonly diagnostics: readonly Diagnostic[];
  /** Not empty: supply these and compile again (a closure needs at most `needRoundsMax` rounds). */
  readonly needs: CompileNeeds;
  readonly templateLock: TemplateLock;
  /** Sorted paths outside `.svc/` that imports or `file:` name, there or not: with `ok`, all that the tree rests on. */
  readonly outside?: readonly string[];
  /**
   * Where the parts stand that only an apply can check, so that its diagnostics have a line too: for each Agent `''`,
   * `identity`, `env.<NAME>`, `model.id` and its like where they are slugs, `tools.<alias>`, `triggers[n]` and its `event`,
   * `connection`, `endpoint`, `auth`, `cron`; for each Environment and Identity `''`, `env.<NAME>`, `resources.cpuCount`,
   * `resources.memoryMB`, `avatar` and `avatar.sha256`. A part without a place takes that of its parent.
   */
  readonly places?: Places;
  /** By agent, where `CompileInput.origins` asked for them; of agents without an error. */
  readonly origins?: { readonly [agent: string]: Origins };
  /** Avatar assets that the resources use, by hash, so that apply can store the bytes. */
  readonly assets: readonly {
    readonly sha256: string;
    readonly path: string;
    readonly mediaType: 'image/png' | 'image/jpeg';
  }[];
}

/** An agent document after imports, variables, remove and merge; file-backed strings are text already. */
export interface MergedDocument {
  readonly file: string;
  /** Index within the file, counting documents that hold something. */
  readonly document: number;
  /** The whole merged root; unknown root keys are still in it, and `imports`, `import`, `variables`, `remove` are not. */
  readonly root: MapNode;
  /** The document's own root, for findings that have no better place (such as a missing field). */
  readonly own: MapNode;
}

/** Collects findings; an error repeated at the same place is kept once. */
export type Report = (finding: Finding) => void;
