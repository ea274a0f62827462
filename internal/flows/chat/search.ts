// Search in chat. The provider searches for a bot only while it holds the token of the message that called it; without
// one, the newest messages of the channels that the bot is in are read, and the answer says that it is partial.

import { eventById } from '../../adapters/store/events/event-reads.ts';
import { routedPayload } from '../ingest/ingest.ts';
import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { contains } from '../../base/borders.ts';
import { Fault } from '../../domain/fault.ts';
import { listAt, objectAt, presentOf, textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import { messageOf } from './message.ts';
import type { ChatRoom } from './room.ts';

const scanned = { messages: 500, page: 100 } as const;

/** `{messages: [{channelId, permalink?, …}], partial}` */
export async function searchChat(
  room: ChatRoom,
  caller: ToolCaller,
  { query, limit }: { readonly query: string; readonly limit: number },
): Promise<JsonObject> {
  const token = await actionToken(room, caller);
  const found = token === undefined ? undefined : await searched(room, { query, limit, token });
  return found ?? { messages: await scan(room, query, limit), partial: true };
}

/** Of the event that the session was started for. */
async function actionToken({ ctx }: ChatRoom, { project, eventId }: ToolCaller): Promise<string | undefined> {
  if (eventId === null) return undefined;
  const row = await eventById(ctx.db, project.id, eventId);
  // An event whose body is gone with its partition has none.
  const payload = row === undefined ? null : routedPayload(row);
  const event = objectAt(objectAt(objectAt(payload)['raw'])['event']);
  return textAt(event['action_token']) ?? textAt(objectAt(event['assistant_thread'])['action_token']);
}

/** Undefined where the provider does not search for this bot, or not any more. */
async function searched(
  room: ChatRoom,
  { query, limit, token }: { readonly query: string; readonly limit: number; readonly token: string },
): Promise<JsonObject | undefined> {
  let result: JsonObject;
  try {
    result = await room.read('assistant.search.context', { query, action_token: token, limit: Math.min(limit, 20) });
  } catch (error) {
    const isRefused = error instanceof Fault && ['refused', 'permission-missing'].includes(error.code);
    if (isRefused) return undefined;
    throw error;
  }
  const { botUserId } = await room.workspace();
  const rows = listAt(objectAt(result['results'])['messages']).map(objectAt);
  const messages = rows.map((row) => ({
    ...messageOf(
      { ts: row['message_ts'] ?? '', user: row['author_user_id'] ?? '', text: row['content'] ?? '' },
      botUserId,
    ),
    ...presentOf({ channelId: row['channel_id'], permalink: row['permalink'] }),
  }));
  const isMore = (textAt(objectAt(result['response_metadata'])['next_cursor']) ?? '') !== '';
  return { messages, partial: isMore };
}

/** The newest 500 messages, a page of each channel in turn. */
async function scan(room: ChatRoom, query: string, limit: number): Promise<JsonObject[]> {
  const { botUserId } = await room.workspace();
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  const listing = await room.read('users.conversations', {
    types: 'public_channel,private_channel',
    exclude_archived: true,
    limit: 200,
  });
  const queue: { channel: string; cursor?: string }[] = listAt(listing['channels']).flatMap((one) => {
    const channel = textAt(objectAt(one)['id']);
    return channel === undefined ? [] : [{ channel }];
  });
  const found: JsonObject[] = [];
  for (let seen = 0; seen < scanned.messages && found.length < limit; ) {
    const next = queue.shift();
    if (next === undefined) break;
    const result = await room.read('conversations.history', { ...next, limit: scanned.page });
    const rows = listAt(result['messages']).map(objectAt);
    seen += Math.max(rows.length, 1);
    const hits = rows.filter((row) => words.every((word) => contains((textAt(row['text']) ?? '').toLowerCase(), word)));
    found.push(...hits.map((row) => ({ ...messageOf(row, botUserId), channelId: next.channel })));
    const cursor = textAt(objectAt(result['response_metadata'])['next_cursor']) ?? '';
    if (cursor !== '') queue.push({ channel: next.channel, cursor });
  }
  return found.slice(0, limit);
}
