// What a reader of the transcript, a harness that has lost its memory, and the metrics are told of turns.

import { conversationTail, type TranscriptEntry, type WaitingMessage } from '../../adapters/store/sessions/turns.ts';
import type { FlowContext } from '../context.ts';
import type { Launched } from './launching.ts';

const recapChars = 40_000;
const recapText =
  '[This conversation goes on in a new place, and your own memory of it is gone. What was said so far, shortened:]';
const olderText =
  '[Your files and your memory of this conversation were put back from a copy that is older than what was said last. What was said since, shortened:]';

/** A reader of the transcript is told what goes in again; undefined where nothing does. */
export function againNote(messages: readonly WaitingMessage[]): TranscriptEntry | undefined {
  const again = messages.filter((one) => one.attempts > 0);
  if (again.length === 0) return undefined;
  const which = again.length === 1 ? 'The message' : `${again.length} messages`;
  const text = `${which} of the turn that was cut off ${again.length === 1 ? 'is' : 'are'} delivered again.`;
  return { role: 'system', kind: 'notice', text, detail: { severity: 'info', again: again.map((one) => one.seq) } };
}

/** What a harness is told of the conversation that it does not know; nothing where it knows all. */
export async function recapOf(
  ctx: FlowContext,
  sessionId: string,
  { isAmnesic, knowsUpTo }: Pick<Launched, 'isAmnesic' | 'knowsUpTo'>,
): Promise<string[]> {
  if (!isAmnesic && knowsUpTo === undefined) return [];
  const after = isAmnesic ? 0 : (knowsUpTo ?? 0);
  const said = await conversationTail(ctx.db, sessionId, { maxChars: recapChars, after });
  if (said.length === 0) return [];
  const begin = isAmnesic ? recapText : olderText;
  return [[begin, ...said.map((one) => `${one.role}: ${one.text}`)].join('\n\n')];
}

export function countTurn({ metrics }: FlowContext, outcome: string): void {
  metrics.counter('svc_turns_total', 'Turns that ended, by how they did.', ['outcome']).inc({ outcome });
}
