// One notice to one receiver, as a write of the outbox: under a key of the two, so that whoever repeats it after a crash
// sends it no second time.

import { sendWebhook } from '../../adapters/providers/webhook/webhook.ts';
import { aimNotification, originOf } from '../../adapters/store/notify/notices.ts';
import type { ReceiverRow } from '../../adapters/store/notify/receivers.ts';
import { connectionById, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { isUsable } from '../../domain/connection.ts';
import type { Json } from '../../domain/json.ts';
import type { Notice } from '../../domain/notification.ts';
import { outsideFault } from '../../domain/outside.ts';
import { commentOn } from '../broker/broker.ts';
import { chatConnection, ChatRoom, postMessage, messageArguments } from '../chat/chat.ts';
import { type FlowContext, type ProjectRef, sealingOf } from '../context.ts';
import { performWrite, type Step } from '../outbox/outbox.ts';
import type { Found } from '../ports.ts';
import { commentOnIssue } from '../tracker/tracker.ts';
import { originText, type Place, webhookBody, wordsOf } from './words.ts';

/** Where a receiver of the installation's configuration is, or one of a project's. */
export type Destination =
  | { readonly kind: 'chat'; readonly connection: string; readonly channel: string; readonly projectId: string }
  | { readonly kind: 'webhook'; readonly url: string; readonly key: string | null };

export interface Sending {
  readonly project: ProjectRef;
  readonly notice: Notice;
  /** As in svc.notifications. */
  readonly receiver: string;
}

export const placeOf = (ctx: FlowContext, project: ProjectRef): Place => ({
  org: project.orgSlug,
  project: project.slug,
  baseUrl: ctx.baseUrl,
});

interface Outgoing {
  readonly provider: 'chat' | 'webhook' | 'codehost' | 'tracker';
  readonly connectionId: string | null;
  readonly tool: string;
  readonly alias: 'notify' | 'question';
  send(step: Step, callId: string): Promise<Json>;
}

/** Sends it. Throws Fault with a code of domain/outside.ts. */
async function write(ctx: FlowContext, of: Sending, out: Outgoing): Promise<Json> {
  const { provider, connectionId, tool, alias } = out;
  return performWrite(ctx, {
    project: of.project,
    sessionId: null,
    provider,
    connectionId,
    alias,
    tool,
    actor: { kind: 'system', id: null, name: 'notifications' },
    idempotencyKey: `notice:${of.notice.id}:${of.receiver}`,
    // What is said may differ from daemon to daemon by its address: it is the same telling.
    input: [of.notice.id, of.receiver],
    run: async (step, callId) => ({ answer: await out.send(step, callId) }),
  });
}

/** The key of a webhook, in the open for the moment of sending. */
export function keyOf(ctx: FlowContext, project: ProjectRef, row: ReceiverRow): string | null {
  if (row.sealed === null || row.keyVersion === null) return null;
  const binding = { orgId: project.orgId, projectId: project.id, name: row.name, use: 'receiver' as const };
  const plaintext = sealingOf(ctx).sealer.open({ keyVersion: row.keyVersion, sealed: row.sealed }, binding);
  try {
    return plaintext.toString('utf8');
  } finally {
    plaintext.fill(0);
  }
}

/** Tells a receiver. */
export async function notifyReceiver(ctx: FlowContext, of: Sending, to: Destination): Promise<Json> {
  const place = placeOf(ctx, of.project);
  if (to.kind === 'chat') {
    const room = new ChatRoom(ctx, await chatConnection(ctx, to.projectId, to.connection));
    return sayInRoom(ctx, of, room, {
      alias: 'notify',
      channelId: to.channel,
      text: wordsOf(of.notice, place).text,
    });
  }
  const body = JSON.stringify(webhookBody(of.notice, place));
  return write(ctx, of, {
    provider: 'webhook',
    connectionId: null,
    tool: 'webhook',
    alias: 'notify',
    send: (step, callId) =>
      step({ probe: { kind: 'webhook' }, last: true }, async () => {
        const { allowPrivateNetwork: allowPrivate } = ctx.config;
        const { condition } = of.notice;
        await sendWebhook({ url: to.url, key: to.key, body, deliveryId: callId, condition, allowPrivate });
        return { delivered: true };
      }),
  });
}

/** Nobody can be asked whether a webhook arrived. */
export const findWebhookStep = async (): Promise<Found> => ({ found: false });

async function sayInRoom(
  ctx: FlowContext,
  of: Sending,
  room: ChatRoom,
  at: {
    readonly alias: Outgoing['alias'];
    readonly channelId: string;
    readonly threadId?: string;
    readonly text: string;
  },
): Promise<Json> {
  const { alias, channelId, threadId, text } = at;
  return write(ctx, of, {
    provider: 'chat',
    connectionId: room.connection.id,
    tool: 'chat_send',
    alias,
    send: async (step, callId) => {
      const { workspaceId } = await room.workspace();
      return postMessage(room, step, {
        callId,
        workspaceId,
        channelId,
        threadId,
        said: messageArguments(text, 'markdown'),
      });
    },
  });
}

/**
 * Tells a failed launch or a question where its session came from; undefined where that is no place to tell it, or its
 * connection is gone.
 */
export async function notifyOrigin(ctx: FlowContext, of: Sending, sessionId: string): Promise<Json | undefined> {
  const origin = await originOf(ctx.db, sessionId);
  const connection = origin && (await connectionById(ctx.db, origin.connectionId));
  if (origin === undefined || connection === undefined || !isUsable(connection.status)) return undefined;
  const tell = tellers[origin.target.type];
  if (tell === undefined) return undefined;
  const text = originText(of.notice, placeOf(ctx, of.project));
  // Before it is sent: an answer may be there sooner than it is known to be told.
  await aimNotification(ctx.db, { id: of.notice.id, receiver: of.receiver }, origin.target);
  return tell(ctx, of, { connection, key: origin.target.key, text });
}

interface Told {
  readonly connection: SealedConnection;
  /** Of the target. */
  readonly key: string;
  readonly text: string;
}
type Teller = (ctx: FlowContext, of: Sending, told: Told) => Promise<Json>;

const inThread: Teller = (ctx, of, { connection, key, text }) => {
  const [, , channelId, threadId] = key.split(':');
  if (channelId === undefined || threadId === undefined) throw outsideFault('not-found', 'the thread has no name');
  return sayInRoom(ctx, of, new ChatRoom(ctx, connection), { alias: 'question', channelId, threadId, text });
};

const onPull =
  (permission: 'issues' | 'pull_requests'): Teller =>
  (ctx, of, { connection, key, text }) => {
    const at = key.lastIndexOf('#');
    const where = { repository: key.slice(0, at), number: Number(key.slice(at + 1)), permission };
    return write(ctx, of, {
      provider: 'codehost',
      connectionId: connection.id,
      tool: 'add_issue_comment',
      alias: 'question',
      send: (step, callId) => commentOn(ctx, { project: of.project, connection, ...where, text }, step, callId),
    });
  };

const onIssue: Teller = (ctx, of, { connection, key, text }) =>
  write(ctx, of, {
    provider: 'tracker',
    connectionId: connection.id,
    tool: 'issue_comment',
    alias: 'question',
    send: (step) => commentOnIssue(ctx, { connection, issueId: key, body: text }, step),
  });

const tellers: { readonly [targetType: string]: Teller } = {
  'chat.thread': inThread,
  'codehost.pull_request': onPull('pull_requests'),
  'codehost.issue': onPull('issues'),
  'tracker.issue': onIssue,
};
