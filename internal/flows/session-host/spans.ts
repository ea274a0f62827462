// What a session's host adds to the trace of the event that started the session: its first launch, its first answer.

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
