// What becomes of a connection by what is said of its installation: its status, what is known of it, and whether that is a
// change that somebody should hear of. What the provider says when it is asked goes before a delivery, which may be late.
// Reads no clock, asks nobody and stores nothing.

import type { ConnectionStatus, InstallationChange, Observed } from '../../domain/connection.ts';

export interface InstallationNow {
  readonly status: ConnectionStatus;
  readonly reason: string | null;
  readonly observed: Observed | null;
}
/** What the provider answered when it was asked; undefined: it was not, or nobody knows. */
export type InstallationAnswer = 'active' | 'suspended' | 'removed' | 'credential-refused' | 'unavailable';

export interface InstallationNext {
  readonly status: ConnectionStatus;
  readonly reason?: string | undefined;
  readonly observed: Observed;
  /** False: it is as it was, and nobody is told. */
  readonly isChange: boolean;
  /** What changed where the status did not. */
  readonly detail?: string;
}

export const removedReason = 'repository-removed';
const lower = (names: readonly string[]): string[] => names.map((name) => name.toLowerCase());
const namesMax = 2_000;

/** What is known after more was told. */
export function observedAfter(
  before: Observed | null,
  { observed, added, removed }: Pick<InstallationChange, 'observed' | 'added' | 'removed'>,
): Observed {
  const permissions = observed.permissions ?? before?.permissions;
  const kept = before?.repositories;
  const selection = observed.repositories?.selection ?? kept?.selection;
  if (selection === undefined) return { ...(permissions !== undefined && { permissions }) };
  const [gone, back] = [new Set(lower(removed)), new Set(lower(added))];
  const known = observed.repositories?.names ?? kept?.names;
  const names = known?.filter((name) => !gone.has(name.toLowerCase()));
  const held = new Set(lower(names ?? []));
  const more = added.filter((name) => !held.has(name.toLowerCase()));
  const all = names === undefined ? undefined : [...names, ...more].slice(0, namesMax);
  const isWhole = observed.repositories?.names !== undefined || selection === 'all';
  const missing = isWhole ? [] : (kept?.missing ?? []).filter((name) => !back.has(name.toLowerCase()));
  const lost = [...new Set(lower([...missing, ...removed]))].slice(0, namesMax);
  return {
    ...(permissions !== undefined && { permissions }),
    repositories: {
      selection,
      ...(all !== undefined && selection === 'selected' && { names: all }),
      ...(lost.length > 0 && { missing: lost }),
    },
  };
}

/** Repositories of `wanted` that were taken away. */
export function missingOf(observed: Observed | null, wanted: readonly string[]): string[] {
  const missing = new Set(lower(observed?.repositories?.missing ?? []));
  return wanted.filter((name) => missing.has(name.toLowerCase()));
}

/** Of an installation that works: degraded where a mount's repository was taken away. */
export function workingStatus(
  observed: Observed | null,
  wanted: readonly string[],
): { readonly status: ConnectionStatus; readonly reason?: string } {
  return missingOf(observed, wanted).length > 0 ? { status: 'degraded', reason: removedReason } : { status: 'active' };
}

/** `wanted`: repositories of the mounts that it serves. */
export function afterInstallation(
  now: InstallationNow,
  change: InstallationChange,
  seen: InstallationAnswer | undefined,
  wanted: readonly string[],
): InstallationNext {
  const observed = observedAfter(now.observed, change);
  const next = statusAfter(now, change, seen, () => workingStatus(observed, wanted));
  const isMoved = next.status !== now.status || (next.reason ?? null) !== now.reason;
  const isRenamed = change.what === 'renamed';
  const isOther =
    (change.what === 'permissions' || change.what === 'repositories') && !isSame(now.observed, observed, change.what);
  return {
    ...next,
    observed,
    isChange: isMoved || isRenamed || isOther,
    ...(!isMoved && (isRenamed || isOther) && { detail: change.what }),
  };
}

function statusAfter(
  now: InstallationNow,
  { what }: InstallationChange,
  seen: InstallationAnswer | undefined,
  working: () => { readonly status: ConnectionStatus; readonly reason?: string },
): { readonly status: ConnectionStatus; readonly reason?: string } {
  const same = { status: now.status, ...(now.reason !== null && { reason: now.reason }) };
  if (what === 'removed' || what === 'suspended') return { status: what };
  if (what === 'established' || what === 'permissions') {
    // A delivery may be late: what the provider says now goes before it.
    if (seen === 'suspended' || seen === 'removed') return { status: seen };
    if (seen === 'credential-refused') return { status: 'degraded', reason: seen };
    if (seen === 'active' || what === 'established') return working();
    return same;
  }
  // Repositories say nothing of an installation that is suspended or gone, or of a key that is not taken.
  const isSpoken = now.status === 'active' || (now.status === 'degraded' && now.reason === removedReason);
  return what === 'repositories' && isSpoken ? working() : same;
}

/** Where nothing was known, everything is new. */
function isSame(before: Observed | null, after: Observed, what: 'permissions' | 'repositories'): boolean {
  const text = (value: Observed | null): string | undefined => {
    const part = value?.[what];
    return part === undefined ? undefined : JSON.stringify(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)));
  };
  return text(before) !== undefined && text(before) === text(after);
}
