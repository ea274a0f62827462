// One program and one connection of a box, as the daemon's end of the wire has them. Each has a window: who does not read is
// not sent more, and holds up nobody else.

import type { Socket } from 'node:net';
import { Readable, Writable } from 'node:stream';
import { Fault } from '../../domain/fault.ts';
import { cannotStart } from './child.ts';
import type { Exit, SandboxProcess } from './types.ts';
import { countIn, type Header, type WireLink, wordIn } from './wire-link.ts';

const pieceBytes = 64 * 1024;
/** What the box has not written to a program's input, or to a connection's inner end, yet. */
const inWindow = 1024 * 1024;
const outLimit = 6 * 1024 * 1024;
/** Of one connection, and of all of a box: what is on its way to the daemon's sockets. */
const arrivingMax = { ofOne: 4 * 1024 * 1024, ofAll: 64 * 1024 * 1024 } as const;

/**
 * Tells of bytes as soon as they are worth a frame, which is far within each window: a stream of small pieces would have a
 * frame back for each, and that frame its own acknowledgement.
 */
function summed(tell: (bytes: number) => void): (bytes: number) => void {
  let sum = 0;
  return (bytes) => {
    sum += bytes;
    if (sum < pieceBytes) return;
    tell(sum);
    sum = 0;
  };
}

/** One program of the box, as a process of a sandbox. */
export class Program {
  readonly started: Promise<SandboxProcess>;
  readonly #id: number;
  readonly #link: WireLink;
  readonly #outputs: readonly [Output, Output];
  readonly #stdin: Writable;
  readonly #exited = Promise.withResolvers<Exit>();
  readonly #start = Promise.withResolvers<SandboxProcess>();
  readonly #forget: () => void;
  #unwritten = 0;
  #isOver = false;
  #room: (() => void) | undefined;
  /** Of a program that lasts: where what was taken for good ends. */
  readonly #from: number | undefined;

  /** `from`: of a program that lasts, the byte of its output to begin with. */
  constructor(id: number, link: WireLink, forget: () => void, from: number | undefined) {
    this.#id = id;
    this.#link = link;
    this.#forget = forget;
    this.#from = from;
    this.started = this.#start.promise;
    const consumed = summed((bytes) => link.send({ t: 'ack', id, bytes }));
    this.#outputs = [new Output(consumed), new Output(consumed)];
    this.#stdin = new Writable({
      write: (chunk: Buffer, _encoding, done) => this.#write(chunk, done),
      final: (done) => {
        link.send({ t: 'inend', id });
        done();
      },
    });
    // A program may end before it has read all: how it ended is the news, not the broken pipe.
    this.#stdin.on('error', () => undefined);
  }

  take(header: Header, data: Buffer): void {
    const output = this.#outputs[header['fd'] === 2 ? 1 : 0];
    if (header.t === 'out') this.#arrived(output, header, data);
    else if (header.t === 'outend') this.#outputEnded(output);
    else if (header.t === 'started') this.#start.resolve(this.#process(countIn(header['pid'])));
    else if (header.t === 'failed') this.#failed(header['code']);
    else if (header.t === 'inack') this.#written(countIn(header['bytes']));
    else if (header.t === 'exit') this.#exit(header);
  }

  /** As one that runs already. */
  found(): SandboxProcess {
    return this.#process(0);
  }

  #arrived(output: Output, { at }: Header, data: Buffer): void {
    const before = at === undefined ? 0 : Math.max((this.#from ?? 0) - countIn(at), 0);
    if (before < data.length) output.arrived(data.subarray(before));
    // What was taken for good by another daemon is not taken again.
    if (before > 0) this.#link.send({ t: 'ack', id: this.#id, bytes: Math.min(before, data.length) });
  }

  /** The wire is dead. */
  died(): void {
    this.#start.reject(new Fault('unavailable', 'sandbox-gone', 'The sandbox went away while a program was started'));
    this.started.catch(() => undefined); // Whoever started it hears of it.
    for (const output of this.#outputs) output.finish();
    this.#end({ code: null, signal: 'SIGKILL' });
    this.#forget();
  }

  #process(pid: number): SandboxProcess {
    const [stdout, stderr] = this.#outputs;
    const kill = (): Promise<Exit> => {
      if (!this.#isOver) this.#link.send({ t: 'kill', id: this.#id });
      return this.#exited.promise;
    };
    const lasting = this.#from !== undefined && {
      lasting: {
        id: this.#id,
        from: this.#from,
        release: (at: number) => this.#link.say({ t: 'safe', id: this.#id, at }),
      },
    };
    return { pid, stdin: this.#stdin, stdout, stderr, exited: this.#exited.promise, kill, ...lasting };
  }

  #failed(code: unknown): void {
    this.#start.reject(cannotStart({ code: wordIn(code) }));
    this.#forget();
  }

  #outputEnded(output: Output): void {
    output.finish();
    if (this.#isOver && this.#outputs.every(({ isFinished }) => isFinished)) this.#forget();
  }

  #exit(header: Header): void {
    const { code, signal } = header;
    const exit = {
      code: typeof code === 'number' ? code : null,
      signal: typeof signal === 'string' ? (signal as NodeJS.Signals) : null,
    };
    this.#end(exit);
    if (this.#outputs.every(({ isFinished }) => isFinished)) this.#forget();
  }

  #end(exit: Exit): void {
    this.#isOver = true;
    this.#exited.resolve(exit);
    this.#room?.();
    this.#room = undefined;
  }

  #write(chunk: Buffer, done: () => void): void {
    if (this.#isOver) return done();
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      this.#link.send({ t: 'in', id: this.#id }, chunk.subarray(at, at + pieceBytes));
    }
    this.#unwritten += chunk.length;
    this.#room = done;
    this.#goOn();
  }

  #written(bytes: number): void {
    this.#unwritten = Math.max(0, this.#unwritten - bytes);
    this.#goOn();
  }

  #goOn(): void {
    if (this.#unwritten > inWindow || this.#room === undefined) return;
    if (!this.#link.hasRoom) return this.#link.onRoom(() => this.#goOn());
    const room = this.#room;
    this.#room = undefined;
    room?.();
  }
}

/** What a program said; told as consumed when somebody has read it, and kept until then. */
class Output extends Readable {
  readonly #consumed: (bytes: number) => void;
  #waiting: Buffer[] = [];
  #bytes = 0;
  #hasRoom = false;
  #hasEnded = false;
  isFinished = false;

  constructor(consumed: (bytes: number) => void) {
    super({ highWaterMark: pieceBytes });
    this.#consumed = consumed;
  }

  arrived(data: Buffer): void {
    if (this.destroyed) return this.#consumed(data.length);
    this.#bytes += data.length;
    // A box that does not keep to its window is not believed any further.
    if (this.isFinished || this.#bytes > outLimit) return;
    // A copy: what was read from the stream holds more than this frame.
    this.#waiting.push(Buffer.from(data));
    this.#pass();
  }

  finish(): void {
    this.isFinished = true;
    this.#pass();
  }

  override _read(): void {
    this.#hasRoom = true;
    this.#pass();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    // Nobody reads it any more: the program is not held up by that.
    if (this.#bytes > 0) this.#consumed(this.#bytes);
    this.#bytes = 0;
    this.#waiting = [];
    done(error);
  }

  #pass(): void {
    let passed = 0;
    while (this.#hasRoom && this.#waiting.length > 0) {
      const next = this.#waiting.shift() as Buffer;
      passed += next.length;
      this.#hasRoom = this.push(next);
    }
    this.#bytes -= passed;
    if (passed > 0) this.#consumed(passed);
    if (!this.isFinished || this.#waiting.length > 0 || this.#hasEnded) return;
    this.#hasEnded = true;
    this.push(null);
  }
}

/** Bytes of all connections of a box that are on their way to the daemon's sockets. */
export interface Arriving {
  bytes: number;
}

/** A connection from inside to a socket of the daemon. */
export class Connection {
  readonly #c: number;
  readonly #link: WireLink;
  readonly #outer: Socket;
  readonly #forget: () => void;
  readonly #wrote: (bytes: number) => void;
  readonly #arriving: Arriving;
  #unwritten = 0;
  /** Of what arrives, here. */
  #own = 0;
  #isOver = false;

  constructor(
    c: number,
    { link, arriving }: { readonly link: WireLink; readonly arriving: Arriving },
    outer: Socket,
    forget: () => void,
  ) {
    this.#c = c;
    this.#arriving = arriving;
    this.#wrote = summed((bytes) => link.send({ t: 'ack', c, bytes }));
    this.#link = link;
    this.#outer = outer;
    this.#forget = forget;
    // Either end may break; the other then learns it by the reset.
    outer.on('error', () => outer.destroy());
    outer.on('data', (chunk: Buffer) => this.#forward(chunk));
    outer.on('end', () => link.send({ t: 'end', c }));
    outer.on('close', () => {
      if (!this.#isOver) link.send({ t: 'reset', c });
      this.died();
    });
  }

  take(header: Header, data: Buffer): void {
    if (header.t === 'data') this.#arrived(data);
    else if (header.t === 'end') this.#outer.end();
    else if (header.t === 'reset') this.died();
    else if (header.t === 'ack') {
      this.#unwritten = Math.max(0, this.#unwritten - countIn(header['bytes']));
      this.#goOn();
    }
  }

  #arrived(data: Buffer): void {
    const { length } = data;
    this.#own += length;
    this.#arriving.bytes += length;
    // A box that does not keep to its window is not believed any further.
    if (this.#own > arrivingMax.ofOne || this.#arriving.bytes > arrivingMax.ofAll) return void this.#outer.destroy();
    this.#outer.write(Buffer.from(data), () => {
      if (this.#isOver) return;
      this.#own -= length;
      this.#arriving.bytes -= length;
      this.#wrote(length);
    });
  }

  #goOn(): void {
    if (this.#isOver || this.#unwritten > inWindow) return;
    if (this.#link.hasRoom) this.#outer.resume();
    else this.#link.onRoom(() => this.#goOn());
  }

  died(): void {
    this.#isOver = true;
    this.#arriving.bytes -= this.#own;
    this.#own = 0;
    this.#outer.destroy();
    this.#forget();
  }

  #forward(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      this.#link.send({ t: 'data', c: this.#c }, chunk.subarray(at, at + pieceBytes));
    }
    this.#unwritten += chunk.length;
    if (this.#unwritten <= inWindow && this.#link.hasRoom) return;
    this.#outer.pause();
    this.#goOn();
  }
}
