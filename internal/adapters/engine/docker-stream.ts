// A program's streams over one connection of the engine: what goes in goes as it is, what comes out comes in frames of
// eight bytes (which stream, how long) and data. Standard error is thrown away but for the last of it.

import { Duplex } from 'node:stream';

const stderrChars = 2_000;

export class ExecStream extends Duplex {
  readonly #socket: Duplex;
  #rest: Buffer = Buffer.alloc(0);
  stderr = '';

  constructor(socket: Duplex) {
    super();
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('end', () => this.destroy());
    socket.on('close', () => this.destroy());
    socket.on('error', () => this.destroy());
  }

  #take(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (this.#rest.length >= 8) {
      const size = this.#rest.readUInt32BE(4);
      if (this.#rest.length < 8 + size) return;
      const data = this.#rest.subarray(8, 8 + size);
      const kind = this.#rest[0];
      this.#rest = this.#rest.subarray(8 + size);
      if (kind === 2) this.stderr = (this.stderr + data.toString('utf8')).slice(-stderrChars);
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
