// The two ways a command ends badly: misuse (exit 2) and refusal or failure (exit 1, a problem document).

import type { Diagnostic } from './diagnostics.ts';

/** The command line was not understood: exit 2. `hint` says what to type instead. */
export class UsageError extends Error {
  readonly hint: string | undefined;
  constructor(message: string, hint?: string) {
    super(message);
    this.name = 'UsageError';
    this.hint = hint;
  }
}

/** RFC 9457, as the server sends it (docs/reference/http-api.md#conventions); the client makes the same shape for its own failures. */
export interface ProblemDetails {
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly detail?: string;
  readonly code?: string;
  readonly requestId?: string;
  readonly diagnostics?: readonly Diagnostic[];
  readonly [member: string]: unknown;
}

/** Refused or failed: exit 1. */
export class Refusal extends Error {
  readonly problem: ProblemDetails;
  readonly hint: string | undefined;
  constructor(problem: ProblemDetails, hint?: string) {
    super(problem.detail ?? problem.title ?? 'failed');
    this.name = 'Refusal';
    this.problem = problem;
    this.hint = hint;
  }
}

/** A failure of the client's own, in the problem shape. */
export function refusal(code: string, detail: string, hint?: string): Refusal {
  return new Refusal({ type: 'about:blank', title: 'Failed', code, detail }, hint);
}

const untrusted =
  /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/;

/** What to do where a server's certificate is nobody's that is trusted here; undefined for any other reason. */
export const trustHint = (why: string): string | undefined =>
  untrusted.test(why) ? 'NODE_EXTRA_CA_CERTS=FILE names the certificate of the authority to trust' : undefined;
