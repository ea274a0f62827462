// Deliveries that are refused for what is around them, mostly before anyone knows where they belong: a body over the limit or
// encoded, too many at once, a database that does not keep up. The log tells of them as of any other refusal
// (rejected.ts), by the name of the endpoint or connection where that can be had: from memory, or by a look of its own where
// it is not the daemon that has too much to do.

import { type FlowContext, ingestOf } from '../context.ts';
import type { Fault } from '../../domain/fault.ts';
import { findConnection, findEndpoint } from './receivers.ts';
import { type At, logRefused } from './rejected.ts';

const told: ReadonlySet<string> = new Set(['too_large', 'unsupported_media', 'rate_limited', 'unavailable']);
const busy: ReadonlySet<string> = new Set(['rate_limited', 'unavailable']);

type Target =
  | { readonly kind: 'endpoint'; readonly slug: string }
  | { readonly kind: 'connection'; readonly id: string }
  | { readonly kind: 'connection'; readonly name: string };

/** Tells of a delivery that was turned away. Other faults are told where they are found. Never throws, and nobody waits for it. */
export function logTurnedAway(ctx: FlowContext, target: Target, fault: Fault): void {
  if (!told.has(fault.kind)) return;
  if ('name' in target) return logRefused(ctx, target, fault);
  const { kind } = target;
  const known = 'slug' in target ? ingestOf(ctx).knownEndpoint(target.slug) : undefined;
  if (known !== undefined || busy.has(fault.kind)) return logRefused(ctx, atOf(kind, known), fault);
  const looked = 'slug' in target ? findEndpoint(ctx, target.slug) : findConnection(ctx, target.id);
  looked.then(
    (found) => logRefused(ctx, atOf(kind, found), fault),
    (error: unknown) => {
      ctx.runtime.log.warn({ err: error }, 'delivery.unnamed');
      logRefused(ctx, { kind }, fault);
    },
  );
}

const atOf = (kind: At['kind'], found: Omit<Required<At>, 'kind'> | undefined): At =>
  found === undefined ? { kind } : { kind, id: found.id, name: found.name, projectId: found.projectId };
