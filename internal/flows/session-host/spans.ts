// What a session's host adds to the trace of the event that started the session: its first launch, its first answer; and to that
// of each event that it is told of later: the turn that took it.

import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import { noteSpan } from '../../base/trace/trace.ts';

/** `failure`: what kept it from coming up. A session that comes back belongs to no event. */
export function noteOf(
  name: 'launch' | 'answer',
  { eventId, sessionId, agent, harnessSession }: ClaimedSession,
  { startMs, endMs, failure }: { readonly startMs: number; readonly endMs: number; readonly failure?: string },
): void {
  if (eventId === null || harnessSession !== null) return;
  noteSpan({
    ...{ eventId, name, startMs, endMs, failed: failure !== undefined },
    attributes: {
      'svc.session.id': sessionId,
      'svc.agent': agent,
      ...(failure !== undefined && { 'svc.outcome': failure }),
    },
  });
}

/** A turn that is done: the first answer to what started the session, and the answer to every other event that the turn was told of. */
export function noteTurn(session: ClaimedSession, { isFirst, launchedMs, startMs, endMs, eventIds }: TurnSpans): void {
  if (isFirst) noteOf('answer', session, { startMs: launchedMs, endMs });
  for (const eventId of new Set(eventIds)) {
    if (eventId === null || eventId === session.eventId) continue;
    noteSpan({
      ...{ eventId, name: 'answer', startMs, endMs },
      attributes: { 'svc.session.id': session.sessionId, 'svc.agent': session.agent },
      ...(session.eventId !== null && { linkedEventId: session.eventId }),
    });
  }
}

export interface TurnSpans {
  /** Of this launch. */
  readonly isFirst: boolean;
  readonly launchedMs: number;
  readonly startMs: number;
  readonly endMs: number;
  /** Of what the turn was told of. */
  readonly eventIds: readonly (string | null)[];
}
