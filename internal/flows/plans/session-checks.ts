// Checks of sessions at the code host (docs/reference/checks.md#check-runs): a check run on the head, made once under the
// check's own id and changed from then on, each write through the outbox under a key, so that whoever repeats one sends it
// no second time. When a check is told, and again, is decided in flows/checks.

import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { projectOf } from '../../adapters/store/repositories/repositories.ts';
import { isUsable } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { isOfMasterKey } from '../../domain/outside.ts';
import { idAt, objectAt, textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import { CodehostCall } from '../broker/broker.ts';
import { settingText } from '../codehost-mounts.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import { isLanding } from '../in-flight.ts';
import { performWrite } from '../outbox/outbox.ts';
import type { CheckPort, CheckReport, Reported } from '../ports.ts';
import { connectionSecrets } from '../sealed.ts';
import { digestOf } from './shapes.ts';
import { idAndUrl } from '../../adapters/providers/codehost/codehost.ts';

/** Until the next try, where the code host is away or asks for patience. */
const afterMs = 30_000;
const passing = ['rate-limited', 'provider-unavailable', 'not-sent', 'busy', 'unavailable'];
const failed = (reason: string): Reported => ({ outcome: 'failed', reason });

/** `ctx` as it is when something is told. */
export function codehostChecks(ctx: () => FlowContext): CheckPort {
  return {
    async report(report) {
      try {
        return await tell(ctx(), report);
      } catch (error) {
        if (!(error instanceof Fault)) {
          ctx().runtime.log.warn({ checkId: report.id, err: error }, 'check.report_broke');
          return { outcome: 'later', afterMs };
        }
        if (!passing.includes(error.code) && !isOfMasterKey(error.code)) return failed(error.message);
        ctx().runtime.log.info({ checkId: report.id, code: error.code }, 'check.report_later');
        if (isLanding(ctx())) return { outcome: 'later', afterMs: 0 };
        return { outcome: 'later', afterMs: Math.max(afterMs, (error.retryAfterSeconds ?? 0) * 1_000) };
      }
    },
  };
}

async function tell(ctx: FlowContext, report: CheckReport): Promise<Reported> {
  const connection = await connectionById(ctx.db, report.connectionId);
  if (connection?.provider !== 'codehost') return failed('the code-host connection of its event is gone');
  if (!isUsable(connection.status)) return failed(`connection ${connection.name} is ${connection.status}`);
  // Only an installation may write them; a connection without a key takes events in and no more.
  if (settingText(connectionSecrets(ctx, connection)['privateKey']) === undefined) {
    return { outcome: 'done', externalId: null };
  }
  const project = await projectOf(ctx.db, connection.projectId);
  if (project === undefined) return failed('the project is gone');
  const publication = new CheckTelling(ctx, project, connection, report);
  const fields = fieldsOf(report);
  let { externalId } = report;
  if (externalId === null) {
    const made = await publication.make(fields);
    externalId = idAt(made['id']) ?? null;
    if (externalId === null) return failed('the code host named no check run');
    // Another telling may have made it, of an earlier state.
    if (made['of'] === digestOf(fields)) return { outcome: 'done', externalId };
  }
  if (report.state !== 'superseded' || !(await publication.isOver(externalId)))
    await publication.change(externalId, fields);
  return { outcome: 'done', externalId };
}

function fieldsOf({ state, conclusion, title, summary, displayName, description }: CheckReport): JsonObject {
  if (state === 'superseded') {
    const output = {
      title: 'Superseded',
      summary: 'A later event on the pull request has begun this check anew.',
    };
    return { status: 'completed', conclusion: 'cancelled', output };
  }
  const output = { title: title ?? displayName, summary: summary ?? description };
  return state === 'concluded' ? { status: 'completed', conclusion, output } : { status: state, output };
}

class CheckTelling {
  readonly #ctx: FlowContext;
  readonly #project: ProjectRef;
  readonly #connection: SealedConnection;
  readonly #report: CheckReport;

  constructor(ctx: FlowContext, project: ProjectRef, connection: SealedConnection, report: CheckReport) {
    this.#ctx = ctx;
    this.#project = project;
    this.#connection = connection;
    this.#report = report;
  }

  #codehost(): CodehostCall {
    return new CodehostCall({
      ctx: this.#ctx,
      project: this.#project,
      connection: this.#connection,
      installationId: undefined,
      repository: this.#report.targetKey.slice(0, this.#report.targetKey.lastIndexOf('#')),
      permissions: { checks: 'write' },
      session: null,
    });
  }

  /** `input`: what makes a repeat the same write. */
  async #write(
    tool: string,
    input: readonly string[],
    send: (codehost: CodehostCall) => Promise<JsonObject>,
  ): Promise<JsonObject> {
    const answer = await performWrite(this.#ctx, {
      project: this.#project,
      sessionId: null,
      provider: 'codehost',
      connectionId: this.#connection.id,
      alias: 'checks',
      tool,
      actor: { kind: 'system', id: null, name: 'checks' },
      idempotencyKey: `check:${this.#report.id}:${tool}:${input.join(':')}`,
      input: [this.#report.id, ...input],
      run: async (step, callId) => {
        const made = await send(this.#codehost().writing(step, callId));
        return { answer: made, url: textAt(made['url']) };
      },
    });
    return objectAt(answer);
  }

  /** Made once, whatever its state is by then; `of` says of which fields, where that is known. */
  make(fields: JsonObject): Promise<JsonObject> {
    const { id, headSha, displayName: name } = this.#report;
    const body = { name, head_sha: headSha, external_id: id, ...fields };
    return this.#write('create_check_run', [], (codehost) =>
      codehost.write(
        { method: 'POST', path: '/check-runs', body },
        {
          probe: { kind: 'checkRun', commit: headSha, name, externalId: id },
          shape: (json) => ({ ...idAndUrl(json), of: digestOf(fields) }),
        },
      ),
    );
  }

  change(externalId: string, fields: JsonObject): Promise<JsonObject> {
    const path = `/check-runs/${encodeURIComponent(externalId)}`;
    const [status, conclusion] = [fields['status'] ?? null, fields['conclusion'] ?? null];
    const probe = { kind: 'checkChanged', id: externalId, annotations: 0, status, conclusion };
    return this.#write('update_check_run', [digestOf(fields)], (codehost) =>
      codehost.write({ method: 'PATCH', path, body: fields }, { probe, shape: idAndUrl }),
    );
  }

  async isOver(externalId: string): Promise<boolean> {
    const run = objectAt(await this.#codehost().json(`/check-runs/${encodeURIComponent(externalId)}`));
    return run['status'] === 'completed';
  }
}
