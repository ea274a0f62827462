// A root file system in place of the machine's programs (docs/reference/sessions.md#presets): all of it read-only at the
// top, less what every sandbox has of its own. Nothing of it is bound through a link, which could lead to the host.

import { lstat, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path/posix';
import { pathInRoot } from '../../base/root-path.ts';
import { relativeTo } from './layout.ts';
import type { RootFileSystem } from './types.ts';

/** Where systems keep the certificates that all programs trust, in one file. */
export const bundles = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/cert.pem'];
const nodes = ['/usr/local/bin/node', '/usr/bin/node', '/bin/node'];
/** The sandbox's own, at the top and in /etc. */
const own = new Set(['/dev', '/proc', '/sys', '/run', '/tmp', '/home', '/workspace']);
const ownEtc = new Set(['/etc/passwd', '/etc/group', '/etc/hosts', '/etc/resolv.conf', '/etc/shadow', '/etc/gshadow']);

/**
 * Arguments of bubblewrap that show a root file system. `places`: paths at which something else is put; what lies above
 * one that is not there is shown entry by entry, so that a mount point can be made beside them.
 */
export async function rootBinds(root: string, places: readonly string[]): Promise<string[]> {
  return binds(root, '', places);
}

async function binds(root: string, path: string, places: readonly string[]): Promise<string[]> {
  const args: string[] = [];
  for (const name of (await readdir(join(root, path))).sort()) {
    const at = `${path}/${name}`;
    if (own.has(at) || ownEtc.has(at)) continue;
    const found = await lstat(join(root, at));
    if (found.isSymbolicLink()) args.push('--symlink', await readlink(join(root, at)), at);
    else if (found.isFile()) args.push('--ro-bind', join(root, at), at);
    else if (found.isDirectory()) {
      const isOpen = at === '/etc' || (await lacks(root, at, places));
      args.push(...(isOpen ? ['--dir', at, ...(await binds(root, at, places))] : ['--ro-bind', join(root, at), at]));
    }
  }
  return args;
}

/** Whether something is to be put below the directory, where nothing is yet. */
async function lacks(root: string, at: string, places: readonly string[]): Promise<boolean> {
  for (const place of places) {
    const isBelow = place !== at && relativeTo(place, at) !== undefined;
    if (isBelow && (await pathInRoot(root, place)) !== place) return true;
  }
  return false;
}

/** The Node of a root file system, as the sandbox sees it; null where it has none, or there is no root file system. */
export async function nodeOf(rootfs: RootFileSystem | undefined): Promise<string | null> {
  if (rootfs === undefined) return null;
  for (const path of nodes) if ((await pathInRoot(rootfs.path, path)) !== null) return path;
  return null;
}

/** Bundles of certificates of a root file system, by the paths of their files. */
export async function bundlesIn(root: string): Promise<string[]> {
  const there = await Promise.all(bundles.map((path) => pathInRoot(root, path)));
  return [...new Set(there.filter((path) => path !== null))];
}
