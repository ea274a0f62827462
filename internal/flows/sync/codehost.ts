// What the code host is told: the status of a commit (wished for where a run begins and in the transaction that ends it;
// flows/plans tells it, and re-reads the latest run of the commit, so that a repeated or late wish says what is true by
// then), and the checks of pull requests that events came from (docs/reference/checks.md#states), with the connection's installation. When a check is told,
// and again, is decided in flows/checks. Failing to tell never touches a sync.

import type { CheckPort, CheckReport, Reported } from '../ports.ts';
import type { CheckRun, CheckRunError } from '../../adapters/providers/codehost/codehost.ts';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { wishStatus } from '../../adapters/store/repositories/commit-statuses.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { connectionSecrets } from '../sealed.ts';
import { connectionToken, text } from './source.ts';
import type { ReconcileRow } from '../../adapters/store/repositories/reconciles.ts';
import { projectOf, type Repository } from '../../adapters/store/repositories/repositories.ts';
import { isUsable } from '../../domain/connection.ts';
import { type FlowContext, portsOf } from '../context.ts';

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

/** Until the next try, where the code host is away or asks for patience. */
const afterMs = 30_000;

const failed = (reason: string): Reported => ({ outcome: 'failed', reason });

/** `ctx` as it is when something is told. */
export function codehostChecks(ctx: () => FlowContext): CheckPort {
  return {
    async report(report) {
      try {
        return await tell(ctx(), report);
      } catch (error) {
        const answer = answerTo(error as Error);
        if (answer.outcome === 'later')
          ctx().runtime.log.info({ checkId: report.id, err: error }, 'check.report_later');
        return answer;
      }
    },
  };
}

async function tell(ctx: FlowContext, report: CheckReport): Promise<Reported> {
  const connection = await connectionById(ctx.db, report.connectionId);
  if (connection?.provider !== 'codehost' || !isUsable(connection.status)) {
    return failed('the code-host connection of its event is gone');
  }
  // Only an installation may write them; a connection without a key takes events in and no more.
  if (text(connectionSecrets(ctx, connection)['privateKey']) === undefined)
    return { outcome: 'done', externalId: null };
  const project = await projectOf(ctx.db, connection.projectId);
  if (project === undefined) return failed('the project is gone');
  const put = async (refresh: boolean): Promise<string> => {
    const { token } = await connectionToken(ctx, project, connection.name, refresh);
    return portsOf(ctx).putCheckRun({ ...runOf(connection, report), token });
  };
  const externalId = await put(false).catch((error: CheckRunError) => {
    // A kept token may have been revoked; nothing was done with it.
    if (error.status !== 401) throw error;
    return put(true);
  });
  return { outcome: 'done', externalId };
}

function runOf({ config }: SealedConnection, report: CheckReport): Omit<CheckRun, 'token' | 'allowPrivate'> {
  const { id, externalId, state, conclusion, displayName, description, headSha: commit } = report;
  const apiUrl = text(config['apiUrl']);
  const isDropped = state === 'superseded';
  return {
    ...(apiUrl !== undefined && { apiUrl }),
    repository: report.targetKey.slice(0, report.targetKey.lastIndexOf('#')),
    commit,
    id,
    externalId,
    name: displayName,
    state: isDropped ? 'dropped' : state,
    conclusion,
    title: isDropped ? 'Superseded' : (report.title ?? displayName),
    summary: isDropped
      ? 'A later event on the pull request has begun this check anew.'
      : (report.summary ?? description),
  };
}

function answerTo(error: CheckRunError): Reported {
  const { status, isUnknown } = error;
  if (error instanceof RepoCondition) {
    return error.condition === 'auth-failed' ? failed(error.message) : { outcome: 'later', afterMs };
  }
  if (isUnknown === true) return failed(`${error.message}; whether it was made is not known`);
  if (status !== undefined && status < 500 && status !== 429) return failed(error.message);
  return { outcome: 'later', afterMs };
}
