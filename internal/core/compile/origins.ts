// Where each value of an agent's spec comes from: the file and line that wrote it, and which layer of merging that was
// (docs/reference/compile.md#origins). Merged nodes keep the range of whoever wrote them, so that nothing has to be
// remembered on the way: the spec is walked beside the document that it was made of. Never decides what a value is.

import type { OriginLayer, Range } from '../../domain/diagnostic.ts';
import type { Json } from '../../domain/json.ts';
import { type AgentSpec, asJson } from '../../domain/spec.ts';
import type { MapNode, Node, PathStep } from '../source/node.ts';
import { printPath } from '../source/node.ts';
import type { TriggerDraft } from './check-triggers.ts';
import type { MergedDocument } from './types.ts';

/** The origin of one value; without a range it is a default. */
export interface OriginDraft {
  readonly path: string;
  readonly range?: Range;
  readonly layer: OriginLayer;
}

const child = (node: Node | undefined, key: PathStep): Node | undefined => {
  if (node?.kind === 'map') return node.entries.get(String(key))?.value;
  return node?.kind === 'seq' ? node.items[Number(key)] : undefined;
};

/** The origins of a spec and of all that is in it, parents before what they hold. */
export function originsOf(doc: MergedDocument, spec: AgentSpec, triggers: readonly TriggerDraft[]): OriginDraft[] {
  const found: OriginDraft[] = [];
  const base = ownName(doc.own)?.range;
  const add = (path: readonly PathStep[], node: Node | undefined): void => {
    const name = printPath(path);
    // What the agent named `default` is given stands at its name, which it did not write for that.
    if (node === undefined || node.range === base) found.push({ path: name, layer: 'default' });
    else found.push({ path: name, range: node.range, layer: layerOf(node, doc.file) });
  };
  const walk = (value: Json, node: Node | undefined, path: PathStep[]): void => {
    if (path.length > 0) add(path, node);
    const steps = Array.isArray(value)
      ? value.map((one, index) => [index, one] as const)
      : typeof value === 'object' && value !== null
        ? Object.entries(value)
        : [];
    for (const [step, one] of steps) {
      path.push(step);
      walk(one as Json, nodeFor(node, path, { root: doc.root, triggers }), path);
      path.pop();
    }
  };
  walk(asJson(spec), doc.root, []);
  return found;
}

interface Written {
  readonly root: MapNode;
  readonly triggers: readonly TriggerDraft[];
}

/** What wrote the value at a path of the canonical spec, whose parent was written by `parent`. */
function nodeFor(parent: Node | undefined, path: readonly PathStep[], written: Written): Node | undefined {
  const step = path.at(-1) ?? '';
  const [field, second] = path;
  if (path.length === 1) {
    const node = child(written.root, step);
    // An inline environment or identity has become a name, its own or else the agent's.
    const isNamed = step === 'environment' || step === 'identity';
    return isNamed ? (child(node, 'name') ?? node) : node;
  }
  if (field === 'triggers' && path.length === 2) return triggerAt(written.triggers, Number(second))?.draft.spot.node;
  if (field === 'triggers' && path.length === 3 && step === 'event') return eventNode(written.triggers, Number(second));
  if (field === 'bindings') return bindingNode(parent, path, written.triggers);
  // A word that stands for more than itself, such as an older spelling: all of it was written there.
  return parent?.kind === 'scalar' ? parent : child(parent, step);
}

/** The trigger that an ordinal was expanded from, and which of its events it is. */
function triggerAt(drafts: readonly TriggerDraft[], ordinal: number) {
  let first = 0;
  for (const draft of drafts) {
    if (ordinal < first + draft.triggers.length) return { draft, index: ordinal - first };
    first += draft.triggers.length;
  }
  return undefined;
}

function eventNode(drafts: readonly TriggerDraft[], ordinal: number): Node | undefined {
  const found = triggerAt(drafts, ordinal);
  return found?.draft.events[found.index]?.spot.node;
}

/** A policy may stand in `bindings` or inline, with a trigger that routes by its target. */
function bindingNode(
  parent: Node | undefined,
  [, target, field, ...deeper]: readonly PathStep[],
  drafts: readonly TriggerDraft[],
): Node | undefined {
  if (deeper.length > 0) return child(parent, deeper.at(-1) ?? '');
  const own = child(parent, field ?? target ?? '');
  if (own !== undefined) return own;
  return drafts
    .flatMap(({ routing }) => routing?.inline ?? [])
    .find((value) => value.target === target && (field === undefined || value.field === field))?.spot.node;
}

const ownName = (own: MapNode): Node | undefined => own.entries.get('name')?.value;

function layerOf(node: Node, file: string): OriginLayer {
  if (node.kind === 'scalar' && node.made !== undefined) return node.made;
  return node.range.file === file ? 'document' : 'import';
}
