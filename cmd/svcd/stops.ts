// What a daemon has started and stops again, the last first, one after the other; and which of it that waits for.

import type { Logger } from 'pino';

type Stop = () => Promise<void>;

interface Part {
  readonly name: string;
  readonly stop: Stop;
  readonly within: Stops | undefined;
}

export class Stops {
  readonly #all: Part[] = [];
  #now: Part | undefined;

  /** `within`: what it is made of, where that is stopped one after the other too. */
  add(name: string, stop: Stop, within?: Stops): void {
    this.#all.push({ name, stop, within });
  }

  /** What is being stopped, by its name. Undefined before, and when all of it has stopped. */
  get now(): string | undefined {
    return this.#now?.within?.now ?? this.#now?.name;
  }

  /** One that fails is logged, and those before it are stopped all the same. Nothing is added to them any more. */
  async run(log: Logger): Promise<void> {
    for (const part of this.#all.toReversed()) {
      this.#now = part;
      await part.stop().catch((error: unknown) => log.error({ err: error, part: part.name }, 'daemon.stop_failed'));
    }
    this.#now = undefined;
  }
}
