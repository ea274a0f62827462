// The row of a sync in svc.reconciles, as the sync that it tells of writes it: opened when there is something to tell,
// written after each stage, ended once. Every write holds only while the row is still this run's.

import { wishStatus } from '../../adapters/store/repositories/commit-statuses.ts';
import type { WishReason } from '../../adapters/store/repositories/polls.ts';
import {
  insertRun,
  moveRun,
  type ReconcileRow,
  type ReconcileStatus,
  runningRun,
  type RunPatch,
  type StageTiming,
} from '../../adapters/store/repositories/reconciles.ts';
import {
  lockRepository,
  projectOf,
  type Repository,
  repositoryById,
  type RepositoryState,
  updateState,
} from '../../adapters/store/repositories/repositories.ts';
import { errorCode, type Sql } from '../../adapters/store/store.ts';
import type { CommitAbout } from '../../domain/commit.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';

/** What was asked for, stored with the run. */
export type SyncRequest =
  /** `act`: what a person did that asks for it, where that is more than a sync. */
  | { readonly kind: 'sync'; readonly act?: 'pin' | 'unpin' | 'release' }
  /** Re-apply the stored inputs of an earlier run, and quarantine the commit that is left. */
  | { readonly kind: 'rollback'; readonly from: string; readonly leaves: string | null }
  /** Apply the stored inputs of a held run without the guard. */
  | { readonly kind: 'approve'; readonly from: string };

/** How a run ends. `silent` ends a look that found nothing; with a run it is still closed as `unchanged`. */
export interface Ending {
  readonly status: Exclude<ReconcileStatus, 'running'>;
  readonly patch?: RunPatch;
  readonly state?: Partial<RepositoryState>;
  /** Leaves no run where there is none yet: nothing was learned that anyone would want to read. */
  readonly silent?: boolean;
  /** More to write in the transaction that ends it. */
  readonly also?: (tx: Sql) => Promise<void>;
}

/** What a run is of: the commit, the hash of everything else that decides, and what is recorded of them. */
export interface RunSubject {
  readonly commit: string | null;
  readonly hash: string;
  readonly inputs: { readonly [key: string]: unknown };
}

/** The run is not ours any more: superseded, or taken over. Whoever did that goes on; this one stops where it is. */
export class LostOwnership extends Error {
  constructor() {
    super('the run was superseded');
    this.name = 'LostOwnership';
  }
}

/** The run is not ours any more, or its repository is not there any more: what it had to write could not be for want of it. */
export async function isLost(
  { ctx, repository }: Pick<RunOrigin, 'ctx' | 'repository'>,
  error: unknown,
): Promise<boolean> {
  if (error instanceof LostOwnership) return true;
  // A row names one that was removed; or something else is wrong, which is told.
  const mayBeGone = (error instanceof Fault && error.kind === 'not_found') || errorCode(error) === '23503';
  return mayBeGone && (await repositoryById(ctx.db, repository.id)) === undefined;
}

/** Another run of the repository stands in the way: of the same commit (`leave`), or one that cannot be judged yet. */
export class RunConflict extends Error {
  readonly verdict: 'leave' | 'wait';

  constructor(verdict: 'leave' | 'wait') {
    super(`another run is under way: ${verdict}`);
    this.name = 'RunConflict';
    this.verdict = verdict;
  }
}

export interface RunOrigin {
  readonly ctx: FlowContext;
  readonly repository: Repository;
  readonly reason: WishReason;
  readonly request: SyncRequest;
  /** The run that waited for a daemon and that this one has taken; null: there is none yet. */
  readonly taken: string | null;
}

const round = (ms: number): number => Math.round(ms * 10) / 10;

export class RunRecord {
  readonly #origin: RunOrigin;
  readonly #stages: StageTiming[] = [];
  /** Ids of its runs, there before they are written, so that nobody takes one for lost. */
  readonly #ids = new Set<string>();
  #id: string | null;
  #commit: string | null = null;

  constructor(origin: RunOrigin) {
    this.#origin = origin;
    this.#id = origin.taken;
    if (origin.taken !== null) this.#ids.add(origin.taken);
  }

  /** Null until there is something to tell: a look that finds nothing new leaves no row. */
  get id(): string | null {
    return this.#id;
  }

  /** The commit that it is of, once that is known. */
  get commit(): string | null {
    return this.#commit;
  }

  get stages(): readonly StageTiming[] {
    return this.#stages;
  }

  /** What its commit says of itself, once that was read: stands in the run with its next write. */
  about: CommitAbout | undefined;

  /** What else ends with the run, in the same transaction: `putDown` runs it. */
  atEnd: ((tx: Sql) => Promise<void>) | undefined;
  #putsDown = false;
  #isPutDown = false;

  /** Whether a transaction that ran `atEnd` has committed. */
  get isPutDown(): boolean {
    return this.#isPutDown;
  }

  /** Call it in the transaction that ends the run, and `committed` once that is sure. */
  async putDown(tx: Sql): Promise<void> {
    this.#putsDown = this.atEnd !== undefined;
    await this.atEnd?.(tx);
  }

  /** The last transaction that was to end the run has left nothing behind, or is tried again. */
  notYet(): void {
    this.#putsDown = false;
  }

  committed(): void {
    this.#isPutDown = this.#putsDown;
  }

  /** Whether a row is this run's. */
  owns(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Runs a stage and notes how long it took. */
  async timed<T>(name: string, stage: () => Promise<T>): Promise<T> {
    const begun = performance.now();
    try {
      return await stage();
    } finally {
      this.note(name, performance.now() - begun);
    }
  }

  note(name: string, ms: number): void {
    this.#stages.push({ name, ms: round(ms) });
  }

  /**
   * Opens the run, superseding one of another commit or of older settings that this daemon has in hand. Throws `RunConflict`
   * where the one under way will do, or cannot be judged yet. Does nothing where it is open.
   */
  async open(subject: RunSubject): Promise<void> {
    if (this.#id !== null) return;
    const id = await this.#origin.ctx.db.tx((tx) => this.openIn(tx, subject));
    this.opened(id);
  }

  /** `open` inside a transaction; the caller says `opened` once that has committed. */
  async openIn(tx: Sql, subject: RunSubject, id = this.#origin.ctx.runtime.uuid()): Promise<string> {
    const { ctx, repository, reason, request } = this.#origin;
    const { commit } = subject;
    const now = ctx.runtime.now();
    this.#ids.add(id);
    if ((await lockRepository(tx, repository.id)) === undefined) throw new LostOwnership();
    // The run first, then the state: a run ends without this lock, and both are written at once, so whoever finds none
    // running also finds what the last one saw.
    const running = await runningRun(tx, repository.id);
    const [fresh, project] = await Promise.all([
      repositoryById(tx, repository.id),
      projectOf(tx, repository.projectId),
    ]);
    // Suspended, changed or archived with its project since it was read: there was no run that whoever did that could end.
    if (fresh?.fence !== repository.fence || project === undefined) throw new LostOwnership();
    if (reason !== 'manual') this.#requireUnseen(fresh, subject);
    if (running !== undefined) {
      const generation = Number(running.inputs['generation'] ?? 0);
      const seen = { commit: running.commit, generation };
      const verdict = compareRuns({ running: seen, commit: commit ?? '', generation: repository.generation });
      // What waits for a daemon was asked for by a person behind this look, whatever commit it is to come to; and whose look is
      // the later one is not known of what another daemon has.
      const isOurs = running.daemonId === ctx.daemonId;
      if (verdict !== 'supersede' || !isOurs) throw new RunConflict(verdict === 'leave' ? 'leave' : 'wait');
      const detail = `superseded by commit ${commit ?? 'unknown'}`;
      await moveRun(tx, running.id, { status: 'superseded', detail }, now);
    }
    await insertRun(tx, {
      id,
      projectId: repository.projectId,
      repositoryId: repository.id,
      repositoryName: repository.name,
      commit,
      reason,
      daemonId: ctx.daemonId,
      startedAt: now,
      request: { ...request },
      inputs: subject.inputs,
    });
    return id;
  }

  /** Throws `RunConflict` where somebody else has seen a commit to its end since the row was read: an older one is no news. */
  #requireUnseen({ state }: Repository, { commit, hash }: RunSubject): void {
    const { repository, reason } = this.#origin;
    const isDone = state.seenCommit !== repository.state.seenCommit || state.seenHash !== repository.state.seenHash;
    if (!isDone) return;
    const isThis = state.seenCommit === commit && state.seenHash === hash;
    if (!isThis) throw new RunConflict('wait');
    if (reason !== 'resync') throw new RunConflict('leave');
  }

  /** The transaction that opened it has committed. */
  opened(id: string): void {
    this.#id = id;
  }

  /** Notes the commit that it is of, which is written when it ends: for a run that has next to nothing to do. */
  isOf(commit: string): void {
    this.#commit = commit;
  }

  /** Writes how far the run has come. Throws `LostOwnership` where it is not ours any more. */
  async move(patch: RunPatch): Promise<void> {
    this.#commit = patch.commit ?? this.#commit;
    if (this.#id === null) return;
    const { db, runtime, daemonId } = this.#origin.ctx;
    const held = await moveRun(
      db,
      this.#id,
      { ...patch, ...this.#told(), stages: this.#stages },
      runtime.now(),
      daemonId,
    );
    if (!held) throw new LostOwnership();
  }

  #told(): Pick<RunPatch, 'about'> {
    return this.about === undefined ? {} : { about: this.about };
  }

  /** Ends the run and writes what was learned, in one transaction. */
  async end(ending: Ending, subject: RunSubject): Promise<void> {
    const { ctx, repository } = this.#origin;
    if (ending.silent && this.#id === null && ending.state === undefined) return;
    if (!ending.silent) await this.open(subject);
    const id = this.#id;
    await ctx.db.tx(async (tx) => {
      if (id !== null) {
        const { status, patch } = ending;
        const { commit } = subject;
        const whole: RunPatch = {
          ...(commit !== null && { commit }),
          ...patch,
          ...this.#told(),
          status,
          stages: this.#stages,
          inputs: subject.inputs,
        };
        if (!(await moveRun(tx, id, whole, ctx.runtime.now(), ctx.daemonId))) throw new LostOwnership();
        if (!ending.silent) await askForStatus(tx, repository, patch?.commit ?? subject.commit);
      }
      if (ending.state !== undefined) await updateState(tx, repository.id, ending.state, ctx.runtime.now());
      await ending.also?.(tx);
      await this.putDown(tx);
    });
    this.committed();
  }

  /** Ends the run whoever holds it, where it is still under way: for what leaves nothing else behind. */
  async close(status: 'superseded' | 'failed', detail: string): Promise<boolean> {
    if (this.#id === null) return false;
    const { db, runtime } = this.#origin.ctx;
    return moveRun(db, this.#id, { status, detail, stages: this.#stages }, runtime.now());
  }

  /** Leaves the run to whoever comes next; false where it is not ours any more. */
  async handBack(): Promise<boolean> {
    if (this.#id === null) return false;
    const { db, runtime, daemonId } = this.#origin.ctx;
    return moveRun(db, this.#id, { daemonId: null, stages: [] }, runtime.now(), daemonId);
  }
}

/** Asks for the telling, where the repository is read through a connection to its code host. */
export async function askForStatus(sql: Sql, repository: Repository, commit: string | null | undefined): Promise<void> {
  if (repository.auth?.kind !== 'connection' || repository.url === null) return;
  if (commit === null || commit === undefined || !/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(commit)) return;
  await wishStatus(sql, repository.id, commit);
}

/** A run in a word of the code host's and a short sentence: the author's mistakes fail a commit, all else is an error. */
export function statusText(run: Pick<ReconcileRow, 'status' | 'condition' | 'detail' | 'actions' | 'diagnostics'>): {
  readonly state: 'success' | 'failure' | 'error';
  readonly description: string;
} {
  const ops = run.actions.map((action) => (action as { readonly op?: unknown } | null)?.op);
  const count = (op: string): number => ops.filter((one) => one === op).length;
  const errors = run.diagnostics.filter((one) => (one as { readonly severity?: unknown } | null)?.severity === 'error');
  switch (run.status) {
    case 'applied':
      return {
        state: 'success',
        description: `applied: ${count('create')} created, ${count('update')} updated, ${count('delete')} deleted`,
      };
    case 'unchanged':
      return { state: 'success', description: 'nothing to change' };
    case 'held':
      return { state: 'failure', description: run.detail ?? 'held for approval' };
    case 'quarantined':
      return { state: 'failure', description: 'left aside by a rollback' };
    case 'failed':
      if (errors.length > 0) {
        const first = (errors[0] as { readonly message?: unknown }).message;
        return {
          state: 'failure',
          description: `${errors.length} error${errors.length === 1 ? '' : 's'}: ${String(first)}`,
        };
      }
      return {
        state: 'error',
        description: run.condition === null ? 'the sync broke off' : `not read: ${run.condition}`,
      };
    case 'running':
    case 'superseded':
      throw new Error(`a run that is ${run.status} has no outcome to tell`);
  }
}

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
