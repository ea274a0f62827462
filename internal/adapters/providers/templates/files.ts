// A template's files as a bundle: safe paths, git blob ids, and the hash that stands for a whole directory.

import { createHash } from 'node:crypto';
import { gitId } from '../../../base/hash.ts';
import type { BundleEntry } from '../../../domain/bundle.ts';
import { depthMax, fileBytesMax, filesMax, pathCharsMax, TemplateFailure, unpackedBytesMax } from './limits.ts';

/** Throws where a path could mean something else than a file below the package's root. */
export function checkPath(path: string): void {
  const steps = path.split('/');
  const hostile =
    path.length > pathCharsMax ||
    steps.length > depthMax ||
    /[\\\u0000-\u001f\u007f]/.test(path) ||
    /^[A-Za-z]:/.test(path) ||
    steps.some((step) => step === '' || step === '.' || step === '..');
  if (hostile) throw new TemplateFailure('corrupt', `holds a hostile path: ${JSON.stringify(path.slice(0, 100))}`);
}

/** Collects files under the caps; entries come out sorted by path. */
export function fileCollector(): {
  add(path: string, bytes: Uint8Array): void;
  link(path: string): void;
  entries(): ReadonlyMap<string, BundleEntry>;
} {
  const files = new Map<string, BundleEntry>();
  let total = 0;
  const put = (entry: BundleEntry): void => {
    checkPath(entry.path);
    if (files.has(entry.path)) throw new TemplateFailure('corrupt', `holds ${JSON.stringify(entry.path)} twice`);
    if (files.size >= filesMax) throw new TemplateFailure('too-large', `holds more than ${filesMax} files`);
    files.set(entry.path, entry);
  };
  return {
    add(path, bytes) {
      total += bytes.length;
      if (total > unpackedBytesMax) throw tooMuch();
      const oid = gitId('blob', bytes);
      put(
        bytes.length > fileBytesMax ? { path, kind: 'file', oid, tooLarge: true } : { path, kind: 'file', oid, bytes },
      );
    },
    link: (path) => put({ path, kind: 'symlink', oid: gitId('blob', Buffer.from('link')) }),
    entries: () => new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

export const tooMuch = (): TemplateFailure =>
  new TemplateFailure('too-large', `unpacks to more than ${unpackedBytesMax} bytes`);

/** `dir-sha256-…` over paths and blob ids: the same files give the same hash on any machine. */
export function directoryIntegrity(files: ReadonlyMap<string, BundleEntry>): string {
  const hash = createHash('sha256');
  for (const [path, entry] of files) hash.update(`${entry.kind}\0${path}\0${entry.oid}\n`);
  return `dir-sha256-${hash.digest('base64')}`;
}
