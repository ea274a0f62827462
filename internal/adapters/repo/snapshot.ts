// Puts what a driver read into the shape that the service takes: the bundle for compile, the record for the store. Which names
// a file under `.svc/` may have, in git and in folders alike, is judged here: nothing is ever checked out, so this is not about
// the disk; it keeps logs, screens and lookups from being confused by a name. Pure.

import { RepoCondition, type RepoFinding, type SnapshotEntry, type SnapshotRecord } from './types.ts';
import type { Bundle, BundleEntry } from '../../domain/bundle.ts';
import { withoutEnd } from '../../domain/text-end.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Zero-width characters that some file systems drop, which would make another name out of this one. */
const ignorable = /\u200c|\u200d|[\u206a-\u206f]|\ufeff/g;
const bidi = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** The text of a name, or null where it is not UTF-8. */
export function decodeName(bytes: Uint8Array): string | null {
  try {
    return utf8.decode(bytes);
  } catch {
    return null;
  }
}

/**
 * Why the name is refused, or null. `.git` and what file systems take for it is; `.gitkeep` and the like are ordinary files
 * here, since nothing reads them as git would.
 */
export function nameFault(name: string): string | null {
  if (name === '' || name === '.' || name === '..') return 'it is a directory reference';
  if (name.includes('/') || name.includes('\\')) return 'it holds a slash or backslash';
  // biome-ignore lint: control characters are what is looked for
  if (/[\u0000-\u001f\u007f-\u009f]/.test(name)) return 'it holds a control character';
  if (bidi.test(name)) return 'it holds a character that reverses the direction of writing';
  const folded = withoutEnd(name.replace(ignorable, '').toLowerCase(), '. ');
  if (folded === '.git' || folded.startsWith('.git:') || /^git~\d+$/.test(folded))
    return 'it stands for the git directory';
  return null;
}

/** A name as a message may show it: quoted, without characters that could deceive. */
export function shownPath(path: string): string {
  return JSON.stringify(path.replace(/[\p{Cc}\p{Cf}]/gu, '\ufffd').slice(0, 200));
}

/** Remarks about the names of one directory: those that differ only by case, and those that are not in normal form C. */
export function nameFindings(directory: string, names: readonly string[]): RepoFinding[] {
  const findings: RepoFinding[] = [];
  const folded = new Map<string, string>();
  for (const name of names) {
    const path = directory === '' ? name : `${directory}/${name}`;
    const normal = name.normalize('NFC');
    if (normal !== name) {
      const message = `the name ${shownPath(path)} is not in Unicode normal form C; another name may look the same`;
      findings.push({ rule: 'name-form', path, message });
    }
    const key = normal.toLowerCase();
    const other = folded.get(key);
    if (other === undefined) folded.set(key, name);
    else {
      const message = `the names ${shownPath(path)} and ${shownPath(other)} differ only by case or form`;
      findings.push({ rule: 'name-case', path, message });
    }
  }
  return findings;
}

// From the branch of a repository's settings to the full name of a ref. Pure.

/** The full name of the ref that a branch setting means; HEAD where there is none. Throws `ref-missing`. */
export function wantedRef(branch: string | undefined): string {
  if (branch === undefined || branch === '') return 'HEAD';
  const odd = /\p{Cc}| /u.test(branch) || /[~^:?*[\\]|\.\.|@\{|\/\/|^\/|\/$|\.lock$/.test(branch);
  if (odd || branch.length > 250) throw new RepoCondition('ref-missing', 'the branch name is none that git allows');
  return branch.startsWith('refs/') ? branch : `refs/heads/${branch}`;
}

export function refMissing(branch: string | undefined): RepoCondition {
  return new RepoCondition(
    'ref-missing',
    branch === undefined || branch === ''
      ? 'the repository is empty, or its default branch does not exist'
      : `the repository has no branch ${JSON.stringify(branch)} (any more); nothing is pruned`,
  );
}

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
