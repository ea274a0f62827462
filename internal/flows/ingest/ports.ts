// The parts behind the intake of one daemon: endpoints in memory, batches on their way, room for bodies.

import type { Database } from '../../adapters/store/store.ts';
import type { IngestPorts } from '../ports.ts';
import { EndpointCache } from './endpoint-cache.ts';
import { EndpointSecrets } from './endpoint-secrets.ts';
import { EventWriter, overloaded } from './event-writer.ts';
import { ByteSemaphore } from './byte-semaphore.ts';
import { RecentBodies } from './recent-bodies.ts';

const room = {
  /** Bodies that are being read or wait to be recorded. */
  requests: 4_000,
  bytes: 256 * 1_048_576,
  bodyBytes: 1_048_576,
  /** Taken for a body that does not say how long it is. */
  unannounced: 64 * 1_024,
} as const;
/** Beside the ordinary: one of the largest that a provider sends, or a few that are smaller. A code host waits 10 s for its answer. */
const largeRoom = { bytes: 32 * 1_048_576, waitingMax: 100, waitMs: 8_000 } as const;
/** What a body costs while it is read is a multiple of its size: one of them at a time. */
const oneReading = { bytes: 1, waitingMax: 100, waitMs: 8_000 } as const;

/** Starts them; `routing` says whether a task routes what is recorded. */
export async function startIngest(db: Database, options: { readonly routing: boolean }): Promise<IngestPorts> {
  const hearers = new Set<(projectId: string) => void>();
  const recorded = (projectId: string): void => {
    for (const hear of hearers) hear(projectId);
  };
  // What is lost when this process dies before it routes, the sweep of another or of its next life finds.
  const needsJob = (): boolean => options.routing && hearers.size === 0;
  const writer = new EventWriter(db, { needsJob, recorded });
  const cache = new EndpointCache(db);
  const large = new ByteSemaphore(largeRoom);
  const reading = new ByteSemaphore(oneReading);
  const bodies = new RecentBodies();
  const taken = { requests: 0, bytes: 0 };
  const takeBytes = (bytes: number): (() => void) => {
    if (taken.bytes + bytes > room.bytes) throw overloaded();
    taken.bytes += bytes;
    return () => {
      taken.bytes -= bytes;
    };
  };
  await cache.start();
  return {
    routing: options.routing,
    knownEndpoint: (slug, now) => cache.known(slug, now),
    endpoint: (slug, now) => cache.get(slug, now),
    secrets: new EndpointSecrets(),
    record: (event, guard) => writer.record(event, guard),
    needsJob,
    recorded,
    onRecorded(hear) {
      hearers.add(hear);
      return () => hearers.delete(hear);
    },
    keepsBodies: () => hearers.size > 0,
    keepBody(eventId, body, bytes) {
      if (hearers.size > 0) bodies.keep(eventId, body, bytes);
    },
    takeBody: (eventId) => bodies.take(eventId),
    admit(announced) {
      // A body that says it is over the limit is refused for that, by whoever reads it.
      if (writer.full() || taken.requests >= room.requests) throw overloaded();
      const give = takeBytes(Math.min(announced ?? room.unannounced, room.bodyBytes));
      taken.requests += 1;
      return () => {
        taken.requests -= 1;
        give();
      };
    },
    admitRest: () => takeBytes(room.bodyBytes - room.unannounced),
    admitLarge: (bytes) => large.take(bytes),
    largeTurn: () => reading.take(oneReading.bytes),
    async stop() {
      await writer.stop();
      await cache.stop();
    },
  };
}
