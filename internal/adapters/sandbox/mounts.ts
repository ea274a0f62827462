// Repositories in a sandbox, cloned outside of it: the credential is in the environment of one git process of the daemon
// and nowhere else, and what is left in the sandbox is a clone whose remote needs one (docs/reference/compile.md#mounts).
// Trees are measured before a file is written, and a path is only followed through directories that are no links.

import { lookup } from 'node:dns/promises';
import { lstat, mkdir, readdir, rename } from 'node:fs/promises';
import { isIP } from 'node:net';
import { basename, dirname, join } from 'node:path/posix';
import { hostFault, isPrivateAddress } from '../../base/net/net.ts';
import { Fault } from '../../domain/fault.ts';
import { fetchCommit } from './clone.ts';
import { EngineSandbox } from './engine-sandbox.ts';
import { freePath, makeDirectories, type PlacedMount, placeOf } from './layout.ts';
import { removeTree } from '../../base/remove-tree.ts';
import { LocalSandbox } from './local.ts';
import { checkFree, streamIn } from './mount-box.ts';
import type { MountOptions, MountRequest } from './mount-types.ts';
import type { Sandbox } from './types.ts';

export interface MountResult {
  /** Where it is, as the sandbox's processes see it. */
  readonly path: string;
  /** True where the sandbox cannot show it at its declared path. */
  readonly isMoved: boolean;
  readonly commit: string;
  /** The branch that is checked out; null for a tag or a commit. */
  readonly branch: string | null;
}

/**
 * Clones a repository into a sandbox that has no running program yet. Throws Fault: `mount-url`, `mount-path`,
 * `mount-ref` (the ref does not exist), `mount-refused` (the host refuses the credential, or there is no such
 * repository), `mount-tree` (what it holds is broken or hostile), all `unprocessable`; `mount-too-large` (`too_large`);
 * `mount-unreachable` (`unavailable`: it may work later).
 */
export async function mountRepository(
  sandbox: Sandbox,
  request: MountRequest,
  options: MountOptions,
): Promise<MountResult> {
  if (sandbox instanceof EngineSandbox) return mountInBox(sandbox, request, options);
  if (!(sandbox instanceof LocalSandbox)) throw new Error('mounts are for sandboxes of this machine');
  const mountPath = freePath(request.mountPath, 'Mount');
  const name = `Mount ${mountPath}`;
  const target = await targetOf(sandbox, mountPath);
  const address = await addressOf(new URL(checkUrl(name, request.url, options)), name, options);
  const stage = join(sandbox.files.stage, `mount-${sandbox.mounts.length}`);
  await removeTree(stage);
  await mkdir(stage, { mode: 0o755 });
  try {
    const fetched = await fetchCommit(request, options, { name, stage, address });
    await put(stage, target, mountPath);
    const placed: PlacedMount = {
      mountPath,
      hostPath: target.hostPath,
      isBound: target.isBound,
      url: request.url,
      ref: request.ref ?? null,
      commit: fetched.commit,
    };
    await sandbox.recordMount(placed);
    const path = sandbox.mountIn(placed);
    return { path, isMoved: path !== mountPath, ...fetched };
  } finally {
    await removeTree(stage);
  }
}

/** Cloned here, as every mount, and streamed in: no credential is inside at any time. */
async function mountInBox(sandbox: EngineSandbox, request: MountRequest, options: MountOptions): Promise<MountResult> {
  const mountPath = freePath(request.mountPath, 'Mount');
  const name = `Mount ${mountPath}`;
  if (sandbox.mounted.has(mountPath)) {
    throw new Fault('unprocessable', 'mount-path', `${name}: another repository is mounted there`);
  }
  const address = await addressOf(new URL(checkUrl(name, request.url, options)), name, options);
  const stage = join(sandbox.files.stage, `mount-${sandbox.mounted.size}`);
  await removeTree(stage);
  await mkdir(stage, { mode: 0o755 });
  try {
    await checkFree(sandbox, mountPath);
    const fetched = await fetchCommit(request, options, { name, stage, address });
    await streamIn(sandbox, { stage, mountPath, path: options.path, signal: options.signal });
    sandbox.mounted.add(mountPath);
    return { path: mountPath, isMoved: false, ...fetched };
  } finally {
    await removeTree(stage);
  }
}

interface Target {
  readonly base: string;
  readonly relative: string;
  readonly hostPath: string;
  readonly isBound: boolean;
}

async function targetOf(sandbox: LocalSandbox, mountPath: string): Promise<Target> {
  if (sandbox.mounts.some((mount) => mount.mountPath === mountPath)) {
    throw new Fault('unprocessable', 'mount-path', `Mount ${mountPath}: another repository is mounted there`);
  }
  const place = placeOf(mountPath, sandbox.files, sandbox.mounts);
  if (place !== null) return { ...place, hostPath: join(place.base, place.relative), isBound: false };
  const above = sandbox.mounts.find((mount) => mount.isBound && mount.mountPath.startsWith(`${mountPath}/`));
  if (above !== undefined) {
    throw new Fault(
      'unprocessable',
      'mount-path',
      `Mount ${mountPath}: ${above.mountPath} is mounted inside it already`,
    );
  }
  const [base, relative] = sandbox.bindsMounts
    ? [sandbox.files.mounts, String(sandbox.mounts.length)]
    : [sandbox.files.work, mountPath.slice(1)];
  return { base, relative, hostPath: join(base, relative), isBound: sandbox.bindsMounts };
}

/** Moves the finished clone to its place, which must be free or an empty directory. */
async function put(stage: string, target: Target, mountPath: string): Promise<void> {
  const parent = dirname(target.relative);
  const within = target.relative === '' || parent === '.' ? '' : parent;
  const directory = await makeDirectories(target.base, within, mountPath);
  const place = target.relative === '' ? target.base : join(directory, basename(target.relative));
  const found = await lstat(place).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  const isFree = found === null || (found.isDirectory() && (await readdir(place)).length === 0);
  if (!isFree) {
    throw new Fault('unprocessable', 'mount-path', `Mount ${mountPath}: there is something else at this path already`);
  }
  await rename(stage, place);
}

function checkUrl(name: string, text: string, options: MountOptions): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isFine =
    url !== null &&
    (url.protocol === 'https:' || (url.protocol === 'http:' && options.allowPrivateNetwork)) &&
    url.username === '' &&
    url.password === '' &&
    url.search === '' &&
    url.hash === '' &&
    !/[\0-\x20\x7f]/.test(text);
  if (isFine) return text;
  throw new Fault('unprocessable', 'mount-url', `${name}: the repository has no https address without a user in it`);
}

/** `host:port:address`, so that git connects to the address that was judged; null where any may be connected to. */
async function addressOf(url: URL, name: string, options: MountOptions): Promise<string | null> {
  if (options.allowPrivateNetwork) return null;
  const refused = (why: string): Fault =>
    new Fault(
      'unprocessable',
      'mount-url',
      `${name}: ${url.hostname} is not reached (${why}); SVC_ALLOW_PRIVATE_NETWORK=true lets mounts reach private networks`,
    );
  const fault = hostFault(url.hostname);
  if (fault !== null) throw refused(fault);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0) return null;
  const found = await lookup(host, { all: true }).catch((error: NodeJS.ErrnoException) => {
    throw new Fault('unavailable', 'mount-unreachable', `${name}: ${host} cannot be resolved (${error.code})`);
  });
  if (found.some(({ address }) => isPrivateAddress(address))) throw refused('its address is private');
  return `${host}:${url.port || '443'}:${found.map(({ address }) => (isIP(address) === 6 ? `[${address}]` : address)).join(',')}`;
}
