// What goes over the wire of a box (`svc-init.cjs` is its other end): programs with their standard streams, connections
// from inside to sockets of the daemon, and the tries of a fence. Each program and each connection has a window: who does
// not read is not sent more than 4 MiB, and holds up nobody else.

import { connect, type Socket } from 'node:net';
import { Readable, Writable } from 'node:stream';
import { readFileSync } from 'node:fs';
import { Fault } from '../../domain/fault.ts';
import { cannotStart } from './child.ts';
import type { Channel, Exit, SandboxProcess } from './types.ts';
import { type Header, type LinkOptions, WireLink, type WireState } from './wire-link.ts';

const init = readFileSync(new URL('./svc-init.cjs', import.meta.url), 'utf8');
const bridge = readFileSync(new URL('./svc-bridge.cjs', import.meta.url), 'utf8');

/** Where the first process listens: a name, and no file, since its root may be read-only. `@` stands for a zero byte. */
const socketName = '@svc-wire';

/**
 * The first process of a box: a shell, which as the first of its namespace takes in what others leave behind, and the
 * end of the wire as its child. Needs `/bin/sh` and Node 18 or later.
 */
export const initArgv = (settings: {
  readonly tag: string;
  readonly socket?: string;
  readonly seconds?: number;
  /** The first peer comes over the standard streams of the box. */
  readonly stdio?: boolean;
}) => {
  // What a shell starts beside itself has no standard input of its own accord.
  const script = settings.stdio
    ? 'exec 3<&0; node -e "$1" "$2" <&3 3<&- & exec 3<&- </dev/null; wait $!'
    : 'node -e "$1" "$2" & wait $!';
  return ['/bin/sh', '-c', script, 'svc-init', init, JSON.stringify({ socket: socketName, ...settings })];
};

/**
 * The first program of a box on this machine, over whose standard streams the wire goes: what takes in the processes of
 * others is bubblewrap's. It ends with the daemon, not by a clock.
 */
export const localInitArgv = (node: string): readonly string[] => {
  const settings = JSON.stringify({ tag: 'local', seconds: 86_400 });
  return [node, '--max-old-space-size=64', '-e', init, settings];
};

/** A program whose standard streams are the wire. */
export const bridgeArgv = (socket = socketName): readonly string[] => ['node', '-e', bridge, socket];

const pieceBytes = 64 * 1024;
/** What the box has not written to a program's input, or to a connection's inner end, yet. */
const inWindow = 1024 * 1024;
const outLimit = 6 * 1024 * 1024;

export interface StartRequest {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

export interface WireOptions extends Omit<LinkOptions, 'onFrame'> {
  /** The socket of the daemon that a channel leads to; null for one that is not open. */
  readonly socketOf: (channel: string) => string | null;
}

export class Wire {
  readonly #link: WireLink;
  readonly #options: WireOptions;
  readonly #programs = new Map<number, Program>();
  readonly #connections = new Map<number, Connection>();
  readonly #tries = new Map<number, (answered: readonly string[]) => void>();
  #ids = 0;
  #oomKills = 0;
  #reason = '';

  constructor(options: WireOptions) {
    this.#options = options;
    this.#link = new WireLink({
      ...options,
      onFrame: (header, data) => this.#take(header, data),
      onState: (state, reason) => {
        if (state === 'dead') this.#died(reason);
        options.onState?.(state, reason);
      },
    });
  }

  get state(): WireState {
    return this.#link.state;
  }

  get cuts(): number {
    return this.#link.cuts;
  }

  /** Processes of the box that the kernel ended for want of memory, as far as it has told. */
  get oomKills(): number {
    return this.#oomKills;
  }

  open(): Promise<void> {
    return this.#link.open();
  }

  /** Throws Fault `unprocessable` where the program cannot be started, `unavailable` where the wire is dead. */
  async start(request: StartRequest): Promise<SandboxProcess> {
    if (this.state === 'dead') throw new Fault('unavailable', 'sandbox-gone', `The sandbox is gone: ${this.#reason}`);
    this.#ids += 1;
    const id = this.#ids;
    const program = new Program(id, this.#link, () => this.#programs.delete(id));
    this.#programs.set(id, program);
    this.#link.send({ t: 'start', id }, Buffer.from(JSON.stringify(request)));
    return program.started;
  }

  /** Ports of loopback inside that lead to sockets of the daemon. Those that are open already stay. */
  listen(channels: readonly Channel[]): void {
    this.#link.send({ t: 'listen', channels });
  }

  /** Which of the addresses answer from inside. */
  tryAll(targets: readonly { readonly host: string; readonly port: number }[]): Promise<readonly string[]> {
    if (this.state === 'dead') return Promise.resolve([]);
    this.#ids += 1;
    const id = this.#ids;
    return new Promise((resolve) => {
      this.#tries.set(id, resolve);
      this.#link.send({ t: 'try', id, targets });
    });
  }

  /** Asks the first process to end all programs and itself, and gives the wire up. */
  async stop(withinMs: number): Promise<void> {
    this.#link.send({ t: 'stop' });
    await this.#link.flushed(withinMs);
    this.#link.end('the sandbox was stopped');
  }

  /** Gives the wire up; what runs inside is ended by whoever ends the box. */
  end(reason: string): void {
    this.#link.end(reason);
  }

  #take(header: Header, data: Buffer): void {
    const { t } = header;
    if (t === 'open') return this.#connect(Number(header['c']), String(header['name']));
    if (t === 'tried') {
      const answered = header['answered'];
      this.#tries.get(Number(header['id']))?.(Array.isArray(answered) ? answered.map(String) : []);
      this.#tries.delete(Number(header['id']));
      return;
    }
    if (header['c'] !== undefined) return this.#connections.get(Number(header['c']))?.take(header, data);
    if (t === 'exit') this.#oomKills = Math.max(this.#oomKills, Number(header['oom']) || 0);
    this.#programs.get(Number(header['id']))?.take(header, data);
  }

  #connect(c: number, name: string): void {
    const path = this.#options.socketOf(name);
    if (path === null) return this.#link.send({ t: 'reset', c });
    const outer = connect({ path, allowHalfOpen: true });
    const connection = new Connection(c, this.#link, outer, () => this.#connections.delete(c));
    this.#connections.set(c, connection);
  }

  #died(reason: string): void {
    this.#reason = reason;
    for (const program of [...this.#programs.values()]) program.died();
    for (const connection of [...this.#connections.values()]) connection.died();
    for (const resolve of this.#tries.values()) resolve([]);
    this.#tries.clear();
  }
}

/** One program of the box, as a process of a sandbox. */
class Program {
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

  constructor(id: number, link: WireLink, forget: () => void) {
    this.#id = id;
    this.#link = link;
    this.#forget = forget;
    this.started = this.#start.promise;
    const consumed = (bytes: number): void => link.send({ t: 'ack', id, bytes });
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
    if (header.t === 'out') output.arrived(data);
    else if (header.t === 'outend') this.#outputEnded(output);
    else if (header.t === 'started') this.#start.resolve(this.#process(Number(header['pid'])));
    else if (header.t === 'failed') this.#failed(header['code']);
    else if (header.t === 'inack') this.#written(Number(header['bytes']));
    else if (header.t === 'exit') this.#exit(header);
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
    return { pid, stdin: this.#stdin, stdout, stderr, exited: this.#exited.promise, kill };
  }

  #failed(code: unknown): void {
    this.#start.reject(cannotStart({ code: String(code).slice(0, 40) }));
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
    if (this.#unwritten <= inWindow) done();
    else this.#room = done;
  }

  #written(bytes: number): void {
    this.#unwritten -= bytes;
    if (this.#unwritten > inWindow) return;
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

/** A connection from inside to a socket of the daemon. */
class Connection {
  readonly #c: number;
  readonly #link: WireLink;
  readonly #outer: Socket;
  readonly #forget: () => void;
  #unwritten = 0;
  #isOver = false;

  constructor(c: number, link: WireLink, outer: Socket, forget: () => void) {
    this.#c = c;
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
    if (header.t === 'data') {
      const { length } = data;
      const told = (): void => {
        if (!this.#isOver) this.#link.send({ t: 'ack', c: this.#c, bytes: length });
      };
      this.#outer.write(Buffer.from(data), told);
    } else if (header.t === 'end') this.#outer.end();
    else if (header.t === 'reset') this.died();
    else if (header.t === 'ack') {
      this.#unwritten -= Number(header['bytes']) || 0;
      if (this.#unwritten <= inWindow) this.#outer.resume();
    }
  }

  died(): void {
    this.#isOver = true;
    this.#outer.destroy();
    this.#forget();
  }

  #forward(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += pieceBytes) {
      this.#link.send({ t: 'data', c: this.#c }, chunk.subarray(at, at + pieceBytes));
    }
    this.#unwritten += chunk.length;
    if (this.#unwritten > inWindow) this.#outer.pause();
  }
}
