// Webhook endpoints by slug, in memory until the database says that one has changed. Only those that take events are
// kept; what is unknown or reserved is looked up each time, so that an apply that makes it is seen at once.

import type { Database } from '../../adapters/store/store.ts';
import { endpointBySlug, type IngestEndpoint } from '../../adapters/store/resources/endpoints.ts';

const entriesMax = 10_000;
/** A notification can be lost with its connection; nothing is believed for longer. */
const keptMs = 10_000;

export class EndpointCache {
  readonly #db: Database;
  readonly #entries = new Map<string, { readonly endpoint: IngestEndpoint; readonly until: number }>();
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
  known(slug: string, now: Date): IngestEndpoint | undefined {
    const entry = this.#entries.get(slug);
    return entry !== undefined && entry.until > now.getTime() ? entry.endpoint : undefined;
  }

  /** The endpoint that takes events under a slug, or undefined. */
  async get(slug: string, now: Date): Promise<IngestEndpoint | undefined> {
    const known = this.known(slug, now);
    if (known !== undefined) return known;
    const generation = this.#generation;
    const endpoint = await endpointBySlug(this.#db, slug);
    if (endpoint !== undefined && generation === this.#generation) {
      if (this.#entries.size >= entriesMax) this.#entries.clear();
      this.#entries.set(slug, { endpoint, until: now.getTime() + keptMs });
    }
    return endpoint;
  }
}
