// What goes over the wire of a box (`svc-init.cjs` is its other end): programs with their standard streams, connections
// from inside to sockets of the daemon, and the tries of a fence. Each program and each connection has a window: who does
// not read is not sent more than 4 MiB, and holds up nobody else.

import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { readFileSync } from 'node:fs';
import { Fault } from '../../domain/fault.ts';
import type { Channel, LastingProgram, SandboxProcess } from './types.ts';
import { countIn, type Header, type LinkOptions, WireLink, type WireState, wordIn } from './wire-link.ts';
import { type Arriving, Connection, Program } from './wire-program.ts';

const source = (url: URL): string => readFileSync(url, 'utf8');
// The packer finds files by such words.
const parts = [
  new URL('./svc-processes.cjs', import.meta.url),
  new URL('./svc-dial.cjs', import.meta.url),
  new URL('./svc-init.cjs', import.meta.url),
];
const init = parts.map(source).join('');
const bridge = source(new URL('./svc-bridge.cjs', import.meta.url));

/** Where the first process listens: a name, and no file, since its root may be read-only. `@` stands for a zero byte. */
const socketName = '@svc-wire';

/**
 * Of programs that end by `process.exit`: that waits for the threads that compile, and one of these may wait for the main thread to
 * collect garbage, so that neither goes on (nodejs/node#54918) and the box stays for ever. Compiled on the main thread nothing does.
 */
export const endingFlags = ['--no-concurrent-recompilation'] as const;
const node = ['node', ...endingFlags].join(' ');

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
    ? `exec 3<&0; ${node} -e "$1" "$2" <&3 3<&- & exec 3<&- </dev/null; wait $!`
    : `${node} -e "$1" "$2" & wait $!`;
  return ['/bin/sh', '-c', script, 'svc-init', init, JSON.stringify({ socket: socketName, ...settings })];
};

/**
 * The first program of a box on this machine, over whose standard streams the wire goes: what takes in the processes of
 * others is bubblewrap's. It ends with the daemon, not by a clock.
 */
export const localInitArgv = (program: string): readonly string[] => {
  const settings = JSON.stringify({ tag: 'local', seconds: 86_400 });
  return [program, ...endingFlags, '--max-old-space-size=64', '-e', init, settings];
};

/** Which the first process of a box keeps to by itself. */
const connectionsMax = 512;

/** A program whose standard streams are the wire. */
export const bridgeArgv = (socket = socketName): readonly string[] => ['node', ...endingFlags, '-e', bridge, socket];

export interface StartRequest {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

export interface WireOptions extends Omit<LinkOptions, 'onFrame' | 'onFirst' | 'owner'> {
  /** The socket of the daemon that a channel leads to; null for one that is not open. */
  readonly socketOf: (channel: string) => string | null;
}

export class Wire {
  readonly #link: WireLink;
  readonly #options: WireOptions;
  readonly #programs = new Map<number, Program>();
  readonly #connections = new Map<number, Connection>();
  readonly #arriving: Arriving = { bytes: 0 };
  readonly #tries = new Map<number, (answered: readonly string[]) => void>();
  #ids = 0;
  #found: readonly { readonly id: number; readonly in: number }[] = [];
  #oomKills = 0;
  #reason = '';

  constructor(options: WireOptions) {
    this.#options = options;
    this.#link = new WireLink({
      ...options,
      owner: randomBytes(16).toString('base64url'),
      onFirst: (state) => this.#first(state),
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

  /**
   * `keep`: the program lasts beyond this daemon, and says of its output what was taken for good. Throws Fault
   * `unprocessable` where the program cannot be started, `unavailable` where the wire is dead.
   */
  async start(request: StartRequest, keep = false): Promise<SandboxProcess> {
    if (this.state === 'dead') throw new Fault('unavailable', 'sandbox-gone', `The sandbox is gone: ${this.#reason}`);
    this.#ids += 1;
    const id = this.#ids;
    const program = new Program(id, this.#link, () => this.#programs.delete(id), keep ? 0 : undefined);
    this.#programs.set(id, program);
    this.#link.send({ t: 'start', id, ...(keep && { keep }) }, Buffer.from(JSON.stringify(request)));
    return program.started;
  }

  /**
   * Takes the box of another daemon over, with a program that runs there: its output goes on behind what was taken for
   * good. Null where it has ended, or was given more or less than that daemon has noted.
   */
  async takeOver({ id, outBytes, inBytes }: LastingProgram): Promise<SandboxProcess | null> {
    const program = new Program(id, this.#link, () => this.#programs.delete(id), outBytes);
    this.#programs.set(id, program);
    await this.#link.open();
    if (!this.#found.some((one) => one.id === id && one.in === inBytes)) return null;
    return program.found();
  }

  #first(state: Header): void {
    const { programs, ids, oom } = state;
    const all = Array.isArray(programs) ? (programs as unknown[]) : [];
    this.#found = all.filter((one): one is { id: number; in: number } => typeof one === 'object' && one !== null);
    this.#ids = Math.max(this.#ids, countIn(ids));
    this.#oomKills = Math.max(this.#oomKills, countIn(oom));
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
    this.#link.sendLast({ t: 'stop' });
    await this.#link.flushed(withinMs);
    this.#link.end('the sandbox was stopped');
  }

  /** Gives the wire up when the box has all that was sent; what runs inside goes on. */
  async leave(withinMs: number): Promise<void> {
    await this.#link.flushed(withinMs);
    this.#link.end('its daemon stops');
  }

  /** Gives the wire up; what runs inside is ended by whoever ends the box. */
  end(reason: string): void {
    this.#link.end(reason);
  }

  #take(header: Header, data: Buffer): void {
    const { t } = header;
    const [c, id] = [countIn(header['c']), countIn(header['id'])];
    if (t === 'open') return this.#connect(c, wordIn(header['name']));
    if (t === 'tried') {
      const answered = Array.isArray(header['answered']) ? (header['answered'] as unknown[]) : [];
      // Whatever is no text has answered too.
      this.#tries.get(id)?.(answered.map((one) => (typeof one === 'string' ? one : '?')));
      this.#tries.delete(id);
      return;
    }
    if (header['c'] !== undefined) return this.#connections.get(c)?.take(header, data);
    if (t === 'exit') this.#oomKills = Math.max(this.#oomKills, countIn(header['oom']));
    this.#programs.get(id)?.take(header, data);
  }

  #connect(c: number, name: string): void {
    const path = this.#options.socketOf(name);
    const isTooMany = this.#connections.size >= connectionsMax || this.#connections.has(c);
    if (path === null || isTooMany) return this.#link.send({ t: 'reset', c });
    const outer = connect({ path, allowHalfOpen: true });
    const of = { link: this.#link, arriving: this.#arriving };
    const connection = new Connection(c, of, outer, () => this.#connections.delete(c));
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
