// A document's own fields as a layer: `file:` becomes its text, `append:` waits for a base, and a bare `key:` counts as
// not written (docs/reference/compile.md#file-backed-strings; docs/reference/compile.md#files, docs/reference/compile.md#file-backed-strings).

import { controls, fileBacked } from '../../../schemas/agent.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import type { MapEntry, MapNode, Node } from '../source/node.ts';
import type { Layer, PendingAppend } from './merge.ts';

type Report = (finding: Finding) => void;

/** The value of a root field, or undefined where it is absent or bare. */
export function written(root: MapNode, field: string): Node | undefined {
  const value = root.entries.get(field)?.value;
  return value === undefined || (value.kind === 'scalar' && value.value === null) ? undefined : value;
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
    const [form, text] = onlyEntry(value);
    if (text !== null && form === 'append') {
      pending.set(field, { keyRange, value: text });
    } else if (text !== null && form === 'file') {
      const loaded = load(text.value, text.range, field);
      if (loaded !== null) entries.set(field, { keyRange, value: { ...text, value: loaded } });
    } else {
      report(malformed(field, value));
    }
  }
  return { entries, pending };
}

function onlyEntry(node: MapNode): readonly [string, PendingAppend['value'] | null] {
  const [first] = node.entries;
  if (first === undefined || node.entries.size > 1) return ['', null];
  const [form, { value }] = first;
  if (value.kind !== 'scalar' || typeof value.value !== 'string') return [form, null];
  return [form, { ...value, value: value.value }];
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
