// What the provider that takes any vendor/model slug says of those of a tree, for the diagnostics of a plan. Asked before
// the project's lock is taken, and only where a tree names one.

import { namesSlugs, unlistedSlugs } from '../../core/plan/plan.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import type { SyncPorts } from '../ports.ts';
import type { ApplyRequest } from './plan.ts';

/** Warnings, of an open list: what it lacks may have come since. Empty where it cannot be had. */
export async function remarksOnSlugs(
  { listedSlugs }: Pick<SyncPorts, 'listedSlugs'>,
  compiled: ApplyRequest['compiled'],
): Promise<readonly Diagnostic[]> {
  if (listedSlugs === undefined || !namesSlugs(compiled)) return [];
  const listed = await listedSlugs();
  return listed === undefined ? [] : unlistedSlugs(compiled, listed);
}
