// Whom a project tells: receivers made, changed, removed and tried out, each with its audit row; the key of a webhook is
// sealed and never shown.

import type { AuditAction } from '../../domain/audit-actions.ts';
import type { Json } from '../../domain/json.ts';
import { webhookAddressFault } from '../../adapters/providers/webhook/webhook.ts';
import {
  deleteReceiver,
  insertReceiver,
  receiverByName,
  type ReceiverRow,
  type ReceiverWrite,
  updateReceiver,
} from '../../adapters/store/notify/receivers.ts';
import { connectionByName } from '../../adapters/store/secrets/credentials.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { maskCredentials } from '../../domain/credential.ts';
import { Fault } from '../../domain/fault.ts';
import type { Condition } from '../../domain/notification.ts';
import { messagesTable } from '../../domain/messages.ts';
import { type Actor, type FlowContext, type ProjectRef, sealingOf } from '../context.ts';
import { countSealed } from '../secrets/secrets.ts';
import { type Destination, keyOf, notifyReceiver } from './send.ts';

export interface ReceiverInput {
  readonly conditions?: readonly Condition[] | null | undefined;
  readonly suspended?: boolean | undefined;
  readonly connection?: string | undefined;
  readonly channel?: string | undefined;
  readonly url?: string | undefined;
  /** What a webhook is signed with; null: it is not signed any more. */
  readonly secret?: string | null | undefined;
}

const noReceiver = (): Fault => new Fault('not_found', 'not-found', messagesTable.notVisible);
const invalid = (message: string): Fault => new Fault('invalid', 'invalid-body', message);

/** Throws Fault `not_found`. */
export async function readReceiver(ctx: FlowContext, project: ProjectRef, name: string): Promise<ReceiverRow> {
  const row = await receiverByName(ctx.db, project.id, name);
  if (row === undefined) throw noReceiver();
  return row;
}

/** What fits the kind, and can be reached. Throws Fault `invalid`. */
async function check(ctx: FlowContext, sql: Sql, projectId: string, row: ReceiverWrite): Promise<void> {
  if (row.kind === 'webhook') {
    if (row.url === null) throw invalid('url: a webhook needs an address');
    if (row.connection !== null || row.channel !== null) throw invalid('connection, channel: only of kind chat');
    const fault = webhookAddressFault(row.url, ctx.config.allowPrivateNetwork);
    if (fault !== undefined) throw invalid(`url: it cannot be used: ${fault}`);
    return;
  }
  if (row.url !== null || row.sealed !== null) throw invalid('url, secret: only of kind webhook');
  if (row.connection === null || row.channel === null) throw invalid('connection, channel: a chat receiver needs both');
  const connection = await connectionByName(sql, projectId, row.connection);
  const named = maskCredentials(row.connection);
  if (connection?.provider !== 'chat') throw invalid(`connection: there is no chat connection ${named}`);
}

function sealedKey(ctx: FlowContext, project: ProjectRef, name: string, secret: string) {
  const plaintext = Buffer.from(secret, 'utf8');
  try {
    const binding = { orgId: project.orgId, projectId: project.id, name, use: 'receiver' as const };
    return sealingOf(ctx).sealer.seal(plaintext, binding);
  } finally {
    plaintext.fill(0);
  }
}

const audit = (
  tx: Sql,
  project: ProjectRef,
  of: {
    readonly actor: Actor;
    readonly action: AuditAction;
    readonly name: string;
    readonly detail: { [key: string]: Json };
  },
) =>
  recordAudit(tx, {
    orgId: project.orgId,
    projectId: project.id,
    principal: of.actor,
    action: of.action,
    subject: { kind: 'Receiver', name: of.name },
    detail: of.detail,
  });

/** Throws Fault `conflict` for a taken name, `invalid` for what does not fit. */
export async function addReceiver(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  input: ReceiverInput & { readonly name: string; readonly kind: 'chat' | 'webhook' },
): Promise<ReceiverRow> {
  const { name, kind, secret } = input;
  const sealed = typeof secret === 'string' ? sealedKey(ctx, project, name, secret) : undefined;
  const row: ReceiverWrite = {
    projectId: project.id,
    name,
    kind,
    conditions: input.conditions ?? null,
    suspended: input.suspended ?? false,
    connection: input.connection ?? null,
    channel: input.channel ?? null,
    url: input.url ?? null,
    keyVersion: sealed?.keyVersion ?? null,
    sealed: sealed?.sealed ?? null,
  };
  await check(ctx, ctx.db, project.id, row);
  return ctx.db.tx(async (tx) => {
    const made = await insertReceiver(tx, row, ctx.runtime.now());
    if (made === undefined) throw new Fault('conflict', 'name-taken', `a receiver named ${name} exists already`);
    if (sealed !== undefined) await countSealed(ctx, tx, sealed.keyVersion);
    await audit(tx, project, { actor, action: 'receiver.created', name, detail: { kind } });
    return made;
  });
}

/** Changes what is given. Throws Fault `not_found`, or `invalid` for what does not fit its kind. */
export async function changeReceiver(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  { name, ...input }: ReceiverInput & { readonly name: string },
): Promise<ReceiverRow> {
  const { secret } = input;
  const sealed = typeof secret === 'string' ? sealedKey(ctx, project, name, secret) : undefined;
  return ctx.db.tx(async (tx) => {
    const before = await receiverByName(tx, project.id, name, { locked: true });
    if (before === undefined) throw noReceiver();
    const kept = secret === null ? undefined : before;
    const row: ReceiverWrite = {
      ...before,
      conditions: input.conditions === undefined ? before.conditions : input.conditions,
      suspended: input.suspended ?? before.suspended,
      connection: input.connection ?? before.connection,
      channel: input.channel ?? before.channel,
      url: input.url ?? before.url,
      keyVersion: sealed?.keyVersion ?? kept?.keyVersion ?? null,
      sealed: sealed?.sealed ?? kept?.sealed ?? null,
    };
    await check(ctx, tx, project.id, row);
    const changed = await updateReceiver(tx, row, ctx.runtime.now());
    if (changed === undefined) throw noReceiver();
    if (sealed !== undefined) await countSealed(ctx, tx, sealed.keyVersion);
    const detail = { changed: Object.keys(input).filter((key) => input[key as keyof typeof input] !== undefined) };
    await audit(tx, project, { actor, action: 'receiver.updated', name, detail });
    return changed;
  });
}

/** Throws Fault `not_found`. */
export async function removeReceiver(ctx: FlowContext, project: ProjectRef, actor: Actor, name: string): Promise<void> {
  await ctx.db.tx(async (tx) => {
    if (!(await deleteReceiver(tx, project.id, name))) throw noReceiver();
    await audit(tx, project, { actor, action: 'receiver.deleted', name, detail: {} });
  });
}

/** What became of a test. */
export interface TestEnd {
  readonly status: 'done' | 'refused' | 'unknown';
  readonly code?: string;
}

/** Sends a test, also to one that is suspended, and says what became of it. Throws Fault `not_found`. */
export async function testReceiver(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  name: string,
): Promise<TestEnd> {
  const row = await readReceiver(ctx, project, name);
  const id = ctx.runtime.uuid();
  await ctx.db.tx((tx) => audit(tx, project, { actor, action: 'receiver.tested', name, detail: { test: id } }));
  const notice = { id, condition: 'test' as const, subject: { receiver: name }, at: ctx.runtime.now() };
  try {
    await notifyReceiver(ctx, { project, notice, receiver: `receiver:${name}` }, destinationOf(ctx, project, row));
    return { status: 'done' };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { status: error.code === 'outcome-unknown' ? 'unknown' : 'refused', code: error.code };
  }
}

/** Where a receiver of a project is. */
export function destinationOf(ctx: FlowContext, project: ProjectRef, row: ReceiverRow): Destination {
  if (row.kind === 'webhook') return { kind: 'webhook', url: row.url ?? '', key: keyOf(ctx, project, row) };
  return { kind: 'chat', connection: row.connection ?? '', channel: row.channel ?? '', projectId: project.id };
}
