// One trace of what an event sets off, from its delivery to the first answer of the session that it starts, over all daemons
// that have a part in it (docs/guides/several-daemons.md#traces). The trace is named after the event, so that nothing has to be
// handed on beside it, and is lost with nobody. An event that a living session is told of has a trace of its own, whose answer
// links to the delivery that started the session. Without an address to send it to nothing is made, and nothing loaded.
// A span carries names and ids, never what was sent, said or answered.

import { createHash, randomBytes } from 'node:crypto';

export type SpanName = 'delivery' | 'routing' | 'launch' | 'answer';

export interface Span {
  /** 32 and 16 hex digits. */
  readonly traceId: string;
  readonly spanId: string;
  /** Of the delivery; null for that itself. */
  readonly parentId: string | null;
  readonly name: SpanName;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: { readonly [name: string]: string | number };
  readonly failed: boolean;
  /** The delivery of another event that it has to do with. */
  readonly link?: { readonly traceId: string; readonly spanId: string };
}

export interface SpanInput {
  /** The event that it belongs to: a UUID. */
  readonly eventId: string;
  readonly name: SpanName;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes?: Span['attributes'];
  readonly failed?: boolean;
  /** Another event that it has to do with. */
  readonly linkedEventId?: string;
}

let sink: ((span: Span) => void) | undefined;

/** Where spans of this process go; undefined: nowhere. */
export function sendSpansTo(to: ((span: Span) => void) | undefined): void {
  sink = to;
}

const traceIdOf = (eventId: string): string => eventId.replaceAll('-', '');
const deliveryIdOf = (eventId: string): string => createHash('sha256').update(eventId).digest('hex').slice(0, 16);

/** Notes something that is over. Costs nothing where nobody wants to know. */
export function noteSpan(input: SpanInput): void {
  if (sink === undefined) return;
  const { eventId, name, startMs, endMs, attributes = {}, failed = false, linkedEventId: other } = input;
  const deliveryId = deliveryIdOf(eventId);
  const isDelivery = name === 'delivery';
  sink({
    traceId: traceIdOf(eventId),
    spanId: isDelivery ? deliveryId : randomBytes(8).toString('hex'),
    parentId: isDelivery ? null : deliveryId,
    name,
    startMs,
    endMs: Math.max(startMs, endMs),
    attributes: { ...attributes, 'svc.event.id': eventId },
    failed,
    ...(other !== undefined && { link: { traceId: traceIdOf(other), spanId: deliveryIdOf(other) } }),
  });
}
