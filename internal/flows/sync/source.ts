// Opens the source of a repository row: what to read, with whose credentials. A credential is looked up each time it is
// asked for (a rotated secret counts at once), lives in memory alone, and never stands in a message.

import { realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize, relative } from 'node:path';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import type {
  Credentials,
  PriorRead,
  ProbeReport,
  RepoSource,
  RepoTarget,
  Snapshot,
  SnapshotOptions,
  Tip,
} from '../../adapters/repo/types.ts';
import { readBlobs, storedBlobs } from '../../adapters/store/repositories/snapshots.ts';
import {
  type DueRepository,
  pauseServer,
  type ProjectServer,
  resumeServer,
  serverKey,
} from '../../adapters/store/repositories/polls.ts';
import type { Repository, RepositoryAuth } from '../../adapters/store/repositories/repositories.ts';
import type { Limiter } from '../../base/concurrency.ts';
import { recentMap } from '../../base/lru.ts';
import { Fault } from '../../domain/fault.ts';
import { type FlowContext, type ProjectRef, syncPortsOf } from '../context.ts';
import { absentSecret, type SecretReader, secretText } from '../sealed.ts';
import { connectionToken } from './connection-token.ts';
import type { ReadRoom } from '../large-reads.ts';

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

/** That server, as the repository's project has it. */
export const serverOf = (repository: Pick<Repository, 'url' | 'projectId'>): ProjectServer => ({
  projectId: repository.projectId,
  host: hostOf(repository),
});

/** A source of the repository, to be closed by the caller. `room`: where what is read of it is counted. */
export function openRepository(
  ctx: FlowContext,
  project: ProjectRef,
  repository: Repository,
  room?: ReadRoom,
): RepoSource {
  const credentials = credentialsOf(ctx, project, repository.auth, { kind: 'repository', name: repository.name });
  const { folders, openSource } = syncPortsOf(ctx);
  return openSource(targetOf(repository), {
    blobs: { has: (oids) => storedBlobs(ctx.db, oids), get: (oids) => readBlobs(ctx.db, oids) },
    ...{ verify: repository.verify, reader: repository.id },
    ...(credentials !== undefined && { credentials }),
    ...(folders !== undefined && { within: (path) => requireBelow(folders, path) }),
    ...(room !== undefined && { taking: room.taking }),
  });
}

/** What `auth` means, as the sources ask for it. */
export function credentialsOf(
  ctx: FlowContext,
  project: ProjectRef,
  auth: RepositoryAuth | null,
  reader: SecretReader,
): Credentials | undefined {
  if (auth === null) return undefined;
  if (auth.kind === 'connection') return (asked) => connectionToken(ctx, project, auth.connection, asked);
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

/** A server that cannot be talked to is an answer too: `reachable: false` with its condition. */
export async function probe(
  ctx: FlowContext,
  project: ProjectRef,
  input: { readonly url: string; readonly auth?: RepositoryAuth | null },
): Promise<ProbeReport | { reachable: false; condition: string; detail: string }> {
  const ports = syncPortsOf(ctx);
  const credentials = credentialsOf(ctx, project, input.auth ?? null, {
    kind: 'probe',
    name: hostOf({ url: input.url }),
  });
  const room = ports.largeReads.roomOf(project.id);
  const options = { taking: room.taking, ...(credentials && { credentials }) };
  const ask = () => ports.limited(hostOf(input), () => ports.probe(input.url, options), { owner: project.id });
  try {
    return await room.read(ask, new AbortController().signal);
  } catch (error) {
    if (!(error instanceof RepoCondition)) throw error;
    if (error.condition === 'hostile') throw new Fault('invalid', 'invalid-body', `url: ${error.detail}`);
    return { reachable: false, condition: error.condition, detail: error.detail };
  } finally {
    room.leave();
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
  const { folders } = syncPortsOf(ctx);
  const isAllowed = folders === undefined ? caller.ownsInstallation === true : await isBelow(folders, path);
  if (isAllowed) return;
  throw new Fault(
    'forbidden',
    'folder-not-allowed',
    'path: this folder may not be watched; sources.folders of the daemon says which may',
  );
}

const isIn = (root: string, at: string): boolean =>
  !/^\.\.(?:[/\\]|$)/.test(relative(root, at)) && !isAbsolute(relative(root, at));

/** Whether a folder lies below one of the roots, wherever links on the way lead. What is not there yet leads nowhere. */
async function isBelow(roots: readonly string[], path: string): Promise<boolean> {
  const plain = normalize(path);
  return roots.some((root) => isIn(normalize(root), plain)) && (await leadsBelow(roots, plain));
}

/** The same of what a path leads to, however it is spelled. */
async function leadsBelow(roots: readonly string[], path: string): Promise<boolean> {
  const real = await realPathOf(path);
  for (const root of roots) if (isIn(await realPathOf(normalize(root)), real)) return true;
  return false;
}

/** What leads out of where folders may lie is not read, a link that was changed since it was added among it. */
async function requireBelow(roots: readonly string[], path: string): Promise<void> {
  if (await leadsBelow(roots, path)) return;
  throw new RepoCondition('hostile', 'what is to be read does not lie below sources.folders');
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

/** Thrown before a read of a server that is left alone: the repository is looked at after the pause. */
export class HostPaused extends Error {
  constructor() {
    super('its server is left alone for a while');
    this.name = 'HostPaused';
  }
}

interface Failing {
  failures: number;
  /** The repository that failed last: once more of the same counts for nothing. */
  last: string;
  /** By the monotonic clock, in milliseconds; 0: it was not paused yet. */
  until: number;
}

/** Servers that are remembered as failing: anybody may name as many as there are names. */
const failingMax = 10_000;

/** What each project has found of the servers of its repositories: of a server that one cannot reach another may be served. */
export class HostHealth {
  readonly #ctx: FlowContext;
  readonly #failing = recentMap<string, Failing>(failingMax);

  constructor(ctx: FlowContext) {
    this.#ctx = ctx;
  }

  /** Hears with each claim what all daemons know of a server: one that somebody else has paused, or has reached again. */
  hear({
    projectId,
    host,
    hostFailures,
    hostPausedMs,
  }: Pick<DueRepository, 'projectId' | 'host' | 'hostFailures' | 'hostPausedMs'>): void {
    if (host === null) return;
    const key = serverKey({ projectId, host });
    const known = this.#failing.get(key);
    if (hostFailures !== null) {
      const until = performance.now() + hostPausedMs;
      this.#failing.set(key, { failures: hostFailures, last: known?.last ?? '', until });
    } else if (known !== undefined && known.until > 0) this.#failing.delete(key);
  }

  /** Throws HostPaused where a server is left alone. */
  check(server: ProjectServer): void {
    const failing = this.#failing.get(serverKey(server));
    if (failing !== undefined && failing.until > performance.now()) throw new HostPaused();
  }

  /** A server answered, whatever it said of the repository. */
  async reached(server: ProjectServer): Promise<void> {
    if (this.#failing.delete(serverKey(server))) await resumeServer(this.#ctx.db, server);
  }

  /** A read failed; resolves to how long its server is left alone, in milliseconds. */
  async failed(server: ProjectServer, repositoryId: string, failure: RepoCondition): Promise<number> {
    const { condition, retryAfterSeconds } = failure;
    if (condition !== 'unreachable' && condition !== 'rate-limited') {
      await this.reached(server);
      return 0;
    }
    const key = serverKey(server);
    const known = this.#failing.get(key) ?? { failures: 0, last: '', until: 0 };
    const failures = known.last === repositoryId ? known.failures : known.failures + 1;
    const askedMs = condition === 'rate-limited' && retryAfterSeconds !== undefined ? retryAfterSeconds * 1000 : 0;
    const ms = hostPauseMs({ failures, askedMs, random: this.#ctx.runtime.randomBytes(2).readUInt16BE() / 0x1_0000 });
    const until = Math.max(known.until, performance.now() + ms);
    this.#failing.set(key, { failures, last: repositoryId, until: ms === 0 ? known.until : until });
    if (ms > 0) await pauseServer(this.#ctx.db, server, failures, ms);
    return ms;
  }
}

/** What a stage may ask of a source; every call throws RepoCondition, or the reason for which the run was ended. */
export interface SourceReader {
  resolve(prior: PriorRead | null): Promise<Tip>;
  snapshot(tip: Tip, options: Omit<SnapshotOptions, 'signal'>): Promise<Snapshot>;
  /** Whether it has asked its server, and neither asks nor is about to. */
  readonly isAway: boolean;
  close(): Promise<void>;
}

export interface ReaderOptions {
  readonly source: RepoSource;
  readonly limited: Limiter;
  /** Whose budget the source shares, and whose turn it is there. */
  readonly server: ProjectServer;
  /** Asked for by hand: goes before what waits for the same server. */
  readonly urgent: boolean;
  /** For all calls together, the wait for a place not counted. */
  readonly limitMs: number;
  /** Ends a read at once, with its reason. */
  readonly signal: AbortSignal;
  /** What is read is counted there, and held until the reader is closed. */
  readonly room: ReadRoom;
  /** Says right before a read, when it has its place, that it is not to be: throws. */
  readonly mayBegin: () => void;
}

/** Whatever the source does with its signal, a call ends when its time is over or the run is ended. */
export function createReader(options: ReaderOptions): SourceReader {
  const { source, limited, server, urgent, signal, room, mayBegin } = options;
  let leftMs = options.limitMs;
  let isAway = false;
  const read = async <T>(call: (deadline: AbortSignal) => Promise<T>): Promise<T> => {
    isAway = false;
    const act = async (): Promise<T> => {
      mayBegin();
      const begun = performance.now();
      try {
        return await within(call, { signal, limitMs: options.limitMs, leftMs });
      } finally {
        leftMs -= performance.now() - begun;
      }
    };
    return limited(server.host, act, { owner: server.projectId, urgent, signal }).finally(() => {
      isAway = true;
    });
  };
  return {
    resolve: (prior) => room.read(() => read((deadline) => source.resolve(deadline, prior)), signal, false),
    snapshot: (tip, more) =>
      room.read(() => read((deadline) => source.snapshot(tip, { ...more, signal: deadline })), signal),
    get isAway() {
      return isAway;
    },
    close: async () => {
      room.leave();
      await source.close();
    },
  };
}

async function within<T>(
  call: (deadline: AbortSignal) => Promise<T>,
  { signal, limitMs, leftMs }: { readonly signal: AbortSignal; readonly limitMs: number; readonly leftMs: number },
): Promise<T> {
  signal.throwIfAborted();
  const ending = new AbortController();
  let end: (reason: unknown) => void = () => undefined;
  const ended = new Promise<never>((_resolve, reject) => {
    end = (reason) => {
      ending.abort(reason);
      reject(reason);
    };
  });
  const late = (): void =>
    end(new RepoCondition('unreachable', `reading the repository took longer than ${limitMs / 1000} s`));
  const overtaken = (): void => end(signal.reason);
  const timer = setTimeout(late, Math.max(leftMs, 1));
  signal.addEventListener('abort', overtaken, { once: true });
  try {
    const called = call(ending.signal);
    // It may go on for a moment after it was given up, and how it ends then is nobody's business any more.
    called.catch(() => undefined);
    return await Promise.race([called, ended]);
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', overtaken);
  }
}

/** Longest pause between two looks at a source that fails. */
export const backOffMaxMs = 15 * 60 * 1000;

/**
 * Milliseconds until a source that failed `failures` times in a row (1 is the first) is looked at again: its interval,
 * doubled with every failure, at most fifteen minutes, spread by a fifth. `random` is 0 to 1. What the server asks for
 * (`retryAfterMs`) is kept to when it is longer, up to an hour.
 */
export function backOffMs(input: {
  readonly failures: number;
  readonly intervalMs: number;
  readonly random: number;
  readonly retryAfterMs?: number | undefined;
}): number {
  const doubled = input.intervalMs * 2 ** Math.min(Math.max(input.failures - 1, 0), 30);
  const paused = Math.min(doubled, backOffMaxMs) * (0.9 + 0.2 * input.random);
  const asked = Math.min(input.retryAfterMs ?? 0, 60 * 60 * 1000);
  return Math.round(Math.max(Math.min(paused, backOffMaxMs), asked));
}

/** Repositories of a server that fail one after the other before it is taken for away. */
const hostFailuresMax = 3;
const hostPause = { firstMs: 5_000, mostMs: 5 * 60_000 } as const;

/**
 * Milliseconds for which a server is left alone when `failures` of its repositories in a row (1 is the first) could not
 * reach it: none for the first two, then five seconds, doubled with every further one, at most five minutes, spread by a
 * fifth. `askedMs` is what the server asked the last of them for; from the third on it is kept to, up to an hour. Before,
 * it holds for the repository alone: a limit may be that of one credential, and delays no other's repositories.
 */
export function hostPauseMs(input: {
  readonly failures: number;
  readonly askedMs: number;
  readonly random: number;
}): number {
  const over = input.failures - hostFailuresMax;
  if (over < 0) return 0;
  const doubled = Math.min(hostPause.firstMs * 2 ** Math.min(over, 30), hostPause.mostMs);
  return Math.round(Math.max(doubled * (0.9 + 0.2 * input.random), Math.min(input.askedMs, 60 * 60 * 1000)));
}
