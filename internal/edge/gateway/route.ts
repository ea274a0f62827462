// A session's way to its model, and what all of them share.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { sha256 } from '../../base/hash.ts';
import { within } from '../../base/waits.ts';
import type { ModelUpstream } from '../../adapters/providers/model/model.ts';
import type { Metrics } from '../../base/metrics/metrics.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ModelCallEnd, ModelEvent, ModelRouteRequest } from '../../flows/ports.ts';
import type { MoneyPorts } from '../../flows/sessions/sessions.ts';
import type { ModelProvider } from '../../domain/spec.ts';
import type { BodyRoom } from './body-room.ts';

export interface Limits {
  readonly bodyMaxBytes: number;
  /** Calls of one session in flight. */
  readonly callsMax: number;
  /** One call from its first byte in to its last byte out. Below the hour after which the ledger takes it for lost. */
  readonly callMaxMs: number;
  readonly answerMaxBytes: number;
  /** Bodies of all calls whose provider has not answered. */
  readonly heldMaxBytes: number;
}
export const limits: Limits = {
  bodyMaxBytes: 32 * 1_024 * 1_024,
  callsMax: 16,
  callMaxMs: 45 * 60_000,
  answerMaxBytes: 256 * 1_024 * 1_024,
  heldMaxBytes: 256 * 1_024 * 1_024,
};

/** A little less than what a call waits for a database that does not answer. */
const enteredMs = 4_000;

export interface Deps {
  readonly upstream: ModelUpstream;
  readonly money: Pick<MoneyPorts, 'authorize' | 'settle'>;
  readonly runtime: Runtime;
  readonly limits: Limits;
  readonly bodies: BodyRoom;
  readonly metrics: Metrics;
}

/** One request of a harness. */
export interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly provider: ModelProvider | undefined;
  /** Below the provider's part of the address. */
  readonly path: string;
  readonly query: string;
  /** Of the conversation: calls beside it, such as for a title, offer none. */
  readonly offersTools: boolean;
  /** What it was sent with is needed no more. */
  readonly answered?: () => void;
  /** Aborted when the harness goes away, the route is closed or the call takes too long. */
  readonly signal: AbortSignal;
}

/** What a route is found by: a token has 256 random bits, so that looking its hash up tells nothing of it. */
export const routeId = (token: string): string => sha256(token);

export class SessionRoute {
  readonly id: string;
  readonly request: ModelRouteRequest;
  last: ModelCallEnd | undefined;
  #offersTools = false;
  /** Set by whoever opened it. */
  close: () => Promise<void> = () => this.end();
  readonly #active = new Set<AbortController>();
  readonly #work = new Set<Promise<void>>();
  readonly #entering = new Set<Promise<unknown>>();
  #ended = false;

  constructor(token: string, request: ModelRouteRequest) {
    this.id = routeId(token);
    this.request = request;
  }

  get inFlight(): number {
    return this.#active.size;
  }

  /** A controller for one call, aborted with the route; `done` takes it off again. */
  begin(): { readonly controller: AbortController; done(): void } {
    const controller = new AbortController();
    if (this.#ended) controller.abort();
    this.#active.add(controller);
    return { controller, done: () => void this.#active.delete(controller) };
  }

  /** Work that `settled` waits for; it never rejects. */
  track(work: Promise<void>): void {
    this.#work.add(work);
    void work.finally(() => this.#work.delete(work));
  }

  /** What answered calls have cost is on its way to the ledger; the next call is held against it. */
  enter<T>(entering: Promise<T>): Promise<T> {
    this.#entering.add(entering);
    void Promise.allSettled([entering]).then(() => this.#entering.delete(entering));
    return entering;
  }

  /** Resolves when it is there, or could not be entered, or takes so long that the database is away: then asking says so. */
  async entered(): Promise<void> {
    if (this.#entering.size === 0) return;
    await within(Promise.allSettled(this.#entering), enteredMs);
  }

  /** A call begins. */
  begun({ offersTools }: Call): void {
    this.#offersTools ||= offersTools;
  }

  emit(event: ModelEvent): void {
    this.request.onEvent?.(event);
  }

  /** A call has ended by itself. What a harness asks beside its conversation is not the last word on it. */
  ended({ offersTools }: Call, end: ModelCallEnd): void {
    if (offersTools || !this.#offersTools) this.last = end;
    this.emit({ kind: 'ended', end });
  }

  async settled(): Promise<void> {
    await Promise.all(this.#work);
  }

  async end(): Promise<void> {
    this.#ended = true;
    for (const controller of this.#active) controller.abort();
    await this.settled();
  }
}
