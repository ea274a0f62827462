// Answers to what sessions ask (docs/reference/notifications.md#questions): a message that says `allow` or `reject` in a
// place where a question is open decides it, where an approver of the project wrote it, and reaches no session whoever did.

import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { openQuestionAt } from '../../adapters/store/notify/notices.ts';
import { decidePermission } from '../../adapters/store/sessions/permissions.ts';
import { setAside } from '../../adapters/store/events/event-routes.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { originNotificationOf } from '../../adapters/store/tenancy/people.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { FlowContext } from '../context.ts';
import type { QuestionAnswer } from './answer-words.ts';

/**
 * Takes an answer in the transaction that records its event. Undefined where nothing is asked there: then it is a message
 * like others. Else the event is set aside, so that no session hears of it, and the question is decided where an approver
 * answers.
 */
export async function takeAnswer(
  ctx: FlowContext,
  tx: Sql,
  of: { readonly connection: SealedConnection; readonly eventId: string; readonly answer: QuestionAnswer },
): Promise<'answer' | 'not-an-approver' | undefined> {
  const { connection, eventId, answer } = of;
  const { projectId, orgId, provider } = connection;
  const question = await openQuestionAt(tx, projectId, answer.targetKey);
  if (question === undefined) return undefined;
  const { approvers } = await originNotificationOf(tx, projectId);
  const isApprover = (approvers[provider as keyof typeof approvers] ?? []).includes(answer.by);
  const reason = isApprover ? 'answer' : 'not-an-approver';
  await setAside(tx, eventId, reason);
  const { sessionId, permissionId } = question;
  if (isApprover) {
    const by = { state: answer.decision, by: `${provider}:${answer.by}`, now: ctx.runtime.now() };
    await decidePermission(tx, { id: permissionId, sessionId }, by);
  }
  await recordAudit(tx, {
    orgId,
    projectId,
    principal: { kind: 'system', id: null, name: `${provider}:${answer.by}` },
    action: isApprover ? 'session.permission_decided' : 'session.answer_ignored',
    subject: { kind: 'Session', name: sessionId },
    detail: { permissionId, decision: answer.decision, connection: connection.name, person: answer.by, eventId },
  });
  ctx.runtime.log.info({ sessionId, permissionId, eventId, reason }, 'session.answered_outside');
  return reason;
}
