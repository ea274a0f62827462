// What a sync should do about what it sees, as functions from values to values: nothing here reads a clock or a row.

import type { ReconcileReason } from '../../adapters/store/repositories/reconciles.ts';
import type { Repository } from '../../adapters/store/repositories/repositories.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';
import { withoutEnd } from '../../domain/text-end.ts';

/** What was asked for, stored with the run. */
export type SyncRequest =
  /** `act`: what a person did that asks for it, where that is more than a sync. */
  | { readonly kind: 'sync'; readonly act?: 'pin' | 'unpin' | 'release' }
  /** Re-apply the stored inputs of an earlier run, and quarantine the commit that is left. */
  | { readonly kind: 'rollback'; readonly from: string; readonly leaves: string | null }
  /** Apply the stored inputs of a held run without the guard. */
  | { readonly kind: 'approve'; readonly from: string };

/** What to do about a tip. */
export type Verdict =
  /** Seen to its end already, under these inputs: no write at all. */
  | { readonly do: 'nothing' }
  /** The same, but the source had a condition that is over now: forget it. */
  | { readonly do: 'recover' }
  /** The commit that a rollback left: say so once, then pass over it. */
  | { readonly do: 'pass-over' }
  /** `prior`: a commit with the same relevant trees as the applied one needs no compile. */
  | { readonly do: 'sync'; readonly prior: boolean };

/** A person's sync and the periodic comparison look at everything again, whatever was seen. */
export function assess(input: {
  readonly repository: Pick<Repository, 'quarantinedCommit' | 'state'>;
  readonly commit: string;
  readonly hash: string;
  readonly reason: ReconcileReason;
}): Verdict {
  const { repository, commit, hash, reason } = input;
  const { state } = repository;
  if (commit === repository.quarantinedCommit) {
    if (state.seenCommit === commit && reason !== 'manual') return settled(state.condition);
    return { do: 'pass-over' };
  }
  const thorough = reason === 'manual' || reason === 'resync';
  if (!thorough && state.seenCommit === commit && state.seenHash === hash) return settled(state.condition);
  // After a commit that failed, a commit with the applied one's trees is news again, and good news.
  return { do: 'sync', prior: !thorough && state.snapshotId !== null && state.appliedHash === hash };
}

const settled = (condition: string | null): Verdict => ({ do: condition === null ? 'nothing' : 'recover' });

/** What a run in progress means for another sync of its repository. */
export function compareRuns(input: {
  readonly running: { readonly commit: string | null; readonly generation: number | null };
  readonly commit: string;
  readonly generation: number;
}): 'leave' | 'wait' | 'supersede' {
  // It has not looked yet: what it will see cannot be told.
  if (input.running.commit === null) return 'wait';
  const same = input.running.commit === input.commit && input.running.generation === input.generation;
  return same ? 'leave' : 'supersede';
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
 * fifth. `askedMs` is what the server asks for; it is kept to, up to an hour.
 */
export function hostPauseMs(input: {
  readonly failures: number;
  readonly askedMs: number;
  readonly random: number;
}): number {
  const over = input.failures - hostFailuresMax;
  const doubled = over < 0 ? 0 : Math.min(hostPause.firstMs * 2 ** Math.min(over, 30), hostPause.mostMs);
  return Math.round(Math.max(doubled * (0.9 + 0.2 * input.random), Math.min(input.askedMs, 60 * 60 * 1000)));
}

/** Owner and name of a repository address, such as `acme/app`; for a folder the name it is registered under. */
export function fullNameOf(repository: { readonly name: string; readonly url: string | null }): string {
  const path = repository.url === null ? undefined : pathOf(repository.url);
  return path?.split('/').filter(Boolean).join('/') || repository.name;
}

/** The path of an address with its capitals, which the key has lost. */
function pathOf(url: string): string | undefined {
  const scp = /^(?:[^@/\s]+@)?[A-Za-z0-9.-]+:(?!\/\/)([^\s]+)$/.exec(url);
  const path = scp?.[1] ?? URL.parse(url)?.pathname;
  return path === undefined ? undefined : withoutEnd(path, '/').replace(/\.git$/i, '');
}

/**
 * The context variables of a sync, beneath each document's own (docs/reference/compile.md#variables): what is known of the repository,
 * then what was declared with it, which wins. A folder has no branch; a connection is there where one is named by the
 * repository's `auth`, or the project has exactly one.
 */
export function contextOf(
  repository: Pick<Repository, 'name' | 'url' | 'branch' | 'context' | 'auth'>,
  known: { readonly branch: string | null; readonly connections: readonly string[] },
): { readonly [name: string]: string } {
  const fullName = fullNameOf(repository);
  const parts = fullName.split('/');
  const branch = repository.branch ?? known.branch;
  const named = repository.auth?.kind === 'connection' ? repository.auth.connection : undefined;
  const connection = named ?? (known.connections.length === 1 ? known.connections[0] : undefined);
  return {
    repositoryFullName: fullName,
    repositoryOwner: parts.length > 1 ? parts.slice(0, -1).join('/') : fullName,
    repositoryName: parts.at(-1) ?? fullName,
    ...(branch !== null && { branch }),
    ...(connection !== undefined && { codehostConnection: connection }),
    ...repository.context,
  };
}

/** One text for everything besides the commit that decides what a sync does; hashed by the caller. */
export function inputsText(input: {
  readonly context: { readonly [name: string]: string };
  readonly settings: Json;
  readonly catalog: string;
}): string {
  return canonicalJson({ context: input.context, settings: input.settings, catalog: input.catalog });
}
