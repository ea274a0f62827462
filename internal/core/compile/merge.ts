// Merging per field class (docs/reference/compile.md#merge): one rule for each root field, in one table. Nodes keep their ranges,
// so a merged document still knows where each of its parts was written.

import { agentFields } from '../../../schemas/agent.ts';
import type { Merge } from '../../../schemas/grammar.ts';
import type { Finding, TextPart } from '../../domain/diagnostic.ts';
import { type MapEntry, type Node, type ScalarNode, scalarOf } from '../source/node.ts';
import type { Merging } from './budget.ts';
import { listItemsMax, textCharactersMax } from './limits.ts';

/** A document on its way through merging: its fields, and `append` texts that have found no base yet. */
export interface Layer {
  readonly entries: ReadonlyMap<string, MapEntry>;
  readonly pending: ReadonlyMap<string, PendingAppend>;
}
export interface PendingAppend {
  readonly keyRange: MapEntry['keyRange'];
  readonly value: ScalarNode & { readonly value: string };
}

export const emptyLayer: Layer = { entries: new Map(), pending: new Map() };

type Rule = (base: Node, overlay: Node, merging: Merging) => Node;

const replace: Rule = (_base, overlay) => overlay;

/** Maps merge key by key with a rule for each key; anything else is replaced. */
function keyed(ruleOf: (key: string) => Rule): Rule {
  return (base, overlay, merging) => {
    if (base.kind !== 'map' || overlay.kind !== 'map') return overlay;
    const entries = merging.ownMap(base.entries);
    merging.work += overlay.entries.size;
    for (const [key, entry] of overlay.entries) {
      const under = entries.get(key);
      const value = under === undefined ? entry.value : ruleOf(key)(under.value, entry.value, merging);
      entries.set(key, { keyRange: entry.keyRange, value });
    }
    return { kind: 'map', entries, range: overlay.range };
  };
}

/** Records merge key-wise to any depth; scalars and arrays override. */
const deep: Rule = keyed(() => deep);
/** A map whose values are leaves: env maps and `where` clauses (docs/reference/compile.md#merge). */
const leaves: Rule = keyed(() => replace);
const environment: Rule = keyed((key) => (key === 'env' ? leaves : deep));
const trigger: Rule = keyed((key) => (key === 'where' ? leaves : deep));

/**
 * Lists of named items: an overlay item merges into the first base item of its key that no earlier overlay item has
 * taken, else it is appended; items of one document never merge with each other (docs/reference/compile.md#output).
 */
function named(keyOf: (item: Node) => string | null, item: Rule): Rule {
  return (base, overlay, merging) => {
    if (base.kind !== 'seq' || overlay.kind !== 'seq') return overlay;
    merging.work += base.items.length + overlay.items.length;
    const places = new Map<string | null, number[]>();
    base.items.forEach((one, index) => {
      const key = keyOf(one);
      const list = places.get(key);
      if (list === undefined) places.set(key, [index]);
      else list.push(index);
    });
    for (const list of places.values()) list.reverse();
    const items = merging.ownList(base.items);
    for (const one of overlay.items) {
      const key = keyOf(one);
      const at = key === null ? undefined : places.get(key)?.pop();
      if (at === undefined) items.push(one);
      else items[at] = item(items[at] as Node, one, merging);
    }
    return { kind: 'seq', items, range: overlay.range };
  };
}

function textOf(node: Node, key: string): string | null {
  const entry = node.kind === 'map' ? node.entries.get(key) : undefined;
  const value = entry && scalarOf(entry.value);
  return typeof value === 'string' ? value : null;
}

/** The key of a mount: its `name`, else its `mountPath`. */
export function mountKey(mount: Node): string | null {
  return textOf(mount, 'name') ?? textOf(mount, 'mountPath');
}

/** The key of a trigger: `name`, else `event`, else joined `events`, else `cron:<cron>:<timezone as authored>`. */
export function triggerKey(node: Node): string | null {
  const single = textOf(node, 'name') ?? textOf(node, 'event');
  if (single !== null || node.kind !== 'map') return single;
  const events = node.entries.get('events')?.value;
  if (events?.kind === 'seq') {
    const keys = events.items.map((item) => String(scalarOf(item)));
    if (keys.length > 0) return keys.join(',');
  }
  const cron = textOf(node, 'cron');
  return cron === null ? null : `cron:${cron}:${textOf(node, 'timezone') ?? ''}`;
}

/** By the class that the table of fields gives each. Texts are joined by `append` alone, and what steers compiling never merges. */
const classes: { readonly [merge in Merge]: Rule | undefined } = {
  override: replace,
  deep,
  environment,
  map: deep,
  leaves,
  mounts: named(mountKey, deep),
  triggers: named(triggerKey, trigger),
  append: undefined,
  none: undefined,
};
/** A root field that is not here is unknown, and the last one stands. */
const rules: ReadonlyMap<string, Rule | undefined> = new Map(
  Object.entries(agentFields).map(([field, { merge }]) => [field, classes[merge]]),
);

/**
 * Merges one layer over another, which the merging may use up where it made it; what cannot be merged is reported and the
 * overlay stands.
 */
export function mergeLayers(base: Layer, overlay: Layer, merging: Merging, report: (finding: Finding) => void): Layer {
  if (base.entries.size === 0 && base.pending.size === 0) return overlay;
  const entries = merging.ownMap(base.entries);
  const pending = merging.ownMap(base.pending);
  merging.work += overlay.entries.size;
  for (const [field, entry] of overlay.entries) {
    const waiting = pending.get(field);
    if (waiting !== undefined) {
      report(plainOverAppend(field, entry, waiting));
      pending.delete(field);
    }
    const under = entries.get(field);
    const rule = rules.get(field);
    if (under !== undefined) reportLost(field, under.value, entry.value, report);
    const value = under === undefined || rule === undefined ? entry.value : rule(under.value, entry.value, merging);
    entries.set(field, { keyRange: entry.keyRange, value: bounded(field, value, entry, report) });
  }
  for (const [field, append] of overlay.pending) {
    const under = entries.get(field);
    const text = under?.value ?? pending.get(field)?.value;
    const joined = text === undefined ? append : appended(field, text, append, report);
    merging.text(joined.value.value.length);
    if (under === undefined) pending.set(field, joined);
    else if (typeof scalarOf(under.value) === 'string') entries.set(field, joined);
  }
  return { entries, pending };
}

/** Fields whose entries add up over layers, and what each of them is. */
const collections: ReadonlyMap<string, 'map' | 'seq'> = new Map([
  ['env', 'map'],
  ['environment.env', 'map'],
  ['tools', 'map'],
  ['mounts', 'seq'],
  ['triggers', 'seq'],
]);

/** Tells where a layer's entries are not such as could be merged: the overlay's stand alone, and nothing is wrong any more. */
function reportLost(path: string, under: Node, overlay: Node, report: (finding: Finding) => void): void {
  if (collections.get(path) === overlay.kind && under.kind !== overlay.kind) report(lostUnder(path, under));
  if (path !== 'environment' || under.kind !== 'map' || overlay.kind !== 'map') return;
  const [env, over] = [under.entries.get('env'), overlay.entries.get('env')];
  if (env !== undefined && over !== undefined) reportLost('environment.env', env.value, over.value, report);
}

function lostUnder(path: string, under: Node): Finding {
  const isMap = collections.get(path) === 'map';
  return {
    severity: 'warning',
    code: 'invalid-type',
    message: `${path} is no ${isMap ? 'map' : 'list'} here, so that nothing of it is left under the ${path} of a later layer`,
    range: under.range,
    path,
    hint: isMap ? 'Write each entry as a key with its value.' : 'Begin each entry of the list with "- ".',
  };
}

function bounded(field: string, value: Node, overlay: MapEntry, report: (finding: Finding) => void): Node {
  if (value.kind !== 'seq' || value.items.length <= listItemsMax) return value;
  const message = `${field} grows past ${listItemsMax} items by merging`;
  report({ severity: 'error', code: 'invalid-value', message, range: overlay.keyRange, path: field });
  return overlay.value;
}

/** Joins an append to its base with exact white space and no separator. */
function appended(field: string, base: Node, append: PendingAppend, report: (finding: Finding) => void): PendingAppend {
  const { value: overlay, keyRange } = append;
  if (base.kind !== 'scalar' || typeof base.value !== 'string') return append;
  const before = base.value;
  const value = before + overlay.value;
  if (value.length > textCharactersMax) {
    const message = `${field} grows past ${textCharactersMax} characters by appending`;
    report({ severity: 'error', code: 'invalid-value', message, range: overlay.range, path: field });
    return append;
  }
  const parts = [...partsOf(base, 0), ...partsOf(overlay, before.length)];
  return { keyRange, value: { kind: 'scalar', value, made: 'append', parts, range: overlay.range } };
}

const partsOf = ({ parts, range }: ScalarNode, from: number): readonly TextPart[] =>
  parts?.map((part) => ({ ...part, offset: part.offset + from })) ?? [{ offset: from, range }];

function plainOverAppend(field: string, entry: MapEntry, waiting: PendingAppend): Finding {
  return {
    severity: 'error',
    code: 'plain-over-append',
    message: `A plain ${field} merges over an append that has found no base yet; import the base before its append overlay`,
    range: entry.value.range,
    path: field,
    hint: 'List the file that sets the plain text first in "imports", then the one that appends.',
    related: [{ message: 'the append that waits for a base', range: waiting.value.range }],
  };
}

/** The finding for an append that is left when an agent document is complete. */
export function appendWithoutBase(field: string, waiting: PendingAppend): Finding {
  return {
    severity: 'error',
    code: 'append-without-base',
    message: `The append to ${field} finds no base to append to`,
    range: waiting.value.range,
    path: field,
    hint: `Import a file that sets ${field} as plain text before this append, or write the text plainly.`,
  };
}
