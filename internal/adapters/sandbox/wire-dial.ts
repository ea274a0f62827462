// How a wire is had that the box dials (`wire: dial`): the box is told the way over one short stream into it, and comes by
// itself from then on, also after a cut. Where it does not come it is told again, for it may have lost the way, or know
// that of a daemon that is gone.

import type { Duplex } from 'node:stream';
import { EngineError } from '../engine/engine.ts';
import type { Visit, WireDoor } from './wire-door.ts';
import { encode, readFrames, wordIn } from './wire-link.ts';

/** A box that knows the way comes by itself within so long. */
const earlyMs = 1_500;
/** It tries each address for 5 s. */
const arriveMs = 12_000;

export class DialedWay {
  readonly #door: WireDoor;
  readonly #secret: string;
  readonly #visit: Visit;
  /** Whether the box may know the way. */
  #isKnown: boolean;

  constructor(door: WireDoor, secret: string, isKnown: boolean) {
    this.#door = door;
    this.#secret = secret;
    this.#visit = door.expect(secret);
    this.#isKnown = isKnown;
  }

  /**
   * The next stream of the box. `into` gives a stream into it. Throws what `into` throws, and EngineError
   * `engine-unreachable` where the box finds nobody at this daemon's address.
   */
  async dial(into: () => Promise<Duplex>): Promise<Duplex> {
    const early = await this.#visit.next(this.#isKnown ? earlyMs : 0);
    if (early !== null) return early;
    const enough = new AbortController();
    const arriving = this.#visit.next(arriveMs, enough.signal);
    try {
      const found = await Promise.race([arriving, this.#tell(into, enough.signal)]);
      this.#isKnown = true;
      if (found !== null) return found;
      throw this.#notReached('it has not come');
    } catch (error) {
      enough.abort();
      // One that came meanwhile is not left.
      const found = await arriving;
      if (found !== null) return found;
      throw error;
    } finally {
      enough.abort();
    }
  }

  /** The box is not expected any more. */
  end(): void {
    this.#visit.end();
  }

  /** Tells the box the way, and rejects with what it says of it. The stream ends with the signal. */
  async #tell(into: () => Promise<Duplex>, enough: AbortSignal): Promise<never> {
    const addresses = await this.#door.addresses();
    const stream = await into();
    const trouble = Promise.withResolvers<never>();
    const end = (): void => void stream.destroy();
    enough.addEventListener('abort', end, { once: true });
    if (enough.aborted) end();
    stream.on('error', end);
    stream.once('close', () => trouble.reject(new Error('the box does not answer on its wire')));
    const codes: string[] = [];
    readFrames(stream, ({ t, code }) => {
      if (t === 'undialed') codes.push(wordIn(code));
      if (codes.length >= addresses.length) trouble.reject(this.#notReached(codes.join(', ')));
      return true;
    });
    stream.write(encode({ t: 'dial', secret: this.#secret, addresses }));
    return trouble.promise;
  }

  #notReached(why: string): EngineError {
    const { host, port } = this.#door.place;
    const words = 'the network has to let pods out to it, and it has to lead here (sandboxes.kubernetes.dial)';
    return new EngineError(
      'engine-unreachable',
      `the pod does not reach this daemon at ${host}:${port} (${why}): ${words}`,
    );
  }
}
