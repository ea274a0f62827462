// Room for the bodies of deliveries while they are read and recorded. It is taken before the first byte has come, by anybody who
// says how much he is about to send: whoever then sends nothing would keep it from all others. So where there is none left,
// those that have been coming for longest give theirs up.

import { Roster } from '../../base/roster.ts';
import type { Fault } from '../../domain/fault.ts';
import { overloaded } from './event-writer.ts';

const most = {
  /** Bodies that are being read or wait to be recorded. */
  requests: 4_000,
  bytes: 256 * 1_048_576,
} as const;

interface Coming {
  readonly giveUp: (why: Fault) => boolean;
  readonly give: () => void;
}

export class RequestRoom {
  #requests = 0;
  #bytes = 0;
  /** First the one that has been coming for longest. */
  readonly #coming = new Roster<Coming>();

  /** The answer gives the room back. Throws Fault `unavailable` where there is none, and nobody gives any up. */
  take(bytes: number, giveUp?: (why: Fault) => boolean): () => void {
    this.#take(1, bytes);
    let isHeld = true;
    let leave: (() => void) | undefined;
    const give = (): void => {
      if (!isHeld) return;
      isHeld = false;
      this.#requests -= 1;
      this.#bytes -= bytes;
      leave?.();
    };
    if (giveUp !== undefined) leave = this.#coming.add({ giveUp, give });
    return give;
  }

  /** More for a body that has some; otherwise as `take`. */
  takeMore(bytes: number): () => void {
    this.#take(0, bytes);
    return () => {
      this.#bytes -= bytes;
    };
  }

  #fits(requests: number, bytes: number): boolean {
    return this.#requests + requests <= most.requests && this.#bytes + bytes <= most.bytes;
  }

  #take(requests: number, bytes: number): void {
    if (!this.#fits(requests, bytes)) this.#askBack(requests, bytes);
    if (!this.#fits(requests, bytes)) throw overloaded();
    this.#requests += requests;
    this.#bytes += bytes;
  }

  #askBack(requests: number, bytes: number): void {
    for (const one of this.#coming) {
      if (one.giveUp(overloaded())) one.give();
      if (this.#fits(requests, bytes)) return;
    }
  }
}
