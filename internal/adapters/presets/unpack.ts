// An archive as the source of a root file system. Whoever made it may mean harm: every entry is placed by this process,
// below directories that it made itself, and what is no file, directory or link is refused.

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, copyFile, constants, mkdir, open, rm, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path/posix';
import { type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { extract, type Header } from 'tar-stream';
import { Fault } from '../../domain/fault.ts';
import { directoryMode, entryPath, fileMode, type Limits, refused, Tree } from './tree.ts';

/** A path that is longer, or the target of a link. */
const targetCharsMax = 4095;

/** Unpacks into an empty directory. Throws Fault as `PresetStore.build`. */
export async function unpackArchive(file: string, to: string, limits: Limits): Promise<Tree> {
  const tree = new Tree(limits);
  const archive = extract();
  const unpacked = place(archive, to, tree);
  const source = createReadStream(file);
  const through = await packing(file);
  const read = through === null ? pipeline(source, archive) : pipeline(source, through, archive);
  const settled = await Promise.allSettled([
    read,
    unpacked.catch((error: unknown) => {
      archive.destroy();
      throw error;
    }),
  ]);
  const reasons = settled.flatMap((one): unknown[] => (one.status === 'rejected' ? [one.reason] : []));
  // What was wrong with an entry is the news, not that reading was given up for it.
  const [first] = [...reasons.filter((reason) => reason instanceof Fault), ...reasons];
  if (first instanceof Fault) throw first;
  if (first !== undefined) {
    const { code, message } = first as NodeJS.ErrnoException;
    if (code === 'ENOSPC') throw first;
    throw new Fault('unprocessable', 'preset-source', `${file} is no archive that can be read: ${message}`);
  }
  if (tree.files === 0) throw new Fault('unprocessable', 'preset-source', `${file} holds no file`);
  return tree;
}

/** What undoes the packing that its first bytes tell of; null for a plain archive. */
async function packing(file: string) {
  const handle = await open(file, 'r');
  try {
    const { buffer } = await handle.read(Buffer.alloc(6), 0, 6, 0);
    if (buffer.readUInt16BE(0) === 0x1f8b) return createGunzip();
    if (buffer.readUInt32LE(0) === 0xfd2fb528) return createZstdDecompress();
    if (buffer.toString('latin1', 1, 5) === '7zXZ' || buffer.toString('latin1', 0, 3) === 'BZh') {
      throw new Fault(
        'unprocessable',
        'preset-source',
        `${file} is packed by xz or bzip2: unpack it, or use gzip or zstd`,
      );
    }
    return null;
  } finally {
    await handle.close();
  }
}

async function place(archive: ReturnType<typeof extract>, to: string, tree: Tree): Promise<void> {
  for await (const entry of archive as AsyncIterable<Readable & { readonly header: Header }>) {
    const { header } = entry;
    const path = entryPath(header.name);
    if (path === '') {
      if (header.type !== 'directory') throw refused(header.name, 'it is the root');
      entry.resume();
      continue;
    }
    await makeParents(to, dirname(path), tree);
    await placeOne({ entry, header, path, to, tree });
  }
}

async function makeParents(to: string, path: string, tree: Tree): Promise<void> {
  if (path === '.') return;
  const found = tree.get(path);
  if (found?.kind === 'directory') return;
  if (found !== undefined) throw refused(path, 'something else lies in it, and it is no directory');
  await makeParents(to, dirname(path), tree);
  await makeDirectory(to, path, 0o755, tree);
}

async function makeDirectory(to: string, path: string, mode: number, tree: Tree): Promise<void> {
  const found = tree.get(path);
  if (found !== undefined && found.kind !== 'directory') throw refused(path, 'it is there already, as something else');
  if (found === undefined) await mkdir(join(to, path));
  await chmod(join(to, path), directoryMode(mode));
  tree.add(path, { kind: 'directory', mode: directoryMode(mode) });
}

async function placeOne(of: {
  readonly entry: Readable;
  readonly header: Header;
  readonly path: string;
  readonly to: string;
  readonly tree: Tree;
}): Promise<void> {
  const { entry, header, path, to, tree } = of;
  const mode = header.mode ?? 0o644;
  switch (header.type) {
    case 'directory':
      entry.resume();
      return makeDirectory(to, path, mode, tree);
    case 'file':
    case 'contiguous-file':
      await clear(to, path, tree);
      return writeEntry(entry, join(to, path), { path, mode, bytes: header.size ?? 0, tree });
    case 'symlink': {
      entry.resume();
      const target = linkOf(path, header);
      await clear(to, path, tree);
      await symlink(target, join(to, path));
      return tree.add(path, { kind: 'link', target });
    }
    case 'link': {
      entry.resume();
      const from = entryPath(linkOf(path, header));
      const found = tree.get(from);
      if (found?.kind !== 'file') throw refused(path, 'it is a link to what is no file before it');
      if (from === path) return;
      tree.room(found.bytes);
      await clear(to, path, tree);
      await copyFile(join(to, from), join(to, path), constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
      return tree.add(path, found);
    }
    default:
      throw refused(header.name, 'it is a device, a pipe, or of a kind that no root file system needs');
  }
}

function linkOf(path: string, { linkname }: Header): string {
  if (typeof linkname === 'string' && linkname !== '' && linkname.length <= targetCharsMax && !linkname.includes('\0'))
    return linkname;
  throw refused(path, 'it is a link to nothing');
}

/** A later entry of a name stands for the earlier one. */
async function clear(to: string, path: string, tree: Tree): Promise<void> {
  const found = tree.get(path);
  if (found === undefined) return;
  if (found.kind === 'directory') throw refused(path, 'it is there already, as a directory');
  await rm(join(to, path), { force: true });
}

async function writeEntry(
  entry: Readable,
  file: string,
  of: { readonly path: string; readonly mode: number; readonly bytes: number; readonly tree: Tree },
): Promise<void> {
  const { path, mode, tree } = of;
  tree.room(of.bytes);
  const hash = createHash('sha256');
  const handle = await open(file, 'wx', 0o600);
  let bytes = 0;
  try {
    for await (const chunk of entry as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      tree.room(bytes);
      hash.update(chunk);
      for (let done = 0; done < chunk.length; ) done += (await handle.write(chunk, done)).bytesWritten;
    }
    await handle.chmod(fileMode(mode));
  } finally {
    await handle.close();
  }
  tree.add(path, { kind: 'file', mode: fileMode(mode), bytes, sha256: hash.digest('hex') });
}
