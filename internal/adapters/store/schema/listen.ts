// Wake-ups that come in and that go out. One connection listens for everybody in this process, and comes back when it is lost.
// There is never a second one: whoever asks while it is being made, or made again, waits for the same one.

import { Socket } from 'node:net';
import pg from 'pg';
import type { Logger } from 'pino';
import { within } from '../../../base/waits.ts';

type Listener = (payload: string | null) => void;

const reconnectMs = { first: 100, most: 5_000 };
/** A server that has not answered within this, when nobody wants to hear of a channel any more, or at all, says nothing. */
const answerMs = 1_000;
const quoted = (channel: string): string => `"${channel.replaceAll('"', '""')}"`;

/** Connects at the first `listen`. What is notified while the connection is down is lost: then listeners get null. */
export class ListenHub {
  readonly #config: pg.ClientConfig;
  readonly #log: Logger;
  readonly #channels = new Map<string, Set<Listener>>();
  #client: pg.Client | undefined;
  /** What the connection goes over that stands, or is being made. */
  #socket: Socket | undefined;
  #opening: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The connection was lost since listeners were last told that all is well. */
  #isBroken = false;
  #stopped = false;
  #delayMs = reconnectMs.first;

  constructor(config: pg.ClientConfig, log: Logger) {
    this.#config = config;
    this.#log = log;
  }

  async listen(channel: string, fn: Listener): Promise<() => Promise<void>> {
    const listeners = this.#channels.get(channel) ?? new Set<Listener>();
    const isNew = listeners.size === 0;
    this.#channels.set(channel, listeners);
    listeners.add(fn);
    try {
      await this.#listenTo(channel, isNew);
    } catch (error) {
      // Who was told that it does not listen asks again, as often as it likes: nothing is kept of it.
      this.#leave(channel, listeners, fn);
      throw error;
    }
    return async () => {
      if (!this.#leave(channel, listeners, fn)) return;
      const client = this.#client;
      if (client === undefined) return;
      // A connection that has just broken listens to nothing any more, which is what was asked for.
      const unlistened = client.query(`unlisten ${quoted(channel)}`).catch(() => undefined);
      if ((await within(unlistened, answerMs)) !== undefined || this.#client !== client) return;
      // Nor would one hear that says nothing: another takes its place.
      this.#lost(client);
      this.#socket?.destroy();
    };
  }

  async #listenTo(channel: string, isNew: boolean): Promise<void> {
    const client = this.#client;
    if (client === undefined) return this.#ready();
    if (!isNew) return;
    await client.query(`listen ${quoted(channel)}`).catch(() => {
      // It is broken, which nobody was told yet; the next one listens to all channels.
      this.#lost(client);
      client.end().catch(() => undefined);
      return this.#ready();
    });
  }

  /** True where nobody else is left who listens to the channel. */
  #leave(channel: string, listeners: Set<Listener>, fn: Listener): boolean {
    listeners.delete(fn);
    if (listeners.size > 0 || this.#channels.get(channel) !== listeners) return false;
    return this.#channels.delete(channel);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    // One that is being made is nobody's.
    if (this.#opening !== undefined) this.#socket?.destroy();
    await this.#opening?.catch(() => undefined);
    const last = this.#client;
    this.#client = undefined;
    if (last === undefined) return;
    await within(
      last.end().catch(() => undefined),
      answerMs,
    );
    this.#socket?.destroy();
  }

  /** Resolves when a connection stands; calls share the one that is being made. */
  async #ready(): Promise<void> {
    if (this.#client !== undefined) return;
    clearTimeout(this.#timer);
    this.#opening ??= this.#connect().finally(() => {
      this.#opening = undefined;
    });
    await this.#opening;
  }

  async #connect(): Promise<void> {
    const socket = new Socket();
    const next = new pg.Client({ ...this.#config, stream: () => socket });
    this.#socket = socket;
    next.on('error', () => this.#lost(next));
    next.on('end', () => this.#lost(next));
    next.on('notification', (message) => {
      for (const fn of this.#channels.get(message.channel) ?? []) fn(message.payload ?? '');
    });
    try {
      await next.connect();
      const done = new Set<string>();
      // A channel added while the connection was being made is listened to as well.
      for (let todo = this.#missing(done); todo !== undefined; todo = this.#missing(done)) {
        await next.query(`listen ${quoted(todo)}`);
        done.add(todo);
      }
    } catch (error) {
      next.end().catch(() => undefined);
      // Whoever asked hears of it; those who listen already are not forgotten.
      if (this.#isBroken) this.#retryLater();
      throw error;
    }
    this.#client = next;
    this.#delayMs = reconnectMs.first;
    if (!this.#isBroken) return;
    this.#isBroken = false;
    for (const listeners of this.#channels.values()) for (const fn of listeners) fn(null);
  }

  #missing(done: ReadonlySet<string>): string | undefined {
    return [...this.#channels.keys()].find((channel) => !done.has(channel));
  }

  #lost(which: pg.Client): void {
    if (this.#client !== which) return;
    this.#client = undefined;
    if (this.#stopped) return;
    this.#isBroken = true;
    this.#log.warn({}, 'database.listen_lost');
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#stopped) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#delayMs = Math.min(this.#delayMs * 2, reconnectMs.most);
      // One that fails asks for the next try itself.
      this.#ready().catch(() => undefined);
    }, this.#delayMs);
  }
}

// Wake-ups on their way out. A NOTIFY holds a lock of the whole cluster until its transaction is on disk, so that what many
// sessions write would be committed one after another. Triggers therefore tell the connection whom to wake (migration 0046),
// and this process notifies after the commit, in a transaction of its own: the first at once, whatever comes soon after it
// together, once an interval and channel, those of several channels in one statement. A wake-up that is lost costs delay
// only: polling is the truth.

export interface Wakeup {
  readonly channel: string;
  readonly payload: string;
}

/** The name of connections whose triggers leave notifying to this process; the triggers compare it. */
export const tellingName = 'svcd tells';

/** SQLSTATE of the word of a trigger. */
const tellCode = 'SVT01';

/** Between two statements of one channel, in milliseconds. */
export const wakeupIntervalMs = 50;

/** What a trigger says to the connection, if this is one of its words. */
export function wakeupOf(notice: {
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly detail?: string | undefined;
}): Wakeup | undefined {
  const { code, message, detail } = notice;
  return code === tellCode && message !== undefined ? { channel: message, payload: detail ?? '' } : undefined;
}

export class WakeupSender {
  readonly #send: (tells: readonly Wakeup[]) => Promise<unknown>;
  readonly #log: Logger;
  /** By channel, while its last statement is younger than the interval: what came since. */
  readonly #held = new Map<string, { readonly payloads: Set<string>; readonly timer: NodeJS.Timeout }>();
  readonly #sending = new Set<Promise<void>>();
  #stopped = false;

  constructor(send: (tells: readonly Wakeup[]) => Promise<unknown>, log: Logger) {
    this.#send = send;
    this.#log = log;
  }

  /** Call it after the commit. Equal wake-ups that wait together are one. */
  tell(tells: readonly Wakeup[]): void {
    const byChannel = new Map<string, Set<string>>();
    for (const { channel, payload } of tells) {
      const known = byChannel.get(channel) ?? new Set<string>();
      byChannel.set(channel, known.add(payload));
    }
    const out = new Map<string, ReadonlySet<string>>();
    for (const [channel, payloads] of byChannel) {
      const held = this.#held.get(channel);
      if (held === undefined) out.set(channel, payloads);
      else for (const payload of payloads) held.payloads.add(payload);
    }
    this.#out(out);
  }

  /** Sends what waits; resolves when all has been sent. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const out = new Map<string, ReadonlySet<string>>();
    for (const [channel, { payloads, timer }] of this.#held) {
      clearTimeout(timer);
      out.set(channel, payloads);
    }
    this.#held.clear();
    this.#out(out);
    await Promise.all(this.#sending);
  }

  #out(byChannel: ReadonlyMap<string, ReadonlySet<string>>): void {
    const tells: Wakeup[] = [];
    for (const [channel, payloads] of byChannel) {
      for (const payload of payloads) tells.push({ channel, payload });
      if (this.#stopped) continue;
      const timer = setTimeout(() => this.#next(channel), wakeupIntervalMs);
      timer.unref();
      this.#held.set(channel, { payloads: new Set(), timer });
    }
    if (tells.length === 0) return;
    const sending = this.#send(tells)
      .catch((error: unknown) => {
        this.#log.warn({ err: error, channels: [...byChannel.keys()] }, 'database.tell_failed');
      })
      .then(() => void this.#sending.delete(sending));
    this.#sending.add(sending);
  }

  #next(channel: string): void {
    const held = this.#held.get(channel);
    this.#held.delete(channel);
    if (held !== undefined && held.payloads.size > 0) this.#out(new Map([[channel, held.payloads]]));
  }
}
