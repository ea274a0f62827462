// The parts behind the intake of one daemon: endpoints in memory, batches on their way, room for bodies.

import type { Database } from '../../adapters/store/db.ts';
import type { IngestPorts } from '../ports.ts';
import { EndpointCache } from './endpoint-cache.ts';
import { EventWriter, overloaded } from './event-writer.ts';
import { FreshReads } from './fresh.ts';

const room = {
  /** Bodies that are being read or wait to be recorded. */
  requests: 4_000,
  bytes: 256 * 1_048_576,
  bodyBytes: 1_048_576,
  /** Taken for a body that does not say how long it is. */
  unannounced: 64 * 1_024,
} as const;

/** Starts them; `routing` says whether a task routes what is recorded. */
export async function startIngest(db: Database, options: { readonly routing: boolean }): Promise<IngestPorts> {
  const writer = new EventWriter(db, options);
  const cache = new EndpointCache(db);
  const reads = new FreshReads<string | undefined>();
  const taken = { requests: 0, bytes: 0 };
  await cache.start();
  return {
    routing: options.routing,
    endpoint: (slug, now) => cache.get(slug, now),
    fresh: (key, load) => reads.get(key, load),
    record: (event) => writer.record(event),
    admit(announced) {
      // A body that says it is over the limit is refused for that, by whoever reads it.
      const bytes = Math.min(announced ?? room.unannounced, room.bodyBytes);
      if (writer.full() || taken.requests >= room.requests || taken.bytes + bytes > room.bytes) throw overloaded();
      taken.requests += 1;
      taken.bytes += bytes;
      return () => {
        taken.requests -= 1;
        taken.bytes -= bytes;
      };
    },
    async stop() {
      await writer.stop();
      await cache.stop();
    },
  };
}
