// The refs of a session's mounts, rendered once when it is made (docs/reference/compile.md#mounts): against what it runs on.

import { missingPaths, renderWithin } from '../../core/template/template.ts';
import type { Json } from '../../domain/json.ts';
import type { Mount } from '../../domain/spec.ts';
import { utf8Prefix } from '../../domain/utf8.ts';

/** No code host has a longer name; what is cut here names nothing there. */
const refBytesMax = 1_024;

export interface RunInput {
  readonly triggerEventId: string | null;
  readonly payload: Json;
}

export type MountRefs =
  | { readonly ok: true; readonly refs: { readonly [mountPath: string]: string } }
  /** The first mount whose ref names what the input does not have. */
  | { readonly ok: false; readonly mountPath: string; readonly ref: string; readonly missing: readonly string[] };

/** Mount path → ref, of the mounts that name one. Where the input cannot resolve one of them, no session is made. */
export function renderRefs(mounts: readonly Pick<Mount, 'mountPath' | 'ref'>[], input: RunInput): MountRefs {
  const root = input as unknown as Json;
  const refs: [string, string][] = [];
  for (const { mountPath, ref } of mounts) {
    if (ref === undefined) continue;
    const missing = missingPaths(ref, root);
    if (missing.length > 0) return { ok: false, mountPath, ref, missing };
    refs.push([mountPath, utf8Prefix(renderWithin(ref, root, refBytesMax).text, refBytesMax)]);
  }
  // Keys come from authors: entries make own properties of all of them.
  return { ok: true, refs: Object.fromEntries(refs) };
}
