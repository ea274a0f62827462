// Every failure of a request as RFC 9457 problem+json; the one table from kinds of fault to statuses.

import { STATUS_CODES } from 'node:http';
import { isMachineLack, lackText } from '../../base/machine-lack.ts';
import { errorCode } from '../../adapters/store/store.ts';
import { Fault, type FaultKind } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';

export const statusByKind: { readonly [kind in FaultKind]: number } = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  stale: 412,
  too_large: 413,
  unsupported_media: 415,
  unprocessable: 422,
  rate_limited: 429,
  internal: 500,
  unavailable: 503,
};

export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  readonly code: string;
  readonly requestId: string;
  readonly diagnostics?: readonly unknown[];
}

export interface Rendered {
  readonly problem: Problem;
  readonly headers: { readonly [name: string]: string };
  /** True when the cause is ours, or our machine's, and has to be logged in full. */
  readonly isBug: boolean;
}

/** Statuses that only the HTTP layer itself gives, where no kind of fault has them. */
export class HttpFault extends Fault {
  readonly status: number;
  readonly headers: { readonly [name: string]: string };

  constructor(status: number, code: string, message: string, headers: { readonly [name: string]: string } = {}) {
    super('invalid', code, message);
    this.status = status;
    this.headers = headers;
  }
}

/** Text that PostgreSQL cannot hold (NUL), or cannot read as what it has to be: the caller's, not ours. */
const badTextCodes = new Set(['22021', '22P05']);

/** What the framework throws, by its code; anything else of its own with a status below 500 keeps that status. */
const frameworkFaults: { readonly [code: string]: readonly [FaultKind, string, string] } = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['too_large', 'body-too-large', 'The body is larger than this call accepts.'],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'invalid',
    'invalid-content-length',
    'The body is not as long as Content-Length says.',
  ],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ['unsupported_media', 'unsupported-media-type', messagesTable.notJsonType],
  FST_ERR_BAD_URL: ['invalid', 'invalid-url', 'The URL cannot be decoded.'],
};

/** Turns whatever was thrown into the answer. The text of an unknown error never leaves the process. */
export function renderProblem(error: unknown, requestId: string): Rendered {
  const fault = asFault(error);
  const status = fault instanceof HttpFault ? fault.status : statusByKind[fault.kind];
  const headers: Record<string, string> = fault instanceof HttpFault ? { ...fault.headers } : {};
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (fault.retryAfterSeconds !== undefined) headers['retry-after'] = String(fault.retryAfterSeconds);
  return {
    problem: {
      type: `urn:svc:problem:${fault.code}`,
      title: STATUS_CODES[status] ?? 'Error',
      status,
      detail: fault.message,
      code: fault.code,
      requestId,
      ...(fault.diagnostics !== undefined && { diagnostics: fault.diagnostics }),
    },
    headers,
    isBug: fault.kind === 'internal' || (!(error instanceof Fault) && isMachineLack(error)),
  };
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** What a thrown error says to the caller. */
export function asFault(error: unknown): Fault {
  if (error instanceof Fault) return error;
  const code = errorCode(error) ?? '';
  if (badTextCodes.has(code))
    return new Fault('invalid', 'invalid-text', 'A text holds a character that cannot be stored.');
  const known = frameworkFaults[code];
  if (known !== undefined) return new Fault(known[0], known[1], known[2]);
  const status = (error as { statusCode?: unknown } | null)?.statusCode;
  if (code.startsWith('FST_') && typeof status === 'number' && status >= 400 && status < 500) {
    return new HttpFault(status, 'invalid-request', 'The request cannot be read.');
  }
  const lack = lackText(error, undefined);
  if (lack !== undefined)
    return new Fault('unavailable', 'unavailable', `${capital(lack)}; try again.`, {
      retryAfterSeconds: 30,
      cause: error,
    });
  return new Fault('internal', 'internal', 'Something went wrong here; the log names this request by its id.');
}
