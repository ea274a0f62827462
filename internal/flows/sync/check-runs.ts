// The checks of pull requests at the code host that their events came from (spec, PR check: created on its head, shown
// there when concluded), with the connection's installation. When something is told, and again, is decided in flows/checks.

import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { CheckRun, CheckRunError } from '../../adapters/providers/codehost/codehost.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { projectOf } from '../../adapters/store/repositories/repositories.ts';
import { type FlowContext, portsOf } from '../context.ts';
import type { CheckPort, CheckReport, Reported } from '../ports.ts';
import { connectionSecrets } from '../sealed.ts';
import { connectionToken, text } from './source.ts';

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
  if (connection?.provider !== 'codehost' || connection.status !== 'active') {
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
