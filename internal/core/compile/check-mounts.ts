// Repository mounts (docs/reference/compile.md#mounts): strict, with the capabilities' defaults filled in.

import { DIAGNOSTIC_CODES } from '../../domain/codes.ts';
import { dirname, join, normalize } from 'node:path/posix';
import type { Mount, MountAuth, MountCapabilities } from '../../domain/spec.ts';
import type { Check, MapSpot, Reader, NodeRef } from './read.ts';
import {
  compact,
  fault,
  faultAt,
  field,
  integer,
  items,
  layerOf,
  oneOf,
  optional,
  pathOf,
  required,
  strict,
  string,
  text,
  wrong,
} from './read.ts';

const KEYS = ['name', 'kind', 'repository', 'mountPath', 'ref', 'depth', 'auth'];

/** What a code-host mount may do where the author says nothing (docs/reference/compile.md#mounts). */
export const DEFAULT_CAPABILITIES: MountCapabilities = {
  contents: 'write',
  pullRequests: 'write',
  issues: 'write',
  checks: 'read',
  actions: 'read',
  workflows: 'none',
  secrets: 'none',
  merge: 'none',
};
const CAPABILITIES = Object.keys(DEFAULT_CAPABILITIES) as (keyof MountCapabilities)[];
const LEVELS = ['none', 'read', 'write'] as const;
const MERGE_LEVELS = ['none', 'write'] as const;

export const checkMounts: Reader<readonly Mount[]> = (check, spot) => {
  const byPath = new Map<string, NodeRef>();
  const mounts: Mount[] = [];
  for (const item of items(check, spot, 'a list of mounts') ?? []) {
    const found = strict(check, item, KEYS);
    if (found === undefined) continue;
    const mount = checkMount(check, found);
    checkTaken(check, found, byPath);
    if (mount !== undefined) mounts.push(mount);
  }
  return mounts;
};

function checkMount(check: Check, spot: MapSpot): Mount | undefined {
  optional(check, spot, 'name', text({ what: 'a name' }));
  const kind = required(check, spot, 'kind', oneOf(['git'] as const));
  const repository = required(check, spot, 'repository', (_, at) => {
    const value = text({ trim: true })(check, at);
    if (value === undefined || /^[^/\s]+\/[^/\s]+$/.test(value)) return value;
    return wrong(check, at, 'owner/repo');
  });
  const mountPath = required(check, spot, 'mountPath', absolutePath);
  const ref = optional(check, spot, 'ref', text({ trim: true }));
  const depth = optional(check, spot, 'depth', integer(1, Number.MAX_SAFE_INTEGER, 'a whole number of at least 1'));
  const declared = field(spot, 'auth');
  const auth: MountAuth | undefined = declared === undefined ? { kind: 'none' } : checkAuth(check, declared);
  if (kind === undefined || repository === undefined || mountPath === undefined || auth === undefined) return undefined;
  return compact<Mount>({ kind, repository, mountPath, ref, depth, auth });
}

/** Where the sandbox has its own files: a mount in or above one of these would stand in for them. */
const SYSTEM_FOLDERS = 'bin boot dev etc lib lib32 lib64 libx32 nix proc root run sbin sys tmp usr var'.split(' ');
const HOME = '/home/user';

/** Absolute and normalized, and not where the sandbox has its own files or its home. */
const absolutePath: Reader<string> = (check, spot) => {
  const value = string(check, spot, 'an absolute path');
  if (value === undefined) return undefined;
  if (!value.startsWith('/')) return wrong(check, spot, 'an absolute path that begins with /');
  if (normalize(value) !== value || /[\u0000-\u001f\u007f]/.test(value))
    return wrong(check, spot, 'a normalized path, without //, . or .. segments');
  const [, first = '', second = ''] = value.split('/');
  const bare = value.replace(/\/$/, '');
  const isHome = bare === HOME || bare === dirname(HOME);
  if (first === '' || isHome || SYSTEM_FOLDERS.includes(first)) {
    const folder = isHome
      ? bare === HOME
        ? 'the home directory itself'
        : 'the folder of home directories'
      : first === ''
        ? 'the root'
        : `/${first}`;
    const inside = second === '' || isHome ? folder : `in ${folder}`;
    const hint = 'Choose a folder of its own, such as /workspace/repo.';
    return wrong(check, spot, `a folder that the sandbox does not use itself; this is ${inside}`, { hint });
  }
  return value;
};

function checkTaken(check: Check, mount: MapSpot, byPath: Map<string, NodeRef>): void {
  const at = field(mount, 'mountPath');
  if (at?.node.kind !== 'scalar' || typeof at.node.value !== 'string') return;
  const path = join(at.node.value, '/');
  const first = byPath.get(path);
  if (first === undefined) {
    byPath.set(path, at);
    return;
  }
  const message = `Two mounts on one path ${JSON.stringify(at.node.value)}; give each its own mountPath`;
  faultAt(check, 'mount-conflict', message, at, { related: [{ message: 'the other mount', range: first.node.range }] });
  faultAt(check, 'mount-conflict', message, first, { related: [{ message: 'the other mount', range: at.node.range }] });
}

const AUTH_KEYS = ['kind', 'installationId', 'commitAuthor', 'capabilities'];

function checkAuth(check: Check, spot: NodeRef): MountAuth | undefined {
  const found = strict(check, spot, AUTH_KEYS);
  if (found === undefined) return undefined;
  const kind = required(check, found, 'kind', oneOf(['none', 'codehostApp'] as const));
  if (kind === 'none') return checkNone(check, found);
  const installationId = optional(check, found, 'installationId', text({ what: 'an installation id as a text' }));
  const commitAuthor = optional(check, found, 'commitAuthor', checkAuthor);
  const declared = field(found, 'capabilities');
  const capabilities = declared === undefined ? DEFAULT_CAPABILITIES : checkCapabilities(check, declared);
  if (kind === undefined || capabilities === undefined) return undefined;
  return compact<MountAuth>({ kind, installationId, commitAuthor, capabilities });
}

function checkNone(check: Check, auth: MapSpot): MountAuth {
  for (const key of AUTH_KEYS) {
    const extra = key === 'kind' ? undefined : field(auth, key);
    if (extra === undefined) continue;
    const layer = layerOf(extra.key.file, field(auth, 'kind'));
    const message = `${pathOf(extra.trail)} needs auth.kind codehostApp; a mount with kind none clones in public`;
    fault(check, 'mount-capabilities', message + layer, extra.key, pathOf(extra.trail));
  }
  return { kind: 'none' };
}

const checkAuthor: Reader<{ readonly name: string; readonly email: string }> = (check, spot) => {
  const found = strict(check, spot, ['name', 'email']);
  if (found === undefined) return undefined;
  const name = required(check, found, 'name', text());
  const email = required(check, found, 'email', (_, at) => {
    const value = text()(check, at);
    return value === undefined || value.includes('@') ? value : wrong(check, at, 'an e-mail address');
  });
  return name === undefined || email === undefined ? undefined : { name, email };
};

const checkCapabilities: Reader<MountCapabilities> = (check, spot) => {
  const found = strict(check, spot, CAPABILITIES, 'a map of capabilities');
  if (found === undefined) return undefined;
  const before = check.errors;
  const declared: { [name: string]: string } = {};
  for (const name of CAPABILITIES) {
    const level = optional(
      check,
      found,
      name,
      oneOf<string>(name === 'merge' ? MERGE_LEVELS : LEVELS, 'mount-capabilities'),
    );
    if (level !== undefined) declared[name] = level;
  }
  // Each level was read against its own list above.
  const capabilities = { ...DEFAULT_CAPABILITIES, ...declared } as MountCapabilities;
  const contents = field(found, 'contents');
  if (contents !== undefined && capabilities.contents === 'none') {
    const message = DIAGNOSTIC_CODES['mount-not-cloned'];
    const place = { range: contents.node.range, path: pathOf(contents.trail) };
    check.report({ severity: 'warning', code: 'mount-not-cloned', message, ...place });
  }
  const merge = field(found, 'merge');
  if (check.errors > before || merge === undefined || capabilities.merge !== 'write') return capabilities;
  if (capabilities.contents === 'write' && capabilities.pullRequests === 'write') return capabilities;
  const message = 'merge: write requires both contents: write and pullRequests: write';
  return fault(check, 'mount-capabilities', message, merge.key, pathOf(merge.trail));
};

/** True where some mount grants what a brokered tool needs (docs/reference/compile.md#tools, codehost). */
export function mountsGrant(mounts: readonly Mount[], need: 'merge' | 'secrets'): boolean {
  return mounts.some((mount) => mount.auth.kind === 'codehostApp' && mount.auth.capabilities[need] !== 'none');
}
