// Templates from a directory of the machine: `<directory>/<name>/…`. Its version is whatever its package.json says.

import { lstat, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { valid } from 'semver';
import type { BundleEntry } from '../../../domain/bundle.ts';
import { directoryIntegrity, fileCollector, tooMuch } from './files.ts';
import { depthMax, filesMax, TemplateFailure, unpackedBytesMax } from './limits.ts';

export interface ReadTemplate {
  readonly version: string;
  readonly integrity: string;
  readonly files: ReadonlyMap<string, BundleEntry>;
}

const skipped = new Set(['.git', 'node_modules']);

/** Reads a package's directory. Links are listed as links, never followed. */
export async function readDirectory(directory: string): Promise<ReadTemplate> {
  const collector = fileCollector();
  let bytesSeen = 0;
  let entriesSeen = 0;
  const walk = async (path: string, depth: number): Promise<void> => {
    const listed = await readdir(join(directory, path), { withFileTypes: true });
    entriesSeen += listed.length;
    if (depth > depthMax || entriesSeen > filesMax * 2) {
      throw new TemplateFailure('too-large', `is deeper than ${depthMax} or holds more than ${filesMax} files`);
    }
    for (const entry of listed) {
      const inner = path === '' ? entry.name : `${path}/${entry.name}`;
      if (entry.isSymbolicLink()) collector.link(inner);
      else if (entry.isDirectory()) {
        if (!skipped.has(entry.name)) await walk(inner, depth + 1);
      } else if (entry.isFile()) {
        bytesSeen += (await lstat(join(directory, inner))).size;
        if (bytesSeen > unpackedBytesMax) throw tooMuch();
        collector.add(inner, await readFile(join(directory, inner)));
      }
    }
  };
  try {
    await walk('', 0);
  } catch (error) {
    if (error instanceof TemplateFailure) throw error;
    const code = (error as NodeJS.ErrnoException).code ?? 'error';
    if (code === 'ENOENT' || code === 'ENOTDIR')
      throw new TemplateFailure('not-found', 'its source has no such package');
    throw new TemplateFailure('unreachable', `its directory cannot be read (${code})`);
  }
  const files = collector.entries();
  return { version: versionOf(files), integrity: directoryIntegrity(files), files };
}

/** The version in package.json, `0.0.0` without a usable one. */
function versionOf(files: ReadonlyMap<string, BundleEntry>): string {
  const bytes = files.get('package.json')?.bytes;
  if (bytes === undefined) return '0.0.0';
  try {
    const parsed: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'));
    const version =
      typeof parsed === 'object' && parsed !== null ? (parsed as { version?: unknown }).version : undefined;
    return (typeof version === 'string' && valid(version)) || '0.0.0';
  } catch {
    // A broken package.json costs the version alone; the files are what was asked for.
    return '0.0.0';
  }
}
