// A delivery that is refused is told in the log, so that a wrong secret is not only a number: with the endpoint or
// connection that it came to, once in ten seconds of each, and those in between by their number. One that does not prove
// itself is noted as often for `svc doctor`. Never with what was sent.

import { noteRejected } from '../../adapters/store/events/rejected.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { recentMap } from '../../base/lru.ts';

const quietMs = 10_000;
/** Endpoints and connections that are remembered; an older one is told anew. */
const rememberedMax = 1_000;

interface Told {
  readonly atMs: number;
  since: number;
}
const told = new WeakMap<FlowContext['runtime'], ReturnType<typeof recentMap<string, Told>>>();

/** Endpoints and connections with a number of their own; those beyond share one. */
const countedMax = 200;
const counted = new WeakMap<FlowContext['metrics'], Set<string>>();

function count(ctx: FlowContext, kind: 'endpoint' | 'connection', id: string): void {
  const own = counted.get(ctx.metrics) ?? new Set<string>();
  counted.set(ctx.metrics, own);
  if (own.size < countedMax) own.add(id);
  const help = 'Deliveries that were refused, by where they came to';
  ctx.metrics
    .counter('svc_deliveries_rejected_total', help, ['kind', 'id'])
    .inc({ kind, id: own.has(id) ? id : 'other' });
}

/** Where a delivery came to; without an id: to something that there is not, of which the log names nothing. */
export interface At {
  readonly kind: 'endpoint' | 'connection';
  readonly id?: string;
  readonly name?: string;
  readonly projectId?: string;
}
type Named = Required<At>;

/** True where the log is to tell of it now; what is quiet is told in one number when the time is over. */
function isDue(ctx: FlowContext, at: At, tell: (more: number) => void): boolean {
  const known = told.get(ctx.runtime) ?? recentMap<string, Told>(rememberedMax);
  told.set(ctx.runtime, known);
  const key = `${at.kind}/${at.id ?? ''}`;
  const nowMs = ctx.runtime.now().getTime();
  const last = known.get(key);
  // A clock that was set back keeps nothing quiet.
  if (last !== undefined && nowMs >= last.atMs && nowMs - last.atMs < quietMs) {
    last.since += 1;
    return false;
  }
  const mine: Told = { atMs: nowMs, since: 0 };
  known.set(key, mine);
  // The last of a burst are told without waiting for one more.
  setTimeout(() => {
    if (mine.since > 0) tell(mine.since);
  }, quietMs).unref();
  return true;
}

function tell(ctx: FlowContext, at: At, why: string, more: number): void {
  const { kind, id, name, projectId } = at;
  const where = id === undefined ? { intake: kind, name } : { [kind]: name, [`${kind}Id`]: id, projectId };
  ctx.runtime.log.warn({ ...where, why, ...(more > 0 && { more }) }, 'delivery.rejected');
}

/** Tells of a delivery that did not prove itself, and notes it for `svc doctor`. */
export function logRejected(ctx: FlowContext, at: Named, why: string): void {
  count(ctx, at.kind, at.id);
  const note = (refused: number): void => {
    // What is refused has no transaction of its own; the answer does not wait for the note.
    noteRejected(ctx.db, { ...at, count: refused, why }).catch((error: unknown) =>
      ctx.runtime.log.warn({ err: error }, 'delivery.rejection_not_noted'),
    );
  };
  const later = (more: number): void => {
    tell(ctx, at, why, more);
    note(more);
  };
  if (!isDue(ctx, at, later)) return;
  tell(ctx, at, why, 0);
  note(1);
}

/** Tells of a delivery that was refused for another reason: what it says cannot be read, or there is nothing that takes it. */
export function logUnreadable(ctx: FlowContext, at: At, error: unknown): void {
  if (error instanceof Fault && refusals.has(error.kind)) logRefused(ctx, at, error);
}
const refusals: ReadonlySet<string> = new Set(['unauthenticated', 'invalid', 'not_found']);

/** Tells of a refused delivery by the text of its fault. */
export function logRefused(ctx: FlowContext, at: At, error: Fault): void {
  count(ctx, at.kind, at.id ?? 'none');
  // Texts of these faults quote nothing of what was sent.
  const why = error.message;
  if (isDue(ctx, { ...at, id: `${at.id ?? ''} ${error.code}` }, (more) => tell(ctx, at, why, more)))
    tell(ctx, at, why, 0);
}
