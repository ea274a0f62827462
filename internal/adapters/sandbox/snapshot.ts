// Home and work of a sandbox as archives, and back into a fresh one of the same kind. Packed and unpacked by programs of
// the sandbox itself, so that this process never follows what is in them.

import type { Readable } from 'node:stream';
import { Fault } from '../../domain/fault.ts';
import { relativeTo, makeDirectories, type PlacedMount } from './layout.ts';
import { EngineSandbox } from './engine-sandbox.ts';
import { LocalSandbox } from './local.ts';
import { unpackText } from './mount-box.ts';
import type { Sandbox } from './types.ts';

/** What one archive is of. */
export interface SnapshotPart {
  readonly root: 'home' | 'work' | 'mount' | 'none';
  /** A mount, of which the path on the host is below the sandbox's directory. `none`: it lies in another part. */
  readonly mount?: Omit<PlacedMount, 'hostPath'> & { readonly place: string };
}

/** In the order of names where tar can sort: that of macOS cannot. */
const pack = `sort=; tar --sort=name -cf /dev/null -T /dev/null 2>/dev/null && sort=--sort=name
exec tar -C "$1" $sort -cf - .`;
/** Of an engine's image, whose tar may be a small one. */
const packBox = 'exec tar -C "$1" -cf - .';
const unpackLocal = 'exec tar -C "$1" --no-same-owner -xpf -';
/** What the image put there is in the archive too, as the session left it. */
const emptied = 'find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +';
const unpackMs = 10 * 60_000;

const local = (sandbox: Sandbox): LocalSandbox => {
  if (sandbox instanceof LocalSandbox) return sandbox;
  throw new Error('snapshots are of sandboxes of this machine');
};

/** What a sandbox is kept as, home and work first. */
export function snapshotParts(sandbox: Sandbox): SnapshotPart[] {
  if (sandbox instanceof EngineSandbox) return boxParts(sandbox);
  const { files, mounts } = local(sandbox);
  return [
    { root: 'home' },
    { root: 'work' },
    ...mounts.map(({ hostPath, ...mount }): SnapshotPart => {
      const place = relativeTo(hostPath, files.dir);
      if (place === undefined) throw new Error('a mount lies outside of its sandbox');
      return { root: mount.isBound ? 'mount' : 'none', mount: { ...mount, place } };
    }),
  ];
}

/** A box tells of a mount only where it is; the clone's own address stands in its git directory. */
function boxParts({ mounted, directories, home, workDir }: EngineSandbox): SnapshotPart[] {
  // One that was opened again knows its mounts by its directories alone.
  const mounts = [...new Set([...mounted, ...directories])].map((mountPath): SnapshotPart => {
    const isInside = [home, workDir].some((root) => relativeTo(mountPath, root) !== undefined);
    const mount = { mountPath, isBound: !isInside, url: '', ref: null, commit: '', place: '' };
    return { root: isInside ? 'none' : 'mount', mount };
  });
  return [{ root: 'home' }, { root: 'work' }, ...mounts];
}

function rootOf(sandbox: Sandbox, { root, mount }: SnapshotPart): string {
  if (root === 'home') return sandbox.home;
  if (root === 'work') return sandbox.workDir;
  return sandbox.pathIn(mount?.mountPath ?? '');
}

/** The archive of a part as it is made. Throws where it could not be made whole, and when the signal aborts. */
export async function* packPart(sandbox: Sandbox, part: SnapshotPart, signal: AbortSignal): AsyncGenerator<Buffer> {
  const child = await sandbox.spawn({
    argv: ['/bin/sh', '-c', sandbox instanceof EngineSandbox ? packBox : pack, 'sh', rootOf(sandbox, part)],
    cwd: sandbox.home,
  });
  const kill = (): void => void child.kill().catch(() => undefined); // Then it ends without a code, below.
  signal.addEventListener('abort', kill, { once: true });
  try {
    signal.throwIfAborted();
    child.stdin.end();
    child.stderr.resume();
    yield* child.stdout as AsyncIterable<Buffer>;
    const { code } = await child.exited;
    signal.throwIfAborted();
    // 1: a file changed while it was read, which nothing is left to do here but what a program left running.
    if (code !== 0 && code !== 1) throw new Error('an archive of the session cannot be made');
  } finally {
    signal.removeEventListener('abort', kill);
    await child.kill();
  }
}

/** Puts parts back into a sandbox that was made for it. Throws Fault `unprocessable` where one cannot be. */
export async function restoreParts(
  sandbox: Sandbox,
  parts: readonly SnapshotPart[],
  archive: (part: number) => Readable,
): Promise<void> {
  await placeMounts(sandbox, parts);
  if (sandbox instanceof EngineSandbox) sandbox.ownHome();
  for (const [index, part] of parts.entries()) {
    if (part.root === 'none') continue;
    const unpack = sandbox instanceof EngineSandbox ? `${emptied} && ${unpackText}` : unpackLocal;
    const command = ['/bin/sh', '-c', unpack, 'sh', rootOf(sandbox, part)];
    const done = await sandbox.run({ command, cwd: sandbox.home, timeoutMs: unpackMs, input: archive(index) });
    if (done.code === 0) continue;
    const message = `The snapshot of the session cannot be put back: ${done.output.trim().slice(-400)}`;
    throw new Fault('unprocessable', 'snapshot-restore', message);
  }
}

async function placeMounts(sandbox: Sandbox, parts: readonly SnapshotPart[]): Promise<void> {
  for (const { mount } of parts) {
    if (mount === undefined) continue;
    if (sandbox instanceof EngineSandbox) {
      sandbox.mounted.add(mount.mountPath);
      continue;
    }
    const box = local(sandbox);
    const { place, ...placed } = mount;
    const hostPath = placed.isBound
      ? await makeDirectories(box.files.dir, place, placed.mountPath)
      : `${box.files.dir}/${place}`;
    await box.recordMount({ ...placed, hostPath });
  }
}
