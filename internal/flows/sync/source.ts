// Opens the source of a repository row: what to read, with whose credentials. A credential is looked up each time it is
// asked for (a rotated secret counts at once), lives in memory alone, and never stands in a message.

import { realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize, relative, sep } from 'node:path';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { Credentials, ProbeReport, RepoSource, RepoTarget } from '../../adapters/repo/types.ts';
import { readBlobs, storedBlobs } from '../../adapters/store/repositories/blobs.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import type { Repository, RepositoryAuth } from '../../adapters/store/repositories/repositories.ts';
import { isUsable } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { type FlowContext, type ProjectRef, portsOf } from '../context.ts';
import { absentSecret, connectionSecrets, type SecretReader, secretText } from '../sealed.ts';

/** What a row says is to be read. */
export function targetOf(repository: Pick<Repository, 'url' | 'path' | 'branch' | 'root'>): RepoTarget {
  const { url, path, branch, root } = repository;
  if (url !== null) return { kind: 'remote', url, root, ...(branch !== null && { branch }) };
  if (path === null) throw new Error('a repository has neither url nor path');
  return branch === null ? { kind: 'folder', path, root } : { kind: 'local', path, branch, root };
}

/** Where files are read from, without the commit. */
export function sourceKey(repository: Pick<Repository, 'url' | 'path' | 'root'>): string {
  return `${repository.url ?? repository.path ?? ''}#${repository.root}`;
}

/** The key under which a source shares its server's budget. */
export function hostOf(repository: Pick<Repository, 'url'>): string {
  return (repository.url === null ? undefined : URL.parse(repository.url)?.host) ?? 'local';
}

/** A source of the repository, to be closed by the caller. */
export function openRepository(ctx: FlowContext, project: ProjectRef, repository: Repository): RepoSource {
  const credentials = credentialsOf(ctx, project, repository.auth, { kind: 'repository', name: repository.name });
  const source = portsOf(ctx).openSource(targetOf(repository), {
    blobs: { has: (oids) => storedBlobs(ctx.db, oids), get: (oids) => readBlobs(ctx.db, oids) },
    verify: repository.verify,
    ...(credentials !== undefined && { credentials }),
  });
  const { path } = repository;
  const { folders } = portsOf(ctx);
  if (path === null || folders === undefined) return source;
  // A link that was changed since it was added must not lead out of where folders may lie.
  const check = async (): Promise<void> => {
    if (await isBelow(folders, path)) return;
    throw new RepoCondition('hostile', 'the folder does not lie below sources.folders');
  };
  return {
    resolve: async (signal, prior) => (await check(), source.resolve(signal, prior)),
    snapshot: async (tip, options) => (await check(), source.snapshot(tip, options)),
    more: (snapshot, paths, signal) => source.more(snapshot, paths, signal),
    close: () => source.close(),
    ...(source.watch && { watch: source.watch.bind(source) }),
  };
}

/** What `auth` means, as the sources ask for it. */
export function credentialsOf(
  ctx: FlowContext,
  project: ProjectRef,
  auth: RepositoryAuth | null,
  reader: SecretReader,
): Credentials | undefined {
  if (auth === null) return undefined;
  if (auth.kind === 'connection') return ({ refresh }) => connectionToken(ctx, project, auth.connection, refresh);
  return async () => {
    const token = await secretText(ctx, project, auth.secretRef, reader);
    if (token === undefined) {
      throw new RepoCondition(
        'auth-failed',
        `${(await absentSecret(ctx, project, auth.secretRef)).message} (named by the repository's auth)`,
      );
    }
    return { token: token.trim(), ...(auth.username !== undefined && { username: auth.username }) };
  };
}

/** A setting as text; numbers are identifiers that somebody did not quote. */
export const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined;

/** The token of a code-host connection: its own, or one minted of its installation. Throws RepoCondition `auth-failed`. */
export async function connectionToken(
  ctx: FlowContext,
  project: ProjectRef,
  name: string,
  refresh: boolean,
): Promise<{ username?: string; token: string }> {
  const connection = await connectionByName(ctx.db, project.id, name);
  if (connection === undefined || connection.provider !== 'codehost' || !isUsable(connection.status)) {
    throw new RepoCondition('auth-failed', `there is no active code-host connection ${name}; add it, or change auth`);
  }
  const credentials = connectionSecrets(ctx, connection);
  const token = text(credentials['token']);
  if (token !== undefined) return { token };
  const { tokens } = portsOf(ctx);
  const now = ctx.runtime.now();
  const kept = tokens.get(connection.id);
  if (!refresh && kept !== undefined && kept.until > now) return { username: 'x-access-token', token: kept.token };
  const minted = await mint(ctx, connection, text(credentials['privateKey']), now);
  // Four fifths of its life: what is handed out must outlive the longest read.
  const until = new Date(now.getTime() + (minted.expiresAt.getTime() - now.getTime()) * 0.8);
  tokens.set(connection.id, { token: minted.token, until });
  return { username: 'x-access-token', token: minted.token };
}

async function mint(ctx: FlowContext, connection: SealedConnection, privateKey: string | undefined, now: Date) {
  const { config, name } = connection;
  const appId = text(config['appId']);
  const installationId = text(config['installationId']);
  const apiUrl = text(config['apiUrl']);
  if (privateKey === undefined || appId === undefined || installationId === undefined) {
    throw new RepoCondition(
      'auth-failed',
      `connection ${name} cannot read repositories: it needs config.appId, config.installationId and a privateKey`,
    );
  }
  try {
    const { mintToken } = portsOf(ctx);
    return await mintToken({ appId, installationId, privateKey, now, ...(apiUrl !== undefined && { apiUrl }) });
  } catch (cause) {
    if (cause instanceof RepoCondition) throw cause;
    const status = (cause as { status?: number }).status;
    const message = `connection ${name}: ${cause instanceof Error ? cause.message : 'no installation token'}`;
    throw new RepoCondition(status === undefined || status >= 500 ? 'unreachable' : 'auth-failed', message, { cause });
  }
}

/** A server that cannot be talked to is an answer too: `reachable: false` with its condition. */
export async function probe(
  ctx: FlowContext,
  project: ProjectRef,
  input: { readonly url: string; readonly auth?: RepositoryAuth | null },
): Promise<ProbeReport | { reachable: false; condition: string; detail: string }> {
  const ports = portsOf(ctx);
  const credentials = credentialsOf(ctx, project, input.auth ?? null, {
    kind: 'probe',
    name: hostOf({ url: input.url }),
  });
  try {
    return await ports.limited(hostOf(input), () => ports.probe(input.url, credentials));
  } catch (error) {
    if (!(error instanceof RepoCondition)) throw error;
    if (error.condition === 'hostile') throw new Fault('invalid', 'invalid-body', `url: ${error.detail}`);
    return { reachable: false, condition: error.condition, detail: error.detail };
  }
}

/**
 * Whether somebody may name a folder of this machine: one below the configured roots, and without such a setting any,
 * for administrators of the installation's first organization. The same for what exists and for what does not. Throws
 * Fault `forbidden`.
 */
export async function checkFolder(
  ctx: FlowContext,
  caller: { readonly ownsInstallation?: boolean },
  path: string | null,
): Promise<void> {
  if (path === null || !isAbsolute(path)) return;
  const { folders } = portsOf(ctx);
  const isAllowed = folders === undefined ? caller.ownsInstallation === true : await isBelow(folders, path);
  if (isAllowed) return;
  throw new Fault(
    'forbidden',
    'folder-not-allowed',
    'path: this folder may not be watched; sources.folders of the daemon says which may',
  );
}

/** Whether a folder lies below one of the roots, wherever links on the way lead. What is not there yet leads nowhere. */
async function isBelow(roots: readonly string[], path: string): Promise<boolean> {
  const plain = normalize(path);
  const isIn = (root: string, at: string): boolean => {
    const steps = relative(root, at);
    return steps === '' || (steps !== '..' && !steps.startsWith(`..${sep}`) && !isAbsolute(steps));
  };
  if (!roots.some((root) => isIn(normalize(root), plain))) return false;
  const real = await realPathOf(plain);
  for (const root of roots) if (isIn(await realPathOf(normalize(root)), real)) return true;
  return false;
}

/** The path with the links on the way resolved as far as it exists. */
async function realPathOf(path: string): Promise<string> {
  let rest = '';
  for (let at = path; ; at = dirname(at)) {
    const real = await realpath(at).catch(() => undefined);
    if (real !== undefined) return join(real, rest);
    if (dirname(at) === at) return path;
    rest = join(basename(at), rest);
  }
}
