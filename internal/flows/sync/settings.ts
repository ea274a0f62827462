// Checks of a repository's settings that a schema cannot say. Messages name the key, and never repeat an address: it may
// hold a credential.

import { isAbsolute } from 'node:path';
import { checkVerifyPolicy, RepoCondition } from '../../adapters/repo/repo.ts';
import { Fault } from '../../domain/fault.ts';

const refuse = (key: string, what: string): Fault => new Fault('invalid', 'invalid-body', `${key}: ${what}`);

/** Throws Fault `invalid` naming `url` or `path`. */
export function checkAddress(url: string | null, path: string | null): void {
  if (path !== null && !isAbsolute(path))
    throw refuse('path', 'must be absolute; it is read on the machine of the daemon');
  if (url === null) return;
  const scp = /^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:(?!\/)[^\s]+$/.test(url);
  if (scp) return;
  const parsed = URL.parse(url);
  if (parsed === null || !['https:', 'http:', 'ssh:'].includes(parsed.protocol)) {
    throw refuse('url', 'must be an https or http address of a git repository');
  }
  const isSsh = parsed.protocol === 'ssh:';
  if (parsed.password !== '' || (parsed.username !== '' && !isSsh)) {
    throw refuse('url', 'must hold no credentials; put the token in a secret and name it with auth');
  }
  if (/[?&#](access_)?token=|[?&](private_token|key|password)=/i.test(url)) {
    throw refuse('url', 'must hold no credentials; put the token in a secret and name it with auth');
  }
}

/** The directory that holds `.svc/`, in its one spelling. Throws Fault `invalid` naming `root`. */
export function checkRoot(root: string): string {
  const parts = root.split('/').filter((part) => part !== '' && part !== '.');
  if (root.startsWith('/') || parts.includes('..') || root.includes('\\') || root.includes('\0')) {
    throw refuse('root', 'must be a directory of the repository, written with / and without a leading one');
  }
  return parts.join('/');
}

/** Throws Fault `invalid` naming `verify` for keys that cannot be read. */
export async function checkVerify(verify: { readonly keys: readonly string[] } | null | undefined): Promise<void> {
  if (verify === null || verify === undefined) return;
  for (const [index, key] of verify.keys.entries()) {
    try {
      await checkVerifyPolicy([key]);
    } catch (error) {
      if (!(error instanceof RepoCondition)) throw error;
      throw refuse(`verify.keys[${index}]`, error.detail);
    }
  }
}
