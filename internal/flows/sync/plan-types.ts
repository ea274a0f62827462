// What an apply takes, plans and gives. A plan is a value, the same for a person who asks what would change and for the run
// that changes it; a result is a value also when it is a failure: only what is no author's mistake throws.

import type { StageTiming } from '../../adapters/store/repositories/reconciles.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { CompileOutput } from '../../core/compile/types.ts';
import type { Action, ChangeSet, Consequences, Current, Held } from '../../core/plan/types.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import type { EventImpact } from './apply-impact.ts';
import type { KeptPlan } from '../compiled.ts';
import type { Actor } from '../context.ts';

export type ApplyStatus =
  | 'applied'
  /** Nothing differs; nothing was written but what `finish` wrote. */
  | 'unchanged'
  /** A dry run: what would be applied. */
  | 'planned'
  /** The blast-radius guard holds it until it is approved; nothing was written. */
  | 'held'
  /** The tree or the plan has an error; nothing was written. */
  | 'failed'
  /** The repository's settings changed since it was read, or `finish` said so; nothing was written. */
  | 'superseded';

/** A webhook trigger's receipt (docs/reference/webhook-endpoints.md#declaring). */
export interface Receipt {
  readonly event: string;
  readonly endpoint: string;
  readonly ingestUrl: string;
  readonly status: 'ready';
}

export interface ApplyResult {
  readonly status: ApplyStatus;
  readonly actions: readonly Action[];
  readonly consequences: Consequences;
  readonly webhooks: readonly Receipt[];
  /** Of compile and of the plan, sorted by place. */
  readonly diagnostics: readonly Diagnostic[];
  readonly held?: Held;
  /** Of a plan that was asked for it, and of one that is held. */
  readonly eventImpact?: EventImpact;
}

export type ApplyOwner =
  | { readonly kind: 'manual' }
  | {
      readonly kind: 'repository';
      readonly repositoryId: string;
      /** Generation of the settings that the tree was compiled under; a later one supersedes this apply. */
      readonly generation: number;
    };

export interface ApplyRequest {
  /** Id of the reconcile; also the `operationId` of the lifecycle events. */
  readonly operationId: string;
  readonly projectId: string;
  readonly owner: ApplyOwner;
  readonly compiled: Pick<CompileOutput, 'ok' | 'resources' | 'diagnostics' | 'assets' | 'places' | 'origins'>;
  /**
   * False where the tree has no `.svc/` at all: an empty tree, which the guard holds; `failed` with the diagnostics of
   * `compiled` where the owner has nothing that could be lost.
   */
  readonly hasSvc: boolean;
  /** The bytes of a file of the tree, for avatars and for the lines that diagnostics are about. */
  readonly fileBytes: (path: string) => Uint8Array | undefined | Promise<Uint8Array | undefined>;
  readonly prune: boolean;
  readonly adopt: boolean;
  readonly dryRun: boolean;
  /** Whether a dry run says what it would have done to the events of the last days; a held plan always does. */
  readonly withImpact?: boolean;
  /** `off` for people's own applies and for approved runs. */
  readonly guard: 'off' | { readonly deleteMax?: number };
  /** Compare every row with what it should be, not only its hash (periodic resync). */
  readonly verify: boolean;
  readonly commit: string | null;
  readonly actor: Actor;
  /** SHA-256 (hex) of avatars that the service ships. */
  readonly shippedAvatars: readonly string[];
  /** What the last apply of the same compiled tree left behind; absent where nothing is kept of it. */
  readonly memo?: PlanMemo;
  /**
   * Finishes the run in the transaction of the apply: called once with the result before the commit, in every case but
   * a dry run. For `failed` and `superseded` that is a transaction of its own. `rollback` undoes an apply that has been
   * superseded meanwhile. `took` are the stages of the apply so far. May be called again when the database asks to repeat the transaction.
   */
  readonly finish?: (tx: Sql, result: ApplyResult, took: readonly StageTiming[]) => Promise<'commit' | 'rollback'>;
}

export interface PlanMemo {
  get(): KeptPlan | undefined;
  set(plan: KeptPlan): void;
}

interface PlanHead {
  readonly request: ApplyRequest;
  readonly orgId: string;
  /** Name of the owning repository. */
  readonly repository: string | undefined;
  /** Of compile and of the plan, sorted by place. */
  readonly diagnostics: readonly Diagnostic[];
}

/** What an apply would do to the stored rows, worked out and not yet judged. */
export type Plan =
  /** The repository's settings changed since it was read. */
  | (PlanHead & { readonly outcome: 'stale' })
  /** The tree has an error. */
  | (PlanHead & { readonly outcome: 'broken' })
  /** The same tree on the same rows as the last time: nothing to do. */
  | (PlanHead & { readonly outcome: 'known'; readonly kept: KeptPlan })
  | (PlanHead & {
      readonly outcome: 'computed';
      /** Not `ok` where the plan itself has an error. */
      readonly set: ChangeSet;
      readonly state: Current;
      readonly webhooks: readonly Receipt[];
      readonly now: Date;
    });

/** A plan together with what the guard makes of it. */
export interface JudgedPlan {
  readonly plan: Plan;
  readonly result: ApplyResult;
}
