// Records events in batches that form by themselves: alone on the line, an event is written at once; while commits are
// pending, those that arrive gather and go together. Answers only after the commit. Where more waits than goes into a batch,
// projects take turns; what does not fit at all is turned away, and that of whoever has the most.

import { framedMin, frameOf } from '../../adapters/store/events/body-frames.ts';
import type { Database } from '../../adapters/store/store.ts';
import { databaseUnavailable, errorCode, isRepeatable } from '../../adapters/store/store.ts';
import {
  type GuardedEvent,
  type RecordedEvent,
  recordGuarded,
  type SecretGuard,
} from '../../adapters/store/events/events.ts';
import type { NewEvent } from '../../adapters/store/events/new-event.ts';
import { Fault } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';

const limits = {
  /** Statements under way; a second one fills the time in which the first waits for the disk. */
  inFlight: 2,
  /** With so many waiting the first starts at once: the database works while the rest of a burst is still being read. */
  firstFrom: 32,
  /** A second one starts only for so many: statements cost by themselves. */
  secondFrom: 64,
  batchRows: 256,
  batchBytes: 4 * 1_048_576,
  queueRows: 10_000,
  queueBytes: 64 * 1_048_576,
  attempts: 4,
  /** For the whole of it, also of what waits in the queue: then the sender hears that the database does not answer. */
  answerMs: 5_000,
  lookMs: 250,
} as const;

interface Waiting {
  readonly since: number;
  readonly event: NewEvent;
  readonly guard: SecretGuard | undefined;
  readonly bytes: number;
  readonly done: (recorded: RecordedEvent | undefined) => void;
  readonly failed: (error: unknown) => void;
}

interface WriterOptions {
  /** Whether routing is asked for with what is recorded. */
  needsJob(): boolean;
  /** Hears once per batch and project, after the commit. */
  recorded(projectId: string, ids: readonly string[]): void;
  /** Hears of one project's events that are on their way to the database with nothing else beside them. */
  recording(projectId: string, ids: readonly string[]): void;
}

export class EventWriter {
  readonly #db: Database;
  readonly #options: WriterOptions;
  #queue: Waiting[] = [];
  #queuedBytes = 0;
  /** What of the queue is each project's. */
  readonly #shares = new Map<string, { readonly rows: number; readonly bytes: number }>();
  /** Under way, each whole until the last of it is answered. No set, which would hold what has left: see `Roster`. */
  #writing: (readonly Waiting[])[] = [];
  #looking: NodeJS.Timeout | undefined;
  #inFlight = 0;
  #scheduled = false;
  #idle: (() => void)[] = [];

  constructor(db: Database, options: WriterOptions) {
    this.#db = db;
    this.#options = options;
  }

  /** True when a further event of this project would be turned away. */
  full(projectId: string): boolean {
    return this.#isFull() && this.#mostOf() === projectId;
  }

  #isFull(): boolean {
    return this.#queue.length >= limits.queueRows || this.#queuedBytes >= limits.queueBytes;
  }

  /** The project that most waits of. */
  #mostOf(): string | undefined {
    let [most, share]: [string | undefined, number] = [undefined, 0];
    for (const [projectId, { rows, bytes }] of this.#shares) {
      const its = rows / limits.queueRows + bytes / limits.queueBytes;
      if (its > share) [most, share] = [projectId, its];
    }
    return most;
  }

  /** `sign`: 1 for one that comes into the queue, -1 for one that leaves it. */
  #count({ event: { projectId }, bytes }: Waiting, sign: 1 | -1): void {
    const before = this.#shares.get(projectId);
    const rows = (before?.rows ?? 0) + sign;
    this.#queuedBytes += sign * bytes;
    if (rows === 0) this.#shares.delete(projectId);
    else this.#shares.set(projectId, { rows, bytes: (before?.bytes ?? 0) + sign * bytes });
  }

  /** Turns away what came last of the project that most waits of. Throws Fault `unavailable` where that is the one that asks. */
  #makeRoom(projectId: string): void {
    const most = this.#mostOf();
    if (most === projectId) throw overloaded();
    const at = this.#queue.findLastIndex(({ event }) => event.projectId === most);
    const [last] = this.#queue.splice(at, 1);
    if (last === undefined) return;
    this.#count(last, -1);
    last.failed(overloaded());
  }

  /**
   * Records one event; resolves after its commit, to undefined where its guard does not hold. Throws Fault `unavailable`
   * where the queue is full or the database cannot be reached (then the outcome is unknown), Fault `not_found` where its
   * project is gone.
   */
  record(event: NewEvent, guard?: SecretGuard): Promise<RecordedEvent | undefined> {
    while (this.#isFull()) this.#makeRoom(event.projectId);
    const bytes = (event.raw?.length ?? 0) + (event.payload?.length ?? 0);
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        since: performance.now(),
        event,
        guard,
        bytes,
        done: resolve,
        failed: reject,
      };
      this.#looking ??= setInterval(() => this.#look(), limits.lookMs);
      this.#queue.push(waiting);
      this.#count(waiting, 1);
      if (this.#inFlight === 0 && this.#queue.length >= limits.firstFrom) this.#start();
      else this.#schedule();
    });
  }

  /** Resolves when nothing waits and nothing is under way. */
  async stop(): Promise<void> {
    if (this.#queue.length === 0 && this.#inFlight === 0) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Whoever has waited for too long hears so; what is on its way then may still be recorded. */
  #look(): void {
    const before = performance.now() - limits.answerMs;
    const isLate = (one: Waiting): boolean => one.since <= before;
    const queued = this.#queue.filter(isLate);
    if (queued.length > 0) {
      for (const one of queued) this.#count(one, -1);
      this.#queue = this.#queue.filter((one) => !isLate(one));
    }
    // Who has been answered hears nothing of this.
    for (const one of [...this.#writing.flat().filter(isLate), ...queued]) one.failed(databaseUnavailable());
    if (this.#queue.length > 0 || this.#writing.length > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After this turn of the loop: what arrived in the same turn goes together.
    setImmediate(() => {
      this.#scheduled = false;
      this.#start();
    });
  }

  #start(): void {
    while (this.#queue.length > 0 && this.#inFlight < limits.inFlight) {
      if (this.#inFlight > 0 && this.#queue.length < limits.secondFrom) return;
      const batch = this.#take();
      this.#inFlight += 1;
      this.#writing.push(batch);
      const ended = (): void => {
        this.#inFlight -= 1;
        this.#writing = this.#writing.filter((one) => one !== batch);
        if (this.#queue.length > 0) this.#start();
        else if (this.#inFlight === 0) for (const resolve of this.#idle.splice(0)) resolve();
      };
      this.#write(batch).then(ended, ended);
    }
  }

  #take(): Waiting[] {
    const isOnes = this.#shares.size === 1;
    const isAll = this.#queue.length <= limits.batchRows && this.#queuedBytes <= limits.batchBytes;
    const batch: Waiting[] = [];
    let bytes = 0;
    for (const next of isOnes || isAll ? this.#queue : byTurns(this.#queue)) {
      if (batch.length === limits.batchRows || (batch.length > 0 && bytes + next.bytes > limits.batchBytes)) break;
      batch.push(next);
      bytes += next.bytes;
    }
    for (const one of batch) this.#count(one, -1);
    if (isOnes || isAll) this.#queue.splice(0, batch.length);
    else {
      const taken = new Set(batch);
      this.#queue = this.#queue.filter((one) => !taken.has(one));
    }
    return batch;
  }

  /** Never rejects: every member of the batch hears of its own end. */
  async #write(batch: readonly Waiting[]): Promise<void> {
    try {
      const writing = this.#attempt(batch.map(framed));
      const isAhead = this.#inFlight === 1 && this.#tellAhead(batch);
      const recorded = await writing;
      const created = batch.filter((_one, at) => recorded[at]?.created === true).map(({ event }) => event);
      for (const [projectId, events] of Map.groupBy(created, (event) => event.projectId))
        this.#options.recorded(
          projectId,
          events.map(({ id }) => id),
        );
      const answer = (): void => batch.forEach((one, at) => one.done(recorded[at]));
      // Routing asks the database for its work first: that is done while the answers are made.
      if (created.length > 0 && !isAhead) setImmediate(answer);
      else answer();
    } catch (error) {
      if (batch.length === 1 || error instanceof Fault) {
        for (const one of batch) one.failed(asFault(error));
        return;
      }
      // One of them cannot be written: it alone is to hear so.
      for (const one of batch) await this.#write([one]);
    }
  }

  /** Whoever routes asks for its work behind the statement that records it, and waits for it in the database. */
  #tellAhead(batch: readonly Waiting[]): boolean {
    const [first] = batch;
    if (first === undefined || batch.some(({ event }) => event.projectId !== first.event.projectId)) return false;
    this.#options.recording(
      first.event.projectId,
      batch.map(({ event }) => event.id),
    );
    return true;
  }

  async #attempt(batch: readonly GuardedEvent[]): Promise<(RecordedEvent | undefined)[]> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await recordGuarded(this.#db, batch, { routing: this.#options.needsJob() });
      } catch (error) {
        if (attempt === limits.attempts || !isRepeatable(error)) throw error;
      }
    }
  }
}

/** One of each project in turn, first come first; of each in the order of coming, which is that of its routing. */
function* byTurns(queue: readonly Waiting[]): Generator<Waiting> {
  const lines = [...Map.groupBy(queue, ({ event }) => event.projectId).values()];
  for (let round = 0; lines.some(({ length }) => length > round); round += 1) {
    for (const line of lines) {
      const next = line[round];
      if (next !== undefined) yield next;
    }
  }
}

function framed({ event, guard }: Waiting): GuardedEvent {
  const { raw } = event;
  return { event: raw !== null && raw.length >= framedMin ? { ...event, frame: frameOf(raw) } : event, guard };
}

/** Too much waits for the database already. */
export function overloaded(): Fault {
  return new Fault('unavailable', 'overloaded', 'More events arrive than can be recorded; try again.', {
    retryAfterSeconds: 1,
  });
}

function asFault(error: unknown): unknown {
  // The project was deleted while its event waited.
  if (errorCode(error) === '23503') return new Fault('not_found', 'not-found', messagesTable.noEndpoint);
  // The server's own time limit: nothing was written.
  if (errorCode(error) === '57014') return databaseUnavailable();
  return error;
}
