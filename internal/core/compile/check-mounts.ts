// Repository mounts (docs/reference/compile.md#mounts): the rules between capabilities and between mounts, and where none may be.

import { diagnosticCodes } from '../../domain/codes.ts';
import { dirname, join, normalize } from 'node:path/posix';
import type { Mount, MountCapabilities } from '../../domain/spec.ts';
import { workingDirectory as directory } from '../../../schemas/agent.ts';
import { keysOf } from '../../../schemas/grammar.ts';
import { isRef } from '../../domain/git-ref.ts';
import { capabilities, mount, mountAuth } from '../../../schemas/mount.ts';
import { readFields, reading, readVariant } from './read-field.ts';
import type { Check, MapRef, Reader, NodeRef } from './read.ts';
import { compact, fault, faultAt, field, items, pathOf, strict, wrong } from './read.ts';

export interface MountsDraft {
  readonly mounts: readonly Mount[];
  /** False where what they grant could not be read, so that nobody is blamed for lacking it. */
  readonly isGrantKnown: boolean;
}

export const checkMounts: Reader<MountsDraft> = (check, spot) => {
  const byPath = new Map<string, NodeRef>();
  const mounts: Mount[] = [];
  const list = items(check, spot, 'a list of mounts');
  let isGrantKnown = list !== undefined;
  const auth: Reader<unknown> = (_, at) => {
    const before = check.errors;
    const read = checkAuth(check, at);
    isGrantKnown &&= check.errors === before;
    return read;
  };
  for (const item of list ?? []) {
    const before = check.errors;
    const found = strict(check, item, keysOf(mount));
    // A key that is unknown may have been meant for the one that grants.
    isGrantKnown &&= check.errors === before || found?.node.entries.has('auth') === true;
    if (found === undefined) continue;
    const read = readFields(check, found, mount.fields, {
      repository: repositoryName,
      mountPath: outsidePath,
      ref: mountRef,
      auth,
    });
    checkTaken(check, found, byPath);
    // Where something of it is wrong, nothing of the mounts is used.
    mounts.push(compact<Mount>(read as Mount));
  }
  return { mounts, isGrantKnown };
};

/** Where the sandbox has its own files: a mount in or above one of these would stand in for them. */
const systemFolder = /^(bin|boot|dev|etc|lib\w*|nix|proc|root|run|sbin|sys|tmp|usr|var)$/;
const home = '/home/user';
/** Of a step of a path, as file systems have it; of the whole, so that it has room below the directory of its volume. */
const stepBytesMax = 255;
const pathBytesMax = 1_024;
const bytesOf = (text: string): number => Buffer.byteLength(text);

/** What no engine can put anything at, in words; undefined where a path is none of it. */
function unplaceable(path: string): string | undefined {
  // Engines and clusters write two paths of a mount with a colon between them.
  if (path.includes(':')) return 'a path without a colon';
  if (bytesOf(path) > pathBytesMax) return `a path of at most ${pathBytesMax} bytes`;
  const isLong = path.split('/').some((step) => bytesOf(step) > stepBytesMax);
  return isLong ? `a path whose folders have names of at most ${stepBytesMax} bytes` : undefined;
}

/** `.` and `..` are no names of owners or repositories, and an address with them is another one. */
const repositoryName: Reader<string> = (check, spot) => {
  const value = reading(mount.fields.repository)(check, spot);
  if (value === undefined || value.split('/').every((part) => part !== '.' && part !== '..')) return value;
  return wrong(check, spot, 'owner/repo');
};

/** One with tokens is known when a session starts. */
const mountRef: Reader<string> = (check, spot) => {
  const value = reading(mount.fields.ref)(check, spot);
  if (value === undefined || value.includes('{{') || isRef(value)) return value;
  return wrong(check, spot, 'a branch, a tag or a commit, as git spells them');
};

/** Normalized, and not where the sandbox has its own files or its home. */
const outsidePath: Reader<string> = (check, spot) => {
  const value = reading(mount.fields.mountPath)(check, spot);
  if (value === undefined) return undefined;
  if (normalize(value) !== value || /[\u0000-\u001f\u007f]/.test(value))
    return wrong(check, spot, 'a normalized path, without //, . or .. segments');
  const cannot = unplaceable(value);
  if (cannot !== undefined) return wrong(check, spot, cannot);
  // It begins with a slash.
  const [, first, second = ''] = value.split('/') as [string, string, string?];
  const bare = value.replace(/\/$/, '');
  const isHome = bare === home || bare === dirname(home);
  if (first === '' || isHome || systemFolder.test(first)) {
    const folder = isHome
      ? bare === home
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

/** Below these nothing is made: they are the sandbox's own, or its root's. */
const madeNowhereBelow = /^\/(run|dev|proc|sys|etc|usr|bin|sbin|lib\w*|nix|root)(\/|$)/;

/** Where sessions start; one that is not absolute is below the work directory. A launch makes it where it is not there. */
export const workingDirectory: Reader<string> = (check, spot) => {
  const value = reading(directory)(check, spot);
  if (value === undefined) return undefined;
  if (/[\u0000-\u001f\u007f]/.test(value) || value.split('/').includes('..'))
    return wrong(check, spot, 'a directory without .. segments and control characters');
  const cannot = unplaceable(value);
  if (cannot !== undefined) return wrong(check, spot, cannot);
  const path = normalize(value);
  if (!madeNowhereBelow.test(path)) return value;
  const hint = 'Choose a folder of the session, such as /workspace/repo.';
  return wrong(check, spot, `a directory that sessions may write to; this is in /${path.split('/')[1]}`, { hint });
};

function checkTaken(check: Check, spot: MapRef, byPath: Map<string, NodeRef>): void {
  const at = field(spot, 'mountPath');
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

const checkAuth: Reader<unknown> = (check, spot) =>
  readVariant(check, spot, mountAuth, { capabilities: checkCapabilities })?.fields;

const checkCapabilities: Reader<MountCapabilities> = (check, spot) => {
  const found = strict(check, spot, keysOf(capabilities), capabilities.what);
  if (found === undefined) return undefined;
  // What was not read is an error by now, and what was not written has its default.
  const granted = readFields(check, found, capabilities.fields) as MountCapabilities;
  // What is none, and what may merge, is no default but written.
  if (granted.contents === 'none') {
    const contents = field(found, 'contents') as NodeRef;
    const message = diagnosticCodes['mount-not-cloned'];
    const place = { range: contents.node.range, path: pathOf(contents.trail) };
    check.report({ severity: 'warning', code: 'mount-not-cloned', message, ...place });
  }
  // A level that was not read is none of these.
  const tooLow = [granted.contents, granted.pullRequests].some((level) => level === 'none' || level === 'read');
  if (granted.merge !== 'write' || !tooLow) return granted;
  const merge = field(found, 'merge') as NodeRef;
  const message = 'merge: write requires both contents: write and pullRequests: write';
  return fault(check, 'mount-capabilities', message, merge.key, pathOf(merge.trail));
};

/** True where some mount grants what a brokered tool needs (docs/reference/compile.md#tools). */
export function mountsGrant(mounts: readonly Mount[], need: 'merge' | 'secrets'): boolean {
  return mounts.some(({ auth }) => auth.kind === 'codehostApp' && auth.capabilities[need] !== 'none');
}
