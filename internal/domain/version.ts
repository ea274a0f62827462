// Changes that are asked for on condition: a caller that has read a thing says which version of it, and is refused where the
// thing has changed since (docs/reference/http-api.md#versions). Held against the row under its lock, so that of two such
// changes one is made.

import { Fault } from './fault.ts';

/** What If-Match and If-None-Match of a request say; undefined where they are absent. */
export interface Condition {
  readonly match?: string | undefined;
  readonly noneMatch?: string | undefined;
}

/**
 * Of a thing that counts its changes. With its id, since one of the same name that is made when it is gone counts from one
 * again.
 */
export const countedVersion = (id: string, count: number): string => `${count}.${id}`;

/** As the header ETag has it. */
export const versionTag = (version: number | string): string => `"${version}"`;

const names = (asked: string, tag: string): boolean =>
  asked.trim() === '*' || asked.split(',').some((one) => one.trim() === tag);

/** Throws Fault `stale` where the condition does not hold of the version that is there; undefined: there is none. */
export function requireVersion({ match, noneMatch }: Condition, version: number | string | undefined): void {
  const tag = version === undefined ? undefined : versionTag(version);
  const isMet =
    (match === undefined || (tag !== undefined && names(match, tag))) &&
    (noneMatch === undefined || tag === undefined || !names(noneMatch, tag));
  if (isMet) return;
  const found = tag === undefined ? 'it is not there' : `its version is ${tag} now`;
  throw new Fault('stale', 'precondition-failed', `It has changed since it was read: ${found}; read it again.`);
}
