// What the code host is to be told of a sync: the status of a commit, wished for where a run begins and in the transaction
// that ends it; flows/plans tells it, and re-reads the latest run of the commit, so that a repeated or late wish says what is
// true by then. Failing to tell never touches a sync.

import { wishStatus } from '../../adapters/store/repositories/commit-statuses.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { ReconcileRow } from '../../adapters/store/repositories/reconciles.ts';
import type { Repository } from '../../adapters/store/repositories/repositories.ts';

/** Asks for the telling, where the repository is read through a connection to its code host. */
export async function askForStatus(sql: Sql, repository: Repository, commit: string | null | undefined): Promise<void> {
  if (repository.auth?.kind !== 'connection' || repository.url === null) return;
  if (commit === null || commit === undefined || !/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(commit)) return;
  await wishStatus(sql, repository.id, commit);
}

/** A run in a word of the code host's and a short sentence: the author's mistakes fail a commit, all else is an error. */
export function saying(run: Pick<ReconcileRow, 'status' | 'condition' | 'detail' | 'actions' | 'diagnostics'>): {
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
