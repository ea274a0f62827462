// Packs and refs of a repository, copied into another one: copies, and no links.

import { constants } from 'node:fs';
import { copyFile, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path/posix';

/** The objects and refs that the mirror has and a clone of it has not. */
export async function bringUp(stage: string, bare: string): Promise<void> {
  const own = join(stage, '.git');
  await copyPacks(bare, own);
  await copyIfThere(join(bare, 'packed-refs'), join(own, 'packed-refs'));
  await copyIfThere(join(bare, 'shallow'), join(own, 'shallow'));
}

export const packsOf = async (repository: string): Promise<string[]> =>
  (await readdir(join(repository, 'objects/pack')).catch(() => [])).filter((name) => name.endsWith('.pack'));

/** Copies, and no links: whoever gets a clone may write into its files. The index of a pack last, for it makes the pack one. */
export async function copyPacks(from: string, to: string): Promise<void> {
  const [source, target] = [join(from, 'objects/pack'), join(to, 'objects/pack')];
  await mkdir(target, { recursive: true });
  const there = new Set(await readdir(target));
  const names = (await readdir(source)).filter(
    (name) => /^pack-[0-9a-f]+\.(pack|rev|idx)$/.test(name) && !there.has(name),
  );
  for (const name of names.toSorted((a, b) => Number(a.endsWith('.idx')) - Number(b.endsWith('.idx')))) {
    await copyFile(join(source, name), join(target, name), constants.COPYFILE_FICLONE);
  }
}

export async function copyIfThere(from: string, to: string): Promise<void> {
  await copyFile(from, to).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    await rm(to, { force: true });
  });
}

/** Bytes of the packs of a repository: its bare directory, or its `.git`. */
export async function packBytesOf(repository: string): Promise<number> {
  const directory = join(repository, 'objects/pack');
  const names = await readdir(directory).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(directory, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
