// A directory as the source of a root file system: copied, or only read for its digest. Links are taken as they are.

import { createHash } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { copyFile, constants, lstat, mkdir, readdir, readlink, symlink, chmod } from 'node:fs/promises';
import { join } from 'node:path/posix';
import { directoryMode, fileMode, type Limits, ownDirectories, refused, Tree } from './tree.ts';

interface Seen {
  readonly path: string;
  readonly at: Stats;
}

/** Depth first, a directory before what is in it. */
async function* walk(root: string, path = ''): AsyncGenerator<Seen> {
  const names = await readdir(join(root, path));
  for (const name of names.sort()) {
    const below = path === '' ? name : `${path}/${name}`;
    const at = await lstat(join(root, below));
    yield { path: below, at };
    if (at.isDirectory() && !ownDirectories.has(below)) yield* walk(root, below);
  }
}

async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest('hex');
}

/** `copyTo`: null to read alone. */
async function read(root: string, copyTo: string | null, limits: Limits): Promise<Tree> {
  const tree = new Tree(limits);
  for await (const { path, at } of walk(root)) {
    const from = join(root, path);
    const to = copyTo === null ? null : join(copyTo, path);
    if (at.isDirectory()) {
      const mode = directoryMode(at.mode);
      tree.add(path, { kind: 'directory', mode });
      if (to !== null) {
        await mkdir(to);
        await chmod(to, mode);
      }
    } else if (at.isSymbolicLink()) {
      const target = await readlink(from);
      tree.add(path, { kind: 'link', target });
      if (to !== null) await symlink(target, to);
    } else if (at.isFile()) {
      tree.room(at.size);
      const mode = fileMode(at.mode);
      if (to !== null) {
        await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
        await chmod(to, mode);
      }
      tree.add(path, { kind: 'file', mode, bytes: at.size, sha256: await sha256Of(to ?? from) });
    } else throw refused(path, 'it is a device, a pipe or a socket');
  }
  return tree;
}

/** Copies what may enter into an empty directory. Throws Fault as `PresetStore.build`. */
export const copyDirectory = (root: string, to: string, limits: Limits): Promise<Tree> => read(root, to, limits);

/** What a copy of the directory would have. Throws Fault as `PresetStore.build`. */
export const digestOfDirectory = async (root: string, limits: Limits): Promise<string> =>
  (await read(root, null, limits)).digest();

/** Changes whenever an entry does, as far as its times tell; cheaper than the contents. */
export async function fingerprintOf(root: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const { path, at } of walk(root)) {
    hash.update(JSON.stringify([path, at.mode, at.size, at.mtimeMs, at.ctimeMs, at.ino]));
  }
  return hash.digest('hex');
}
