// Sessions and their messages in answers, shared by the routes that show them.

import * as v from 'valibot';
import type {
  MessageRow,
  SessionRow,
  SessionStateRow,
  WholeSession,
} from '../../../adapters/store/sessions/session-reads.ts';
import { SESSION_STATES } from '../../../core/session/session.ts';
import { binding, showBinding } from './bindings.ts';
import { json, timestamp } from './shapes.ts';

export const sessionState = v.picklist(SESSION_STATES);
const usage = v.object({
  calls: v.number(),
  inputTokens: v.number(),
  outputTokens: v.number(),
  cacheReadTokens: v.number(),
  cacheWriteTokens: v.number(),
  /** A decimal, of the calls whose price is known. */
  costUsd: v.string(),
  unpricedCalls: v.number(),
});
/** Of an agent or a project: this UTC day, this UTC month, and ever. */
export const spending = v.object({ day: usage, month: usage, total: usage });
const common = {
  id: v.string(),
  agent: v.string(),
  revision: v.number(),
  state: sessionState,
  live: v.boolean(),
  reason: v.optional(v.string()),
  displayTitle: v.string(),
  origin: v.picklist(['event', 'manual', 'session', 'replacement']),
  /** The event and the trigger of its agent that it was spawned by. */
  eventId: v.optional(v.string()),
  ordinal: v.optional(v.number()),
  /** The session that spawned it, or that it replaces. */
  parentId: v.optional(v.string()),
  createdAt: timestamp,
  startedAt: v.optional(timestamp),
  lastActiveAt: timestamp,
  endedAt: v.optional(timestamp),
  usage,
};
export const listedSession = v.object(common);
export const wholeSession = v.object({
  ...common,
  inbox: v.object({ pending: v.number(), inFlight: v.number(), done: v.number(), failed: v.number() }),
  turns: v.number(),
  lastTurn: v.optional(
    v.object({
      number: v.number(),
      state: v.picklist(['running', 'done', 'cancelled', 'failed', 'lost']),
      stopReason: v.optional(v.string()),
      error: v.optional(v.string()),
      startedAt: timestamp,
      endedAt: v.optional(timestamp),
    }),
  ),
  claims: v.array(v.object({ kind: v.picklist(['slot', 'thread']), key: v.optional(v.string()) })),
  bindings: v.array(binding),
  checks: v.array(
    v.object({
      name: v.string(),
      target: v.object({ type: v.string(), key: v.string() }),
      cycle: v.number(),
      headSha: v.string(),
      state: v.picklist(['queued', 'in_progress', 'concluded', 'superseded']),
      conclusion: v.optional(v.string()),
      title: v.optional(v.string()),
    }),
  ),
  /** What its harness asks and a person has to answer. */
  permissions: v.array(v.object({ id: v.string(), title: v.string(), request: json, createdAt: v.string() })),
  /** Mount path to the ref that was rendered when it was made. */
  mountRefs: v.record(v.string(), v.string()),
  hiddenContext: v.optional(v.string()),
  sandbox: v.optional(json),
});

const present = <K extends string, T>(key: K, value: T | null): { readonly [k in K]?: T } =>
  (value === null ? {} : { [key]: value }) as { readonly [k in K]?: T };
/** Without the members that are null. */
const filled = (record: object): object =>
  Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null));

export const showSession = (row: SessionRow) => ({
  id: row.id,
  agent: row.agent,
  revision: row.revision,
  state: row.state,
  live: row.live,
  ...present('reason', row.reason),
  displayTitle: row.displayTitle,
  origin: row.origin,
  ...present('eventId', row.eventId),
  ...present('ordinal', row.ordinal),
  ...present('parentId', row.parentId),
  createdAt: row.createdAt,
  ...present('startedAt', row.startedAt),
  lastActiveAt: row.activeAt,
  ...present('endedAt', row.endedAt),
  usage: row.usage,
});

/** What a stream tells of a change of state. */
export const showState = ({ activeAt, reason, ...row }: SessionStateRow) => ({
  ...row,
  ...present('reason', reason),
  lastActiveAt: activeAt,
});

export const showWholeSession = (row: WholeSession) => ({
  ...showSession(row),
  inbox: row.inbox,
  turns: row.turns,
  ...(row.lastTurn !== null && { lastTurn: filled(row.lastTurn) }),
  claims: row.claims.map(({ kind, key }) => ({ kind, ...(kind === 'thread' && { key }) })),
  bindings: row.bindings.map(showBinding),
  checks: row.checks.map(filled),
  permissions: row.permissions,
  mountRefs: row.mountRefs,
  ...present('hiddenContext', row.hiddenContext),
  ...present('sandbox', row.sandbox),
});

export const message = v.object({
  seq: v.number(),
  role: v.picklist(['user', 'assistant', 'tool', 'system']),
  kind: v.string(),
  text: v.string(),
  at: timestamp,
  eventId: v.optional(v.string()),
  detail: v.optional(v.unknown()),
  /** Of what the session is told: whether it has gone in. */
  delivery: v.optional(
    v.object({
      state: v.picklist(['pending', 'in_flight', 'done', 'failed']),
      mode: v.picklist(['interrupt', 'defer']),
      sender: v.string(),
      attempts: v.number(),
      reason: v.optional(v.string()),
    }),
  ),
});

export const showMessage = ({ seq, role, kind, text, at, eventId, detail, delivery }: MessageRow) => ({
  seq,
  role,
  kind,
  text,
  at,
  ...present('eventId', eventId),
  ...present('detail', detail),
  ...(delivery !== null && { delivery: filled(delivery) }),
});
