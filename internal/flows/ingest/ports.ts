// The parts behind the intake of one daemon: endpoints in memory, batches on their way, room for bodies.

import type { Json } from '../../domain/json.ts';
import type { Database } from '../../adapters/store/store.ts';
import { endpointBySlug, type IngestEndpoint } from '../../adapters/store/resources/endpoints.ts';
import type { IngestPorts, RecordHearer } from '../ports.ts';
import { EndpointSecrets } from './endpoint-secrets.ts';
import { EventWriter, overloaded } from './event-writer.ts';
import { ByteSemaphore } from './byte-semaphore.ts';
import { RequestRoom } from './request-room.ts';
import { LRUCache, recentMap } from '../../base/lru.ts';

const room = {
  bodyBytes: 1_048_576,
  /** Taken for a body that does not say how long it is. */
  unannounced: 64 * 1_024,
} as const;
/**
 * Beside the ordinary: one of the largest that a provider sends, or a few that are smaller. A code host waits 10 s for its
 * answer: one of its bodies that others wait for has come sooner, and those have room before they give up.
 */
const largeRoom = { bytes: 32 * 1_048_576, waitingMax: 100, waitMs: 8_000, lentMs: 5_000 } as const;
/** What a body costs while it is read is a multiple of its size: one of them at a time. */
const oneReading = { bytes: 1, waitingMax: 100, waitMs: 8_000 } as const;

/** Starts them; `routing` says whether a task routes what is recorded. */
export async function startIngest(db: Database, options: { readonly routing: boolean }): Promise<IngestPorts> {
  const hearers = new Set<RecordHearer>();
  const recorded: IngestPorts['recorded'] = (projectId, ids) => {
    for (const hearer of hearers) hearer.recorded(projectId, ids);
  };
  const recording: RecordHearer['recording'] = (projectId, ids) => {
    for (const hearer of hearers) hearer.recording(projectId, ids);
  };
  // What is lost when this process dies before it routes, the sweep of another or of its next life finds.
  const needsJob = (): boolean => options.routing && hearers.size === 0;
  const writer = new EventWriter(db.ownedBy('deliveries'), { needsJob, recorded, recording });
  const cache = new EndpointCache(db.ownedBy('endpoints'));
  const large = new ByteSemaphore(largeRoom);
  const reading = new ByteSemaphore(oneReading);
  const bodies = new RecentBodies();
  const requests = new RequestRoom();
  await cache.start();
  return {
    routing: options.routing,
    knownEndpoint: (slug) => cache.known(slug),
    endpoint: (slug) => cache.get(slug),
    secrets: new EndpointSecrets(),
    record: (event, guard) => writer.record(event, guard),
    needsJob,
    recorded,
    onRecorded(hearer) {
      hearers.add(hearer);
      return () => hearers.delete(hearer);
    },
    keepsBodies: () => hearers.size > 0,
    keepBody(eventId, body, bytes) {
      if (hearers.size > 0) bodies.keep(eventId, body, bytes);
    },
    takeBody: (eventId) => bodies.take(eventId),
    admit(announced, giveUp, projectId) {
      if (projectId !== undefined && writer.full(projectId)) throw overloaded();
      // A body that says it is over the limit is refused for that, by whoever reads it.
      return requests.take(Math.min(announced ?? room.unannounced, room.bodyBytes), giveUp);
    },
    admitRest: () => requests.takeMore(room.bodyBytes - room.unannounced),
    admitLarge: (bytes, projectId, giveUp) => large.take(bytes, projectId, giveUp),
    largeTurn: (projectId) => reading.take(oneReading.bytes, projectId),
    async stop() {
      await writer.stop();
      await cache.stop();
    },
  };
}

// Webhook endpoints by slug, in memory until the database says that one has changed. Only those that take events are
// kept; what is unknown or reserved is looked up each time, so that an apply that makes it is seen at once.

const entriesMax = 10_000;
/** A notification can be lost with its connection; nothing is believed for longer. */
const keptMs = 10_000;

export class EndpointCache {
  readonly #db: Database;
  readonly #entries = recentMap<string, { readonly endpoint: IngestEndpoint; readonly until: number }>(entriesMax);
  /** Counts what was forgotten: a lookup that began before does not fill the cache. */
  #generation = 0;
  #unlisten: (() => Promise<void>) | undefined;

  constructor(db: Database) {
    this.#db = db;
  }

  async start(): Promise<void> {
    this.#unlisten = await this.#db.listen('svc_endpoints', (slug) => {
      this.#generation += 1;
      if (slug === null || slug === '') this.#entries.clear();
      else this.#entries.delete(slug);
    });
  }

  async stop(): Promise<void> {
    await this.#unlisten?.();
  }

  /** The endpoint that takes events under a slug, if it is kept. */
  known(slug: string): IngestEndpoint | undefined {
    const entry = this.#entries.get(slug);
    return entry !== undefined && entry.until > performance.now() ? entry.endpoint : undefined;
  }

  /** The endpoint that takes events under a slug, or undefined. */
  async get(slug: string): Promise<IngestEndpoint | undefined> {
    const known = this.known(slug);
    if (known !== undefined) return known;
    const [generation, askedAt] = [this.#generation, performance.now()];
    const endpoint = await endpointBySlug(this.#db, slug);
    if (endpoint !== undefined && generation === this.#generation) {
      this.#entries.set(slug, { endpoint, until: askedAt + keptMs });
    }
    return endpoint;
  }
}

// Bodies that were parsed when they came in, for whoever routes in the same process a moment later. Owns no truth: what is
// not here is read from the database.

/** Received bytes of all that is kept; parsed, they take a few times as much. */
const bytesMax = 8 * 1_048_576;

interface Body {
  readonly body: Json;
  /** As it was received. */
  readonly bytes: number;
}

export class RecentBodies {
  readonly #bodies = new LRUCache<string, Body>({ maxSize: bytesMax, sizeCalculation: ({ bytes }) => bytes + 1 });

  /** Keeps the body of an event that is about to be recorded; the oldest go when there is no room. */
  keep(eventId: string, body: Json, bytes: number): void {
    this.#bodies.set(eventId, { body, bytes });
  }

  /** The body as it was parsed, which is not kept any longer; undefined where it is not here. */
  take(eventId: string): Json | undefined {
    const found = this.#bodies.get(eventId);
    this.#bodies.delete(eventId);
    return found?.body;
  }
}
