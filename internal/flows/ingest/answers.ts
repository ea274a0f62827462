// Answers to what sessions ask (docs/reference/notifications.md#questions): a message that says `allow` or `reject` in a
// place where a question is open decides it, where an approver of the project wrote it, and reaches no session whoever did.

import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { openQuestionAt } from '../../adapters/store/notify/notices.ts';
import { decidePermission } from '../../adapters/store/sessions/permissions.ts';
import { setAside } from '../../adapters/store/events/event-routes.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { tellingOf } from '../../adapters/store/tenancy/people.ts';
import type { Sql } from '../../adapters/store/store.ts';
import type { NamedEvent } from '../../domain/delivery.ts';
import { idAt, objectAt, textAt } from '../../domain/fields.ts';
import type { FlowContext } from '../context.ts';

export interface Answer {
  readonly decision: 'allow' | 'reject';
  /** Of the person, at the provider. */
  readonly by: string;
  readonly targetKey: string;
}

const SAID: { readonly [key: string]: (payload: NamedEvent['payload']) => { readonly text?: unknown; by?: unknown } } =
  {
    'chat.message.': (payload) => {
      const message = objectAt(payload['message']);
      return { text: message['text'], by: objectAt(message['author'])['userId'] };
    },
    'codehost.issue_comment.': (payload) => ofCodehost(payload),
    'codehost.issue.comment.': (payload) => ofCodehost(payload),
    'tracker.comment.': (payload) => {
      const said = objectAt(payload['tracker']);
      return { text: objectAt(said['comment'])['body'], by: objectAt(said['actor'])['id'] };
    },
  };
const ofCodehost = (payload: NamedEvent['payload']) => {
  const said = objectAt(payload['codehost']);
  return { text: objectAt(said['issueComment'])['body'], by: objectAt(said['sender'])['id'] };
};

/** A mention of somebody at either end: in chat `<@U1>` or `<@U1|name>`, elsewhere `@name` or `@name[bot]`. */
const MENTION =
  /^(?:<@[\w.-]+(?:\|[^>]*)?>|@[\w.-]+(?:\[bot\])?)[\s:,]*|\s*(?:<@[\w.-]+(?:\|[^>]*)?>|@[\w.-]+(?:\[bot\])?)$/gi;
const textMax = 300;

/** The answer that an event gives, if it is one. What the service wrote itself answers nothing. */
export function answerIn(event: NamedEvent): Answer | undefined {
  const { key, payload, target } = event;
  const reader = Object.keys(SAID).find((prefix) => key.startsWith(prefix));
  if (reader === undefined || target === undefined || /\.(edited|deleted)$/.test(key)) return undefined;
  if (objectAt(payload['svc'])['authored'] === true) return undefined;
  const said = SAID[reader]?.(payload) ?? {};
  const text = textAt(said.text as never);
  const by = idAt(said.by as never);
  if (text === undefined || by === undefined || text.length > textMax) return undefined;
  const word = text.trim().replace(MENTION, '').trim().toLowerCase();
  return word === 'allow' || word === 'reject' ? { decision: word, by, targetKey: target.key } : undefined;
}

/**
 * Takes an answer in the transaction that records its event. Undefined where nothing is asked there: then it is a message
 * like others. Else the event is set aside, so that no session hears of it, and the question is decided where an approver
 * answers.
 */
export async function takeAnswer(
  ctx: FlowContext,
  tx: Sql,
  of: { readonly connection: SealedConnection; readonly eventId: string; readonly answer: Answer },
): Promise<'answer' | 'not-an-approver' | undefined> {
  const { connection, eventId, answer } = of;
  const { projectId, orgId, provider } = connection;
  const question = await openQuestionAt(tx, projectId, answer.targetKey);
  if (question === undefined) return undefined;
  const { approvers } = await tellingOf(tx, projectId);
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
