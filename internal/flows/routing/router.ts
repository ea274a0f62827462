// Routes the projects that it is woken for, each by one run at a time: a wake-up that comes while a project is being
// routed has it look again. A batch that cannot be written is halved until the event that is to blame stands alone; that
// one is failed with its reason, and the others go on. What is nobody's fault is tried again.

import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '../../adapters/store/store.ts';
import { settleEvents } from '../../adapters/store/events/event-routes.ts';
import { beginRouting } from '../../adapters/store/routing/routing.ts';
import { failpoint } from '../../base/failpoint.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { type BatchResult, type Routed, routeBatch } from './batch.ts';
import { orderedIds } from '../../base/ids.ts';
import { TriggerCache } from './triggers.ts';

const limits = {
  /** Events in one transaction: a small one is soon over, a large one costs less an event, which counts where much waits. */
  batch: 256,
  backlog: 512,
  /** So many full batches, one after the other, are a backlog. */
  fullBatches: 8,
  /** Projects at a time: each takes a connection. */
  projects: 4,
  /** Tries of a run before it is left to the next wake-up. */
  attempts: 6,
  pauseMs: 50,
  /** Times that an event alone must fail before it is its own fault. */
  strikes: 2,
} as const;

/** In seconds: fine where a healthy router is. */
const lagBuckets = [
  0.001, 0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5,
  10, 30,
];

export class Router {
  readonly #ctx: FlowContext;
  readonly #cache = new TriggerCache();
  readonly #nextId: () => string;
  readonly #running = new Map<string, Promise<void>>();
  /** Woken while they run. */
  readonly #again = new Set<string>();
  /** Woken while as many others run as may. */
  readonly #waiting = new Set<string>();
  #stopped = false;

  constructor(ctx: FlowContext) {
    this.#ctx = ctx;
    this.#nextId = orderedIds(ctx.runtime);
  }

  /** Has a project looked at from now on; every event committed before the call is seen. */
  wake(projectId: string): void {
    if (this.#stopped) return;
    if (this.#running.has(projectId)) this.#again.add(projectId);
    else if (this.#running.size >= limits.projects) this.#waiting.add(projectId);
    else this.#start(projectId);
  }

  /** Takes no more wake-ups; resolves when what is under way is committed. Safe twice. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.clear();
    await Promise.all(this.#running.values());
  }

  #start(projectId: string): void {
    this.#waiting.delete(projectId);
    const run = this.#run(projectId)
      .catch((error: unknown) => {
        // The sweep wakes it again.
        this.#ctx.runtime.log.warn({ err: error, projectId }, 'event.routing_put_off');
      })
      .finally(() => {
        this.#running.delete(projectId);
        if (this.#again.delete(projectId)) this.wake(projectId);
        const [next] = this.#waiting;
        if (next !== undefined && this.#running.size < limits.projects) this.#start(next);
      });
    this.#running.set(projectId, run);
  }

  async #run(projectId: string): Promise<void> {
    let limit: number = limits.batch;
    let attempts = 0;
    let strikes = 0;
    let full = 0;
    while (!this.#stopped) {
      this.#again.delete(projectId);
      let seen: readonly string[] = [];
      try {
        const result = await this.#route(projectId, limit, (ids) => (seen = ids));
        this.#tell(projectId, result.routed);
        if (!result.more && !this.#again.has(projectId)) return;
        // After a turn of the loop, so that whoever waits for this process is not kept waiting by a backlog.
        await new Promise((resolve) => setImmediate(resolve));
        full = result.routed.length >= limit ? full + 1 : 0;
        limit = Math.min(limit * 2, full < limits.fullBatches ? limits.batch : limits.backlog);
        attempts = 0;
        strikes = 0;
      } catch (error) {
        const [culprit] = seen;
        if (culprit === undefined || isPassing(error)) {
          attempts += 1;
          if (attempts >= limits.attempts) throw error;
          await sleep(limits.pauseMs * attempts);
        } else if (seen.length > 1) limit = Math.ceil(seen.length / 2);
        else if (++strikes >= limits.strikes) {
          await this.#fail(projectId, culprit, error);
          strikes = 0;
        }
      }
    }
  }

  async #route(projectId: string, limit: number, seen: (ids: readonly string[]) => void): Promise<BatchResult> {
    const { db, runtime } = this.#ctx;
    const batch = { projectId, limit, cache: this.#cache, nextId: this.#nextId, now: runtime.now(), seen };
    const result = await db.tx((sql) => routeBatch(this.#ctx, sql, batch));
    failpoint('route.committed');
    return result;
  }

  async #fail(projectId: string, eventId: string, error: unknown): Promise<void> {
    const { db, runtime } = this.#ctx;
    const reason = reasonOf(error);
    await db.tx(async (sql) => {
      const { tx, waiting } = await beginRouting(sql, projectId, 1);
      if (waiting[0]?.id !== eventId) return;
      await settleEvents(tx, [{ eventId, status: 'failed', severity: null, attributions: null, reason }]);
    });
    runtime.log.error({ err: error, projectId, eventId }, 'event.routing_failed');
    this.#count('failed', 1);
  }

  #count(status: Routed['status'], by: number): void {
    this.#ctx.metrics
      .counter('svc_events_routed_total', 'Events whose routing has ended, by how.', ['status'])
      .inc({ status }, by);
  }

  #tell(projectId: string, routed: readonly Routed[]): void {
    if (routed.length === 0) return;
    const { metrics, runtime } = this.#ctx;
    const lag = metrics.histogram(
      'svc_event_routing_lag_seconds',
      'Time from the receipt of an event to the commit of its routing.',
      [],
      lagBuckets,
    );
    const now = runtime.now().getTime();
    const counts = { routed: 0, unmatched: 0, failed: 0 };
    for (const one of routed) {
      counts[one.status] += 1;
      lag.observe(Math.max(0, now - one.receivedMs) / 1_000);
    }
    for (const status of ['routed', 'unmatched', 'failed'] as const) {
      if (counts[status] > 0) this.#count(status, counts[status]);
    }
    runtime.log.debug({ projectId, ...counts }, 'event.routed');
  }
}

/** Whether an error says nothing of the events: the database is away, busy, or had two transactions in each other's way. */
function isPassing(error: unknown): boolean {
  if (error instanceof Fault) return error.kind === 'unavailable';
  return /^(40|08|53|55P03|57)/.test(errorCode(error) ?? '');
}

/** Why, for people: the database's code and text; never a payload, which it does not quote in its message. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : 'unknown';
  const code = errorCode(error);
  return `${code === undefined ? '' : `${code}: `}${text}`.slice(0, 500);
}
