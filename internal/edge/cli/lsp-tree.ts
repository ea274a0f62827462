// The tree of the documents that an editor has open: found from a file upward, read from disk, with what is open in the
// editor in place of what lies there, and compiled by the same compile as everywhere.

import { existsSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { compileDirectory, type CompiledTree, type Surroundings } from './tree.ts';

/** The directory that holds the `.svc/` in which a file lies; undefined for a file outside of one. */
export function rootOf(file: string): string | undefined {
  const parts = file.split(sep);
  const at = parts.lastIndexOf('.svc');
  if (at > 0) return parts.slice(0, at).join(sep) || sep;
  for (let directory = dirname(file); directory !== dirname(directory); directory = dirname(directory))
    if (existsSync(join(directory, '.svc'))) return directory;
  return undefined;
}

/** Compiles with the texts of open documents, by their paths on disk. */
export function compileOpen(
  root: string,
  open: ReadonlyMap<string, string>,
  surroundings: Surroundings,
  now: () => Date,
): Promise<CompiledTree> {
  const overlay = new Map<string, Uint8Array>();
  for (const [file, text] of open) {
    const path = relative(root, file).split(sep).join('/');
    if (!path.startsWith('../')) overlay.set(path, Buffer.from(text));
  }
  return compileDirectory({ path: root, context: {}, surroundings, now, overlay });
}
