// What the job runner listens with: it asks its pool for a connection to keep, and gets this, which hears what the daemon's
// one listening connection hears. So it costs no connection, and works behind a pooler.

import { EventEmitter } from 'node:events';
import type pg from 'pg';
import type { Database } from '../../adapters/store/store.ts';

export class NotificationClient extends EventEmitter {
  readonly #db: Database;
  #stops: (() => Promise<void>)[] = [];

  constructor(db: Database) {
    super();
    this.#db = db;
  }

  /** Takes `LISTEN "a"; LISTEN "b"` and `UNLISTEN …`, and nothing else. */
  async query(text: string): Promise<void> {
    const stops = this.#stops.splice(0);
    for (const stop of stops) await stop();
    if (/^\s*unlisten\b/i.test(text)) return;
    for (const [, channel = ''] of text.matchAll(/\blisten "([^"]+)"/gi)) {
      const hear = (payload: string | null): void => {
        // What was told while the connection was lost is found by the next look for jobs.
        if (payload !== null) this.emit('notification', { channel, payload });
      };
      this.#stops.push(await this.#db.listen(channel, hear));
    }
  }

  /** As the runner knows it: of a connection it uses the events and `query` alone. */
  asClient(): pg.PoolClient {
    return this as unknown as pg.PoolClient;
  }
}
