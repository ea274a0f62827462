// The box of a sandbox of this machine whose programs are started over the wire: one namespace with the wire's end as its
// first program, which speaks over its own standard streams. What a box shows is fixed when it is started; where that has
// changed since, the next program gets a new box, and the old one ends with its last program.

import { constants } from 'node:os';
import { Duplex, Readable, Writable } from 'node:stream';
import { Fault } from '../../domain/fault.ts';
import { type Launch, startChild } from './child.ts';
import type { Marker } from './processes.ts';
import type { Channel, Exit, SandboxProcess } from './types.ts';
import { type StartRequest, Wire } from './wire.ts';
import { BoxGone } from './wire-link.ts';

export interface LocalBoxOptions {
  /** What it shows, so that another state is told from it. */
  readonly key: string;
  readonly launch: () => Promise<Launch>;
  readonly marker: Marker;
  readonly channels: readonly Channel[];
  readonly socketOf: (channel: string) => string | null;
}

const saidBytes = 4096;
/** Both ends are on this machine: who is silent for so long is only slow. */
const pingMs = 30_000;

interface Opened {
  readonly first: SandboxProcess;
  readonly wire: Wire;
}

export class LocalBox {
  readonly key: string;
  readonly #opened: Promise<Opened>;
  #programs = 0;
  #isOld = false;
  #isOver = false;

  constructor(options: LocalBoxOptions) {
    this.key = options.key;
    this.#opened = this.#open(options);
    this.#opened.catch(() => (this.#isOver = true)); // Whoever starts a program hears of it.
  }

  /** Nothing can be started in it any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Throws an error where the box cannot be started. A program that cannot be ends with 127, as in a shell. */
  async start(request: StartRequest): Promise<SandboxProcess> {
    this.#programs += 1;
    try {
      const { first, wire } = await this.#opened;
      const program = await wire.start(request).catch((error: unknown) => {
        if (error instanceof Fault && error.code === 'sandbox-spawn') return notStarted(error);
        throw error;
      });
      void program.exited.then(() => this.#left());
      return ofBox(first.pid, program, () => this.#isOver);
    } catch (error) {
      this.#left();
      throw error;
    }
  }

  /** Ends with its last program. */
  retire(): void {
    this.#isOld = true;
    if (this.#programs === 0) void this.stop();
  }

  /** Ends it and all that runs in it. Never rejects. */
  async stop(): Promise<void> {
    this.#isOver = true;
    const opened = await this.#opened.catch(() => null);
    if (opened === null) return;
    await opened.first.kill();
    opened.wire.end('the sandbox was stopped');
  }

  #left(): void {
    this.#programs -= 1;
    if (this.#isOld && this.#programs === 0) void this.stop();
  }

  async #open({ launch, marker, channels, socketOf }: LocalBoxOptions): Promise<Opened> {
    const first = await startChild(await launch(), marker);
    let said = '';
    first.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString('utf8')).slice(-saidBytes)));
    let stream: Duplex | null = Duplex.from({ readable: first.stdout, writable: first.stdin });
    const dial = async (): Promise<Duplex> => {
      const once = stream;
      stream = null;
      if (once === null) throw new BoxGone('the sandbox has ended');
      return Promise.resolve(once);
    };
    // Nobody else can reach the stream; what the first says is taken as the secret all the same.
    const secret = `${marker.boot}.${marker.id}.${marker.spawn}`;
    const onState = (state: string): void => {
      if (state === 'dead') this.#isOver = true;
    };
    const wire = new Wire({ dial, secret, socketOf, pingMs, onState });
    void first.exited.then(() => wire.end('the sandbox has ended'));
    try {
      await wire.open();
    } catch {
      await first.kill();
      throw new Fault('unavailable', 'sandbox-start', `The sandbox cannot be started: ${said.trim().slice(-500)}`);
    }
    if (channels.length > 0) wire.listen(channels);
    return { first, wire };
  }
}

/** Ended by a signal of its own it has the exit code that a shell gives; ended by its owner or with its box, the signal. */
function ofBox(pid: number, program: SandboxProcess, isOver: () => boolean): SandboxProcess {
  let isKilled = false;
  const exited = program.exited.then(({ code, signal }): Exit => {
    if (code !== null || signal === null || isKilled || isOver()) return { code, signal };
    return { code: 128 + constants.signals[signal], signal: null };
  });
  const kill = async (): Promise<Exit> => {
    isKilled = true;
    await program.kill();
    return exited;
  };
  const { stdin, stdout, stderr } = program;
  return { pid, stdin, stdout, stderr, exited, kill };
}

function notStarted(fault: Fault): SandboxProcess {
  const exited = Promise.resolve<Exit>({ code: 127, signal: null });
  const stdin = new Writable({ write: (_chunk, _encoding, done) => done() });
  const kill = () => exited;
  return {
    pid: 0,
    stdin,
    stdout: Readable.from([]),
    stderr: Readable.from([Buffer.from(`${fault.message}\n`)]),
    exited,
    kill,
  };
}
