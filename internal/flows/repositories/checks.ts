// What the settings of a repository may say. Each fault names the setting that is wrong, and never repeats an address or a name
// that may hold a credential.

import { isAbsolute } from 'node:path';
import { checkRootDirectory, checkVerifyPolicy, RepoCondition } from '../../adapters/repo/repo.ts';
import { findConnection } from '../../adapters/store/connections/connections.ts';
import type { RepositorySettings } from '../../adapters/store/repositories/repositories.ts';
import { secretStands } from '../../adapters/store/secrets/credentials.ts';
import { looksLikeCredential } from '../../domain/credential.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext, ProjectRef } from '../context.ts';

const refuse = (key: string, what: string): Fault => new Fault('invalid', 'invalid-body', `${key}: ${what}`);

/** What a URL's parser drops, what steers a terminal, and what turns the order of text. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const unseen = /[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;

/** Throws Fault `invalid` naming `url` or `path`. */
export function checkAddress(url: string | null, path: string | null): void {
  if (path !== null && !isAbsolute(path))
    throw refuse('path', 'must be absolute; it is read on the machine of the daemon');
  if (url === null) return;
  const scp = /^(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9.-]+):(?!\/)(?!\d+\/)([^\s?#@]+)$/.exec(url);
  const parsed = URL.parse(url);
  const ssh = scp
    ? `${scp[1]}/${scp[2]}`
    : parsed?.protocol === 'ssh:'
      ? `${parsed.hostname}${parsed.pathname}`
      : undefined;
  if (ssh !== undefined) throw refuse('url', `must be an https address; ssh is not read: try https://${ssh}`);
  if (parsed === null || !['https:', 'http:'].includes(parsed.protocol) || unseen.test(url)) {
    throw refuse('url', 'must be an https or http address of a git repository');
  }
  if (parsed.password !== '' || parsed.username !== '') {
    throw refuse('url', 'must hold no credentials; put the token in a secret and name it with auth');
  }
  if (/[?&#](access_)?token=|[?&](private_token|key|password)=/i.test(url)) {
    throw refuse('url', 'must hold no credentials; put the token in a secret and name it with auth');
  }
}

/** Throws Fault `invalid` where a credential stands for the name of one: what `auth` says is kept, and shown to who may look. */
export async function checkAuth(
  ctx: FlowContext,
  project: ProjectRef,
  auth: RepositorySettings['auth'] = null,
): Promise<void> {
  const [key, name] = auth?.kind === 'token' ? ['secretRef', auth.secretRef] : ['connection', auth?.connection ?? ''];
  if (!looksLikeCredential(name)) return;
  const { id: projectId, orgId } = project;
  const isName =
    key === 'secretRef'
      ? await secretStands(ctx.db, { orgId, projectId }, name)
      : (await findConnection(ctx.db, projectId, name)) !== undefined;
  const why = 'names nothing that is there, and looks like a credential; put that into a secret, and name the secret';
  if (!isName) throw refuse(`auth.${key}`, why);
}

/** The directory that holds `.svc/`, in its one spelling. Throws Fault `invalid` naming `root`. */
export async function checkRoot(root: string): Promise<string> {
  const parts = root.split('/').filter((part) => part !== '' && part !== '.');
  if (root.startsWith('/') || parts.includes('..') || root.includes('\\') || root.includes('\0')) {
    throw refuse('root', 'must be a directory of the repository, written with / and without a leading one');
  }
  const plain = parts.join('/');
  await checkRootDirectory(plain).catch((error: unknown) => {
    throw error instanceof RepoCondition ? refuse('root', error.detail) : error;
  });
  return plain;
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
