// What whoever waits for the database hears when that does not answer.

import { Roster } from '../../../base/roster.ts';

/** What was asked for was not answered in time. */
export class NoAnswer extends Error {
  readonly code = 'SVC_NO_ANSWER';
  constructor(what: string) {
    super(`no answer from the database: ${what}`);
  }
}

/** No connection was made, whatever kept it from being: nothing was asked. */
export class NoConnection extends NoAnswer {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause));
    this.cause = cause;
  }
}

/** A daemon that stops waits for its database no more. */
export class Abandoned extends NoAnswer {
  constructor() {
    super('it was abandoned');
  }
}

interface Refusal {
  readonly refuse: (error: NoAnswer) => void;
  /** By the steady clock, in milliseconds. */
  readonly since: number;
}

/** Whoever waits for a place, or for the server, of one pool. */
export class Refusals {
  readonly #open = new Roster<Refusal>();
  #isAbandoned = false;

  get isAbandoned(): boolean {
    return this.#isAbandoned;
  }

  /** `refuse` hears that it waits no more. What is returned says that it does not wait any longer. */
  add(refuse: (error: NoAnswer) => void): () => void {
    return this.#open.add({ refuse, since: performance.now() });
  }

  abandon(): void {
    this.#isAbandoned = true;
    for (const { refuse } of this.#open) refuse(new Abandoned());
  }

  refuseLate(ms: number): void {
    const latest = performance.now() - ms;
    for (const { refuse, since } of this.#open) if (since <= latest) refuse(new NoAnswer(`${Math.round(ms)} ms`));
  }

  /** What the work gives; undefined where it has not within so many milliseconds. Each statement comes by here: no race of promises. */
  within<T>(work: Promise<T>, ms: number): Promise<{ readonly value: T } | undefined> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        leave();
        resolve(undefined);
      }, ms);
      const refuse = (error: unknown): void => {
        clearTimeout(timer);
        leave();
        reject(error);
      };
      const leave = this.add(refuse);
      work.then((value) => {
        clearTimeout(timer);
        leave();
        resolve({ value });
      }, refuse);
      if (this.#isAbandoned) refuse(new Abandoned());
    });
  }
}
