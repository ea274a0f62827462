// One document → one merged layer: its imports in order, `remove` against them, its own fields last (docs/reference/compile.md#imports
// document, compilation order). Imported layers are shared between agents while nothing in them depends on who imports
// them, so that fan-out stays linear (docs/reference/compile.md#imports).

import type { Range } from '../../domain/diagnostic.ts';
import { type MapNode, type Node } from '../source/node.ts';
import { isDocumentFile, type SourceDocument } from '../source/source.ts';
import { type Budget, type Cost, Merging, weightOf } from './budget.ts';
import type { Dependency, ParsedSource } from './cache.ts';
import { envelopeOf } from './envelope.ts';
import type { Files } from './files.ts';
import {
  adviceFor,
  type Import,
  importsOf,
  lookUpProblem,
  otherVersion,
  outside,
  type ImportProblem,
  resolveImport,
  shown,
} from './imports.ts';
import { findingsMax, importDepthMax } from './limits.ts';
import { emptyLayer, type Layer, mergeLayers } from './merge.ts';
import { type FileRef, isAbsoluteOrUrl, resolveBeside } from './paths.ts';
import { applyRemove } from './remove.ts';
import { ownLayer, written } from './strings.ts';
import type { CompileInput } from './types.ts';
import { boundedReport, type LayerFinding, type Substituter } from './variables.ts';

/** A document merged with its imports, and what that rests on. */
export interface Loaded {
  readonly ref: FileRef;
  readonly layer: Layer;
  /** Of this document alone; those of its imports are in `imports`. */
  readonly findings: readonly LayerFinding[];
  readonly dependencies: readonly Dependency[];
  readonly imports: readonly Loaded[];
  /** Imports nested below this document. */
  readonly height: number;
  /** True when something that it imports could not be had, so that fields may be missing. */
  readonly isIncomplete: boolean;
  /** Fields whose text could not be had; nothing else is missing for that. */
  readonly lostTexts: ReadonlySet<string>;
  /** True when its text or that of an import holds variables. */
  readonly usesScope: boolean;
  /** False when a cycle or the depth limit cut it: then it holds for one agent only. */
  readonly isShareable: boolean;
  /** Where an imported document declares variables, which it may not. */
  readonly variables: Range | null;
  /** What merging this document took, its imports not counted. */
  readonly cost: Cost;
}

/** Imported layers that do not depend on their importer, by scope key (`''` where no variable is used) and file. */
export type SharedLayers = Map<string, Map<string, Loaded>>;

/** What the documents of a tree share. */
export interface LayerContext {
  readonly input: CompileInput;
  readonly files: Files;
  readonly shared: SharedLayers;
  readonly budget: Budget;
}

interface Draft {
  readonly ref: FileRef;
  readonly findings: LayerFinding[];
  readonly dependencies: Dependency[];
  readonly imports: Loaded[];
  height: number;
  isIncomplete: boolean;
  readonly lostTexts: Set<string>;
  usesScope: boolean;
  isShareable: boolean;
  variables: Range | null;
  readonly merging: Merging;
}

const newDraft = (ref: FileRef, dependencies: Dependency[], isIncomplete: boolean): Draft => ({
  ref,
  findings: [],
  dependencies,
  imports: [],
  height: 0,
  isIncomplete,
  lostTexts: new Set(),
  usesScope: false,
  isShareable: true,
  variables: null,
  merging: new Merging(),
});

/** Merges one agent document with its imports. Made for one agent; the shared layers are the tree's. */
export class Layering {
  readonly #input: CompileInput;
  readonly #files: Files;
  readonly #shared: SharedLayers;
  readonly #substituter: Substituter;
  readonly #budget: Budget;
  /** What tells the costs of this document's own layers from others'. */
  readonly #name: string;
  readonly #own = new Map<string, Loaded>();

  constructor(world: LayerContext, substituter: Substituter, name: string) {
    const { input, files, shared, budget } = world;
    this.#input = input;
    this.#files = files;
    this.#shared = shared;
    this.#substituter = substituter;
    this.#budget = budget;
    this.#name = name;
  }

  /** An agent document, whose own body is never substituted; `base` lies beneath its imports. */
  entry(ref: FileRef, { root, isPartial }: SourceDocument, base: Layer): Loaded {
    const draft = newDraft(ref, [], isPartial);
    // Nobody else has it: what it costs goes by its own name, not by that of its file, which may hold others.
    draft.isShareable = false;
    return this.#merge(draft, root, base, [ref.id], false);
  }

  #merge(draft: Draft, root: MapNode, base: Layer, stack: readonly string[], isImported: boolean): Loaded {
    const report = reporter(draft);
    let layer = base;
    const seen = new Set<string>();
    const before = draft.findings.length;
    const imports = importsOf(root, report);
    draft.isIncomplete ||= draft.findings.length > before;
    const { merging } = draft;
    for (const one of imports) {
      const loaded = merging.isSpent || this.#budget.isSpent ? null : this.#import(draft, one, stack, seen);
      if (loaded === null) continue;
      layer = mergeLayers(layer, loaded.layer, merging, report);
      if (merging.isSpent) fail(draft, one, tooLarge);
    }
    layer = applyRemove(layer, written(root, 'remove'), draft.isIncomplete, merging, report);
    const load = (path: string, range: Range, field: string): string | null =>
      this.#loadText(draft, { text: path, range, path: field }, isImported);
    return this.#finished(draft, mergeLayers(layer, ownLayer(root, load, report), merging, report));
  }

  #finished({ merging, ...draft }: Draft, layer: Layer): Loaded {
    const owner = draft.isShareable ? (draft.usesScope ? this.#substituter.scope.key : '') : this.#name;
    return { ...draft, layer, cost: { name: `${owner}\0${draft.ref.id}`, work: merging.work } };
  }

  /** Loads one import of a document. What is wrong with it is reported at the import. */
  #import(draft: Draft, one: Import, stack: readonly string[], seen: Set<string>): Loaded | null {
    if (stack.length > 1 && holdsVariable(one.text)) return fail(draft, one, null);
    const ref = resolveImport(this.#input, draft.ref, one.text, draft.dependencies);
    if ('neededTemplate' in ref) {
      this.#files.neededTemplates.add(ref.neededTemplate);
      draft.isIncomplete = true;
      return null;
    }
    if ('code' in ref) return fail(draft, one, ref);
    const other = otherVersion(ref, one.text);
    if (other !== null)
      draft.findings.push({
        severity: 'warning',
        code: 'template-version',
        message: other,
        range: one.range,
        path: one.path,
      });
    if (seen.has(ref.id)) {
      const message = `${ref.id} is imported twice here, and merged twice`;
      draft.findings.push({ severity: 'warning', code: 'import-repeated', message, range: one.range, path: one.path });
    }
    seen.add(ref.id);
    const cut = closing(stack, ref) ?? tooDeep(stack, ref);
    if (cut !== null) {
      draft.isShareable = false;
      return fail(draft, one, cut);
    }
    const loaded = this.#known(ref, stack.length) ?? this.#load(draft, one, ref, stack);
    if (loaded === null) return null;
    draft.imports.push(loaded);
    draft.height = Math.max(draft.height, loaded.height + 1);
    draft.isIncomplete ||= loaded.isIncomplete;
    for (const field of loaded.lostTexts) draft.lostTexts.add(field);
    draft.usesScope ||= loaded.usesScope;
    draft.isShareable &&= loaded.isShareable;
    if (loaded.variables !== null) {
      const related = [{ message: 'the variables', range: loaded.variables }];
      const message = `${ref.id} declares variables; only an agent document that is not imported may`;
      const code = 'variables-in-import';
      draft.findings.push({ severity: 'error', code, message, range: one.range, path: one.path, related });
    }
    return loaded;
  }

  /** A layer that is already there and is not cut differently at this depth. */
  #known(ref: FileRef, depth: number): Loaded | undefined {
    const shared = this.#shared.get('')?.get(ref.id) ?? this.#shared.get(this.#substituter.scope.key)?.get(ref.id);
    if (shared !== undefined && depth + shared.height <= importDepthMax) return shared;
    return this.#own.get(ref.id);
  }

  #keep(loaded: Loaded): Loaded {
    this.#budget.pay(loaded.cost);
    if (!loaded.isShareable) {
      this.#own.set(loaded.ref.id, loaded);
      return loaded;
    }
    const scope = loaded.usesScope ? this.#substituter.scope.key : '';
    const layers = this.#shared.get(scope) ?? new Map<string, Loaded>();
    layers.set(loaded.ref.id, loaded);
    this.#shared.set(scope, layers);
    return loaded;
  }

  /** Reads the file of an import and merges its one document. */
  #load(draft: Draft, one: Import, ref: FileRef, stack: readonly string[]): Loaded | null {
    const asked = { from: draft.ref, text: one.text, ref };
    if (!isDocumentFile(ref.path)) {
      const message = `${ref.id} is not a .yaml, .yml or .json file`;
      const hint = adviceFor(asked, isDocumentFile, this.#files);
      return fail(draft, one, { code: 'import-invalid', message, hint });
    }
    // What is found belongs to the imported layer, which others may share; what is not, to the one who asks.
    const dependencies: Dependency[] = [];
    const found = this.#files.find(ref, dependencies);
    if (found.kind !== 'file') {
      draft.dependencies.push(...dependencies);
      return fail(draft, one, lookUpProblem(found, asked, 'import-missing', this.#files));
    }
    const source = this.#files.source(ref, found.entry, found.bytes);
    const imported = newDraft(ref, dependencies, source.broken);
    imported.findings.push(...source.findings);
    const [document, second] = source.documents;
    if (source.broken && source.documents.length !== 1) return this.#keep(this.#finished(imported, emptyLayer));
    if (document === undefined || second !== undefined) {
      draft.dependencies.push(...dependencies);
      return fail(draft, one, documentCount(ref, source));
    }
    return this.#keep(this.#imported(imported, document.root, stack));
  }

  #imported(draft: Draft, root: MapNode, stack: readonly string[]): Loaded {
    const envelope = envelopeOf(root);
    if (envelope !== null) {
      draft.findings.push(envelope);
      draft.isIncomplete = true;
      return this.#finished(draft, emptyLayer);
    }
    const before = this.#substituter.tokens;
    const substituted = this.#substituter.document(root, reporter(draft));
    draft.merging.work += weightOf(root);
    draft.usesScope = this.#substituter.tokens > before;
    if (written(root, 'variables') !== undefined) draft.variables = root.entries.get('variables')?.keyRange ?? null;
    return this.#merge(draft, substituted, emptyLayer, [...stack, draft.ref.id], true);
  }

  /** The text of a `file:`, substituted where the document that declares it is imported; null when it cannot be had. */
  #loadText(draft: Draft, one: Import, isImported: boolean): string | null {
    if (isImported && holdsVariable(one.text)) return fail(draft, one, null);
    if (one.text.trim() === '' || isAbsoluteOrUrl(one.text)) {
      return failText(draft, one, {
        code: 'file-reference',
        message: `A file must be a relative path: ${shown(one.text)}`,
      });
    }
    const ref = resolveBeside(draft.ref, one.text, this.#input.root);
    if (ref === null) return failText(draft, one, outside(draft.ref, one.text));
    const found = this.#files.find(ref, draft.dependencies);
    const asked = { from: draft.ref, text: one.text, ref };
    if (found.kind !== 'file') return failText(draft, one, lookUpProblem(found, asked, 'file-missing', this.#files));
    const decoded = this.#files.text(ref, found.bytes);
    if (!decoded.ok) {
      draft.findings.push(decoded.finding);
      draft.lostTexts.add(one.path);
      return null;
    }
    if (!isImported) return decoded.text;
    const before = this.#substituter.tokens;
    const range = (start: number, end: number): Range => ({ file: ref.id, start, end });
    const text = this.#substituter.text(decoded.text, range, [one.path], reporter(draft));
    draft.usesScope ||= this.#substituter.tokens > before;
    return text;
  }
}

const tooLarge: ImportProblem = {
  code: 'imports-too-large',
  message: 'The imports up to this one are too much to merge',
  hint: 'Import smaller files, or fewer of them.',
};

const reporter = (draft: Draft): ((finding: LayerFinding) => void) => boundedReport(draft.findings, findingsMax);

/** A path of an imported document in which a variable is left: the variable has been reported, and the path says nothing. */
const holdsVariable = (path: string): boolean => /\{\{\s*\$/.test(path);

/** Reports a problem at an import; without one it is only noted that something is missing. */
function fail(draft: Draft, one: Import, problem: (ImportProblem & { readonly once?: string }) | null): null {
  draft.isIncomplete = true;
  if (problem !== null) draft.findings.push({ severity: 'error', ...problem, range: one.range, path: one.path });
  return null;
}

/** The same of a `file:`, which leaves out the one field that is its text; without a problem it may yet come. */
function failText(draft: Draft, one: Import, problem: ImportProblem | null): null {
  if (problem === null) return fail(draft, one, null);
  draft.lostTexts.add(one.path);
  draft.findings.push({ severity: 'error', ...problem, range: one.range, path: one.path });
  return null;
}

/** The import that closes a cycle names it; a cycle entered at several files is one (docs/reference/compile.md#imports). */
function closing(stack: readonly string[], ref: FileRef): (ImportProblem & { readonly once: string }) | null {
  const at = stack.indexOf(ref.id);
  if (at === -1) return null;
  const cycle = stack.slice(at);
  const first = cycle.indexOf([...cycle].sort()[0] ?? '');
  const once = JSON.stringify([...cycle.slice(first), ...cycle.slice(0, first)]);
  const hint = 'Take one of these imports away; what several need stands in a file that imports none of them.';
  return { code: 'import-cycle', message: `Import cycle: ${[...cycle, ref.id].join(' → ')}`, hint, once };
}

function tooDeep(stack: readonly string[], ref: FileRef): ImportProblem | null {
  if (stack.length <= importDepthMax) return null;
  return { code: 'import-too-deep', message: `Imports are nested deeper than ${importDepthMax} levels at ${ref.id}` };
}

function documentCount(ref: FileRef, source: ParsedSource): ImportProblem {
  const count = source.documents.length;
  return {
    code: 'import-documents',
    message: `An imported file holds exactly one document; ${ref.id} holds ${count === 0 ? 'none' : count}`,
  };
}

/** The base of the agent named `default`, standing at its name (docs/reference/compile.md#imports). */
export function baseOf(root: MapNode): Layer {
  const name = root.entries.get('name')?.value;
  if (name?.kind !== 'scalar' || typeof name.value !== 'string' || name.value.trim() !== 'default') return emptyLayer;
  const { range } = name;
  const text = (value: string): Node => ({ kind: 'scalar', value, range });
  const map = (fields: { readonly [key: string]: Node }): MapNode => ({
    kind: 'map',
    entries: new Map(Object.entries(fields).map(([key, value]) => [key, { keyRange: range, value }])),
    range,
  });
  const environment = map({ name: text('default'), image: map({ kind: text('preset'), name: text('base') }) });
  return { entries: map({ harness: text('harness-a'), environment }).entries, pending: new Map() };
}
