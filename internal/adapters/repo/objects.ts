// Git objects as values: ids, trees and commits, and what a commit says of itself. Pure. Ids are always recomputed from the
// bytes, never believed.

import type { CommitAbout } from '../../domain/commit.ts';
import { RepoCondition } from './types.ts';

export type ObjectType = 'commit' | 'tree' | 'blob' | 'tag';

export interface GitObject {
  readonly type: ObjectType;
  readonly bytes: Buffer;
}

export interface RawTreeEntry {
  /** Octal digits without leading zeros: old tools wrote 040000. */
  readonly mode: string;
  readonly name: Buffer;
  readonly oid: string;
  /** True where the mode was written with leading zeros. */
  readonly padded: boolean;
}

/** The first entries of a tree as they stand, at most so many, names unjudged. Throws `corrupt` where the bytes are no tree. */
export function parseTree(bytes: Buffer, most = Infinity): RawTreeEntry[] {
  const entries: RawTreeEntry[] = [];
  let at = 0;
  while (at < bytes.length && entries.length < most) {
    const space = bytes.indexOf(0x20, at);
    const nul = space < 0 ? -1 : bytes.indexOf(0, space + 1);
    if (space < 0 || space - at > 7 || nul < 0 || nul + 21 > bytes.length) throw badTree();
    const written = bytes.toString('latin1', at, space);
    if (!/^[0-7]{5,7}$/.test(written)) throw badTree();
    const mode = written.replace(/^0+/, '');
    entries.push({
      mode,
      name: bytes.subarray(space + 1, nul),
      oid: bytes.toString('hex', nul + 1, nul + 21),
      padded: mode !== written,
    });
    at = nul + 21;
  }
  return entries;
}

/** The bytes of a tree; entries must be in git's order. */
export function buildTree(entries: readonly { mode: string; name: string; oid: string }[]): Buffer {
  return Buffer.concat(
    entries.flatMap((entry) => [Buffer.from(`${entry.mode} ${entry.name}\0`), Buffer.from(entry.oid, 'hex')]),
  );
}

/** Git's order of names in a tree: bytes, a directory as if its name ended in a slash. */
export function compareTreeNames(a: { name: Buffer; dir: boolean }, b: { name: Buffer; dir: boolean }): number {
  const shared = Math.min(a.name.length, b.name.length);
  const order = a.name.compare(b.name, 0, shared, 0, shared);
  if (order !== 0) return order;
  const next = (side: { name: Buffer; dir: boolean }) => side.name[shared] ?? (side.dir ? 0x2f : 0);
  return next(a) - next(b);
}

/** The one entry of that name, or null. A name that stands twice is `hostile`; other names are not looked at. */
export function findInTree(tree: Buffer, name: string): { mode: string; oid: string } | null {
  const wanted = Buffer.from(`${name}\0`);
  let found: { mode: string; oid: string } | null = null;
  // Only steps from entry to entry: a top directory may have a hundred thousand of them, and be asked a hundred times.
  for (let at = 0; at < tree.length; ) {
    const space = tree.indexOf(0x20, at);
    const nul = space < 0 ? -1 : tree.indexOf(0, space + 1);
    if (space < 0 || space - at > 7 || nul < 0 || nul + 21 > tree.length) throw badTree();
    if (nul + 1 - (space + 1) === wanted.length && tree.compare(wanted, 0, wanted.length, space + 1, nul + 1) === 0) {
      if (found !== null) throw new RepoCondition('hostile', `the tree names ${JSON.stringify(name)} twice`);
      const mode = tree.toString('latin1', at, space).replace(/^0+/, '');
      found = { mode, oid: tree.toString('hex', nul + 1, nul + 21) };
    }
    at = nul + 21;
  }
  return found;
}

export interface ParsedCommit {
  readonly tree: string;
  /** Armored signatures, in order of their headers. */
  readonly signatures: readonly string[];
  /** The bytes that were signed: the commit without its signature headers. */
  readonly payload: Buffer;
  /** Committer's time, or null where the line cannot be read. */
  readonly committedAt: Date | null;
}

/** Splits a commit. Throws `corrupt` where it has no tree. */
export function parseCommit(bytes: Buffer): ParsedCommit {
  const end = bytes.indexOf('\n\n');
  const head = (end < 0 ? bytes : bytes.subarray(0, end)).toString('latin1');
  const kept: string[] = [];
  const signatures: string[] = [];
  let signature: string[] | null = null;
  let skipping = false;
  for (const line of head.split('\n')) {
    if (line.startsWith(' ') && (signature !== null || skipping)) {
      signature?.push(line.slice(1));
      continue;
    }
    if (signature !== null) signatures.push(signature.join('\n'));
    signature = line.startsWith('gpgsig ') ? [line.slice(7)] : null;
    skipping = line.startsWith('gpgsig-sha256 ');
    if (signature === null && !skipping) kept.push(line);
  }
  if (signature !== null) signatures.push(signature.join('\n'));
  const tree = /^tree ([0-9a-f]{40})$/.exec(kept[0] ?? '')?.[1];
  if (tree === undefined) throw new RepoCondition('corrupt', 'the commit has no tree');
  const time = /^committer .* (\d{1,12}) [+-]\d{4}$/m.exec(kept.join('\n'))?.[1];
  return {
    tree,
    signatures,
    payload: Buffer.concat([Buffer.from(kept.join('\n'), 'latin1'), end < 0 ? Buffer.alloc(0) : bytes.subarray(end)]),
    committedAt: time === undefined ? null : new Date(Number(time) * 1000),
  };
}

function badTree(): RepoCondition {
  return new RepoCondition('corrupt', 'a tree object of the repository cannot be read');
}

// Who wrote a commit and what its message says, for people. Both are text of strangers: decoded leniently, cut, and without
// signs that no line of text has or that turn the reading order of what stands beside them.

/** Of each, in code points. */
const charsMax = 200;

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const unreadable = /[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]+/g;

const oneLine = (text: string): string =>
  [...text.toWellFormed().replace(unreadable, ' ').trim()].slice(0, charsMax).join('');

function decoderOf(label: string | undefined) {
  try {
    return new TextDecoder(label ?? 'utf-8');
  } catch {
    // An encoding that nobody knows: most of it is ASCII whatever it is.
    return new TextDecoder('utf-8');
  }
}

/** Reads a commit object; what cannot be found in it is empty. */
export function commitAbout(bytes: Buffer): CommitAbout {
  const end = bytes.indexOf('\n\n');
  const head = end < 0 ? bytes : bytes.subarray(0, end);
  // The headers' names are ASCII; continued lines, as of a signature, begin with a space.
  const names = head.toString('latin1');
  const decoder = decoderOf(/^encoding (\S{1,40})$/m.exec(names)?.[1]);
  const author = /^author ([^\n<]*?) ?</m.exec(names)?.[1] ?? '';
  const message = end < 0 ? Buffer.alloc(0) : bytes.subarray(end + 2, end + 2 + 65_536);
  const [first = ''] = decoder.decode(message).trimStart().split('\n', 1);
  return { message: oneLine(first), author: oneLine(decoder.decode(Buffer.from(author, 'latin1'))) };
}
