// Bodies that were parsed when they came in, for whoever routes in the same process a moment later. Owns no truth: what is
// not here is read from the database.

import type { Json } from '../../domain/json.ts';

/** Received bytes of all that is kept; parsed, they take a few times as much. */
const bytesMax = 8 * 1_048_576;

export class RecentBodies {
  readonly #bodies = new Map<string, { readonly body: Json; readonly bytes: number }>();
  #bytes = 0;

  /** Keeps the body of an event that is about to be recorded; the oldest go when there is no room. */
  keep(eventId: string, body: Json, bytes: number): void {
    this.#bodies.set(eventId, { body, bytes });
    this.#bytes += bytes;
    for (const oldest of this.#bodies.keys()) {
      if (this.#bytes <= bytesMax) break;
      this.take(oldest);
    }
  }

  /** The body as it was parsed, which is not kept any longer; undefined where it is not here. */
  take(eventId: string): Json | undefined {
    const found = this.#bodies.get(eventId);
    if (found === undefined) return undefined;
    this.#bodies.delete(eventId);
    this.#bytes -= found.bytes;
    return found.body;
  }
}
