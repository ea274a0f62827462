// A box as Docker and Podman are asked for it. Nothing here is secret: all of it shows in an inspect.

import { chmod, lchown, lstat, mkdir } from 'node:fs/promises';
import { join } from 'node:path/posix';
import type { BoxDirectory, BoxOwner, BoxSpec } from './types.ts';

const user = '1000:1000';
const boxUid = 1000;
/** Of a session's programs, what they leave behind included. */
const pids = 4_096;
const homeRoot = '/home';
const rootsOwn = 'rw,noexec,nosuid,nodev,mode=755,size=64k';

export const boxName = ({ session, epoch }: BoxOwner): string => `svc-${session}-${epoch}`;
/** Of its session alone, and where another data directory has that name on the engine, of both. */
export const volumeNames = ({ session, installation }: Omit<BoxOwner, 'epoch'>): readonly [string, string] => [
  `svc-${session}`,
  `svc-${session}-${installation}`,
];

/** A volume is a session's, over all its epochs. */
export const labelsOf = ({ installation, session, epoch }: BoxOwner, isVolume = false): Record<string, string> => ({
  'svc/installation': installation,
  'svc/session': session,
  ...(!isVolume && { 'svc/epoch': String(epoch) }),
});

/** Null for what is no box of any installation. */
export function ownerOf(labels: unknown): BoxOwner | null {
  if (typeof labels !== 'object' || labels === null) return null;
  const found = labels as Readonly<Record<string, string>>;
  const [installation, session, epoch] = [found['svc/installation'], found['svc/session'], Number(found['svc/epoch'])];
  if (installation === undefined || session === undefined || !Number.isInteger(epoch)) return null;
  return { installation, session, epoch };
}

/** Where a directory lies below the root of the volume, which is seen at `/home`. */
const placeOf = ({ path }: BoxDirectory): string =>
  path.startsWith(`${homeRoot}/`) ? path.slice(homeRoot.length + 1) : `.dirs${path}`;

const isInHome = ({ path }: BoxDirectory): boolean => path.startsWith(`${homeRoot}/`);

/** `volume`: of the session, with its place on the engine's machine; null: a box that is built from. */
export function bodyOf(
  box: BoxSpec,
  volume: { readonly name: string; readonly mountpoint: string } | null,
  runtime: string | undefined,
): object {
  const { cpuCount, memoryMB } = box.resources;
  const memory = memoryMB === undefined ? undefined : memoryMB * 1024 * 1024;
  const [file = '', ...args] = box.argv;
  const shared = {
    ...(memory !== undefined && { Memory: memory, MemorySwap: memory }),
    ...(cpuCount !== undefined && { NanoCpus: cpuCount * 1_000_000_000 }),
    PidsLimit: pids,
    ...(box.fenced && { NetworkMode: 'none' }),
    ...(runtime !== undefined && { Runtime: runtime }),
    RestartPolicy: { Name: 'no' },
    LogConfig: { Type: 'none' },
    SecurityOpt: ['no-new-privileges'],
  };
  const inside = {
    CapDrop: ['ALL'],
    ReadonlyRootfs: true,
    // Podman puts writable ones where nobody else may write.
    Tmpfs: { '/tmp': 'rw,exec,nosuid,nodev,mode=1777', '/run': rootsOwn, '/var/tmp': rootsOwn },
    Mounts: [{ Type: 'volume', Source: volume?.name, Target: homeRoot }],
    Binds: [
      ...box.directories
        .filter((one) => !isInHome(one))
        .map((one) => `${volume?.mountpoint}/${placeOf(one)}:${one.path}`),
      ...box.readOnlyPaths.map((path) => `${path}:${path}:ro`),
    ],
  };
  return {
    Image: box.image.reference,
    Entrypoint: [file],
    Cmd: args,
    User: volume === null ? '0:0' : user,
    WorkingDir: '/',
    Hostname: 'sandbox',
    Env: [],
    Labels: labelsOf(box.owner),
    Tty: false,
    // For the first wire; it stays open when that is cut.
    OpenStdin: true,
    StdinOnce: false,
    // The first process of a namespace hears nothing else, and its end is waited for.
    StopSignal: 'SIGKILL',
    Healthcheck: { Test: ['NONE'] },
    HostConfig: volume === null ? shared : { ...shared, ...inside },
  };
}

const block = 512;

const nameBytes = 100;
const directory = '5';
const longName = 'L';

function tarHeader(of: { name: Buffer; kind: string; mode?: number; uid?: number; size?: number }): Buffer {
  const header = Buffer.alloc(block);
  const octal = (value: number, length: number): string => `${value.toString(8).padStart(length - 1, '0')}\0`;
  const { name, kind, mode = 0, uid = 0, size = 0 } = of;
  name.copy(header, 0, 0, nameBytes);
  header.write(octal(mode, 8), 100);
  header.write(octal(uid, 8), 108);
  header.write(octal(uid, 8), 116);
  header.write(octal(size, 12), 124);
  header.write(octal(0, 12), 136);
  header.write(`        ${kind}`, 148);
  header.write('ustar  \0', 257);
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  );
  header.write(' ', 155);
  return header;
}

/** A directory's header; a name that does not fit stands before it as a file of its own, which all readers know. */
function directoryHeader(place: string, uid: number): Buffer {
  const name = Buffer.from(`${place}/`);
  const header = tarHeader({ name, kind: directory, mode: 0o755, uid });
  if (name.length <= nameBytes) return header;
  const size = name.length + 1;
  const padded = Buffer.alloc(Math.ceil(size / block) * block);
  name.copy(padded);
  return Buffer.concat([tarHeader({ name: Buffer.from('././@LongLink'), kind: longName, size }), padded, header]);
}

interface Place {
  /** Below the root of the volume. */
  readonly path: string;
  readonly isOwned: boolean;
}

/** The directories on the volume, outer ones first: the user's own, and those above them root's. */
function placesOf(directories: readonly BoxDirectory[]): Place[] {
  const places = directories.map(placeOf);
  const above = places.flatMap((place) =>
    place
      .split('/')
      .slice(0, -1)
      .map((_, index, steps) => steps.slice(0, index + 1).join('/')),
  );
  const owned = new Set(places);
  const all = [...new Set([...above, ...places])].toSorted();
  // Below a directory of the user's, all is the user's.
  return all.map((path) => ({
    path,
    isOwned: [...owned].some((one) => path === one || path.startsWith(`${one}/`)),
  }));
}

/** An archive of the directories, to be unpacked at the root of the volume. */
export function directoriesTar(directories: readonly BoxDirectory[]): Buffer {
  const headers = placesOf(directories).map(({ path, isOwned }) => directoryHeader(path, isOwned ? boxUid : 0));
  return Buffer.concat([...headers, Buffer.alloc(2 * block)]);
}

/**
 * Makes the directories where the volume is this machine's and this process may write to it, which costs the engine no
 * program of its own. Nothing may run in the box yet: what was a directory stays one. False where an archive has to do it.
 */
export async function madeDirectly(mountpoint: string, directories: readonly BoxDirectory[]): Promise<boolean> {
  if (process.getuid?.() !== 0) return false;
  const isDirectory = async (path: string): Promise<boolean> => {
    const found = await lstat(path).catch(() => null); // Of another machine, or hidden from this process.
    return found !== null && found.isDirectory() && (path !== mountpoint || found.uid === 0);
  };
  if (!(await isDirectory(mountpoint))) return false;
  for (const { path, isOwned } of placesOf(directories)) {
    const place = join(mountpoint, path);
    await mkdir(place, { mode: 0o755 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    // The image may have put a link there.
    if (!(await isDirectory(place))) return false;
    await chmod(place, 0o755);
    const owner = isOwned ? boxUid : 0;
    await lchown(place, owner, owner);
  }
  return true;
}
