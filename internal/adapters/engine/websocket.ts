// Frames of RFC 6455 over a connection that was upgraded already, for both ends. Own, because the client of undici and
// that of Node read as fast as the peer sends: here a reader that is behind stops the connection, so that a hostile
// program at the far end cannot fill this process.

import { randomBytes } from 'node:crypto';
import type { Duplex } from 'node:stream';

export interface WebSocketOptions {
  /** A client masks what it sends, a server must not. */
  readonly end: 'client' | 'server';
  /** Of one message, fragments together. */
  readonly maxMessageBytes: number;
  /** A ping so often, and an end of the connection when nothing came for three of them. 0: none. */
  readonly pingMs: number;
  /** False: read no more until `resume`. */
  onMessage(data: Buffer): boolean;
  /** What was sent has left. */
  onDrain(): void;
  /** Once. `code` is 1006 where the peer has sent none, as RFC 6455 section 7.4.1 says. */
  onClose(code: number, reason: string): void;
}

const continuation = 0;
const binary = 2;
const close = 8;
const ping = 9;
const pong = 10;
/** What keeping a part takes beside its bytes: parts of nothing count too. */
const partBytes = 64;
/** How long a peer has to answer the closing frame. */
const closingMs = 2_000;

interface Header {
  readonly final: boolean;
  readonly opcode: number;
  readonly mask: Buffer | null;
  readonly bytes: number;
  /** Of the header itself. */
  readonly headBytes: number;
}

/** The header that these bytes begin with; null where they are too few. Throws for what RFC 6455 forbids. */
function readHeader(bytes: Buffer, maxBytes: number): Header | null {
  if (bytes.length < 2) return null;
  const first = bytes.readUInt8(0);
  const second = bytes.readUInt8(1);
  if ((first & 0x70) !== 0) throw new Error('a frame with an extension that was not agreed');
  const isMasked = (second & 0x80) !== 0;
  const short = second & 0x7f;
  const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
  const headBytes = 2 + lengthBytes + (isMasked ? 4 : 0);
  if (bytes.length < headBytes) return null;
  const long = lengthBytes === 8 ? Number(bytes.readBigUInt64BE(2)) : lengthBytes === 2 ? bytes.readUInt16BE(2) : short;
  if (long > maxBytes) throw new Error(`a message of more than ${maxBytes} bytes`);
  const opcode = first & 0x0f;
  const final = (first & 0x80) !== 0;
  if (opcode >= close && (!final || long > 125)) throw new Error('a control frame in parts');
  return {
    final,
    opcode,
    mask: isMasked ? bytes.subarray(headBytes - 4, headBytes) : null,
    bytes: long,
    headBytes,
  };
}

function masked(data: Uint8Array, mask: Uint8Array): Buffer {
  const out = Buffer.from(data);
  for (let at = 0; at < out.length; at += 1) out[at] = (out[at] ?? 0) ^ (mask[at & 3] ?? 0);
  return out;
}

function encode(opcode: number, data: Uint8Array, isMasked: boolean): Buffer {
  const size = data.length < 126 ? 2 : data.length < 65_536 ? 4 : 10;
  const head = Buffer.alloc(size + (isMasked ? 4 : 0));
  head.writeUInt8(0x80 | opcode, 0);
  const bit = isMasked ? 0x80 : 0;
  if (size === 2) head.writeUInt8(bit | data.length, 1);
  else head.writeUInt8(bit | (size === 4 ? 126 : 127), 1);
  if (size === 4) head.writeUInt16BE(data.length, 2);
  if (size === 10) head.writeBigUInt64BE(BigInt(data.length), 2);
  if (!isMasked) return Buffer.concat([head, data]);
  const mask = randomBytes(4);
  mask.copy(head, size);
  return Buffer.concat([head, masked(data, mask)]);
}

export class WebSocketConnection {
  readonly #socket: Duplex;
  readonly #options: WebSocketOptions;
  #received: Buffer[] = [];
  #receivedBytes = 0;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #isPaused = false;
  #isClosed = false;
  #closing: NodeJS.Timeout | undefined;
  #peerClose: { readonly code: number; readonly reason: string } | undefined;
  #heardAt = performance.now();
  readonly #beat: NodeJS.Timeout | undefined;

  constructor(socket: Duplex, options: WebSocketOptions) {
    this.#socket = socket;
    this.#options = options;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('drain', () => options.onDrain());
    socket.on('end', () => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#closed(1006, ''));
    if (options.pingMs > 0) {
      this.#beat = setInterval(() => this.#ping(), options.pingMs);
      this.#beat.unref();
    }
  }

  /** One binary message. False: wait for `onDrain`. After the close it is nothing. */
  send(data: Uint8Array): boolean {
    return this.#isClosed ? true : this.#socket.write(encode(binary, data, this.#options.end === 'client'));
  }

  /** Goes on reading after `onMessage` said no. */
  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
    this.#take();
  }

  /** Says goodbye, and ends the connection when the peer has answered, or does not. Safe to call again. */
  close(code = 1000): void {
    if (this.#isClosed || this.#closing !== undefined) return;
    const data = Buffer.alloc(2);
    data.writeUInt16BE(code);
    this.#socket.write(encode(close, data, this.#options.end === 'client'));
    this.#closing = setTimeout(() => this.#socket.destroy(), closingMs);
    this.resume();
  }

  /** Ends the connection at once. */
  destroy(): void {
    this.#socket.destroy();
    this.#closed(1006, '');
  }

  #ping(): void {
    // A reader that is behind has stopped the connection itself: that the peer is not heard says nothing then.
    if (this.#isPaused) this.#heardAt = performance.now();
    if (performance.now() - this.#heardAt > 3 * this.#options.pingMs) return this.#fail('nothing came for too long');
    this.#socket.write(encode(ping, Buffer.alloc(0), this.#options.end === 'client'));
  }

  #read(chunk: Buffer): void {
    this.#heardAt = performance.now();
    this.#received.push(chunk);
    this.#receivedBytes += chunk.length;
    this.#take();
  }

  #fail(reason: string): void {
    this.#closed(1006, reason);
    this.#socket.destroy();
  }

  #closed(code: number, reason: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#beat);
    clearTimeout(this.#closing);
    this.#received = [];
    this.#parts = [];
    this.#options.onClose(this.#peerClose?.code ?? code, this.#peerClose?.reason ?? reason);
  }

  /** The first bytes as one buffer, joined no oftener than needed. */
  #peek(bytes: number): Buffer {
    const [first] = this.#received;
    if (first !== undefined && first.length >= Math.min(bytes, this.#receivedBytes)) return first;
    const all = Buffer.concat(this.#received);
    this.#received = [all];
    return all;
  }

  #drop(bytes: number): void {
    const [first] = this.#received;
    this.#receivedBytes -= bytes;
    if (first !== undefined && first.length > bytes) this.#received[0] = first.subarray(bytes);
    else this.#received.shift();
  }

  #take(): void {
    try {
      while (!this.#isPaused && !this.#isClosed) {
        const head = readHeader(this.#peek(14), this.#options.maxMessageBytes);
        if (head === null || this.#receivedBytes < head.headBytes + head.bytes) return;
        if ((head.mask === null) !== (this.#options.end === 'client'))
          throw new Error('a frame masked by the wrong end');
        const all = this.#peek(head.headBytes + head.bytes);
        const body = all.subarray(head.headBytes, head.headBytes + head.bytes);
        const data = head.mask === null ? body : masked(body, head.mask);
        this.#drop(head.headBytes + head.bytes);
        if (head.opcode >= close) this.#control(head.opcode, data);
        else this.#part(head, data);
      }
    } catch (error) {
      this.#fail(error instanceof Error ? error.message : String(error));
    }
  }

  #control(opcode: number, data: Buffer): void {
    if (opcode === ping) this.#socket.write(encode(pong, data, this.#options.end === 'client'));
    else if (opcode === close) {
      const code = data.length >= 2 ? data.readUInt16BE(0) : 1005;
      this.#peerClose = { code, reason: data.subarray(2).toString('utf8') };
      if (this.#closing === undefined) this.#socket.write(encode(close, data, this.#options.end === 'client'));
      this.#socket.end();
      // Half-open servers keep the other half: what is to come after a close is nothing.
      this.#closing ??= setTimeout(() => this.#socket.destroy(), closingMs);
    }
  }

  #part({ final, opcode }: Header, data: Buffer): void {
    if ((opcode === continuation) !== this.#parts.length > 0) throw new Error('a message inside another');
    this.#partBytes += data.length + (final ? 0 : partBytes);
    if (this.#partBytes > this.#options.maxMessageBytes)
      throw new Error(`a message of more than ${this.#options.maxMessageBytes} bytes`);
    this.#parts.push(data);
    if (!final) return;
    const [only] = this.#parts;
    const whole = this.#parts.length === 1 && only !== undefined ? only : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partBytes = 0;
    if (this.#options.onMessage(whole)) return;
    this.#isPaused = true;
    this.#socket.pause();
  }
}
