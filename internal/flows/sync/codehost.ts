// What the code host is told: the status of a commit (a job asked for in the transaction that ends a run, done after it,
// which re-reads the latest run of the commit, so that a lost, repeated or late one says what is true by then), and the
// checks of pull requests that events came from (spec, PR check), with the connection's installation. When a check is told,
// and again, is decided in flows/checks. Failing to tell never touches a sync.

import type { CheckPort, CheckReport, Reported } from '../ports.ts';
import type { CheckRun, CheckRunError } from '../../adapters/providers/codehost/codehost.ts';
import type { Logger } from 'pino';
import { RepoCondition } from '../../adapters/repo/repo.ts';
import { addJob } from '../../adapters/store/operations/add-job.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { connectionById, connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { connectionSecrets } from '../sealed.ts';
import { connectionToken, text } from './source.ts';
import { fullNameOf } from './decide.ts';
import { lastRunAt, type ReconcileRow } from '../../adapters/store/repositories/reconciles.ts';
import { projectOf, type Repository, repositoryById } from '../../adapters/store/repositories/repositories.ts';
import { isUsable } from '../../domain/connection.ts';
import { type FlowContext, portsOf, type ProjectRef } from '../context.ts';

/** Tries until it is left at that: the next sync tells anew. */
const attempts = 6;

/** Asks for the telling, where the repository is read through a connection to its code host. */
export async function askForStatus(sql: Sql, repository: Repository, commit: string | null | undefined): Promise<void> {
  if (repository.auth?.kind !== 'connection' || repository.url === null) return;
  if (commit === null || commit === undefined || !/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(commit)) return;
  const jobKey = `repo.status:${repository.id}:${commit}`;
  await addJob(sql, 'repo.status', { repositoryId: repository.id, commit }, { jobKey });
}

export interface StatusInput {
  readonly repositoryId: string;
  readonly commit: string;
  readonly attempt: number;
  readonly log: Logger;
}

/**
 * Posts the status of a commit. Throws where trying again may help; what the code host refuses, and what was tried
 * often, is logged and left.
 */
export async function tellStatus(ctx: FlowContext, input: StatusInput): Promise<void> {
  const repository = await repositoryById(ctx.db, input.repositoryId);
  if (repository?.auth?.kind !== 'connection') return;
  const project = await projectOf(ctx.db, repository.projectId);
  const run = await lastRunAt(ctx.db, repository.id, input.commit);
  const connection = await connectionByName(ctx.db, repository.projectId, repository.auth.connection);
  const name = fullNameOf(repository);
  // Only an installation may be allowed to: a bare token was given for reading.
  if (project === undefined || run === undefined || connection === undefined || !name.includes('/')) return;
  if (connection.provider !== 'codehost' || !isUsable(connection.status)) return;
  if (text(connectionSecrets(ctx, connection)['privateKey']) === undefined) return;
  const { attempt, commit, log } = input;
  const apiUrl = text(connection.config['apiUrl']);
  const fields = { repository: repository.name, commit, reconcile: run.id };
  try {
    const { token } = await connectionToken(ctx, project, connection.name, false);
    await portsOf(ctx).postStatus({
      ...(apiUrl !== undefined && { apiUrl }),
      token,
      repository: name,
      commit,
      context: `svc/${repository.name}`,
      ...saying(run),
      targetUrl: addressOf(ctx, project, run),
    });
    log.debug(fields, 'repo.status_posted');
  } catch (error) {
    const status = (error as { readonly status?: number }).status;
    const isRefused = status !== undefined ? status < 500 && status !== 429 : isFinal(error);
    if (!isRefused && attempt < attempts) throw error;
    log.warn({ ...fields, err: error }, 'repo.status_refused');
  }
}

const isFinal = (error: unknown): boolean => error instanceof RepoCondition && error.condition === 'auth-failed';

function addressOf(ctx: FlowContext, project: ProjectRef, run: ReconcileRow): string {
  return `${ctx.baseUrl}/api/v1/orgs/${project.orgSlug}/projects/${project.slug}/reconciles/${run.id}`;
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
