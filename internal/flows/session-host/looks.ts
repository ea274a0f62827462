// What whoever looks waits for an engine. One that takes calls and never answers holds up neither a page nor a list, nor the
// other engines: what it does not say in time is left out, and told. As long as a question waits at it, it is not asked again.

import { EngineError } from '../../adapters/engine/engine.ts';
import { within } from '../../base/waits.ts';

/** How long it is waited for. */
const lookMs = 3_000;

/** Questions that nobody waits for any more and that have no answer yet, by whom they are asked of. */
const open = new WeakMap<object, Set<string>>();

/** What `ask` gives, or why it did not in time; it goes on by itself then. Throws what is no EngineError. */
export async function inTime<T>(
  of: object,
  question: string,
  ask: () => Promise<T>,
  waitMs: number = lookMs,
): Promise<T | EngineError> {
  const asked = open.get(of) ?? new Set<string>();
  open.set(of, asked);
  const silent = (): EngineError => new EngineError('engine-unreachable', `no answer within ${waitMs / 1_000} s`);
  if (asked.has(question)) return silent();
  const answer = ask().catch((error: unknown) => {
    if (error instanceof EngineError) return error;
    throw error;
  });
  const found = await within(answer, waitMs);
  if (found !== undefined) return found.value;
  asked.add(question);
  const forget = (): void => void asked.delete(question);
  answer.then(forget, forget);
  return silent();
}
