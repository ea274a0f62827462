// Deliveries that are larger than most, read in a thread of their own: its heap is bounded, the event loop does not stand
// still meanwhile, and what it took is given back when it ends. One at a time in a daemon. What is recorded is what a small
// delivery of the same words would be.

import type { Worker } from 'node:worker_threads';
import { startThread } from '../../base/thread.ts';
import { Fault } from '../../domain/fault.ts';
import { type FlowContext, ingestOf } from '../context.ts';
import type { DeliverySource, Envelope, EventDelivery, Finished, ReadEvent, ReadDelivery } from './reading.ts';

/** Bytes of a body; a smaller one is parsed faster than a thread starts. */
export const largeFrom = 1_048_576;

/** A body of more values costs more to read than its bytes say. */
export const largeBounds = { levels: 64, values: 500_000 } as const;

const limits = { heapMb: 192, youngHeapMb: 8, stackMb: 4, answerMs: 20_000 } as const;

export type LargeRequest =
  | {
      readonly kind: 'read';
      readonly raw: Uint8Array<ArrayBuffer>;
      readonly bounds: typeof largeBounds;
      readonly asked: DeliverySource;
    }
  | { readonly kind: 'finish'; readonly known: ReadonlyMap<string, string> };

export type LargeResult =
  | { readonly kind: 'refused'; readonly why: string }
  | {
      readonly kind: 'said';
      readonly envelope: Envelope;
      readonly delivery: EventDelivery | { readonly kind: 'ignored' | 'malformed'; readonly reason: string };
    }
  | { readonly kind: 'finished'; readonly events: readonly ReadEvent[]; readonly raw: Uint8Array<ArrayBuffer> };

const refuse = (why: string): Fault => new Fault('invalid', 'invalid-body', `The body ${why}.`);

/**
 * Reads a delivery whose sender is proven, and hands what it says to `take`; the bytes of `raw` are the thread's from here
 * on, and come back with what is finished. Throws Fault `invalid` for a body that is none, and `unavailable` where too
 * many large ones wait.
 */
export async function readLarge<T>(
  ctx: FlowContext,
  { raw, projectId }: { readonly raw: Buffer; readonly projectId: string },
  asked: DeliverySource,
  take: (said: ReadDelivery) => Promise<T>,
): Promise<T> {
  const leave = await ingestOf(ctx).largeTurn(projectId);
  const thread = new Thread();
  try {
    const answer = await thread.ask({ kind: 'read', raw: ownBytes(raw), bounds: largeBounds, asked });
    if (answer.kind === 'refused') throw refuse(answer.why);
    if (answer.kind !== 'said') throw new Error('a thread answered what it was not asked');
    const { envelope, delivery } = answer;
    if (delivery.kind !== 'event') return await take({ ...envelope, delivery });
    return await take({
      ...envelope,
      delivery: { ...delivery, isLarge: true, finish: once((known) => thread.finish(known)) },
    });
  } finally {
    await thread.end();
    leave();
  }
}

/** Bytes that are all of their buffer, so that they can be handed over. */
function ownBytes(raw: Buffer): Uint8Array<ArrayBuffer> {
  const isWhole = raw.byteOffset === 0 && raw.buffer.byteLength === raw.length && raw.buffer instanceof ArrayBuffer;
  return isWhole ? new Uint8Array(raw.buffer as ArrayBuffer) : new Uint8Array(raw);
}

/** A transaction may run its work again: then the same is asked for, unless another delivery told something meanwhile. */
function once(finish: (known: ReadonlyMap<string, string>) => Promise<Finished>) {
  let before: { readonly known: string; readonly finished: Promise<Finished> } | undefined;
  return (given: ReadonlyMap<string, string>): Promise<Finished> => {
    const known = JSON.stringify([...given]);
    before ??= { known, finished: finish(given) };
    if (before.known === known) return before.finished;
    throw new Fault('unavailable', 'overtaken', 'Another delivery came first; send this one again.', {
      retryAfterSeconds: 1,
    });
  };
}

/** Why a thread did not answer. */
function failure(error: Error & { readonly code?: string }): Error {
  return error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? refuse('takes too much memory to read') : error;
}

class Thread {
  readonly #worker: Worker;
  #asked: PromiseWithResolvers<LargeResult> | undefined;

  constructor() {
    this.#worker = startThread(new URL('./large-worker.ts', import.meta.url), {
      resourceLimits: {
        maxOldGenerationSizeMb: limits.heapMb,
        maxYoungGenerationSizeMb: limits.youngHeapMb,
        stackSizeMb: limits.stackMb,
      },
      // It reads nothing but what it is given; what the daemon's environment holds is not for this thread.
      env: {},
      name: 'svc-large-delivery',
    });
    this.#worker.on('message', (answer: LargeResult) => this.#asked?.resolve(answer));
    this.#worker.on('error', (error: Error) => this.#asked?.reject(failure(error)));
    this.#worker.on('exit', (code) => this.#asked?.reject(new Error(`the reading thread exited with ${code}`)));
  }

  async ask(order: LargeRequest): Promise<LargeResult> {
    const asked = Promise.withResolvers<LargeResult>();
    this.#asked = asked;
    const timer = setTimeout(() => asked.reject(refuse('takes too long to read')), limits.answerMs);
    try {
      this.#worker.postMessage(order, order.kind === 'read' ? [order.raw.buffer] : []);
      return await asked.promise;
    } finally {
      clearTimeout(timer);
      this.#asked = undefined;
    }
  }

  async finish(known: ReadonlyMap<string, string>): Promise<Finished> {
    const answer = await this.ask({ kind: 'finish', known });
    if (answer.kind !== 'finished') throw new Error('a thread answered what it was not asked');
    // What it took is given back before anything is written.
    await this.end();
    const [event, ...derived] = answer.events as [ReadEvent, ...ReadEvent[]];
    return { event, derived, raw: Buffer.from(answer.raw.buffer) };
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }
}
