// A program's streams over one connection of the engine: what goes in goes as it is, what comes out comes in frames of
// eight bytes (which stream, how long) and data. Standard error is thrown away but for the last of it.

import { Duplex } from 'node:stream';

const headBytes = 8;
const stderrChars = 2_000;

export class ExecStream extends Duplex {
  readonly #socket: Duplex;
  #begun: Buffer = Buffer.alloc(0);
  #kind = 0;
  /** Of the frame that comes now. */
  #left = 0;
  stderr = '';

  constructor(socket: Duplex) {
    super();
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('end', () => this.destroy());
    socket.on('close', () => this.destroy());
    socket.on('error', () => this.destroy());
  }

  /** A frame says any length: what has come of it is given on, and nothing kept but the beginning of its eight bytes. */
  #take(chunk: Buffer): void {
    let rest = this.#begun.length === 0 ? chunk : Buffer.concat([this.#begun, chunk]);
    this.#begun = rest.subarray(0, 0);
    while (rest.length > 0) {
      if (this.#left === 0) {
        if (rest.length < headBytes) {
          this.#begun = rest;
          return;
        }
        [this.#kind, this.#left] = [rest.readUInt8(0), rest.readUInt32BE(4)];
        rest = rest.subarray(headBytes);
        continue;
      }
      const data = rest.subarray(0, this.#left);
      this.#left -= data.length;
      rest = rest.subarray(data.length);
      if (this.#kind === 2) this.stderr = (this.stderr + data.toString('utf8')).slice(-stderrChars);
      else if (!this.push(data)) this.#socket.pause();
    }
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, done);
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(_error: Error | null, done: () => void): void {
    this.#socket.destroy();
    done();
  }
}
