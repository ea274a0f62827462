// What every request leaves behind, whichever way it was answered: its id, its time, and the log of what was our fault.

import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { FlowContext } from '../../flows/context.ts';

/** The caller's, where it is fit to be repeated. */
export function requestIdOf(headers: IncomingHttpHeaders): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : nextId();
}

/** Of a process: its random beginning, and a number. Drawn anew, each id would cost as much as checking a signature's shape. */
const beginning = randomUUID().slice(0, -12);
let serial = 0;
const nextId = (): string => beginning + (serial += 1).toString(16).padStart(12, '0');

export interface Outcome {
  readonly requestId: string;
  readonly method: string;
  /** The route's path, never the caller's. */
  readonly path: string;
  readonly status: number;
  readonly ms: number;
}

export function noteOutcome(ctx: FlowContext, { requestId, method, path, status, ms }: Outcome): void {
  const seconds = ctx.metrics.histogram('svc_http_request_seconds', 'Time to answer a request', outcomeLabels);
  seconds.observe({ route: path, method, status: String(status) }, ms / 1_000);
  const { log } = ctx.runtime;
  if (log.isLevelEnabled('debug'))
    log.debug({ requestId, method, route: path, status, ms: Math.round(ms) }, 'http.answered');
}
const outcomeLabels = ['route', 'method', 'status'] as const;

/** An error that is ours, in full. */
export function noteBug(
  ctx: FlowContext,
  error: unknown,
  at: { readonly requestId: string; readonly method: string; readonly route: string | undefined },
): void {
  ctx.runtime.log.error({ err: error, ...at }, 'http.failed');
}

/** What every answer carries, refusals too: what one caller may see is nobody else's to keep, nor its address to learn. */
export const commonHeaders = {
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
} as const;
export const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'retry-after, x-request-id',
} as const;
