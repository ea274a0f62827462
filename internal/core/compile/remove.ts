// `remove`: takes keys out of the merged imports before the document's own fields are merged (docs/reference/compile.md#remove).

import { diagnosticCodes } from '../../domain/codes.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import type { MapEntry, Node, PathStep } from '../source/node.ts';
import { printPath, scalarOf } from '../source/node.ts';
import type { Merging } from './budget.ts';
import { type Layer, triggerKey } from './merge.ts';

type Report = (finding: Finding) => void;

/**
 * Applies a `remove` value to the merged imports. An unknown target or a malformed key is an error; a key that matches
 * nothing is a warning, unless an import is missing and the key may be in it.
 */
export function applyRemove(
  base: Layer,
  remove: Node | undefined,
  incomplete: boolean,
  merging: Merging,
  report: Report,
): Layer {
  if (remove === undefined) return base;
  if (remove.kind !== 'map') {
    report(fault('remove-invalid', '"remove" is a map of tools, triggers or env to keys', remove.range, ['remove']));
    return base;
  }
  const entries = merging.ownMap(base.entries);
  for (const [target, entry] of remove.entries) {
    if (!['tools', 'triggers', 'env'].includes(target)) {
      report({
        ...fault(
          'remove-target',
          `${diagnosticCodes['remove-target']}: ${target.slice(0, 60).toWellFormed()}`,
          entry.keyRange,
          ['remove', target],
        ),
        hint: 'Only tools, triggers and env can be removed from.',
      });
      continue;
    }
    const keys = keysOf(target, entry.value, report);
    const field = entries.get(target);
    const left = new Set(keys.map(({ key }) => key));
    if (field !== undefined) entries.set(target, without(target, field, left, merging));
    for (const { key, range, path } of keys) {
      // What is still in `left` was not there to take out; a key that is repeated is there but once.
      if (left.has(key) && !incomplete) report(unmatched(target, key, range, path));
      left.add(key);
    }
  }
  return { entries, pending: base.pending };
}

interface RemoveKey {
  readonly key: string;
  readonly range: Range;
  readonly path: readonly PathStep[];
}

function keysOf(target: string, node: Node, report: Report): RemoveKey[] {
  const items: readonly Node[] = node.kind === 'seq' ? node.items : [node];
  const keys: RemoveKey[] = [];
  items.forEach((item, index) => {
    const path = node.kind === 'seq' ? ['remove', target, index] : ['remove', target];
    const key = scalarOf(item);
    if (typeof key === 'string') keys.push({ key, range: item.range, path });
    else report(fault('remove-invalid', `remove.${target} is a string or a list of strings`, item.range, path));
  });
  return keys;
}

/** The field without what has one of the keys, in one pass; keys that something had are taken out of `keys`. */
function without(target: string, field: MapEntry, keys: Set<string>, merging: Merging): MapEntry {
  const { value } = field;
  const found = new Set<string>();
  let left: Node = value;
  if (target === 'triggers' && value.kind === 'seq') {
    merging.work += value.items.length;
    const items = value.items.filter((item) => {
      const key = triggerKey(item);
      if (key === null || !keys.has(key)) return true;
      found.add(key);
      return false;
    });
    left = { ...value, items };
  } else if (target !== 'triggers' && value.kind === 'map') {
    for (const key of keys) if (value.entries.has(key)) found.add(key);
    const entries = merging.ownMap(value.entries);
    for (const key of found) entries.delete(key);
    left = { ...value, entries };
  }
  for (const key of found) keys.delete(key);
  return { ...field, value: left };
}

function fault(
  code: 'remove-invalid' | 'remove-target',
  message: string,
  range: Range,
  path: readonly PathStep[],
): Finding {
  return { severity: 'error', code, message, range, path: printPath(path) };
}

function unmatched(target: string, key: string, range: Range, path: readonly PathStep[]): Finding {
  return {
    severity: 'warning',
    code: 'remove-unmatched',
    message: `Nothing in the imports has the ${target} key ${JSON.stringify(key.slice(0, 120).toWellFormed())}`,
    range,
    path: printPath(path),
    hint:
      target === 'triggers'
        ? 'A trigger is removed by its name, else its event, else its joined events, else cron:<cron>:<timezone>.'
        : 'Take the entry away, or write the key as the import has it.',
  };
}
