// Wake-ups on their way out. A NOTIFY holds a lock of the whole cluster until its transaction is on disk, so that what many
// sessions write would be committed one after another. Triggers therefore tell the connection whom to wake (migration
// 0046), and this process notifies after the commit, in a transaction of its own: the first at once, whatever comes soon
// after it together, once an interval and channel, those of several channels in one statement. A wake-up that is lost costs delay only: polling is the truth.

import type { Logger } from 'pino';

export interface Tell {
  readonly channel: string;
  readonly payload: string;
}

/** The name of connections whose triggers leave notifying to this process; the triggers compare it. */
export const tellingName = 'svcd tells';

/** SQLSTATE of the word of a trigger. */
const tellCode = 'SVT01';

/** Between two statements of one channel, in milliseconds. */
export const tellEveryMs = 50;

/** What a trigger says to the connection, if this is one of its words. */
export function tellOf(notice: {
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly detail?: string | undefined;
}): Tell | undefined {
  const { code, message, detail } = notice;
  return code === tellCode && message !== undefined ? { channel: message, payload: detail ?? '' } : undefined;
}

export class Tells {
  readonly #send: (tells: readonly Tell[]) => Promise<unknown>;
  readonly #log: Logger;
  /** By channel, while its last statement is younger than the interval: what came since. */
  readonly #held = new Map<string, { readonly payloads: Set<string>; readonly timer: NodeJS.Timeout }>();
  readonly #sending = new Set<Promise<void>>();
  #stopped = false;

  constructor(send: (tells: readonly Tell[]) => Promise<unknown>, log: Logger) {
    this.#send = send;
    this.#log = log;
  }

  /** Call it after the commit. Equal wake-ups that wait together are one. */
  tell(tells: readonly Tell[]): void {
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
    const tells: Tell[] = [];
    for (const [channel, payloads] of byChannel) {
      for (const payload of payloads) tells.push({ channel, payload });
      if (this.#stopped) continue;
      const timer = setTimeout(() => this.#next(channel), tellEveryMs);
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
