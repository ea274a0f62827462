// One connection that listens for everybody in this process, and comes back when it is lost.

import pg from 'pg';
import type { Logger } from 'pino';

type Listener = (payload: string | null) => void;

export interface ListenHub {
  listen(channel: string, fn: Listener): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

const reconnectMs = { first: 100, most: 5_000 };

/** Starts nothing until the first `listen`. Notifications sent while the connection is down are lost: listeners get null. */
export function startListener(config: pg.ClientConfig, log: Logger): ListenHub {
  const channels = new Map<string, Set<Listener>>();
  let client: pg.Client | undefined;
  let opening: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  let delayMs = reconnectMs.first;

  const quoted = (channel: string): string => `"${channel.replaceAll('"', '""')}"`;

  async function connect(): Promise<void> {
    const next = new pg.Client({ ...config, statement_timeout: 10_000 });
    next.on('error', () => lost(next));
    next.on('end', () => lost(next));
    next.on('notification', (message) => {
      for (const fn of channels.get(message.channel) ?? []) fn(message.payload ?? '');
    });
    try {
      await next.connect();
      for (const channel of channels.keys()) await next.query(`listen ${quoted(channel)}`);
    } catch (error) {
      next.end().catch(() => undefined);
      throw error;
    }
    client = next;
    delayMs = reconnectMs.first;
  }

  function lost(which: pg.Client): void {
    if (client !== which) return;
    client = undefined;
    if (stopped) return;
    log.warn({}, 'database.listen_lost');
    schedule();
  }

  function schedule(): void {
    if (stopped || timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      opening = connect().then(
        () => {
          opening = undefined;
          for (const listeners of channels.values()) for (const fn of listeners) fn(null);
        },
        () => {
          opening = undefined;
          delayMs = Math.min(delayMs * 2, reconnectMs.most);
          schedule();
        },
      );
    }, delayMs);
  }

  async function ready(): Promise<void> {
    if (client !== undefined) return;
    if (opening === undefined && timer === undefined) {
      opening = connect().finally(() => {
        opening = undefined;
      });
    }
    await opening;
  }

  return {
    async listen(channel, fn) {
      const listeners = channels.get(channel) ?? new Set<Listener>();
      const isNew = listeners.size === 0;
      channels.set(channel, listeners);
      listeners.add(fn);
      await ready();
      if (isNew && client !== undefined) await client.query(`listen ${quoted(channel)}`);
      return async () => {
        listeners.delete(fn);
        if (listeners.size > 0) return;
        channels.delete(channel);
        // A connection that has just broken listens to nothing any more, which is what was asked for.
        await client?.query(`unlisten ${quoted(channel)}`).catch(() => undefined);
      };
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await opening?.catch(() => undefined);
      const last = client;
      client = undefined;
      await last?.end().catch(() => undefined);
    },
  };
}
