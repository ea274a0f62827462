// A delivery that does not prove itself is told in the log, so that a wrong secret is not only a number: with the endpoint or
// connection that it came to, once in ten seconds of each, with how many there were since; as often it is noted for
// `svc doctor`. Never with what was sent.

import { noteRejected } from '../../adapters/store/events/rejected.ts';
import type { FlowContext } from '../context.ts';

const quietMs = 10_000;
/** Endpoints and connections that are remembered; an older one is told anew. */
const rememberedMax = 1_000;

interface Told {
  readonly atMs: number;
  since: number;
}
const told = new WeakMap<FlowContext['runtime'], Map<string, Told>>();

/** Endpoints and connections with a number of their own; those beyond share one. */
const countedMax = 200;
const counted = new WeakMap<FlowContext['metrics'], Set<string>>();

function count(ctx: FlowContext, kind: 'endpoint' | 'connection', id: string): void {
  const own = counted.get(ctx.metrics) ?? new Set<string>();
  counted.set(ctx.metrics, own);
  if (own.size < countedMax) own.add(id);
  const help = 'Deliveries that did not prove themselves, by where they came to';
  ctx.metrics
    .counter('svc_deliveries_rejected_total', help, ['kind', 'id'])
    .inc({ kind, id: own.has(id) ? id : 'other' });
}

export function logRejected(
  ctx: FlowContext,
  at: {
    readonly kind: 'endpoint' | 'connection';
    readonly id: string;
    readonly name: string;
    readonly projectId: string;
  },
  why: string,
): void {
  count(ctx, at.kind, at.id);
  const known = told.get(ctx.runtime) ?? new Map<string, Told>();
  told.set(ctx.runtime, known);
  const key = `${at.kind}/${at.id}`;
  const nowMs = ctx.runtime.now().getTime();
  const last = known.get(key);
  if (last !== undefined && nowMs - last.atMs < quietMs) {
    last.since += 1;
    return;
  }
  known.delete(key);
  known.set(key, { atMs: nowMs, since: 0 });
  if (known.size > rememberedMax) known.delete(known.keys().next().value ?? '');
  const { kind, id, name, projectId } = at;
  ctx.runtime.log.warn(
    { [kind]: name, [`${kind}Id`]: id, projectId, why, ...(last !== undefined && { more: last.since }) },
    'delivery.rejected',
  );
  // What is refused has no transaction of its own; the answer does not wait for the note.
  const refused = 1 + (last?.since ?? 0);
  noteRejected(ctx.db, { ...at, count: refused, why }).catch((error: unknown) =>
    ctx.runtime.log.warn({ err: error }, 'delivery.rejection_not_noted'),
  );
}
