// Contents of resolved templates by their integrity, so that an earlier reconcile can be repeated when the registry is
// away or the directory has changed. Whoever reads an entry verifies it; a broken one counts as absent.

import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface TemplateCache {
  get(integrity: string): Promise<Uint8Array | undefined>;
  put(integrity: string, bytes: Uint8Array): Promise<void>;
}

/** A cache in a directory of this machine; entries appear whole or not at all. */
export function folderCache(directory: string): TemplateCache {
  const fileOf = (integrity: string): string =>
    join(directory, `${createHash('sha256').update(integrity).digest('hex')}.tgz`);
  return {
    async get(integrity) {
      try {
        return await readFile(fileOf(integrity));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
        throw error;
      }
    },
    async put(integrity, bytes) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const target = fileOf(integrity);
      const draft = `${target}.${process.pid}.${process.hrtime.bigint()}`;
      try {
        await writeFile(draft, bytes, { mode: 0o600 });
        await rename(draft, target);
      } catch (error) {
        await rm(draft, { force: true });
        throw error;
      }
    },
  };
}
