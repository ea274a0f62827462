// Work that may end the process (docs/reference/http-api.md#errors): what is taken in hand is noted before anything is made of it. What
// was in hand at two unclean ends in a row is tried next with nothing beside it in this daemon; a third end parks it.
// Whoever takes work asks here how to go on; what parking means is the owner's of the work.

import { setTimeout as sleep } from 'node:timers/promises';
import { dropInHand, noteInHand, type WorkKind } from '../adapters/store/operations/in-hand.ts';
import type { Database } from '../adapters/store/store.ts';
import type { FlowContext } from './context.ts';

/** The reason of what is parked. */
export const endedTheProcess = 'ended-the-process';
/** Unclean ends in a row at which something is tried alone, and at which it is parked. */
export const aloneAt = 2;
export const parkedAt = 3;

/** How long others wait for what is tried alone, and it for them: what ends a process does so soon. */
const exclusiveMs = 10_000;

/** Lets work of a daemon run side by side, and one piece of it alone. */
class WorkGate {
  #running = 0;
  #closed: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  /** Resolves when work may begin beside other work; the answer ends it. */
  async enter(): Promise<() => void> {
    while (this.#closed !== undefined) await this.#closed;
    this.#running += 1;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#running -= 1;
      if (this.#running === 0) this.#onEmpty?.();
    };
  }

  /** Does something with nothing beside it; nobody waits longer than `exclusiveMs` for anybody. */
  async alone<T>(act: () => Promise<T>): Promise<T> {
    while (this.#closed !== undefined) await this.#closed;
    const { promise, resolve: open } = Promise.withResolvers<void>();
    this.#closed = promise;
    const reopen = (): void => {
      if (this.#closed === promise) this.#closed = undefined;
      open();
    };
    try {
      const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve));
      if (this.#running > 0) await within(empty);
      const acting = act();
      await within(acting.then(nothing, nothing));
      reopen();
      return await acting;
    } finally {
      this.#onEmpty = undefined;
      reopen();
    }
  }
}

const nothing = (): void => undefined;

async function within(event: Promise<void>): Promise<void> {
  const waited = new AbortController();
  await Promise.race([event, sleep(exclusiveMs, undefined, { signal: waited.signal }).catch(nothing)]);
  waited.abort();
}

/** One gate per daemon, known by its database. */
const gates = new WeakMap<Database, WorkGate>();

export function gateOf({ db }: FlowContext): WorkGate {
  let gate = gates.get(db);
  if (gate === undefined) {
    gate = new WorkGate();
    gates.set(db, gate);
  }
  return gate;
}

export interface Taken {
  readonly kind: WorkKind;
  readonly lane: string;
  readonly ids: readonly string[];
  readonly alone?: boolean;
}

/** Notes what is taken in hand; id → unclean ends in a row at which it was. */
export const takeInHand = (ctx: FlowContext, { alone = false, ...work }: Taken): Promise<ReadonlyMap<string, number>> =>
  noteInHand(ctx.db, { daemonId: ctx.daemonId, alone, ...work });

export const putDown = (ctx: FlowContext, lane: string): Promise<void> => dropInHand(ctx.db, ctx.daemonId, lane);
