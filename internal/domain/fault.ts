// Failures that end a request or a job, thrown. Each kind maps to one HTTP status in one table (edge/http);
// anything thrown that is not a Fault is internal, and its text never leaves the process.

import type { Diagnostic } from './diagnostic.ts';

export type FaultKind =
  | 'invalid'
  | 'unprocessable'
  | 'unauthenticated'
  | 'forbidden'
  | 'not_found'
  | 'conflict'
  | 'stale'
  | 'too_large'
  | 'unsupported_media'
  | 'rate_limited'
  | 'unavailable'
  | 'internal';

export interface FaultOptions {
  readonly diagnostics?: readonly Diagnostic[];
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

/** `code` is a stable kebab-case word; `message` is shown to the caller and must hold no secret. */
export class Fault extends Error {
  readonly kind: FaultKind;
  readonly code: string;
  readonly diagnostics: readonly Diagnostic[] | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(kind: FaultKind, code: string, message: string, options: FaultOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'Fault';
    this.kind = kind;
    this.code = code;
    this.diagnostics = options.diagnostics;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}
