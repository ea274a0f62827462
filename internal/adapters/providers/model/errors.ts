// Errors in the shape of each provider, so that a harness shows the text instead of guessing.

import type { ModelProvider } from '../../../domain/spec.ts';

export type ErrorKind =
  | 'invalid'
  | 'unauthenticated'
  | 'capped'
  | 'not-found'
  | 'too-large'
  | 'busy'
  | 'upstream'
  | 'unavailable';

interface Row {
  readonly status: number;
  readonly a: string;
  readonly b: string;
}
/** A 403 would make a harness ask for a login; an unknown or revoked token is 401, a cap is 402. */
const table: { readonly [kind in ErrorKind]: Row } = {
  invalid: { status: 400, a: 'invalid_request_error', b: 'invalid_request_error' },
  unauthenticated: { status: 401, a: 'authentication_error', b: 'invalid_request_error' },
  capped: { status: 402, a: 'billing_error', b: 'insufficient_quota' },
  'not-found': { status: 404, a: 'not_found_error', b: 'invalid_request_error' },
  'too-large': { status: 413, a: 'request_too_large', b: 'invalid_request_error' },
  busy: { status: 429, a: 'rate_limit_error', b: 'rate_limit_error' },
  upstream: { status: 502, a: 'api_error', b: 'server_error' },
  unavailable: { status: 503, a: 'api_error', b: 'server_error' },
};

/** `code` is our own stable word, where the provider's shape has room for one. */
export function errorBody(
  provider: ModelProvider | undefined,
  kind: ErrorKind,
  code: string,
  message: string,
): { readonly status: number; readonly body: object } {
  const { status, a, b } = table[kind];
  if (provider === 'provider-a') return { status, body: { type: 'error', error: { type: a, message } } };
  if (provider === 'provider-c')
    return { status, body: { error: { code: status, message, metadata: { reason: code } } } };
  return { status, body: { error: { message, type: b, param: null, code } } };
}
