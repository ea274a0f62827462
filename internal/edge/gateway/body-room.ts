// Room for the bodies of model calls until their provider answers: each may have tens of megabytes, and be held for minutes by a
// provider that is silent. Who has some of it may have more up to as much as is left: however much one project asks for, there
// is as much for the next one.

import { Refusal } from './refusal.ts';

/** Of one call. */
export interface HeldBody {
  /** Holds so many bytes more. Throws Refusal `busy` where there is no room for them. */
  add(bytes: number): void;
  /** Gives all of it back. Safe again. */
  give(): void;
}

export class BodyRoom {
  readonly #most: number;
  readonly #held = new Map<string, number>();
  #all = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** For a call of a project. */
  of(projectId: string): HeldBody {
    let own = 0;
    return {
      add: (bytes) => {
        this.#take(projectId, bytes);
        own += bytes;
      },
      give: () => {
        this.#take(projectId, -own);
        own = 0;
      },
    };
  }

  #take(projectId: string, bytes: number): void {
    const before = this.#held.get(projectId) ?? 0;
    const held = before + bytes;
    if (bytes > 0 && before + this.#all + bytes > this.#most)
      throw new Refusal('busy', 'too-much-in-flight', 'Calls in flight hold too much; wait for some of them.');
    this.#all += bytes;
    if (held > 0) this.#held.set(projectId, held);
    else this.#held.delete(projectId);
  }
}
