// Answers of our own, in the shape of the provider that the harness thinks it speaks to.

import type { ServerResponse } from 'node:http';
import { errorBody, type ErrorKind } from '../../adapters/providers/model/model.ts';
import type { ModelProvider } from '../../domain/spec.ts';

/** The message is for the harness and the people behind it; it holds no secret. */
export class Refusal extends Error {
  readonly kind: ErrorKind;
  readonly code: string;

  constructor(kind: ErrorKind, code: string, message: string) {
    super(message);
    this.name = 'Refusal';
    this.kind = kind;
    this.code = code;
  }
}

/** A harness that would ask the same again is told not to. */
const final: readonly ErrorKind[] = ['invalid', 'unauthenticated', 'capped', 'not-found', 'too-large'];

/** Answers with a refusal, and gives its status. `isFinal`: asking again will not help. */
export function sendRefusal(
  response: ServerResponse,
  provider: ModelProvider | undefined,
  refusal: Refusal,
  isFinal = final.includes(refusal.kind),
): number {
  const { status, body } = errorBody(provider, refusal.kind, refusal.code, refusal.message);
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...(isFinal && { 'x-should-retry': 'false' }),
    ...(refusal.kind === 'busy' && { 'retry-after': '1' }),
    // The rest of a body that nobody reads would be taken for the next request.
    ...(refusal.kind === 'too-large' && { connection: 'close' }),
  });
  response.end(text);
  return status;
}
