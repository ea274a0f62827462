// The log: one JSON line per outcome on stderr, constant event names, details in fields. Standard output belongs to the ready
// line. Known secret-bearing fields are cut out, as a second line of defence behind not logging them. Decides nothing about
// what is logged: whoever knows the outcome logs it, once.

import { type DestinationStream, destination, type Logger, pino } from 'pino';
import type { LogLevel } from '../config/config.ts';

const secretFields = ['authorization', 'cookie', 'token', 'password', 'secret', 'value', 'credentials', 'databaseUrl'];

/** Of an error what explains it, and nothing that hangs on it: drivers put whole connections there, keys included. */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return String(error);
  const { code, cause } = error as Error & { code?: unknown };
  return {
    type: error.name,
    message: error.message,
    ...(typeof code === 'string' && { code }),
    stack: error.stack,
    ...(cause !== undefined && depth < 3 && { cause: describeError(cause, depth + 1) }),
  };
}

/** What waits for a disk with room is kept up to so much; what is logged beyond it is lost. */
const waitingBytesMax = 1024 * 1024;

/** Stderr. Where it cannot be written to, as on a disk that is full, the work goes on: it is more than what is told of it. */
function standardError(): DestinationStream {
  // Synchronous: what is logged before a crash is on disk, and volume is low by design.
  const stream = destination({ dest: 2, sync: true, maxLength: waitingBytesMax });
  stream.on('error', () => undefined);
  return stream;
}

/** A logger that writes to stderr, or to `stream` in tests. */
export function createLog(level: LogLevel, stream?: DestinationStream): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (error: unknown) => describeError(error) },
      redact: {
        paths: secretFields.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]),
        censor: '[redacted]',
      },
    },
    stream ?? standardError(),
  );
}
