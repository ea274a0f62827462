// What people declare of a repository, and which of it decides what a sync comes to. Every change raises the generation; the
// fence only one that decides, so that no run ends over any other.

import type { JsonObject } from '../../../domain/json.ts';
import type { PlanSettings } from './pull-plans.ts';

export type RepositoryAuth =
  | { readonly kind: 'token'; readonly secretRef: string; readonly username?: string }
  | { readonly kind: 'connection'; readonly connection: string };

/** What people declare. */
export interface RepositorySettings {
  readonly url: string | null;
  readonly urlKey: string | null;
  readonly path: string | null;
  readonly branch: string | null;
  readonly root: string;
  readonly intervalSeconds: number;
  readonly auth: RepositoryAuth | null;
  readonly context: { readonly [name: string]: string };
  readonly adopt: boolean;
  readonly guard: { readonly deleteMax?: number };
  readonly verify: { readonly keys: readonly string[] } | null;
  readonly plan: PlanSettings;
}

/** Whether a setting decides anything of what is read, compiled or applied. */
export const isDeciding = (key: string): boolean => key !== 'intervalSeconds' && key !== 'plan';

/** SQL of the fence of a repository `r`. */
export const fenceOf = 'r.generation - r.undeciding';

/** Settings as JSON, for the hash of a sync's inputs: only what decides the outcome. */
export function decidingSettings(repository: RepositorySettings): JsonObject {
  const { url, path, branch, root, adopt, guard, verify } = repository;
  return {
    url,
    path,
    branch,
    root,
    adopt,
    guard: { ...guard },
    verify: verify === null ? null : { keys: verify.keys },
  };
}
