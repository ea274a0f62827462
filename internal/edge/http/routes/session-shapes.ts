// Sessions and their messages in answers, shared by the routes that show them.

import type {
  MessageRow,
  SessionRow,
  SessionStateRow,
  WholeSession,
} from '../../../adapters/store/sessions/session-reads.ts';
import { showBinding } from './bindings.ts';

const present = <K extends string, T>(key: K, value: T | null): { readonly [k in K]?: T } =>
  (value === null ? {} : { [key]: value }) as { readonly [k in K]?: T };
/** Without the members that are null. */
const filled = <T extends object>(record: T): { readonly [K in keyof T]: Exclude<T[K], null> } =>
  Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null)) as {
    readonly [K in keyof T]: Exclude<T[K], null>;
  };

export const showSession = (row: SessionRow) => ({
  id: row.id,
  agent: row.agent,
  revision: row.revision,
  state: row.state,
  live: row.live,
  ...present('reason', row.reason),
  ...present('reasonText', row.reasonText),
  ...present('engineReason', row.engineReason),
  ...present('wire', row.wire),
  ...present('position', row.position),
  loaded: row.loaded,
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

/** What a line of a table shows of it. */
export function showSessionRow(row: SessionRow) {
  const { reasonText: _text, position: _position, eventId: _event, ordinal: _ordinal, ...shown } = showSession(row);
  return shown;
}

/** What a stream tells of a change of state. */
export const showState = ({ activeAt, reason, reasonText, engineReason, wire, position, ...row }: SessionStateRow) => ({
  ...row,
  ...present('reason', reason),
  ...present('reasonText', reasonText),
  ...present('engineReason', engineReason),
  ...present('wire', wire),
  ...present('position', position),
  lastActiveAt: activeAt,
});

export const showWholeSession = (row: WholeSession) => ({
  ...showSession(row),
  inbox: row.inbox,
  turns: row.turns,
  ...(row.lastTurn !== null && { lastTurn: filled(row.lastTurn) }),
  claims: row.claims.map(({ kind, key }) => ({ kind, ...(kind === 'thread' && { key }) })),
  bindings: row.bindings.map(showBinding),
  ...(row.hasMoreBindings && { moreBindings: true as const }),
  checks: row.checks.map(filled),
  permissions: row.permissions,
  mountRefs: row.mountRefs,
  ...present('hiddenContext', row.hiddenContext),
  ...present('sandbox', row.sandbox),
  ...(row.provisioning !== null && { provisioning: [...row.provisioning] }),
  ...(row.denied !== null && { egress: { denied: [...row.denied] } }),
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
