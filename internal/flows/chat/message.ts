// A message of the chat provider as a session reads it.

import { fileOf } from '../../adapters/providers/chat/chat.ts';
import { idAt, listAt, objectAt, presentOf, textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';

/** `{messageId, threadId, author, text, at, attachments}`; `at` is RFC 3339. */
export function messageOf(message: JsonObject, botUserId: string | undefined): JsonObject {
  const messageId = textAt(message['ts']) ?? '';
  const profiles = [objectAt(message['user_profile']), objectAt(message['bot_profile'])];
  const names = [message['username'], ...profiles.flatMap((one) => [one['name'], one['real_name']])];
  const userId = idAt(message['user']) ?? idAt(message['bot_id']) ?? '';
  return {
    messageId,
    threadId: textAt(message['thread_ts']) ?? messageId,
    author: presentOf({
      userId,
      userName: names.map(textAt).find((name) => name !== undefined && name !== ''),
      isBot: idAt(message['bot_id']) !== undefined || message['subtype'] === 'bot_message',
      isMe: botUserId !== undefined && userId === botUserId,
    }),
    text: textAt(message['text']) ?? '',
    at: timeOf(messageId),
    attachments: listAt(message['files']).map(objectAt).map(fileOf),
  };
}

const timeOf = (ts: string): string | null => {
  const ms = Math.round(Number(ts) * 1_000);
  return ts === '' || !Number.isFinite(ms) || Math.abs(ms) > 8.64e15 ? null : new Date(ms).toISOString();
};
