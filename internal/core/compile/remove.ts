// `remove`: takes keys out of the merged imports before the document's own fields are merged (spec, remove; decision 33).

import type { Finding, Range } from '../../words/diagnostic.ts';
import type { MapEntry, Node, PathStep } from '../source/node.ts';
import { printPath } from '../source/node.ts';
import { type Layer, triggerKey } from './merge.ts';

type Report = (finding: Finding) => void;

/**
 * Applies a `remove` value to the merged imports. An unknown target or a malformed key is an error; a key that matches
 * nothing is a warning, unless an import is missing and the key may be in it.
 */
export function applyRemove(base: Layer, remove: Node | undefined, incomplete: boolean, report: Report): Layer {
  if (remove === undefined) return base;
  if (remove.kind !== 'map') {
    report(fault('remove-invalid', '"remove" is a map of tools, triggers or env to keys', remove.range, ['remove']));
    return base;
  }
  const entries = new Map(base.entries);
  for (const [target, entry] of remove.entries) {
    if (!['tools', 'triggers', 'env'].includes(target)) {
      report({
        ...fault(
          'remove-target',
          `Unsupported agent remove target: ${target.slice(0, 60).toWellFormed()}`,
          entry.keyRange,
          ['remove', target],
        ),
        hint: 'Only tools, triggers and env can be removed from.',
      });
      continue;
    }
    for (const { key, range, path } of keysOf(target, entry.value, report)) {
      const field = entries.get(target);
      const left = field === undefined ? null : without(target, field, key);
      if (left !== null) entries.set(target, left);
      else if (!incomplete) report(unmatched(target, key, range, path));
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
    if (item.kind === 'scalar' && typeof item.value === 'string')
      keys.push({ key: item.value, range: item.range, path });
    else report(fault('remove-invalid', `remove.${target} is a string or a list of strings`, item.range, path));
  });
  return keys;
}

/** The field without what has the key, or null where nothing has. */
function without(target: string, field: MapEntry, key: string): MapEntry | null {
  const { value } = field;
  if (target === 'triggers') {
    if (value.kind !== 'seq') return null;
    const items = value.items.filter((item) => triggerKey(item) !== key);
    return items.length === value.items.length ? null : { ...field, value: { ...value, items } };
  }
  if (value.kind !== 'map' || !value.entries.has(key)) return null;
  const entries = new Map(value.entries);
  entries.delete(key);
  return { ...field, value: { ...value, entries } };
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
    ...(target === 'triggers'
      ? {
          hint: 'A trigger is removed by its name, else its event, else its joined events, else cron:<cron>:<timezone>.',
        }
      : {}),
  };
}
