// The legacy envelope (kind, metadata, spec), which is rejected, not migrated (docs/reference/compile.md#files).

import type { Finding } from '../../domain/diagnostic.ts';
import type { MapNode } from '../source/node.ts';

/** The finding for a document in the legacy envelope, or null for any other. */
export function envelopeOf(root: MapNode): Finding | null {
  const mark = root.entries.get('kind') ?? root.entries.get('apiVersion');
  const isMap = (key: string): boolean => root.entries.get(key)?.value.kind === 'map';
  if (mark === undefined || !(isMap('spec') || isMap('metadata'))) return null;
  return {
    severity: 'error',
    code: 'legacy-envelope',
    message: 'The legacy agent envelope (kind, metadata, spec) is rejected',
    range: mark.keyRange,
    path: root.entries.has('kind') ? 'kind' : 'apiVersion',
    hint: 'Write the fields of "spec" and "metadata" at the root of the document.',
  };
}
