// COPY … FROM STDIN on a connection of `pg`: bytes go to the server as it takes them, a slice at a time.

import type { Writable } from 'node:stream';

/** Bytes that are handed to the connection at a time. */
const sliceBytes = 65_536;

/** What `pg` has of a connection, as far as it is needed here. */
interface Connection {
  readonly stream: Writable;
  query(text: string): void;
  sendCopyFromChunk(bytes: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(why: string): void;
}

/** A statement in the form that `pg` takes beside its own: it hears what the server says to it. */
export class CopyIn {
  readonly done: Promise<void>;
  readonly #text: string;
  readonly #parts: Iterable<Uint8Array>;
  #failure: Error | undefined;
  /** Called by `pg`, which may put one of its own in its place, with how it ended. */
  callback: (error: Error | null) => void;

  constructor(text: string, parts: Iterable<Uint8Array>) {
    this.#text = text;
    this.#parts = parts;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.done = promise;
    this.callback = (error) => (error === null ? resolve() : reject(error));
  }

  submit(connection: Connection): void {
    connection.query(this.#text);
  }

  handleCopyInResponse(connection: Connection): void {
    this.#send(connection).catch((error: unknown) => {
      // The server ends the statement with this as its error.
      connection.sendCopyFail(error instanceof Error ? error.name : 'failed');
    });
  }

  async #send(connection: Connection): Promise<void> {
    const { stream } = connection;
    for (const part of this.#parts) {
      for (let at = 0; at < part.length; at += sliceBytes) {
        if (this.#failure !== undefined || stream.destroyed) return;
        const slice = part.subarray(at, at + sliceBytes);
        connection.sendCopyFromChunk(Buffer.from(slice.buffer, slice.byteOffset, slice.length));
        if (stream.writableNeedDrain) await drained(stream);
      }
    }
    connection.endCopyFrom();
  }

  handleError(error: Error): void {
    this.#failure = error;
    this.callback(error);
  }

  handleReadyForQuery(): void {
    if (this.#failure === undefined) this.callback(null);
  }

  /* What else a server may say to a statement says nothing to this one. */
  handleCommandComplete(): void {}
  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
}

function drained(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}
