// Rows on their way to the database as jsonb: their JSON is made a slice at a time, since a fleet of agents is tens of megabytes,
// and is bytes at once, which are let go as soon as the server has them.

import { yieldToEventLoop } from '../../../base/concurrency.ts';
import { passed } from '../../../base/passing.ts';

/** Bytes between two turns of the event loop: a few milliseconds. */
const sliceBytes = 512 * 1024;
/**
 * Bytes of a statement's rows. What makes a message of them in the driver does so in one go: several times as much holds up
 * everybody for as long as a person notices, and is in memory more than once.
 */
const statementBytes = 4 * 1024 * 1024;
/** Bytes of a piece, but for a row that is larger. */
const pieceBytes = 64 * 1024;
/** What the binary form of a jsonb value begins with. */
const version = 1;
const [open, comma, close] = [0x5b, 0x2c, 0x5d];

/**
 * The rows of as many statements as it takes, each a parameter of the type jsonb: a list of some megabytes, or of one
 * row. One is good until the next is asked for.
 */
export async function* jsonbSlices(rows: readonly object[]): AsyncGenerator<Buffer> {
  let list = new List();
  let since = 0;
  for (const row of rows) {
    const text = JSON.stringify(row);
    const bytes = Buffer.byteLength(text);
    if (list.length > 0 && list.length + bytes > statementBytes) {
      yield* once(list);
      list = new List();
    }
    list.add(text, bytes);
    since += bytes;
    if (since < sliceBytes) continue;
    since = 0;
    await yieldToEventLoop();
  }
  if (list.length > 0) yield* once(list);
}

/** The texts of a list, in pieces. */
class List {
  length = 0;
  readonly #full: Buffer[] = [];
  #piece = Buffer.alloc(0);
  #at = 0;

  add(text: string, bytes: number): void {
    if (this.#piece.length - this.#at < bytes + 1) {
      this.#full.push(this.#piece.subarray(0, this.#at));
      this.#piece = Buffer.from(new ArrayBuffer(Math.max(pieceBytes, bytes + 1)));
      this.#at = 0;
    }
    this.#piece[this.#at] = this.length === 0 ? open : comma;
    this.#piece.write(text, this.#at + 1);
    this.#at += bytes + 1;
    this.length += bytes + 1;
  }

  /** All of it, as a parameter; the list is of no use any more. */
  take(): Buffer {
    const whole = Buffer.from(new ArrayBuffer(this.length + 2));
    whole[0] = version;
    let at = 1;
    for (const piece of [...this.#full, this.#piece.subarray(0, this.#at)]) {
      at += piece.copy(whole, at);
      letGo(piece);
    }
    whole[at] = close;
    return whole;
  }
}

/** A list as a parameter, which is let go behind its use. */
function* once(list: List): Generator<Buffer> {
  const whole = list.take();
  const { length } = whole;
  try {
    yield whole;
  } finally {
    letGo(whole);
    passed(length);
  }
}

/** Left to the collector, the bytes of a fleet would wait for it together. */
const letGo = ({ buffer }: Buffer): void => void (buffer as ArrayBuffer).transfer(0);
