// One write: its row, its steps, its end.

import { setTimeout as sleep } from 'node:timers/promises';
import { sha256Bytes } from '../../base/hash.ts';
import {
  type CallRow,
  callOfKey,
  handOver,
  keepWrite,
  openWrite,
  settleFound,
  settleWrite,
} from '../../adapters/store/outbox/calls.ts';
import { isConnectionLoss } from '../../adapters/store/store.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import { canonicalJson, type Json, type JsonObject } from '../../domain/json.ts';
import { OutcomeUnknown, outsideFault } from '../../domain/outside.ts';
import type { Actor, FlowContext } from '../context.ts';
import type { Found, SoughtStep } from '../ports.ts';
import { withRetry } from '../with-retry.ts';
import { callIds, type Call } from './read.ts';

/** From the row to the first step, and from there on: what is still under way when it ends is kept before. */
const leaseSeconds = { open: 75, step: 60 } as const;
const keepEveryMs = 20_000;
/** How long after a lost answer the provider is looked at. */
const lookAfterMs = 2_000;
/** For how long a look is begun anew that our own database broke off. */
const lookMs = 20_000;
/** How long the later of two calls of a key waits for the first. */
const waitMs = { most: 180_000, look: 200 } as const;

export interface StepProbe {
  /** What `ctx.outbox.readers[provider]` needs to find this step again. Stored: no text, no secret. */
  readonly probe: JsonObject;
  /** The write is done when this step is. */
  readonly last: boolean;
}
/**
 * Sends one step of a write, once. `send` throws Fault where the provider refused it or it was never sent, OutcomeUnknown
 * where it may have arrived: then what the reader finds is the answer. Throws Fault.
 */
export type Step = <T extends Json>(of: StepProbe, send: () => Promise<T>) => Promise<T>;

export interface Written {
  readonly answer: Json;
  /** Of what was made, for people. */
  readonly url?: string | undefined;
}

export interface Write extends Call {
  readonly actor: Actor;
  readonly idempotencyKey?: string | undefined;
  /** All that tells this call from another under the same key; a digest of it is kept, so a secret in it is hashed before. */
  readonly input: Json;
  /** Sends the steps. What it throws before a step was handed over is `refused`, and nothing was sent. */
  run(step: Step, callId: string): Promise<Written>;
}

/** What a session wants written by one of its tools. */
interface SessionWrite extends Pick<Write, 'run'> {
  readonly call: Call;
  /** As the tool was given it. The key is no part of what tells two calls apart. */
  readonly input: { readonly idempotencyKey?: string | undefined };
}

/** Performs a write of a session, in its own name, as `performWrite` does. */
export function performSessionWrite(
  ctx: FlowContext,
  session: { readonly sessionId: string; readonly agent: string },
  { call, input: { idempotencyKey, ...input }, run }: SessionWrite,
): Promise<Json> {
  return performWrite(ctx, {
    ...call,
    actor: { kind: 'session', id: session.sessionId, name: session.agent },
    idempotencyKey,
    // Without what is undefined, which no JSON has.
    input: JSON.parse(JSON.stringify(input)) as Json,
    run,
  });
}

/** Performs a write; answers as the first call of its key did, letter by letter. Throws Fault with a code of domain/outside.ts. */
export async function performWrite(ctx: FlowContext, write: Write): Promise<Json> {
  const inputHash = sha256Bytes(canonicalJson([write.alias, write.tool, write.input]));
  const { idempotencyKey: key, sessionId } = write;
  const until = performance.now() + waitMs.most;
  for (;;) {
    const id = callIds(ctx)();
    if (await open(ctx, write, { id, inputHash })) return perform(ctx, write, id);
    const of = { projectId: write.project.id, sessionId };
    const first = key === undefined ? undefined : await callOfKey(ctx.db, of, key);
    // The first was refused meanwhile: the key is free.
    if (first === undefined) continue;
    if (first.inputHash?.equals(inputHash) !== true) {
      throw outsideFault('idempotency-conflict', 'this key was used with another input; nothing was sent');
    }
    if (first.status === 'done') return first.answer;
    if (first.status === 'unknown') return lookAgain(ctx, first);
    if (performance.now() > until) {
      throw outsideFault('outcome-unknown', 'the first call under this key has not ended yet');
    }
    await sleep(waitMs.look);
  }
}

async function open(
  ctx: FlowContext,
  write: Write,
  { id, inputHash }: { readonly id: string; readonly inputHash: Buffer },
): Promise<boolean> {
  const { project, sessionId, provider, connectionId, alias, tool, idempotencyKey, actor } = write;
  const isOpen = await ctx.db.tx(async (tx) => {
    const row = { id, projectId: project.id, sessionId, provider, connectionId, alias, tool, inputHash };
    const more = { idempotencyKey: idempotencyKey ?? null, daemonId: ctx.daemonId, leaseSeconds: leaseSeconds.open };
    if (!(await openWrite(tx, { ...row, ...more, now: ctx.runtime.now() }))) return false;
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'call.write',
      subject: { kind: 'Call', name: id },
      detail: { provider, connectionId, alias, tool },
    });
    return true;
  });
  failpoint('outbox.opened');
  return isOpen;
}

async function perform(ctx: FlowContext, write: Write, id: string): Promise<Json> {
  const settle = async (status: 'done' | 'refused' | 'unknown', more: { code?: string; written?: Written } = {}) => {
    const { code = null, written } = more;
    const answer = written === undefined ? null : written.answer;
    const of = { id, daemonId: ctx.daemonId, status, code, url: written?.url ?? null, answer };
    const kept = await settleWrite(ctx.db, of);
    if (kept !== undefined) return kept.answer;
    throw outsideFault('outcome-unknown', 'another daemon took this call over; see the calls of the session');
  };
  let isHanded = false;
  const step = stepper(ctx, write, id, () => (isHanded = true));
  const letGo = keepRow(ctx, id);
  let written: Written;
  try {
    written = await write.run(step, id);
  } catch (error) {
    if (isHanded && isConnectionLoss(error)) throw brokenOff(write, error);
    const isUnknown = error instanceof Fault && error.code === 'outcome-unknown';
    const code = error instanceof Fault ? error.code : 'internal';
    // What is neither is a bug of ours; whether something was sent, the row knows: it is left to be looked at.
    if (error instanceof Fault) await settle(isUnknown ? 'unknown' : 'refused', { code });
    throw error;
  } finally {
    letGo();
  }
  failpoint('outbox.answered');
  return settle('done', { written }).catch((error: unknown) => {
    throw isConnectionLoss(error) ? brokenOff(write, error) : error;
  });
}

/**
 * Keeps the row with this daemon until the answer is called: a large push, an answer that trickles and a long line take longer
 * than a lease, and nobody is to look for what is still being sent.
 */
function keepRow(ctx: FlowContext, id: string): () => void {
  const of = { id, daemonId: ctx.daemonId, leaseSeconds: leaseSeconds.step };
  const keep = (): Promise<void> =>
    keepWrite(ctx.db, of).catch((error: unknown) => {
      ctx.runtime.log.warn({ callId: id, err: error }, 'outbox.not_kept');
    });
  const timer = setInterval(() => void keep(), keepEveryMs).unref();
  return () => clearInterval(timer);
}

/**
 * The database broke off behind what was sent: that says nothing of it, and its row is left to be looked at. Only under a
 * key may it be tried again, which waits for that look; without one it would be sent twice.
 */
const brokenOff = ({ idempotencyKey }: Write, error: unknown): unknown =>
  idempotencyKey === undefined ? unknown() : error;

/** `onHanded` hears that something may have been sent from then on. */
function stepper(ctx: FlowContext, write: Write, id: string, onHanded: () => void): Step {
  return async <T extends Json>({ probe, last }: StepProbe, send: () => Promise<T>): Promise<T> => {
    const kept = { ...probe, last };
    const handed = { id, daemonId: ctx.daemonId, probe: kept, leaseSeconds: leaseSeconds.step };
    if (!(await handOver(ctx.db, handed))) {
      throw outsideFault('outcome-unknown', 'another daemon took this call over; nothing more was sent');
    }
    onHanded();
    failpoint('outbox.handed');
    const createdAt = ctx.runtime.now();
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof OutcomeUnknown)) throw error;
      ctx.runtime.log.info({ callId: id, tool: write.tool, reason: error.message }, 'outbox.answer_lost');
      await sleep(lookAfterMs);
      const { project, sessionId, connectionId, provider, tool } = write;
      const of = { id, projectId: project.id, sessionId, connectionId, provider, tool, probe: kept };
      const until = performance.now() + lookMs;
      const found = await withRetry(() => findStep(ctx, { ...of, createdAt }), { until });
      if (found === undefined) throw unknown();
      return found.answer as T;
    }
  };
}

const unknown = (): Fault =>
  outsideFault('outcome-unknown', 'it was sent, and whether it was done is not known; it is not sent again');

/**
 * Looks once whether a step arrived; undefined where it was not found, or the provider could not be asked. What our own
 * database broke off was no look: that is thrown.
 */
export async function findStep(
  ctx: FlowContext,
  of: SoughtStep & { readonly provider: string },
): Promise<Extract<Found, { found: true }> | undefined> {
  try {
    const found = await ctx.outbox?.readers[of.provider]?.(ctx, of);
    return found?.found === true ? found : undefined;
  } catch (error) {
    if (isConnectionLoss(error)) throw error;
    ctx.runtime.log.warn({ callId: of.id, provider: of.provider, err: error }, 'outbox.look_failed');
    return undefined;
  }
}

async function lookAgain(ctx: FlowContext, row: CallRow): Promise<Json> {
  const { probe } = row;
  const found = probe?.['last'] === true ? await findStep(ctx, { ...row, probe }) : undefined;
  if (found === undefined) throw unknown();
  return settleFound(ctx.db, { id: row.id, url: found.url ?? null, answer: found.answer });
}
