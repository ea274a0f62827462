// Hands a checked document to the linter as plain values with places, and reports what it finds.

import type { Range } from '../../domain/diagnostic.ts';
import { lint } from '../lint/lint.ts';
import type { LintDocument } from '../lint/lint.ts';
import type { LintTrigger, LintText } from '../lint/types.ts';
import type { Node } from '../source/node.ts';
import type { TriggerDraft } from './check-triggers.ts';
import type { MapRef } from './read.ts';
import { field, pathOf } from './read.ts';
import type { Report } from './types.ts';

/** Gives the triggers as the linter sees them, for what only the whole tree can tell. */
export function lintDocument(root: MapRef, triggers: readonly TriggerDraft[], report: Report): readonly LintTrigger[] {
  const rootKeys = [...root.node.entries].map(([key, entry]) => ({ key, range: entry.keyRange }));
  const seen = triggers.flatMap((draft) => lintTrigger(root.key.file, draft));
  for (const finding of lint({ rootKeys, triggers: seen, refs: mountRefs(root), texts: textsOf(root, triggers) }))
    report(finding);
  return seen;
}

/** The refs of the mounts, read where they are texts: what else is wrong with a mount is not the linter's business. */
function mountRefs(root: MapRef): LintDocument['refs'] {
  const mounts = root.node.entries.get('mounts')?.value;
  if (mounts?.kind !== 'seq') return [];
  return mounts.items.flatMap((mount, index) => {
    const ref = mount.kind === 'map' ? mount.entries.get('ref')?.value : undefined;
    if (ref?.kind !== 'scalar' || typeof ref.value !== 'string') return [];
    return [{ ref: ref.value, range: ref.range, path: `mounts[${index}].ref` }];
  });
}

const texts: readonly (readonly [field: string, reads: LintText['reads']])[] = [
  ['systemPrompt', 'nothing'],
  ['initialPrompt', 'start'],
  ['displayTitle', 'start'],
  ['onReplace', 'nothing'],
];

function textOf(file: string, node: Node | undefined, path: string, reads: LintText['reads']): LintText[] {
  if (node?.kind !== 'scalar' || typeof node.value !== 'string') return [];
  const { value: text, range, parts } = node;
  return [{ text, range, ...(parts && { parts }), path, reads, isOwn: range.file === file }];
}

/** Prompts and the title, and what triggers say verbatim. */
function textsOf(root: MapRef, triggers: readonly TriggerDraft[]): LintText[] {
  const { file } = root.key;
  const attached = triggers.flatMap(({ spot }) => {
    const at = field(spot, 'attachedUserPrompt');
    return at === undefined ? [] : textOf(file, at.node, pathOf(at.trail), 'nothing');
  });
  return [
    ...texts.flatMap(([name, reads]) => textOf(file, root.node.entries.get(name)?.value, name, reads)),
    ...attached,
  ];
}

function lintTrigger(file: string, draft: TriggerDraft): LintTrigger[] {
  const [first] = draft.triggers;
  // A trigger on events that has none which can be read is no heartbeat: of what it would match nothing is known.
  if (draft.routing === undefined || first === undefined) return [];
  const whereRanges = new Map<string, Range>();
  for (const [key, entry] of draft.whereSpot?.node.entries ?? []) whereRanges.set(key, entry.keyRange);
  const fallback = field(draft.spot, 'fallback');
  const message = field(draft.spot, 'message');
  return [
    {
      path: pathOf(draft.spot.trail),
      events: draft.events.map(({ key, spot }) => ({ key, range: spot.node.range, path: pathOf(spot.trail) })),
      where: draft.where,
      whereRanges,
      fallback: fallback?.node.kind === 'scalar' && fallback.node.value === true,
      fallbackRange: fallback?.node.range,
      routing: draft.routing.routing,
      aimRange: (draft.routing.aimSpot ?? draft.routing.kindSpot).node.range,
      message: message && textOf(file, message.node, pathOf(message.trail), 'event')[0],
      endpoint: draft.endpoint?.name,
      connection: first.kind === 'event' ? first.connection : undefined,
      isOptional: first.kind === 'event' && first.optional === true,
    },
  ];
}
