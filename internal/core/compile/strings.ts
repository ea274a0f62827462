// A document's own fields as a layer: `file:` becomes its text, `append:` waits for a base, and a bare `key:` counts as not
// written (docs/reference/compile.md#file-backed-strings).

import { controls, fileBacked } from '../../../schemas/agent.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import { type MapEntry, type MapNode, type Node, scalarOf } from '../source/node.ts';
import type { Layer, PendingAppend } from './merge.ts';

type Report = (finding: Finding) => void;

/** The value of a root field, or undefined where it is absent or bare. */
export function written(root: MapNode, field: string): Node | undefined {
  const value = root.entries.get(field)?.value;
  return value === undefined || scalarOf(value) === null ? undefined : value;
}

/** `load` gives the text of a `file:` path, or null when it has reported why it cannot. */
export function ownLayer(
  root: MapNode,
  load: (path: string, range: Range, field: string) => string | null,
  report: Report,
): Layer {
  const entries = new Map<string, MapEntry>();
  const pending = new Map<string, PendingAppend>();
  for (const [field, entry] of root.entries) {
    if (controls.has(field) || written(root, field) === undefined) continue;
    const { value, keyRange } = entry;
    if (!fileBacked.has(field) || value.kind !== 'map') {
      entries.set(field, entry);
      continue;
    }
    const only = onlyEntry(value);
    if (only?.form === 'append') {
      pending.set(field, { keyRange, value: only.text });
    } else if (only?.form === 'file') {
      const loaded = load(only.text.value, only.text.range, field);
      if (loaded !== null) entries.set(field, { keyRange, value: { ...only.text, value: loaded } });
    } else {
      report(malformed(field, value));
    }
  }
  return { entries, pending };
}

/** The one key of a map with its text; undefined where there is another, or no text. */
function onlyEntry(node: MapNode): { readonly form: string; readonly text: PendingAppend['value'] } | undefined {
  const [first, second] = node.entries;
  if (first === undefined || second !== undefined) return undefined;
  const [form, { value }] = first;
  if (value.kind !== 'scalar' || typeof value.value !== 'string') return undefined;
  return { form, text: { ...value, value: value.value } };
}

/** Wrong is the value of the one form that there is, else the form. */
function malformed(field: string, value: MapNode): Finding {
  const [form, second] = value.entries.values();
  const isForm = second === undefined && (value.entries.has('file') || value.entries.has('append'));
  return {
    severity: 'error',
    code: 'file-reference',
    message: `${field} takes a string, or exactly one of "file: <relative path>" and "append: <string>"`,
    range: (isForm ? form?.value.range : form?.keyRange) ?? value.range,
    path: field,
  };
}
