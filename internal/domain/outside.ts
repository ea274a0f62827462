// What an outside call may end with, as a closed list of codes: what a session reads is a line `code: text`. No line holds
// a token, a value that was passed in, or a provider's host.

import { Fault, type FaultKind } from './fault.ts';

const kinds = {
  'invalid-input': 'invalid',
  'repository-not-mounted': 'forbidden',
  'capability-missing': 'forbidden',
  'connection-inactive': 'unprocessable',
  'authorization-required': 'unprocessable',
  'scope-required': 'unprocessable',
  'credential-refused': 'unprocessable',
  'permission-missing': 'forbidden',
  'rate-limited': 'rate_limited',
  'not-found': 'not_found',
  conflict: 'conflict',
  'idempotency-conflict': 'conflict',
  refused: 'unprocessable',
  'too-large': 'too_large',
  'provider-unavailable': 'unavailable',
  'outcome-unknown': 'unavailable',
  'not-sent': 'unavailable',
  'not-available': 'unavailable',
} as const satisfies { readonly [code: string]: FaultKind };

export type OutsideCode = keyof typeof kinds;

/** Codes that say something of the connection, or of the provider behind it, and not of what the call asked for. */
const ofTheConnection: ReadonlySet<string> = new Set<OutsideCode | 'remote-unavailable' | 'remote-refused'>([
  'connection-inactive',
  'authorization-required',
  'scope-required',
  'credential-refused',
  'permission-missing',
  'rate-limited',
  'provider-unavailable',
  'outcome-unknown',
  'remote-unavailable',
  'remote-refused',
]);

/** Whether a call that ended with this code says something of its connection: such calls are counted there. */
export const isOfConnection = (code: string | null): boolean => code !== null && ofTheConnection.has(code);

/**
 * Whether something failed because this daemon lacks the right master keys. That says nothing of what it was about: another
 * daemon may succeed, and this one does once its key file is right.
 */
export const isOfMasterKey = (code: string): boolean =>
  code === 'master-key-missing' || code === 'master-key-unusable' || code === 'master-key-refused';

/** A Fault of that code. */
export function outsideFault(code: OutsideCode, message: string, retryAfterSeconds?: number): Fault {
  return new Fault(kinds[code], code, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
}

/** Seconds that a limit is kept to: a minute where it names none, a day at most, since no provider wants to be left alone for longer. */
export const limitSeconds = (named: number | undefined): number => Math.min(named ?? 60, 86_400);

/** `rate-limited`, which ends as every limit does: `retry after N seconds`. */
export function rateLimited(what: string, seconds: number): Fault {
  const n = Math.max(1, Math.ceil(seconds));
  return outsideFault('rate-limited', `${what}; retry after ${n} seconds`, n);
}

/** Thrown by a client: the provider did nothing because it limits these calls. `seconds` as it named them, or undefined. */
export class ProviderLimited extends Error {
  readonly seconds: number | undefined;
  constructor(seconds: number | undefined) {
    super('the provider limits these calls');
    this.name = 'ProviderLimited';
    this.seconds = seconds;
  }
}

/**
 * A write left this machine, and nobody knows what became of it: a lost answer, a time-out, a 5xx, an answer that cannot be
 * read. Thrown by a client for the outbox, which looks again; it never reaches whoever asked.
 */
export class OutcomeUnknown extends Error {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(message, options);
    this.name = 'OutcomeUnknown';
  }
}
