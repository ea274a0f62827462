// Work that may end the process (docs/reference/http-api.md#errors): what is taken in hand is noted before anything is made of it. What
// was in hand at two unclean ends in a row is tried next with nothing beside it in this daemon; a third end parks it.
// Whoever takes work asks here how to go on; what parking means is the owner's of the work.

import {
  clearSuspects,
  dropInHand,
  inHandNote,
  noteInHand,
  parkedSuspect,
  uncleanEnds,
  type OutboundKind,
  type WorkKind,
} from '../adapters/store/operations/in-hand.ts';
import { failpoint } from '../base/failpoint.ts';
import { unlessAborted, within } from '../base/waits.ts';
import type { FlowContext } from './context.ts';
import { withRetry } from './with-retry.ts';
import { type Flight, isLanding, takeOff } from './in-flight.ts';
import { logTurnFailed } from './turn-failed.ts';

/** The reason of what is parked. */
export const endedTheProcess = 'ended-the-process';
/** Unclean ends in a row at which something is tried alone, and at which it is parked. */
export const aloneAtEnds = 2;
export const parkedAtEnds = 3;

/** How long others wait for what is tried alone, and it for them: what ends a process does so soon. */
const exclusiveMs = 10_000;

/** How long what is tried alone waits for another that is: of two at once nobody knows which of them ended the process. */
const turnMs = 60_000;

/** Lets work of a daemon run side by side, and one piece of it alone. Exported for its test. */
export class WorkGate {
  #running = 0;
  #closed: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;
  /** Settles with the one that is tried alone, however long after the others were let in again. */
  #last: Promise<void> = Promise.resolve();
  readonly #exclusiveMs: number;
  readonly #turnMs: number;
  #alone = 0;

  constructor(waitsMs = exclusiveMs, waitsForTurnMs = turnMs) {
    this.#exclusiveMs = waitsMs;
    this.#turnMs = waitsForTurnMs;
  }

  /** Whether something is tried alone, or waits for that: whoever comes now waits for it. */
  get isTaken(): boolean {
    return this.#alone > 0;
  }

  /** Resolves when work may begin beside other work; the answer ends it. Throws the signal's reason where that comes first. */
  async enter(signal?: AbortSignal): Promise<() => void> {
    while (this.#closed !== undefined) await unlessGivenUp(this.#closed, signal);
    this.#running += 1;
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#running -= 1;
      if (this.#running === 0) this.#onEmpty?.();
    };
  }

  /**
   * Does something with nothing beside it; work that is not alone waits no longer than `exclusiveMs` for it, and it for that.
   * Throws the signal's reason where that comes before it begins.
   */
  async alone<T>(act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#last;
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    this.#last = over;
    this.#alone += 1;
    let isItsTurn = false;
    try {
      await unlessGivenUp(within(before, this.#turnMs), signal);
      isItsTurn = true;
      return await this.#act(act, signal);
    } finally {
      this.#alone -= 1;
      // Whoever comes behind one that gave up waits for the one before it.
      if (isItsTurn) end();
      else void before.then(end);
    }
  }

  async #act<T>(act: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    while (this.#closed !== undefined) await unlessGivenUp(this.#closed, signal);
    const { promise, resolve: open } = Promise.withResolvers<void>();
    this.#closed = promise;
    const reopen = (): void => {
      if (this.#closed === promise) this.#closed = undefined;
      open();
    };
    try {
      const empty = new Promise<void>((resolve) => (this.#onEmpty = resolve));
      try {
        if (this.#running > 0) await unlessGivenUp(within(empty, this.#exclusiveMs), signal);
      } finally {
        // Here, and not once it is over: by then it may be the next one that waits.
        this.#onEmpty = undefined;
      }
      const acting = act();
      await within(acting.then(nothing, nothing), this.#exclusiveMs);
      reopen();
      return await acting;
    } finally {
      reopen();
    }
  }
}

const unlessGivenUp = <T>(wait: Promise<T>, signal: AbortSignal | undefined): Promise<T> =>
  signal === undefined ? wait : unlessAborted(wait, signal);

const nothing = (): void => undefined;

/** One gate per daemon, known by its database. */
const gates = new WeakMap<object, WorkGate>();

/** The gate of this daemon, the same for every caller. */
export function gateOf({ db }: FlowContext): WorkGate {
  let gate = gates.get(db.root);
  if (gate === undefined) {
    gate = new WorkGate();
    gates.set(db.root, gate);
  }
  return gate;
}

/** Does something with nothing beside it, but where the signal comes before it begins: it is whoever's who comes next. */
export async function aloneUnlessOver(ctx: FlowContext, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
  await gateOf(ctx)
    .alone(act, signal)
    .catch((error: unknown) => {
      if (error !== signal.reason) throw error;
    });
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

/** The same from within a transaction. */
export const takeInHandWithin = (
  ctx: FlowContext,
  { alone = false, ...work }: Taken,
): Promise<ReadonlyMap<string, number>> => noteInHand(ctx.db.notes, { daemonId: ctx.daemonId, alone, ...work });

/**
 * What notes that is expected to be taken in hand next, if anything is: `ahead` of the transaction that takes it (TxOptions).
 * `take` is given its rows and notes what it really is, where that is something else; `letGo` takes the note away where
 * nothing was taken.
 */
export function takeAhead(ctx: FlowContext, expected: Taken) {
  const { lane, kind, ids: expectedIds, alone = false } = expected;
  const isNoted = expectedIds.length > 0;
  return {
    ahead: isNoted ? inHandNote({ daemonId: ctx.daemonId, lane, kind, ids: expectedIds, alone }) : undefined,
    take: async (ids: readonly string[], noted: readonly unknown[]): Promise<ReadonlyMap<string, number>> => {
      const isSame = isNoted && ids.length === expectedIds.length && ids.every((id) => expectedIds.includes(id));
      return isSame ? uncleanEnds(noted) : takeInHandWithin(ctx, { ...expected, ids });
    },
    letGo: async (): Promise<void> => {
      if (isNoted) await putDown(ctx, lane);
    },
  };
}

export const putDown = (ctx: FlowContext, lane: string): Promise<void> => dropInHand(ctx.db, ctx.daemonId, lane);

/** Writes how a telling ended: the same however often it is done. */
export type Note = () => Promise<void>;

/** Of tellings that a loop has claimed: how each is told, and what becomes of one that is not told any more. */
export interface InHandWork<T> {
  readonly kind: OutboundKind;
  readonly rows: readonly T[];
  /** How long nobody else claims them. */
  readonly leaseSeconds: number;
  /** What is in hand, and stays the same until there is something else to tell. */
  idOf(row: T): string;
  /** What a test names a row by, and a log. */
  nameOf(row: T): string;
  /** The id of its project, whose next ones wait for it where it takes its time. */
  projectOf(row: T): string;
  /** What it gives notes how it ended, and is called again while the database is away, as long as the claim stands. */
  tell(row: T): Promise<Note | void>;
  /** Ends it with the reason `endedTheProcess`, so that no loop takes it again by itself. */
  park(row: T): Promise<void>;
}

/** How long a turn waits for what it tells; what takes longer goes on behind it (in-flight.ts). */
const patienceMs = 1_000;
/** Nothing is begun in the last of a claim: the next may be somebody else's. */
const claimEndMs = 5_000;
let batches = 0;

/** Rows by when their claim is over. */
type Claims<T> = Map<T, number>;
/** Claimed in a turn that could not note them: they are told in the next, for whose claim nobody else can have them before. */
const unnoted = new WeakMap<object, Map<OutboundKind, Claims<unknown>>>();

function keepClaims<T>({ db }: FlowContext, kind: OutboundKind, claims: Claims<T>): void {
  const byKind = unnoted.get(db.root) ?? new Map<OutboundKind, Claims<unknown>>();
  unnoted.set(db.root, byKind);
  byKind.set(kind, new Map([...(byKind.get(kind) ?? []), ...claims]));
}

/** What is claimed now, and what was before and could not be noted, as far as that still stands. */
function claimsOf<T>({ db }: FlowContext, { kind, rows, leaseSeconds }: InHandWork<T>): Claims<T> {
  const now = performance.now();
  const kept = (unnoted.get(db.root)?.get(kind) ?? new Map()) as Claims<T>;
  unnoted.get(db.root)?.delete(kind);
  const until = now + leaseSeconds * 1_000 - claimEndMs;
  return new Map([...[...kept].filter((one) => one[1] > now), ...rows.map((row) => [row, until] as const)]);
}

/**
 * Tells each as its past allows: side by side, or, what was in hand at two unclean ends in a row, after the others and
 * with nothing beside it, or not at all after a third. Two statements more than the tellings themselves, whatever their
 * number, and none where there is nothing to tell. Throws what one of them throws where all end in a moment.
 */
export async function processInHand<T>(ctx: FlowContext, of: InHandWork<T>): Promise<void> {
  const { kind, idOf, nameOf, projectOf } = of;
  const claims = claimsOf(ctx, of);
  if (claims.size === 0) return;
  const rows = [...claims.keys()];
  // Of its own: the batch before may be in flight still.
  const lane = `${kind}:told:${(batches += 1)}`;
  const ends = await takeInHand(ctx, { kind, lane, ids: rows.map(idOf) }).catch((error: unknown) => {
    keepClaims(ctx, kind, claims);
    throw error;
  });
  const endsOf = (row: T): number => ends.get(idOf(row)) ?? 0;
  const tell = async (row: T): Promise<void> => {
    failpoint(`${kind}.tell`, nameOf(row));
    const note = await of.tell(row);
    // Unnoted, nobody tells it before its claim is over.
    if (note !== undefined) await withRetry(note, { until: claims.get(row) ?? 0, isOver: () => isLanding(ctx) });
    if (endsOf(row) > 0) await clearSuspects(ctx.db, kind, [idOf(row)]);
  };
  const pending = new Map(rows.filter((row) => endsOf(row) < aloneAtEnds).map((row) => [row, projectOf(row)]));
  const besideOthers = async (): Promise<void> => {
    try {
      const leave = await gateOf(ctx).enter();
      const tellings = [...pending.keys()].map((row) => tell(row).finally(() => pending.delete(row)));
      const ended = await Promise.allSettled(tellings);
      leave();
      throwFirst(ended);
    } finally {
      await putDown(ctx, lane);
    }
  };
  try {
    await begun(ctx, kind, { pending, over: besideOthers() });
  } finally {
    const suspects = rows.filter((row) => endsOf(row) >= aloneAtEnds);
    if (suspects.length > 0) await tryEach(ctx, of, { claims, suspects, endsOf, tell, lane: `${lane}:alone` });
  }
}

/** Waits a moment for what goes on behind its turn otherwise; how it fails then is told in the log. */
async function begun(ctx: FlowContext, kind: OutboundKind, flight: Flight): Promise<void> {
  const { over } = flight;
  takeOff(ctx, kind, flight);
  let isLate = false;
  over.catch((error: unknown) => {
    if (isLate) logTurnFailed(ctx, 'telling.failed', error, { service: kind });
  });
  await within(over, patienceMs);
  isLate = true;
}

interface Trials<T> {
  readonly claims: Claims<T>;
  readonly suspects: readonly T[];
  readonly endsOf: (row: T) => number;
  readonly tell: (row: T) => Promise<void>;
  /** Of their own: the others may be in flight still, and put their own note down. */
  readonly lane: string;
}

/**
 * Tries one after the other with nothing beside it, or parks it. A trial may take as long as a stranger's server likes:
 * those behind it whose claim is over by then are left to whoever claims them next.
 */
async function tryEach<T>(ctx: FlowContext, of: InHandWork<T>, trials: Trials<T>): Promise<void> {
  const { kind, idOf, nameOf, projectOf } = of;
  const { claims, suspects, endsOf, tell, lane } = trials;
  const pending = new Map<T, string>();
  const isOver = (row: T): boolean => isLanding(ctx) || performance.now() > (claims.get(row) ?? 0);
  const tryAlone = (row: T): Promise<void> =>
    gateOf(ctx).alone(async () => {
      if (isOver(row)) return;
      ctx.runtime.log.warn({ kind, name: nameOf(row) }, 'telling.tried_alone');
      pending.set(row, projectOf(row));
      try {
        await takeInHand(ctx, { kind, lane, ids: [idOf(row)], alone: true });
        await tell(row);
      } finally {
        pending.delete(row);
        await putDown(ctx, lane);
      }
    });
  const each = async (): Promise<void> => {
    const ended: PromiseSettledResult<void>[] = [];
    for (const row of suspects) {
      if (isOver(row)) continue;
      ended.push(...(await Promise.allSettled([endsOf(row) < parkedAtEnds ? tryAlone(row) : park(ctx, of, row)])));
    }
    throwFirst(ended);
  };
  await begun(ctx, kind, { pending, over: each() });
}

async function park<T>(ctx: FlowContext, { kind, idOf, nameOf, park }: InHandWork<T>, row: T): Promise<void> {
  // Known as parked first: a daemon that ends in between, perhaps by the next one, leaves a row that is taken, and parked, again.
  await parkedSuspect(ctx.db, kind, idOf(row));
  ctx.runtime.log.error({ kind, name: nameOf(row) }, 'telling.parked');
  await park(row);
}

function throwFirst(ended: readonly PromiseSettledResult<unknown>[]): void {
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
}
