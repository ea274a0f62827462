// A tree of texts as the bundle that an adapter would hand to compile.

import { gitId } from '../base/hash.ts';
import type { Bundle, BundleEntry } from '../domain/bundle.ts';

export function toBundle(files: ReadonlyMap<string, string>): Bundle {
  const entries = new Map<string, BundleEntry>();
  for (const [path, text] of files) {
    const bytes = Buffer.from(text);
    const oid = gitId('blob', bytes);
    entries.set(path, { path, kind: 'file', oid, bytes });
  }
  return { entries, absent: new Set(), hasSvc: true };
}
