// Whether a message is an answer to a question (docs/reference/notifications.md#questions): the one word that it says.

import type { NamedEvent } from '../../domain/delivery.ts';
import { idAt, objectAt, textAt } from '../../domain/fields.ts';

export interface QuestionAnswer {
  readonly decision: 'allow' | 'reject';
  /** Of the person, at the provider. */
  readonly by: string;
  readonly targetKey: string;
}

const wordsByAnswer: {
  readonly [key: string]: (payload: NamedEvent['payload']) => { readonly text?: unknown; by?: unknown };
} = {
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
const mention =
  /^(?:<@([\w.-]+)(?:\|[^>]*)?>|@(\w(?:[\w.-]*\w)?)(?:\[bot\])?)[\s:,.]*|\s*(?:<@([\w.-]+)(?:\|[^>]*)?>|@(\w(?:[\w.-]*\w)?)(?:\[bot\])?)$/gi;
const textMax = 300;

/**
 * The answer that an event gives, if it is one. What the service wrote itself answers nothing, and what is said to somebody
 * else neither: `bot` are the names by which the service is mentioned there, undefined where nobody knows them.
 */
export function answerIn(event: NamedEvent, bot: readonly string[] | undefined): QuestionAnswer | undefined {
  const { key, payload, target } = event;
  const reader = Object.keys(wordsByAnswer).find((prefix) => key.startsWith(prefix));
  if (reader === undefined || target === undefined || /\.(edited|deleted)$/.test(key)) return undefined;
  if (objectAt(payload['svc'])['authored'] === true) return undefined;
  const said = wordsByAnswer[reader]?.(payload) ?? {};
  const text = textAt(said.text as never);
  const by = idAt(said.by as never);
  if (text === undefined || by === undefined || text.length > textMax) return undefined;
  const isBot = (name: string): boolean => bot === undefined || bot.includes(name.toLowerCase());
  const unaddressed = (whole: string, ...names: (string | undefined)[]): string =>
    isBot(names.slice(0, 4).find((name) => name !== undefined) ?? '') ? '' : whole;
  const word = text.trim().replace(mention, unaddressed).trim().toLowerCase();
  return word === 'allow' || word === 'reject' ? { decision: word, by, targetKey: target.key } : undefined;
}
