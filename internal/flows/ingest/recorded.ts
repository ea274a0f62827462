// What was recorded, as it is shown, matched again and recorded once more (docs/reference/http-api.md#events).

import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import {
  copyEvent,
  eventOutcome,
  type EventPayload,
  type LargeHalves,
} from '../../adapters/store/events/event-reads.ts';
import { enqueueRouting, type RouterStatus } from '../../adapters/store/events/events.ts';
import { resumeSchedule, trySuspectAlone } from '../../adapters/store/operations/in-hand.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { membersOf, readLazily, readPayload } from '../../core/match/match.ts';
import { Fault } from '../../domain/fault.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { messageOf } from '../../domain/messages.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { endedTheProcess } from '../in-hand.ts';
import { printable, textOf } from './body.ts';

const isRecord = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Attributions are known when an event is routed, and stand where a trigger reads them: `$.svc.attributions`. */
export function attributed(payload: unknown, attributions: readonly Json[] | null): unknown {
  if (attributions === null || attributions.length === 0 || !isRecord(payload)) return payload;
  const svc = { ...(isRecord(payload['svc']) ? payload['svc'] : {}), attributions };
  // As a spread, but that members of a large payload stay unread.
  return Object.defineProperties(
    {},
    {
      ...Object.getOwnPropertyDescriptors(payload),
      svc: { value: svc, writable: true, enumerable: true, configurable: true },
    },
  );
}

/** A stored payload for printing, every number as it was written; undefined where it was not read. */
export function shownPayload({ payload, attributions }: EventPayload): unknown {
  return payload === null ? undefined : attributed(printable(payload), attributions);
}

/** The payload of a large body from the halves it is stored in, as it was matched, of which only what is asked for is read. */
export function largePayload({ raw, payload }: LargeHalves): Json {
  const read = readLazily(payload) as { [key: string]: Json };
  const get = (): Json => {
    const value = readLazily(unmarked(raw));
    Object.defineProperty(read, 'raw', { value, enumerable: true, configurable: true });
    return value;
  };
  return Object.defineProperty(read, 'raw', { get, enumerable: true, configurable: true });
}

const unmarked = (raw: Buffer): Buffer =>
  raw[0] === 0xef && raw[1] === 0xbb && raw[2] === 0xbf ? raw.subarray(3) : raw;

/** A large payload for printing, as JSON in pieces: every value as it was written. */
export function* shownPieces(
  { raw, payload }: LargeHalves,
  attributions: readonly Json[] | null,
): Generator<Uint8Array> {
  const isAttributed = attributions !== null && attributions.length > 0;
  let comma = '{';
  let svc: unknown;
  for (const { key, from, valueFrom, to } of membersOf(payload)) {
    if (isAttributed && key === 'svc') {
      svc = printable(payload.subarray(valueFrom, to));
      continue;
    }
    yield Buffer.from(comma);
    yield payload.subarray(from, to);
    comma = ',';
  }
  if (isAttributed) {
    yield Buffer.from(`${comma}"svc":${JSON.stringify({ ...(isRecord(svc) ? svc : {}), attributions })}`);
    comma = ',';
  }
  yield Buffer.from(`${comma}"raw":`);
  yield unmarked(raw);
  yield Buffer.from('}');
}

/** A stored payload as it was matched. */
export function routedPayload({ payload, large, attributions }: EventPayload): Json {
  if (large !== undefined) return attributed(largePayload(large), attributions) as Json;
  return payload === null ? {} : (attributed(readPayload(textOf(payload)), attributions) as Json);
}

export interface Replayed {
  readonly eventRecordId: string;
  readonly created: true;
  readonly routerStatus: RouterStatus;
  readonly replayOf: string;
}

/**
 * Records an event once more and asks for its routing: the same key, bytes, place of arrival and target, deduplicated
 * with nothing. Throws Fault `not_found`, and `conflict` for an event whose body retention has taken.
 */
export async function replayEvent(ctx: FlowContext, project: ProjectRef, of: string, actor: Actor): Promise<Replayed> {
  const id = timeOrderedId(ctx.runtime);
  await ctx.db.tx(async (tx) => {
    const original = await eventOutcome(tx, project.id, of);
    if (original === undefined) throw new Fault('not_found', 'event-not-found', messageOf('noEvent', of));
    const copied = await copyEvent(tx, { projectId: project.id, of, id, now: ctx.runtime.now() });
    if (!copied) throw new Fault('conflict', 'event-body-gone', 'The body of this event is not kept any more.');
    if (original.reason === endedTheProcess) {
      await trySuspectAlone(tx, 'event', id);
      await resumeSchedule(tx, of);
    }
    await enqueueRouting(tx, ctx.ingest, [project.id]);
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'event.replayed',
      subject: { kind: 'Event', name: of },
      detail: { key: original.key, eventRecordId: id },
    });
  });
  ctx.runtime.log.info({ project: project.slug, eventId: id, replayOf: of, actor: actor.name }, 'event.replayed');
  return { eventRecordId: id, created: true, routerStatus: 'pending', replayOf: of };
}
