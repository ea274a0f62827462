// What an error of routing says: of the events, of the database, or of how much was asked for at once.

import { errorCode } from '../../adapters/store/store.ts';
import { Fault } from '../../domain/fault.ts';

/** A statement was ended by its time limit: too much for one batch, or held up by somebody else. */
export const tooSlow = '57014';

/** Whether an error says nothing of the events: the database is away, busy, or had two transactions in each other's way. */
export function isPassing(error: unknown): boolean {
  if (error instanceof Fault) return error.kind === 'unavailable';
  return /^(40|08|53|55P03|57)/.test(errorCode(error) ?? '');
}

/** Why, for people: the database's code and text; never a payload, which it does not quote in its message. */
export function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : 'unknown';
  const code = errorCode(error);
  return `${code === undefined ? '' : `${code}: `}${text}`.slice(0, 500);
}
