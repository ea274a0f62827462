// What a session says and reads in chat (docs/reference/tools.md#chat). Decides which connection and thread a call means,
// sends through the outbox, and ties what was said to the session, so that what follows in a thread reaches it. Never keeps a
// text or a token, and never speaks through a connection that the alias does not name.

import type { ToolInput } from '../../../schemas/tool-input.ts';
import { OutcomeUnknown, outsideFault } from '../../domain/outside.ts';
import { threadFact } from '../../adapters/providers/chat/chat.ts';
import { writeFacts } from '../../adapters/store/connections/provider-facts.ts';
import { insertTies } from '../../adapters/store/sessions/sessions.ts';
import { connectionById } from '../../adapters/store/secrets/credentials.ts';
import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { Fault } from '../../domain/fault.ts';
import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { Json } from '../../domain/json.ts';
import type { ChatAuth } from '../../domain/spec.ts';
import type { FlowContext } from '../context.ts';
import { type Call, performRead, performSessionWrite, refusedBefore, type Step } from '../outbox/outbox.ts';
import type { Found, SoughtStep } from '../ports.ts';
import { withFiles } from './files.ts';
import { messageOf } from './message.ts';
import { chatConnection, ChatRoom, nameIn, product } from './room.ts';
import { searchChat } from './search.ts';

export { chatConnection, ChatRoom } from './room.ts';

export interface ChatCaller {
  readonly ctx: FlowContext;
  readonly caller: ToolCaller;
  readonly alias: string;
  readonly auth: ChatAuth;
}
type Target = ToolInput<'chat.send'>['target'];

/** The name of the connection that a call means. Throws Fault `invalid-input`. */
function connectionName({ auth }: ChatCaller, target: Target): string {
  const pairs = auth.kind === 'connection' ? [auth] : auth.connections;
  if (target === undefined) {
    const [only] = pairs;
    if (pairs.length === 1 && only !== undefined) return only.connection;
    throw outsideFault('invalid-input', 'target: needed, because this alias has several connections');
  }
  const { provider, connection } = target;
  const named = pairs.find((one) => one.connection === connection && [product, one.provider].includes(provider));
  if (named === undefined) throw outsideFault('invalid-input', 'target: this alias has no such connection');
  return named.connection;
}

interface Place {
  readonly channelId: string;
  readonly threadId: string | undefined;
}

/** Where a call goes: what it names, else the thread that the session came from. Throws Fault `invalid-input`. */
async function placeOf(
  room: ChatRoom,
  { caller }: ChatCaller,
  given: { readonly channelId?: string | undefined; readonly threadId?: string | undefined },
): Promise<Place> {
  if (given.channelId !== undefined) return { channelId: given.channelId, threadId: given.threadId };
  const [, workspaceId, channelId, threadId] =
    caller.target?.type === 'chat.thread' ? caller.target.key.split(':') : [];
  if (channelId === undefined) {
    throw outsideFault('invalid-input', 'channelId: needed, because this session did not come from a thread');
  }
  if ((await room.workspace()).workspaceId !== workspaceId) {
    throw outsideFault('invalid-input', 'channelId: needed, because this session came from another workspace');
  }
  return { channelId, threadId: given.threadId ?? threadId };
}

/** Runs a call; one that is refused before the provider was asked leaves its row too. */
async function calling<T>(
  of: ChatCaller,
  { tool, write, target }: { readonly tool: string; readonly write: boolean; readonly target: Target },
  run: (room: ChatRoom, row: Call) => Promise<T>,
): Promise<T> {
  const { ctx, caller, alias } = of;
  const row: Call = {
    project: caller.project,
    sessionId: caller.sessionId,
    provider: 'chat',
    connectionId: null,
    alias,
    tool,
  };
  let room: ChatRoom;
  try {
    room = new ChatRoom(ctx, await chatConnection(ctx, caller.project.id, connectionName(of, target)));
  } catch (error) {
    if (error instanceof Fault) await refusedBefore(ctx, row, { write, code: error.code });
    throw error;
  }
  return run(room, { ...row, connectionId: room.connection.id });
}

/** Says something; throws Fault with a code of domain/outside.ts. */
export function chatSend(of: ChatCaller, input: ToolInput<'chat.send'>): Promise<Json> {
  return calling(of, { tool: 'chat_send', write: true, target: input.target }, (room, row) =>
    performSessionWrite(of.ctx, of.caller, {
      call: row,
      input,
      run: async (step, callId) => {
        const said = messageArguments(input.text, input.format);
        const { channelId, threadId } = await placeOf(room, of, input);
        const { workspaceId } = await room.workspace();
        const answer = await postMessage(room, step, { callId, workspaceId, channelId, threadId, said });
        await tie(of.ctx, of.caller.project.id, of.caller.sessionId, { ...answer, workspaceId });
        return { answer };
      },
    }),
  );
}

interface Saying {
  readonly callId: string;
  readonly workspaceId: string;
  readonly channelId: string;
  readonly threadId: string | undefined;
  readonly said: { readonly [argument: string]: string };
}
type Said = { readonly provider: string; channelId: string; threadId: string; messageId: string };

/** Posts one message as a step of the outbox, with the key of the call planted. */
export async function postMessage(room: ChatRoom, step: Step, of: Saying): Promise<Said> {
  const { callId, workspaceId, channelId, threadId, said } = of;
  const since = Math.floor(room.ctx.runtime.now().getTime() / 1_000) - 60;
  const posted = await room.write(step, {
    method: 'chat.postMessage',
    args: {
      channel: channelId,
      ...(threadId !== undefined && { thread_ts: threadId }),
      ...said,
      metadata: { event_type: 'svc_message', event_payload: { key: callId } },
    },
    probe: { kind: 'message', workspaceId, channelId, ...(threadId !== undefined && { threadId }), since },
    shape: (result) => {
      const messageId = nameIn(result['ts']);
      // It was said, and who looks for it finds under what name.
      if (messageId === undefined) throw new OutcomeUnknown('an answer that names no message');
      return saidOf(nameIn(result['channel']) ?? channelId, threadId, messageId);
    },
  });
  await noteThread(room, posted);
  return posted;
}

/** A reaction does not say which thread its message is in; of what was said here that is known, whatever the provider delivers. */
async function noteThread({ ctx, connection }: ChatRoom, { channelId, threadId, messageId }: Said): Promise<void> {
  if (threadId === messageId) return;
  await writeFacts(ctx.db, connection.id, [threadFact(channelId, messageId, threadId)], ctx.runtime.now());
}

const saidOf = (channelId: string, threadId: string | undefined, messageId: string): Said => ({
  provider: product,
  channelId,
  threadId: threadId ?? messageId,
  messageId,
});

/** What follows in the thread is attributed to the session (docs/reference/routing.md#bindings). */
async function tie(
  ctx: FlowContext,
  projectId: string,
  sessionId: string,
  at: { readonly workspaceId: string; readonly channelId: string; readonly threadId: string },
): Promise<void> {
  const targetKey = `${product}:${at.workspaceId}:${at.channelId}:${at.threadId}`;
  const row = { targetType: 'chat.thread', targetKey, sessionId, agent: '', relation: 'posted' } as const;
  await insertTies(ctx.db, projectId, [row], ctx.runtime.now());
}

/** Reads a channel, newest first, or a thread, its first message first. */
export function chatHistory(of: ChatCaller, input: ToolInput<'chat.history'>): Promise<Json> {
  return calling(of, { tool: 'chat_history', write: false, target: input.target }, (room, row) =>
    performRead(of.ctx, row, async () => {
      const { channelId, threadId } = await placeOf(room, of, input);
      const { before } = input;
      const from =
        before === undefined ? {} : /^\d{1,12}\.\d{1,9}$/.test(before) ? { latest: before } : { cursor: before };
      const args = { channel: channelId, limit: input.limit, ...from };
      const result =
        threadId === undefined
          ? await room.read('conversations.history', args)
          : await room.read('conversations.replies', { ...args, ts: threadId });
      const { botUserId } = await room.workspace();
      const next = textAt(objectAt(result['response_metadata'])['next_cursor']) ?? '';
      const said = listAt(result['messages']).map((one) => messageOf(objectAt(one), botUserId));
      // Of a whole channel they would be many.
      const messages = threadId === undefined ? said : await withFiles(room, of.caller, said);
      return { messages, more: next !== '', ...(next !== '' && { next }) };
    }),
  );
}

/** Messages that the provider finds, by the page. Throws Fault; nothing is written. */
export function chatSearch(of: ChatCaller, input: ToolInput<'chat.search'>): Promise<Json> {
  return calling(of, { tool: 'chat_search', write: false, target: input.target }, (room, row) =>
    performRead(of.ctx, row, () => searchChat(room, of.caller, input)),
  );
}

/** Puts an emoji on a message; one that stands there already is as good. */
export function chatReact(of: ChatCaller, input: ToolInput<'chat.react'>): Promise<Json> {
  return calling(of, { tool: 'chat_react', write: true, target: input.target }, (room, row) =>
    performSessionWrite(of.ctx, of.caller, {
      call: row,
      input,
      run: async (step) => {
        const { channelId } = await placeOf(room, of, { channelId: input.channelId });
        const name = input.emoji.replace(/^:(.+):$/, '$1');
        const at = { channel: channelId, timestamp: input.messageId };
        try {
          const probe = { kind: 'reaction', ...at, name };
          return {
            answer: await room.write(step, {
              method: 'reactions.add',
              args: { ...at, name },
              probe,
              shape: () => added,
            }),
          };
        } catch (error) {
          if (error instanceof Fault && error.message.endsWith('already_reacted')) return { answer: added };
          throw error;
        }
      },
    }),
  );
}
const added = { added: true };

/** The reader of `chat` in the outbox: a message by the key that was planted in it, a reaction by whose it is. */
export async function findChatStep(ctx: FlowContext, sought: SoughtStep): Promise<Found> {
  const connection = sought.connectionId === null ? undefined : await connectionById(ctx.db, sought.connectionId);
  if (connection === undefined) return { found: false };
  const room = new ChatRoom(ctx, connection);
  const { probe } = sought;
  if (probe['kind'] === 'reaction') {
    const { channel, timestamp, name } = probe;
    const result = await room.read('reactions.get', { channel, timestamp, full: true });
    const { botUserId } = await room.workspace();
    const reaction = listAt(objectAt(result['message'])['reactions'])
      .map(objectAt)
      .find((one) => one['name'] === name);
    const isOurs = listAt(reaction?.['users']).some((one) => one === botUserId);
    return isOurs ? { found: true, answer: added } : { found: false };
  }
  const [channelId, threadId] = [textAt(probe['channelId']) ?? '', textAt(probe['threadId'])];
  const messageId = await findMessage(room, { channelId, threadId, since: Number(probe['since']), key: sought.id });
  if (messageId === undefined) return { found: false };
  const answer = saidOf(channelId, threadId, messageId);
  // The daemon that sent it may have died before it noted where and whose it is.
  await noteThread(room, answer);
  const workspaceId = textAt(probe['workspaceId']) ?? '';
  if (sought.sessionId !== null) await tie(ctx, sought.projectId, sought.sessionId, { ...answer, workspaceId });
  return { found: true, answer };
}

async function findMessage(
  room: ChatRoom,
  of: {
    readonly channelId: string;
    readonly threadId: string | undefined;
    readonly since: number;
    readonly key: string;
  },
): Promise<string | undefined> {
  const { channelId, threadId, since, key } = of;
  let cursor: string | undefined;
  for (let page = 0; page < 10; page += 1) {
    const args = { channel: channelId, oldest: `${since}.000000`, limit: 200, include_all_metadata: true, cursor };
    const result =
      threadId === undefined
        ? await room.read('conversations.history', args)
        : await room.read('conversations.replies', { ...args, ts: threadId });
    const hit = listAt(result['messages'])
      .map(objectAt)
      .find((one) => objectAt(objectAt(one['metadata'])['event_payload'])['key'] === key);
    if (hit !== undefined) return nameIn(hit['ts']);
    cursor = textAt(objectAt(result['response_metadata'])['next_cursor']);
    if (cursor === undefined || cursor === '') return undefined;
  }
  return undefined;
}

// What is said in a chat: its bounds, and words that would call everybody, made harmless.

export type Format = 'markdown' | 'mrkdwn';
const most = { markdown: 12_000, mrkdwn: 40_000 } as const;
const mark = '\u200b';

/** A call at the beginning of a word. Underscores are of the word within one, and signs of emphasis around it. */
const called = /@(?<![\p{L}\p{N}]_*@)(?=(?:channel|here|everyone)(?!_*[\p{L}\p{N}])|subteam\^)/giu;

/** Puts a character without width behind the first one of every word that calls more than a person. */
export function withoutBroadcasts(text: string, format: Format): string {
  const tokens = text.replace(/<(?=!(?:channel|here|everyone|subteam\^))/gi, `<${mark}`);
  if (format === 'mrkdwn') return tokens;
  return tokens.replace(called, `@${mark}`);
}

/** The arguments that say it. Throws Fault `too-large`: nothing is sent in parts. */
export function messageArguments(text: string, format: Format): { readonly [argument: string]: string } {
  const said = withoutBroadcasts(text, format);
  if ([...said].length > most[format]) {
    throw outsideFault('too-large', `text: has more than ${most[format]} characters; nothing was sent`);
  }
  return format === 'markdown' ? { markdown_text: said } : { text: said };
}
