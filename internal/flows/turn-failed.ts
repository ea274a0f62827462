// A turn of a loop that fails is told in the log once, and while it goes on failing for the same reason once a minute, with
// how often it did meanwhile: a database that is away for an hour fails every loop every few seconds, and what else is told
// in that hour is to be found.

import { recentMap } from '../base/lru.ts';
import { Fault } from '../domain/fault.ts';
import type { FlowContext } from './context.ts';

const quietMs = 60_000;
/** Reasons that are remembered; an older one is told anew. */
const rememberedMax = 200;

interface Told {
  readonly atMs: number;
  more: number;
}
const told = new WeakMap<FlowContext['runtime'], ReturnType<typeof recentMap<string, Told>>>();

/** `event` and `fields` say whose turn it was. */
export function logTurnFailed(
  { runtime }: Pick<FlowContext, 'runtime'>,
  event: string,
  error: unknown,
  fields: { readonly service?: string } = {},
): void {
  const known = told.get(runtime) ?? recentMap<string, Told>(rememberedMax);
  told.set(runtime, known);
  const why = error instanceof Error ? error.message : String(error);
  // What is said of the database holds of every loop.
  const isDatabase = error instanceof Fault && error.kind === 'unavailable';
  const key = isDatabase ? why : `${event} ${fields.service ?? ''} ${why}`;
  const atMs = runtime.now().getTime();
  const last = known.get(key);
  // A clock that was set back keeps nothing quiet.
  if (last !== undefined && atMs >= last.atMs && atMs - last.atMs < quietMs) {
    last.more += 1;
    return;
  }
  known.set(key, { atMs, more: 0 });
  const more = last?.more ?? 0;
  runtime.log.warn({ err: error, ...fields, ...(more > 0 && { more }) }, event);
}
