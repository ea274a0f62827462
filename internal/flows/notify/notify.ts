// Telling people (docs/reference/notifications.md): notices become notifications, one for each receiver that asked for their
// condition and one for the place where a session came from, and each is told once, through the outbox. Triggers of the
// database note what is worth telling in the transaction that makes it so; what the clock brings is noted here. Never
// decides what a condition is, and never delays whoever caused one.

import {
  claimNotifications,
  forgetNotices,
  whatWaits,
  insertNotifications,
  type NewNotification,
  type NoticeRow,
  type NotificationRow,
  noteExpiring,
  settleNotification,
  type Settled,
  takeFresh,
} from '../../adapters/store/notify/notices.ts';
import { receiverByName, receiversOf } from '../../adapters/store/notify/receivers.ts';
import { projectOf } from '../../adapters/store/repositories/repositories.ts';
import { permissionState } from '../../adapters/store/sessions/permissions.ts';
import { projectIdOf } from '../../adapters/store/tenancy/tenancy.ts';
import { originNotificationOf } from '../../adapters/store/tenancy/people.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import { isOfMasterKey } from '../../domain/outside.ts';
import type { NoticeCondition } from '../../domain/notification.ts';
import type { FlowContext } from '../context.ts';
import { roomFor } from '../in-flight.ts';
import { endedTheProcess, processInHand } from '../in-hand.ts';
import { destinationOf } from './receivers.ts';
import { type Destination, type Sending, notifyOrigin, notifyReceiver } from './send.ts';

export { findWebhookStep } from './send.ts';
export {
  addReceiver,
  changeReceiver,
  readReceiver,
  removeReceiver,
  testReceiver,
} from './receivers.ts';

const limits = { fresh: 100, sending: 20, leaseSeconds: 240, attempts: 8 } as const;
const pause = { firstMs: 3_000, mostMs: 300_000 } as const;
const expiringSeconds = 7 * 24 * 60 * 60;
const keptMs = 30 * 24 * 60 * 60 * 1_000;

/** Told where the session came from. */
const atOrigin: readonly NoticeCondition[] = ['launch-failed', 'session-asks'];
const origin = 'origin';

/** Tells what waits to be told; answers with how much it was. Asked twice a second, and nearly always in vain: that costs one statement. */
export async function tellWaiting(ctx: FlowContext): Promise<number> {
  const { fresh, due } = await whatWaits(ctx.db);
  const spread = fresh ? await fanOutNotices(ctx) : 0;
  return due || spread > 0 ? spread + (await sendNotifications(ctx)) : spread;
}

/** Makes notifications of new notices; answers with how many notices there were. */
async function fanOutNotices(ctx: FlowContext): Promise<number> {
  const count = await ctx.db.tx(async (tx) => {
    const notices = await takeFresh(tx, limits.fresh);
    const receivers = await receiversOf(tx, [...new Set(notices.map((one) => one.projectId))]);
    const wanting = (notice: NoticeRow): NewNotification[] => {
      const isAsked = (conditions: readonly string[] | null | undefined): boolean =>
        notice.condition !== 'launch-failed' && (conditions?.includes(notice.condition) ?? true);
      const own = receivers.filter((one) => one.projectId === notice.projectId && isAsked(one.conditions));
      const all = (ctx.outbox?.receivers ?? []).filter((one) => isAsked(one.conditions));
      return [
        ...(atOrigin.includes(notice.condition) ? [origin] : []),
        ...own.map((one) => `receiver:${one.name}`),
        ...all.map((one) => `installation:${one.name}`),
      ].map((receiver) => ({ noticeId: notice.id, receiver }));
    };
    await insertNotifications(tx, notices.flatMap(wanting));
    return notices.length;
  });
  if (count > 0) failpoint('notify.spread');
  return count;
}

/** Tells what is due; answers with how many there were. */
async function sendNotifications(ctx: FlowContext): Promise<number> {
  const { daemonId } = ctx;
  const rows = await claimNotifications(ctx.db, {
    daemonId,
    leaseSeconds: limits.leaseSeconds,
    ...roomFor(ctx, 'notice', limits.sending),
  });
  const settle = (row: NotificationRow, end: Settled): Promise<void> =>
    settleNotification(ctx.db, { ...row, daemonId }, end);
  await processInHand(ctx, {
    kind: 'notice',
    rows,
    leaseSeconds: limits.leaseSeconds,
    idOf: ({ id, receiver }) => `${id}:${receiver}`,
    nameOf: ({ condition, receiver }) => `${condition}:${receiver}`,
    projectOf: ({ projectId }) => projectId,
    tell: async (row) => {
      const end = await tell(ctx, row);
      return () => settle(row, end);
    },
    park: (row) => settle(row, { status: 'refused', code: endedTheProcess }),
  });
  return rows.length;
}

async function tell(ctx: FlowContext, row: NotificationRow): Promise<Settled> {
  try {
    return await tellOne(ctx, row);
  } catch (error) {
    const code = error instanceof Fault ? error.code : 'internal';
    const fields = { noticeId: row.id, receiver: row.receiver, condition: row.condition, code };
    const passing = ['provider-unavailable', 'rate-limited', 'not-sent', 'busy', 'unavailable'];
    const isPassing = passing.includes(code) || isOfMasterKey(code);
    if ((isPassing || code === 'internal') && row.attempts + 1 < limits.attempts) {
      const backOff = Math.min(pause.firstMs * 2 ** row.attempts, pause.mostMs);
      const asked = error instanceof Fault ? (error.retryAfterSeconds ?? 0) * 1_000 : 0;
      ctx.runtime.log.info({ ...fields, ...(code === 'internal' && { err: error }) }, 'notification.later');
      return { afterMs: Math.max(backOff, asked), code };
    }
    ctx.runtime.log.warn({ ...fields, ...(code === 'internal' && { err: error }) }, 'notification.not_told');
    return { status: code === 'outcome-unknown' ? 'unknown' : 'refused', code };
  }
}

const dropped: Settled = { status: 'dropped', code: null };

async function tellOne(ctx: FlowContext, row: NotificationRow): Promise<Settled> {
  const project = await projectOf(ctx.db, row.projectId);
  if (project === undefined) return dropped;
  // A question that is decided, or whose turn is over, is none any more.
  if (row.permissionId !== null && (await permissionState(ctx.db, row.permissionId)) !== 'open') return dropped;
  const sending: Sending = { project, notice: row, receiver: row.receiver };
  if (row.receiver === origin) {
    const { notify } = await originNotificationOf(ctx.db, row.projectId);
    if (!notify || (await notifyOrigin(ctx, sending, row.subjectId)) === undefined) return dropped;
  } else {
    const to = await whereIs(ctx, sending);
    if (to === undefined) return dropped;
    await notifyReceiver(ctx, sending, to);
  }
  failpoint('notify.told');
  ctx.runtime.log.info({ noticeId: row.id, receiver: row.receiver, condition: row.condition }, 'notification.told');
  return { status: 'done', code: null };
}

/** Undefined where there is no such receiver any more, or it is suspended. */
async function whereIs(ctx: FlowContext, { project, receiver }: Sending): Promise<Destination | undefined> {
  const name = receiver.slice(receiver.indexOf(':') + 1);
  if (receiver.startsWith('receiver:')) {
    const row = await receiverByName(ctx.db, project.id, name);
    return row === undefined || row.suspended ? undefined : destinationOf(ctx, project, row);
  }
  const found = ctx.outbox?.receivers?.find((one) => one.name === name);
  if (found === undefined) return undefined;
  if (found.kind === 'webhook') return { kind: 'webhook', url: found.url, key: found.key ?? null };
  const [org = '', slug = ''] = found.project.split('/');
  const projectId = await projectIdOf(ctx.db, { org, project: slug });
  if (projectId === undefined) return undefined;
  return { kind: 'chat', connection: found.connection, channel: found.channel, projectId };
}

/** Notes what the clock brings: secrets that are about to expire. */
export async function noteByClock(ctx: FlowContext): Promise<void> {
  const noted = await noteExpiring(ctx.db, expiringSeconds);
  if (noted > 0) ctx.runtime.log.info({ noted }, 'notification.secrets_expiring');
}

/** Forgets what was told long ago. */
export async function forgetTold(ctx: FlowContext): Promise<void> {
  await forgetNotices(ctx.db, new Date(ctx.runtime.now().getTime() - keptMs), 1_000);
}
