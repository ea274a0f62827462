// Puts what a driver read into the shape that the service takes: the bundle for compile, the record for the store.
// Pure.

import type { Bundle, BundleEntry } from '../../domain/bundle.ts';
import { shownPath } from './names.ts';
import type { RepoFinding, SnapshotEntry, SnapshotRecord } from './types.ts';

export interface ReadFile {
  readonly path: string;
  readonly kind: SnapshotEntry['kind'];
  readonly oid: string;
  readonly mode?: string;
  /** Undefined for a link or submodule, and for a file past the size limit. */
  readonly bytes: Uint8Array | undefined;
}

/** Bundle, record and findings of one read; a file without bytes is marked and reported as too large. */
export function assemble(
  facts: Pick<SnapshotRecord, 'commit' | 'rootTree' | 'svcTree' | 'tops'>,
  files: readonly ReadFile[],
  absent: readonly string[],
  findings: readonly RepoFinding[],
  hasSvc: boolean,
): { bundle: Bundle; record: SnapshotRecord; findings: readonly RepoFinding[] } {
  const sorted = [...files].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const entries = new Map<string, BundleEntry>();
  const remarks = findings.filter(({ rule }) => rule !== 'too-large');
  const recorded = sorted.map(({ path, kind, oid, mode, bytes }): SnapshotEntry => {
    const large = kind === 'file' && bytes === undefined ? { tooLarge: true as const } : {};
    entries.set(path, { path, kind, oid, ...large, ...(bytes === undefined ? {} : { bytes }) });
    if ('tooLarge' in large) {
      remarks.push({
        rule: 'too-large',
        path,
        message: `${shownPath(path)} is larger than a file may be and was not read`,
      });
    }
    return { path, kind, oid, size: bytes?.length ?? 0, ...large, ...(mode === undefined ? {} : { mode }) };
  });
  const missing = [...absent].sort();
  return {
    bundle: { entries, absent: new Set(missing), hasSvc },
    record: { ...facts, entries: recorded, absent: missing },
    findings: remarks,
  };
}
