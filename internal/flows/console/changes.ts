// What changes in a project, told to whoever listens: ids alone, each with a number that grows. One look for all listeners
// of this daemon, as soon as something is told and at least twice a second; what it finds new is kept for a while, so that
// a listener who was away for a moment goes on where it was. One who was away for longer, or listened to another daemon,
// hears `reset`: then whatever it shows is read again.

import { setTimeout as sleep } from 'node:timers/promises';
import { type ChangeTopic, latestMax, type Mark, readMarks } from '../../adapters/store/console/changes.ts';
import { reconcileChannel } from '../../adapters/store/repositories/reconciles.ts';
import { sessionChannel } from '../../adapters/store/sessions/session-reads.ts';
import type { FlowContext } from '../context.ts';

/** Between two looks where nothing is told, where something is, and between two at the agents. */
const every = { pollMs: 450, restMs: 200, agentsMs: 3_000 } as const;
/** How long it goes on looking without a listener. */
const lingerMs = 60_000;
/** Changes that are kept for those who come back. */
const keptMax = 5_000;
/** Clocks of daemons and the time from a row's own until its commit, for what is asked for by time. */
const slackMs = 3_000;

export interface ChangeEvent {
  readonly id: string;
  readonly event?: 'reset';
  readonly data: { readonly topic: ChangeTopic; readonly id: string; readonly seq: number } | { readonly seq: number };
}

interface Logged {
  readonly seq: number;
  readonly topic: ChangeTopic;
  readonly id: string;
}

/** What people do with a repository, and what is found wrong with its source, is told with its runs. */
const toldAs = ({ topic }: Mark): ChangeTopic => (topic === 'repositories' ? 'reconciles' : topic);
/** What is not looked at each time. */
const isSlow = ({ topic }: Mark): boolean => topic === 'agents' || topic === 'repositories';
const keyOf = (one: Pick<Mark, 'topic' | 'id'>): string => `${one.topic} ${one.id}`;

class Watch {
  readonly #ctx: FlowContext;
  readonly #projectId: string;
  /** Numbers of another daemon, or of an earlier watch, are not this one's. */
  readonly nonce: string;
  readonly begun: Promise<void>;
  readonly #marks = new Map<string, Mark>();
  #log: Logged[] = [];
  #seq: number;
  /** What came before this number is not known here. */
  #floor: number;
  #listeners = new Set<() => void>();
  #wake: () => void = () => undefined;
  #lastUse = performance.now();
  #agentsAt = 0;
  #isOver = false;

  constructor(ctx: FlowContext, projectId: string, onEnd: () => void) {
    this.#ctx = ctx;
    this.#projectId = projectId;
    // Grows from one watch to the next as well.
    this.#seq = ctx.runtime.now().getTime();
    this.#floor = this.#seq;
    this.nonce = ctx.runtime.uuid().slice(-12);
    this.begun = this.#look(true);
    void this.begun.then(
      () => this.#run().then(onEnd, onEnd),
      () => {
        this.#isOver = true;
        onEnd();
      },
    );
  }

  get isOver(): boolean {
    return this.#isOver;
  }
  get seq(): number {
    return this.#seq;
  }
  get floor(): number {
    return this.#floor;
  }

  /** What has been seen to change after a number. */
  after(seq: number): readonly Logged[] {
    const at = this.#log.findIndex((one) => one.seq > seq);
    return at === -1 ? [] : this.#log.slice(at);
  }

  /** What changed after a time by its own row's word. */
  since(ms: number): Mark[] {
    return [...this.#marks.values()].filter((mark) => mark.atMs >= ms - slackMs).sort((a, b) => a.atMs - b.atMs);
  }

  listen(fn: () => void): () => void {
    this.#listeners.add(fn);
    return () => {
      this.#listeners.delete(fn);
      this.#lastUse = performance.now();
    };
  }

  async #run(): Promise<void> {
    const { db, runtime } = this.#ctx;
    const wake = (): void => this.#wake();
    const [stops, channels] = [[] as (() => Promise<void>)[], [reconcileChannel, sessionChannel]];
    // Where nothing can be told, what there is to see is seen a moment later.
    const hear = async (): Promise<void> => {
      for (const channel of channels.slice(stops.length)) stops.push(await db.listen(channel, wake));
    };
    let hearing: Promise<void> | undefined;
    const hearAll = (): void => {
      if (stops.length === channels.length) return;
      hearing ??= hear()
        .catch((error: unknown) => runtime.log.debug({ err: error }, 'console.not_heard'))
        .finally(() => (hearing = undefined));
    };
    try {
      while (this.#listeners.size > 0 || performance.now() - this.#lastUse < lingerMs) {
        hearAll();
        const awake = new Promise<void>((resolve) => (this.#wake = resolve));
        const unheld = { ref: false };
        await sleep(every.restMs, undefined, unheld);
        await Promise.race([awake, sleep(every.pollMs - every.restMs, undefined, unheld)]);
        try {
          await this.#look(false);
        } catch (error) {
          // A database that does not answer is looked at again; what is missed meanwhile shows at the next look.
          runtime.log.debug({ err: error }, 'console.look_failed');
          if (this.#listeners.size === 0) return;
          await sleep(every.pollMs, undefined, unheld);
        }
      }
    } finally {
      this.#isOver = true;
      for (const fn of this.#listeners) fn();
      await hearing;
      for (const stop of stops) await stop();
    }
  }

  async #look(isFirst: boolean): Promise<void> {
    const known = [...this.#marks.values()];
    const open = (topic: Mark['topic'], isOpen: (mark: Mark) => boolean): string[] =>
      known.filter((one) => one.topic === topic && isOpen(one)).map((one) => one.id);
    const hasRun = this.#log.at(-1)?.topic === 'reconciles';
    const withAgents = isFirst || hasRun || performance.now() - this.#agentsAt > every.agentsMs;
    const marks = await readMarks(this.#ctx.db.looks, this.#projectId, {
      events: open('events', ({ mark }) => mark === 'pending').slice(-latestMax.events),
      sessions: open('sessions', ({ mark }) => !/^(archived|replaced|failed)\b/.test(mark)).slice(-latestMax.sessions),
      withAgents,
    });
    if (withAgents) this.#agentsAt = performance.now();
    const fresh: Mark[] = [];
    const seen = new Set<string>();
    for (const mark of marks) {
      const key = keyOf(mark);
      if (seen.has(key)) continue;
      seen.add(key);
      const before = this.#marks.get(key);
      if (before?.mark === mark.mark) continue;
      fresh.push(mark);
      this.#marks.delete(key);
      this.#marks.set(key, mark);
    }
    this.#forget(seen, withAgents, fresh);
    if (isFirst || fresh.length === 0) return;
    this.#tell(fresh.sort((a, b) => a.atMs - b.atMs));
  }

  /** Drops what is no longer among what is looked at; an agent, repository, connection or session that is gone has changed. */
  #forget(seen: ReadonlySet<string>, withAgents: boolean, fresh: Mark[]): void {
    for (const [key, mark] of this.#marks) {
      if (seen.has(key) || (isSlow(mark) && !withAgents)) continue;
      this.#marks.delete(key);
      if (isSlow(mark) || mark.topic === 'connections') fresh.push(mark);
    }
  }

  #tell(fresh: readonly Mark[]): void {
    const events = fresh.filter(({ topic }) => topic === 'events').length;
    for (const mark of fresh) this.#log.push({ seq: (this.#seq += 1), topic: toldAs(mark), id: mark.id });
    // All that was looked at was new: there may have been more than that.
    if (events >= latestMax.events || this.#log.length > keptMax) {
      if (events >= latestMax.events) this.#log = [];
      else this.#log = this.#log.slice(-keptMax / 2);
      this.#floor = (this.#log[0]?.seq ?? this.#seq + 1) - 1;
    }
    for (const fn of this.#listeners) fn();
  }
}

const watches = new WeakMap<object, Map<string, Watch>>();

function watchOf(ctx: FlowContext, projectId: string): Watch {
  const { root, calls } = ctx.db;
  const all = watches.get(root) ?? new Map<string, Watch>();
  watches.set(root, all);
  const known = all.get(projectId);
  if (known !== undefined && !known.isOver) return known;
  // It outlives the call that asks for it first.
  const made: Watch = new Watch({ ...ctx, db: calls }, projectId, () => {
    if (all.get(projectId) === made) all.delete(projectId);
  });
  all.set(projectId, made);
  return made;
}

export interface ChangesInput {
  readonly projectId: string;
  readonly topics: readonly ChangeTopic[];
  /** The id of the last one that the listener has. */
  readonly after: string | undefined;
  /** Without one: what has changed since then is told first. */
  readonly since: Date | undefined;
  readonly signal: AbortSignal;
}

/** Changes from the moment at which this resolves. Ends when the signal aborts. */
export async function watchChanges(ctx: FlowContext, input: ChangesInput): Promise<AsyncGenerator<ChangeEvent>> {
  const watch = watchOf(ctx, input.projectId);
  await watch.begun;
  return changesOf(ctx, watch, watch.seq, input);
}

async function* changesOf(
  ctx: FlowContext,
  first: Watch,
  start: number,
  input: ChangesInput,
): AsyncGenerator<ChangeEvent> {
  const { topics, signal } = input;
  let watch = first;
  const idOf = (seq: number): string => `${watch.nonce}-${seq}`;
  const reset = (): ChangeEvent => ({ id: idOf(watch.seq), event: 'reset', data: { seq: watch.seq } });
  const [, nonce, number] = /^([0-9a-f]{12})-(\d{1,15})$/.exec(input.after ?? '') ?? [];
  let at = start;
  if (input.after !== undefined) {
    const has = Number(number);
    if (nonce === watch.nonce && has >= watch.floor && has <= start) at = has;
    else yield reset();
  } else if (input.since !== undefined) {
    for (const mark of watch.since(input.since.getTime())) {
      const topic = toldAs(mark);
      if (topics.includes(topic)) yield { id: idOf(at), data: { topic, id: mark.id, seq: at } };
    }
  }
  let told: () => void = () => undefined;
  signal.addEventListener('abort', () => told(), { once: true });
  while (!signal.aborted) {
    const news = new Promise<void>((resolve) => (told = resolve));
    const stop = watch.listen(told);
    try {
      if (at < watch.floor) {
        at = watch.seq;
        yield reset();
      }
      for (const { seq, topic, id } of watch.after(at)) {
        at = seq;
        if (topics.includes(topic)) yield { id: idOf(seq), data: { topic, id, seq } };
      }
      if (watch.isOver) {
        watch = watchOf(ctx, input.projectId);
        await watch.begun;
        at = watch.seq;
        yield reset();
      } else if (watch.seq === at && !signal.aborted) await news;
    } finally {
      stop();
    }
  }
}
