// The chat provider's wire: proof of a delivery over its time and raw bytes within five minutes, and its events in the
// neutral vocabulary (docs/reference/connections.md#intakes, docs/reference/events.md#payloads). One message is one event:
// what arrives both as a mention and as a plain message is told by the mention. Never looks at a project, a trigger or a
// session.

import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Delivery, Fact, FactKey, NamedEvent } from '../../../domain/delivery.ts';
import { idAt, listAt, objectAt, presentOf, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';

export { callChat } from './api.ts';

const signatureShape = /^v0=([0-9a-f]{64})$/i;
const secondsShape = /^\d{1,12}$/;
const windowMs = 5 * 60_000;
const provider = 'slack';

/** Who the service is in this workspace. */
export interface Self {
  readonly botUserId?: string | undefined;
  readonly workspaceId?: string | undefined;
}

/** The two headers that prove a delivery. */
export interface Proof {
  readonly signature: string | undefined;
  readonly timestamp: string | undefined;
}

/** True for a signature of the body and its time within five minutes of `nowMs`, before or after. Constant time. */
export function verifySignature(rawBody: Uint8Array, proof: Proof, secret: string, nowMs: number): boolean {
  const hex = signatureShape.exec(proof.signature ?? '')?.[1];
  const { timestamp } = proof;
  if (secret.length === 0 || hex === undefined || timestamp === undefined || !secondsShape.test(timestamp))
    return false;
  if (Math.abs(nowMs - Number(timestamp) * 1_000) > windowMs) return false;
  const digest = createHmac('sha256', secret).update(`v0:${timestamp}:`).update(rawBody).digest();
  return timingSafeEqual(Buffer.from(hex, 'hex'), digest);
}

/** The challenge of a body by which the provider asks whether anybody is there. */
export function challengeOf(body: JsonObject): string | undefined {
  return body['type'] === 'url_verification' ? textAt(body['challenge']) : undefined;
}

/** What deliveries are told apart by. */
export const eventIdOf = (body: JsonObject): string | undefined => idAt(body['event_id']);

const ignored = (reason: string): Delivery => ({ kind: 'ignored', reason });
const malformed = (reason: string): Delivery => ({ kind: 'malformed', reason });
/** Messages of people and bots; every other subtype is news about a channel. */
const messageSubtypes = new Set([undefined, 'file_share', 'thread_broadcast', 'bot_message', 'me_message']);

interface Place {
  readonly workspaceId: string;
  readonly channelId: string;
  readonly threadId: string;
  readonly messageId: string;
}

/** The event a delivery carries. */
export function normalize(body: JsonObject, self: Self): Delivery {
  if (body['type'] !== 'event_callback') {
    return ignored(`a delivery of type ${String(textAt(body['type'])).slice(0, 64)} is not in the catalog`);
  }
  const event = objectAt(body['event']);
  const workspaces = workspacesIn(body);
  if (self.workspaceId !== undefined && workspaces.length > 0 && !workspaces.includes(self.workspaceId)) {
    return ignored('the delivery is of another workspace');
  }
  const workspaceId = self.workspaceId ?? workspaces[0] ?? '';
  const reader = new Reader(body, event, workspaceId, self.botUserId ?? botIn(body));
  const type = textAt(event['type']) ?? '';
  if (type === 'app_mention') return reader.message('chat.message.mentioned', event);
  if (type === 'message') return reader.plainMessage();
  if (type === 'reaction_added') return reader.reaction(true);
  if (type === 'reaction_removed') return reader.reaction(false);
  return ignored(`the event ${type.slice(0, 64)} is not in the catalog`);
}

/** The ids by which a message mentions the service, in lower case; undefined where its bot is not known. */
export function mentionedAs(body: JsonObject, self: Self): string[] | undefined {
  const bot = self.botUserId ?? botIn(body);
  return bot === undefined ? undefined : [bot.toLowerCase()];
}

/**
 * The workspaces that a delivery is of, first the one that the service is installed in: in a channel that several share,
 * `team_id` may be that of whoever spoke.
 */
const workspacesIn = (body: JsonObject): string[] =>
  [...listAt(body['authorizations']).map(objectAt), body].flatMap((one) => idAt(one['team_id']) ?? []);

/** The bot that the delivery was authorised for. */
function botIn(body: JsonObject): string | undefined {
  const bot = listAt(body['authorizations'])
    .map(objectAt)
    .find((one) => one['is_bot'] === true);
  return idAt(bot?.['user_id']);
}

class Reader {
  readonly #body: JsonObject;
  readonly #event: JsonObject;
  readonly #workspaceId: string;
  readonly #botUserId: string | undefined;

  constructor(body: JsonObject, event: JsonObject, workspaceId: string, botUserId: string | undefined) {
    this.#body = body;
    this.#event = event;
    this.#workspaceId = workspaceId;
    this.#botUserId = botUserId;
  }

  plainMessage(): Delivery {
    const event = this.#event;
    const subtype = textAt(event['subtype']);
    if (subtype === 'message_changed') return this.#edit();
    if (!messageSubtypes.has(subtype))
      return ignored(`a message of kind ${subtype?.slice(0, 64)} is not in the catalog`);
    if (event['channel_type'] === 'im') return this.message('chat.message.direct', event);
    const text = textAt(event['text']) ?? '';
    // A mention may say whom it names: <@U1|name>.
    const isMention = ['>', '|'].some((end) => text.includes(`<@${this.#botUserId}${end}`));
    if (this.#botUserId !== undefined && isMention && !this.#isMe(event)) {
      return ignored('the same message arrives as a mention');
    }
    return this.message('chat.message.subscribed', event);
  }

  #edit(): Delivery {
    const message = objectAt(this.#event['message']);
    // Of one that is deleted while its thread stays, a note is left in its place.
    const subtype = textAt(message['subtype']);
    if (!messageSubtypes.has(subtype))
      return ignored(`a change to a message of kind ${subtype?.slice(0, 64)} is not in the catalog`);
    const before = textAt(objectAt(this.#event['previous_message'])['text']);
    // Previews of links and read marks change a message as well.
    if (before !== undefined && before === textAt(message['text'])) return ignored('the text did not change');
    return this.message('chat.message.edited', { ...message, channel: this.#event['channel'] }, before);
  }

  message(key: string, message: JsonObject, before?: string): Delivery {
    const channelId = idAt(message['channel']);
    const messageId = textAt(message['ts']);
    if (channelId === undefined || messageId === undefined) return malformed('the message has no channel or no ts');
    const threadId = textAt(message['thread_ts']) ?? messageId;
    const place = { workspaceId: this.#workspaceId, channelId, threadId, messageId };
    const parts = {
      message: presentOf({
        id: messageId,
        text: textAt(message['text']) ?? '',
        author: this.#author(message),
        attachments: listAt(message['files']).map(objectAt).map(fileOf),
        previous: before === undefined ? undefined : { text: before },
      }),
    };
    const event = this.#named(key, place, parts, this.#isMe(message));
    const learns = threadId === messageId ? [] : [threadFact(channelId, messageId, threadId)];
    return { kind: 'event', event, learns };
  }

  reaction(added: boolean): Delivery {
    const item = objectAt(this.#event['item']);
    const channelId = idAt(item['channel']);
    const messageId = textAt(item['ts']);
    const rawEmoji = textAt(this.#event['reaction']);
    if (item['type'] !== 'message') return ignored('a reaction to something else than a message is not in the catalog');
    if (channelId === undefined || messageId === undefined || rawEmoji === undefined) {
      return malformed('the reaction names no message or no emoji');
    }
    const user = this.#user(idAt(this.#event['user']) ?? '');
    // Of the message itself no more is told than whose it is; of one that no user wrote not even that.
    const author = idAt(this.#event['item_user']);
    const parts = {
      ...(author !== undefined && { message: { id: messageId, author: this.#user(author) } }),
      reaction: { emoji: emojiOf(rawEmoji), rawEmoji, added, user },
    };
    const make = (threadId: string): NamedEvent => {
      const place = { workspaceId: this.#workspaceId, channelId, threadId, messageId };
      return this.#named(`chat.reaction.${added ? 'added' : 'removed'}`, place, parts, user.isMe);
    };
    const fact = threadKey(channelId, messageId);
    return {
      kind: 'event',
      event: make(messageId),
      needs: [fact],
      finish: (known) => ({ event: make(known(fact) ?? messageId) }),
    };
  }

  #named(key: string, place: Place, parts: { readonly [part: string]: Json }, authored: boolean): NamedEvent {
    const { workspaceId, channelId, threadId } = place;
    return {
      key,
      target: { type: 'chat.thread', key: `${provider}:${workspaceId}:${channelId}:${threadId}` },
      payload: { chat: { provider, ...place }, ...parts, svc: { authored }, raw: this.#body },
    };
  }

  /** Somebody of whom the id alone is told. */
  #user(userId: string): JsonObject & { readonly isMe: boolean } {
    return { userId, userName: userId, isMe: this.#botUserId !== undefined && userId === this.#botUserId };
  }

  #isMe(message: JsonObject): boolean {
    if (this.#botUserId !== undefined && idAt(message['user']) === this.#botUserId) return true;
    const app = idAt(message['app_id']) ?? idAt(objectAt(message['bot_profile'])['app_id']);
    return app !== undefined && app === idAt(this.#body['api_app_id']) && idAt(message['bot_id']) !== undefined;
  }

  #author(message: JsonObject): JsonObject {
    const profile = objectAt(message['user_profile']);
    const userId = idAt(message['user']) ?? idAt(message['bot_id']) ?? '';
    const names = [
      message['username'],
      profile['name'],
      profile['real_name'],
      objectAt(message['bot_profile'])['name'],
    ];
    const userName = names.map(textAt).find((name) => name !== undefined && name !== '') ?? userId;
    const isBot = idAt(message['bot_id']) !== undefined || message['subtype'] === 'bot_message';
    return { userId, userName, isBot, isMe: this.#isMe(message) };
  }
}

const threadKey = (channelId: string, messageId: string): FactKey & { readonly kind: 'thread' } => ({
  kind: 'thread',
  key: `${channelId}:${messageId}`,
});
/** Which thread a message is in. */
export const threadFact = (channelId: string, messageId: string, threadId: string): Fact => ({
  ...threadKey(channelId, messageId),
  value: threadId,
});

export const fileOf = (file: JsonObject): JsonObject =>
  presentOf({
    id: file['id'],
    name: file['name'],
    mimeType: file['mimetype'],
    size: file['size'],
    url: textAt(file['url_private_download']) ?? textAt(file['url_private']),
  });

const aliases: { readonly [name: string]: string } = { '+1': 'thumbsup', '-1': 'thumbsdown' };
/** Without its skin tone, under one of its names. */
function emojiOf(raw: string): string {
  const name = raw.split('::', 1)[0] ?? raw;
  return Object.hasOwn(aliases, name) ? (aliases[name] as string) : name;
}
