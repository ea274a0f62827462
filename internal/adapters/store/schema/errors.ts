// What went wrong at the database, as the rest of the program tells it apart: what may be tried again, what may have happened,
// and what callers are told of it.

import { Fault } from '../../../domain/fault.ts';
import { Abandoned, NoAnswer } from './no-answer.ts';

const repeatableCodes = new Set(['40001', '40P01']);
/** Server shutting down or starting, too many connections, and every connection exception (class 08). */
const unavailableCodes = /^(08...|57P0[1-5]|53300)$/;
/** Read-only (a standby, or one whose provider found its disk full), no room on its disk, no memory: nothing was done. */
const unwritableCodes = /^(25006|53100|53200)$/;
const socketCodes = /^(ECONNREFUSED|ECONNRESET|EPIPE|ENOENT|ETIMEDOUT|ENOTFOUND|EHOSTUNREACH)$/;

/** Of the fault that callers get for any of them. */
const unavailable = 'unavailable';

/** The SQLSTATE of a database error, or a socket's error code, else undefined. */
export function errorCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** True of what the driver says by its message alone: the server does not answer, has gone, or speaks otherwise than it was told. */
export const isDriversWord = (error: unknown): boolean =>
  error instanceof Error &&
  /^(timeout expired|Connection terminated|SASL|The server does not support SSL)/.test(error.message);

/** True when the error says that a unique index (of that name, when given) already holds the row. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  if (errorCode(error) !== '23505') return false;
  return constraint === undefined || (error as { constraint?: string }).constraint === constraint;
}

/**
 * True when what was tried has been rolled back and goes through when it is tried again: a serialization failure, a
 * deadlock, and a row that was on its way to a default partition while a partition was made for it.
 */
export function isRepeatable(error: unknown): boolean {
  const code = errorCode(error) ?? '';
  return repeatableCodes.has(code) || (code === '23514' && (error as { constraint?: string }).constraint === undefined);
}

/** True when the server could not be reached, or the connection broke: what was in flight may have happened or not. */
export function isConnectionLoss(error: unknown): boolean {
  const code = errorCode(error);
  if (code === unavailable || error instanceof NoAnswer) return true;
  if (code !== undefined && (unavailableCodes.test(code) || socketCodes.test(code))) return true;
  const message = error instanceof Error ? error.message : '';
  return /^Connection terminated|^Query read timeout|timeout exceeded when trying to connect|Client has encountered a connection error|not queryable/.test(
    message,
  );
}

/** True where the daemon stops and waits for its database no more: trying again is in vain. */
export const isAbandoned = (error: unknown): boolean =>
  error instanceof Abandoned || (error instanceof Error && error.cause instanceof Abandoned);

/** As callers get it. */
export function asFault(error: unknown): unknown {
  if (unwritableCodes.test(errorCode(error) ?? '')) return databaseUnavailable(error, 'takes no writes');
  return isConnectionLoss(error) && !(error instanceof Fault) ? databaseUnavailable(error) : error;
}

/** Nobody knows whether what was asked for has happened. */
export function databaseUnavailable(cause?: unknown, how = 'cannot be reached'): Fault {
  return new Fault('unavailable', unavailable, `The database ${how} at the moment; try again.`, {
    cause,
    retryAfterSeconds: 1,
  });
}
