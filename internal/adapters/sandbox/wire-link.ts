// The daemon's end of a wire: numbered frames over a stream that may be cut at any byte and is dialed again. What was sent
// and not yet acknowledged is kept and sent again; what arrives twice is dropped; so both sides see every frame once and
// in order. How much may be kept is bounded by the windows of what speaks over it (`wire.ts`).

import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Joined } from '../../base/joined.ts';

/** A frame's header; `t` says what it is. */
export interface Header {
  readonly t: string;
  readonly [field: string]: unknown;
}

/** `lost`: cut, and being dialed; `dead`: given up or closed, nothing of the box is reached any more. */
export type WireState = 'ok' | 'lost' | 'dead';

/** Thrown by a dial that need not be tried again: the box is not there. */
export class BoxGone extends Error {}

export interface LinkOptions {
  /** A stream to the box's first process. */
  readonly dial: () => Promise<Duplex>;
  /** Set with the first frame of the first peer, proved by later ones. */
  readonly secret: string;
  /** Who speaks, over all its streams: to another one the box begins its numbers anew. */
  readonly owner: string;
  /** Hears what the box is when it answers for the first time. */
  readonly onFirst?: (state: Header) => void;
  readonly onFrame: (header: Header, data: Buffer) => void;
  readonly onState?: (state: WireState, reason: string) => void;
  /** A wire that could not be mended for so long is dead. Default 60 s, as at the other end. */
  readonly lostMs?: number;
  /** Between two signs of life. Default 5 s. */
  readonly pingMs?: number;
}

const headerBytes = 64 * 1024;
const wordChars = 40;
const dataBytes = 2 * 1024 * 1024;
/** Silence after which a stream counts as cut, in pings. */
const silentPings = 4;
const helloMs = 10_000;
/**
 * Of what was sent and the box has not said that it got: from `paused` on nobody sends more that can wait, beyond `most` the box
 * is given up, for it asks and takes no answers. A frame takes some hundred bytes beside its own.
 */
const keptBytes = { paused: 32 * 1024 * 1024, most: 96 * 1024 * 1024, ofFrame: 256 } as const;
const backoffMs = [20, 50, 100, 200, 500, 1_000, 2_000] as const;

export function encode(header: object, data?: Uint8Array): Buffer {
  const head = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.allocUnsafe(8);
  lengths.writeUInt32BE(head.length, 0);
  lengths.writeUInt32BE(data?.length ?? 0, 4);
  return Buffer.concat(data === undefined ? [lengths, head] : [lengths, head, data]);
}

/** Calls back with each whole frame. What comes from inside is hostile: past the bounds the stream is ended. */
export function readFrames(stream: Duplex, onFrame: (header: Header, data: Buffer) => boolean): void {
  const pending = new Joined();
  // Nothing is looked at again before this much has come: a frame may come a byte at a time.
  let wanted = 8;
  stream.on('data', (chunk: Buffer) => {
    pending.add(chunk);
    if (pending.length < wanted) return;
    let rest = pending.take();
    wanted = 8;
    while (rest.length >= 8 && !stream.destroyed) {
      const [head, size] = [rest.readUInt32BE(0), rest.readUInt32BE(4)];
      if (head > headerBytes || size > dataBytes) return void stream.destroy();
      const end = 8 + head + size;
      if (rest.length < end) {
        wanted = end;
        break;
      }
      const header = parseHeader(rest.toString('utf8', 8, 8 + head));
      const data = rest.subarray(8 + head, end);
      rest = rest.subarray(end);
      if (header === null || !onFrame(header, data)) return void stream.destroy();
    }
    pending.add(rest);
  });
}

function parseHeader(text: string): Header | null {
  try {
    const value: unknown = JSON.parse(text);
    const isHeader = typeof value === 'object' && value !== null && 't' in value && typeof value.t === 'string';
    return isHeader ? (value as Header) : null;
  } catch {
    return null;
  }
}

/**
 * A number of a frame; 0 where it is none. What a box says is never made into one: a list in lists or an object without a text
 * throws at that, where nobody would catch it.
 */
export const countIn = (value: unknown): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;

/** A short text of a frame, empty where it is none. */
export const wordIn = (value: unknown): string => (typeof value === 'string' ? value.slice(0, wordChars) : '');

export class WireLink {
  readonly #options: LinkOptions;
  #outbox: { readonly n: number; readonly frame: Buffer }[] = [];
  #kept = 0;
  #waiting: (() => void)[] = [];
  #sent = 0;
  #received = 0;
  #peer: Duplex | null = null;
  #state: WireState = 'lost';
  #cuts = 0;
  #heardAt = 0;
  #pings: NodeJS.Timeout | undefined;
  #opened: Promise<void> | undefined;
  #gotSoon = false;
  #isKnown = false;
  #isLast = false;
  #onEnd: (() => void) | undefined;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  get state(): WireState {
    return this.#state;
  }

  /** How often it was cut. */
  get cuts(): number {
    return this.#cuts;
  }

  /** Dials until the box answers. Throws what the last dial threw where it is given up. */
  open(): Promise<void> {
    return (this.#opened ??= this.#dialLoop());
  }

  /** Sent once and in order, now or when the wire is mended. After the end it goes nowhere. */
  send(header: Header, data?: Uint8Array): void {
    if (this.#state === 'dead') return;
    this.#sent += 1;
    const frame = encode({ ...header, n: this.#sent }, data);
    this.#outbox.push({ n: this.#sent, frame });
    this.#kept += frame.length + keptBytes.ofFrame;
    if (this.#kept > keptBytes.most) return this.end('the box does not take what it is told');
    this.#peer?.write(frame);
  }

  /** Whether what can wait may be sent. */
  get hasRoom(): boolean {
    return this.#kept < keptBytes.paused;
  }

  /** Calls back once, when there is room again. */
  onRoom(listener: () => void): void {
    this.#waiting.push(listener);
  }

  /** As `send`, and nothing comes after it: the end of the stream is that of the box. */
  sendLast(header: Header): void {
    this.#isLast = true;
    this.send(header);
  }

  /** Said to whoever is there now, and to nobody later. */
  say(header: Header): void {
    this.#peer?.write(encode(header));
  }

  /** Resolves when the box has everything that was sent, or the wire is cut, or the time is over. */
  async flushed(withinMs: number): Promise<void> {
    for (let waitedMs = 0; this.#outbox.length > 0 && this.#state === 'ok' && waitedMs < withinMs; waitedMs += 10) {
      await sleep(10);
    }
  }

  /** Gives the wire up. */
  end(reason: string): void {
    if (this.#state === 'dead') return;
    this.#state = 'dead';
    this.#onEnd?.();
    clearInterval(this.#pings);
    this.#outbox = [];
    this.#waiting = [];
    this.#peer?.destroy();
    this.#peer = null;
    this.#options.onState?.('dead', reason);
  }

  async #dialLoop(): Promise<void> {
    const until = performance.now() + (this.#options.lostMs ?? 60_000);
    for (let tries = 0; ; tries += 1) {
      try {
        if (this.#isDead()) return;
        const stream = await this.#dialed();
        if (stream === undefined) return;
        await this.#hello(stream);
        return;
      } catch (error) {
        if (this.#isDead()) return;
        if (error instanceof BoxGone || performance.now() > until) {
          this.end(error instanceof Error ? error.message : String(error));
          throw error;
        }
        await sleep(backoffMs[Math.min(tries, backoffMs.length - 1)]);
      }
    }
  }

  /** Undefined where the wire is given up before the box is reached: what answers late is nobody's. */
  async #dialed(): Promise<Duplex | undefined> {
    const dialing = this.#options.dial();
    const ended = Promise.withResolvers<undefined>();
    this.#onEnd = () => ended.resolve(undefined);
    const stream = await Promise.race([dialing, ended.promise]).finally(() => (this.#onEnd = undefined));
    stream?.on('error', () => stream.destroy());
    if (!this.#isDead()) return stream;
    dialing.then(
      (late) => late.destroy(),
      () => undefined,
    );
    return undefined;
  }

  #isDead(): boolean {
    return this.#state === 'dead';
  }

  #hello(stream: Duplex): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => stream.destroy(), helloMs);
      stream.once('close', () => {
        clearTimeout(late);
        reject(new Error('the box does not answer on its wire'));
        if (this.#peer === stream) this.#cut();
      });
      readFrames(stream, (header, data) => {
        this.#heardAt = performance.now();
        if (this.#peer === stream) return this.#take(header, data);
        if (header.t !== 'state' || this.#isDead()) return false;
        clearTimeout(late);
        this.#drop(countIn(header['got']));
        if (!this.#isKnown) this.#options.onFirst?.(header);
        this.#isKnown = true;
        this.#peer = stream;
        for (const { frame } of this.#outbox) stream.write(frame);
        this.#watch();
        this.#state = 'ok';
        this.#options.onState?.('ok', '');
        resolve();
        return true;
      });
      const { secret, owner } = this.#options;
      stream.write(encode({ t: 'hello', secret, owner, got: this.#received }));
    });
  }

  #take(header: Header, data: Buffer): boolean {
    if (header.t === 'got') this.#drop(countIn(header['got']));
    if (header.t === 'got' || header.t === 'pong') return true;
    const n = countIn(header['n']);
    if (n <= this.#received) return true;
    if (n !== this.#received + 1) return false;
    this.#received = n;
    this.#gotLater();
    this.#options.onFrame(header, data);
    return true;
  }

  /** Once for all frames of a piece that was read. */
  #gotLater(): void {
    if (this.#gotSoon) return;
    this.#gotSoon = true;
    setImmediate(() => {
      this.#gotSoon = false;
      this.#peer?.write(encode({ t: 'got', got: this.#received }));
    });
  }

  #drop(until: number): void {
    let done = 0;
    while ((this.#outbox[done]?.n ?? Infinity) <= until) done += 1;
    if (done === 0) return;
    for (const { frame } of this.#outbox.slice(0, done)) this.#kept -= frame.length + keptBytes.ofFrame;
    this.#outbox = this.#outbox.slice(done);
    if (this.hasRoom) for (const listener of this.#waiting.splice(0)) listener();
  }

  #watch(): void {
    const { pingMs = 5_000 } = this.#options;
    clearInterval(this.#pings);
    this.#pings = setInterval(() => {
      if (performance.now() - this.#heardAt > silentPings * pingMs) this.#peer?.destroy();
      else this.#peer?.write(encode({ t: 'ping' }));
    }, pingMs);
    this.#pings.unref();
  }

  #cut(): void {
    this.#peer = null;
    clearInterval(this.#pings);
    if (this.#state === 'dead') return;
    if (this.#isLast) return this.end('the sandbox was stopped');
    this.#cuts += 1;
    this.#state = 'lost';
    this.#options.onState?.('lost', 'the wire was cut');
    // Given up, it has ended itself and said so.
    this.#opened = this.#dialLoop().catch(() => undefined);
  }
}
