// Runs compile where it can be stopped: in a worker thread with a limit of time and of memory, so that no tree, however
// hostile, ends the process or holds its event loop (docs/reference/compile.md#yaml; docs/adr/0001-compile-in-a-worker.md).
// It decides how long a compile may take, and what a compile that was stopped answers: a diagnostic, as for any other
// mistake of the author. It never decides what compiles, and supplies nothing that `needs` asks for: its callers loop.
// `compileInline` is the same without a thread, for a command line that ends with its one compile.

import type { Worker } from 'node:worker_threads';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { startThread } from '../../base/thread.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import type { DiagnosticCode } from '../../domain/codes.ts';
import { Fault } from '../../domain/fault.ts';
import { type CompiledOutput, type CompiledResource, type CompilerInput, createRunner } from './run.ts';
import { type Packed, unpacked } from './texts.ts';

export type { CompiledOutput, CompilerInput } from './run.ts';

export interface CompilerOptions {
  /** Limit of one compile, in milliseconds of its thread's processor time; by the clock it may take four times as long. */
  readonly timeoutMs?: number;
  /** Limit of the heap of one worker, in mebibytes. */
  readonly maxHeapMb?: number;
  /**
   * Workers at most; one is started when all others are busy. Each keeps its own cache. One more is started where all of them
   * have been busy for long and an owner waits none of whose trees is being compiled.
   */
  readonly workers?: number;
}

export interface Compiler {
  /**
   * Compiles a tree. Rejects only with a Fault (`compiler-stopped`) or a bug of compile itself. `owner`: whose many trees wait
   * for each other before anybody else's wait for them.
   */
  readonly compile: (input: CompilerInput, owner?: string) => Promise<CompiledOutput>;
  /** `compile` for a process whose catalog is always the same. */
  readonly withCatalog: (
    catalog: CompilerInput['catalog'],
  ) => (input: Omit<CompilerInput, 'catalog'>, owner?: string) => Promise<CompiledOutput>;
  /** Starts a worker where none is: whoever reads files now compiles them next. */
  readonly warm: () => void;
  /** Stops the workers; compiles that run or wait are rejected. Safe to call twice. */
  readonly stop: () => Promise<void>;
}

const defaults: Required<CompilerOptions> = { timeoutMs: 30_000, maxHeapMb: 512, workers: 2 };

/** Compiles in this thread, without limits of time or memory. */
export function compileInline(input: CompilerInput): CompiledOutput {
  return createRunner().run(input);
}

/** Makes a compiler; its workers start with the first compile. */
export function startCompiler(options: CompilerOptions = {}): Compiler {
  const pool = new Pool({ ...defaults, ...options });
  return {
    compile: (input, owner) => pool.compile(input, owner),
    withCatalog: (catalog) => (input, owner) => pool.compile({ ...input, catalog }, owner),
    warm: () => pool.warm(),
    stop: () => pool.stop(),
  };
}

/** A worker that has answered with more characters than this, of a tree that it keeps nothing of, is replaced. */
const largeSize = 8 * 1024 * 1024;

/** Once every worker has been at its compile for longer than this, a project of which none compiles anything gets one more. */
const momentMs = 1_000;

interface Job {
  readonly owner: string;
  readonly input: CompilerInput;
  readonly resolve: (output: CompiledOutput) => void;
  readonly reject: (error: Error) => void;
}

/** Some resources of an output, with the places of their parts. */
export interface Part {
  readonly packed: Packed;
  readonly places: { [resource: string]: NonNullable<CompiledOutput['places']>[string] };
}

/** What a worker answers: an error, or parts, each asked for with 'next', and the output with the last of them. */
export type WorkerAnswer =
  | { readonly kind: 'part'; readonly part: Part }
  | { readonly kind: 'output'; readonly output: CompiledOutput; readonly part: Part }
  | { readonly kind: 'error'; readonly error: Error };

/** A part as it was taken. */
type Taken = Pick<Part, 'places'> & { readonly resources: readonly CompiledResource[] };

/** A worker, and the job that it has. */
interface Hand {
  readonly worker: Worker;
  /** Compiles that it has answered: what it keeps of them takes memory too. */
  answered: number;
  /** Parts of the answer to its job that are here already. */
  parts: Taken[];
  job: Job | null;
  /** Its job has run for longer than a moment. */
  isLate: boolean;
  timer: NodeJS.Timeout | undefined;
}

/** A job, since when it runs, and what its thread had used before. */
interface Watch {
  readonly job: Job;
  readonly begunMs: number;
  readonly before: Promise<number>;
}
/** By the clock, a compile may take so many times its limit. */
const clockTimes = 4;
/** Between two looks at what it has used. */
const looksMs = 100;

class Pool {
  readonly #options: Required<CompilerOptions>;
  readonly #waiting: Job[] = [];
  readonly #busy = new Set<Hand>();
  /** Last used last: the one with the warmest cache is taken first. */
  readonly #idle: Hand[] = [];
  #isStopped = false;

  constructor(options: Required<CompilerOptions>) {
    this.#options = options;
  }

  compile(input: CompilerInput, owner = ''): Promise<CompiledOutput> {
    return new Promise((resolve, reject) => {
      if (this.#isStopped) return reject(stopped());
      this.#waiting.push({ owner, input, resolve, reject });
      this.#next();
    });
  }

  warm(): void {
    if (this.#isStopped || this.#idle.length + this.#busy.size > 0) return;
    const hand = this.#start();
    hand.worker.unref();
    this.#idle.push(hand);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const job of this.#waiting.splice(0)) job.reject(stopped());
    const hands = [...this.#idle, ...this.#busy];
    for (const hand of this.#busy) this.#finish(hand, false)?.reject(stopped());
    this.#idle.length = 0;
    await Promise.all(hands.map(({ worker }) => worker.terminate()));
  }

  #next(): void {
    const { workers } = this.#options;
    if (this.#waiting.length === 0 || this.#busy.size > workers) return;
    const running = (owner: string): number => [...this.#busy].filter(({ job }) => job?.owner === owner).length;
    let next: { readonly job: Job; readonly before: number } | undefined;
    for (const job of this.#waiting) {
      const before = running(job.owner);
      if (next === undefined || before < next.before) next = { job, before };
      if (before === 0) break;
    }
    if (next === undefined) return;
    const isHeldUp = next.before === 0 && [...this.#busy].every(({ isLate }) => isLate);
    if (this.#busy.size === workers && !isHeldUp) return;
    this.#waiting.splice(this.#waiting.indexOf(next.job), 1);
    this.#give(this.#idle.pop() ?? this.#start(), next.job);
  }

  #start(): Hand {
    const { maxHeapMb } = this.#options;
    const worker = startThread(new URL('./serve.ts', import.meta.url), {
      resourceLimits: {
        maxOldGenerationSizeMb: maxHeapMb,
        maxYoungGenerationSizeMb: 6,
        stackSizeMb: 4,
      },
      // A compile reads nothing but its input; what the daemon's environment holds is not for this thread.
      env: {},
      name: 'svc-compile',
    });
    const hand: Hand = { worker, answered: 0, parts: [], job: null, isLate: false, timer: undefined };
    worker.on('message', (answer: WorkerAnswer) => {
      if (answer.kind !== 'error') {
        const { packed, places } = answer.part;
        hand.parts.push({ resources: unpacked(packed), places });
      }
      if (answer.kind === 'part') return worker.postMessage({ kind: 'next' } satisfies Message);
      hand.answered++;
      const { parts } = hand;
      // What it holds of a large tree that leaves nothing for the next is more than a start takes.
      const isSpent = answer.kind === 'output' && hand.job?.input.isSent === true && answer.output.size > largeSize;
      const job = this.#finish(hand, !isSpent);
      if (answer.kind === 'output') job?.resolve(whole(answer.output, parts));
      else job?.reject(answer.error);
    });
    worker.on('error', (error: Error & { readonly code?: string }) => {
      const job = this.#finish(hand, false);
      if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') job?.reject(error);
      else if (job !== null) this.#outOfMemory(hand, job);
    });
    worker.on('exit', (code) => this.#finish(hand, false)?.reject(new Error(`the compile worker exited with ${code}`)));
    return hand;
  }

  /** A worker that had compiled before may have been full of that: the tree gets a fresh one before it is blamed. */
  #outOfMemory(hand: Hand, job: Job): void {
    if (hand.answered > 0) this.#waiting.unshift(job);
    else
      job.resolve(
        refusal('compile-memory', `Compiling took more than ${this.#options.maxHeapMb} MiB of memory and was stopped`),
      );
  }

  #give(hand: Hand, job: Job): void {
    const { timeoutMs } = this.#options;
    this.#busy.add(hand);
    hand.job = job;
    hand.isLate = false;
    setTimeout(() => {
      if (hand.job !== job) return;
      hand.isLate = true;
      this.#next();
    }, momentMs).unref();
    const watch = { job, begunMs: performance.now(), before: usedMs(hand.worker) };
    hand.timer = setTimeout(() => void this.#late(hand, watch), timeoutMs);
    // A process that only waits for work may end; one that waits for an answer may not.
    hand.worker.ref();
    sendInput(hand.worker, job.input, () => hand.job === job).catch((error: Error) => {
      this.#finish(hand, false)?.reject(error);
    });
  }

  /** A machine that is busy with something else makes no tree too large: what counts is what the thread has used. */
  async #late(hand: Hand, watch: Watch): Promise<void> {
    const { timeoutMs } = this.#options;
    const stop = (): void => {
      const message = `Compiling took longer than ${timeoutMs} ms and was stopped`;
      this.#finish(hand, false)?.resolve(refusal('compile-timeout', message));
    };
    const leftMs = watch.begunMs + clockTimes * timeoutMs - performance.now();
    // Also where it does not answer.
    hand.timer = setTimeout(stop, Math.max(leftMs, 0));
    const restMs = timeoutMs + (await watch.before) - (await usedMs(hand.worker));
    if (hand.job !== watch.job) return;
    clearTimeout(hand.timer);
    if (restMs <= 0 || leftMs <= 0) stop();
    else hand.timer = setTimeout(() => void this.#late(hand, watch), Math.max(restMs, looksMs));
  }

  /** Takes the job from a worker, which is kept or given up; null where that has happened already. */
  #finish(hand: Hand, isAlive: boolean): Job | null {
    const { worker, job, timer } = hand;
    clearTimeout(timer);
    hand.job = null;
    hand.parts = [];
    const wasBusy = this.#busy.delete(hand);
    const isWanted = this.#busy.size + this.#idle.length < this.#options.workers;
    if (isAlive && wasBusy && isWanted && !this.#isStopped) {
      worker.unref();
      this.#idle.push(hand);
    } else if (!isAlive || wasBusy) {
      const at = this.#idle.indexOf(hand);
      if (at !== -1) this.#idle.splice(at, 1);
      void worker.terminate();
    }
    // The caller answers first, in this turn.
    queueMicrotask(() => this.#next());
    return job;
  }
}

/** Processor time of a thread, in milliseconds; 0 where it has not come so far as to tell. */
async function usedMs(worker: Worker): Promise<number> {
  const { user, system } = await worker.cpuUsage().catch(() => ({ user: 0, system: 0 }));
  return (user + system) / 1_000;
}

/** An output and its parts as one. */
function whole(output: CompiledOutput, parts: readonly Taken[]): CompiledOutput {
  const resources = parts.flatMap((part) => part.resources);
  if (output.places === undefined) return { ...output, resources };
  return { ...output, resources, places: Object.assign({}, ...parts.map((part) => part.places)) };
}

const stopped = (): Fault => new Fault('unavailable', 'compiler-stopped', 'The compiler was stopped');

/** The output of a compile that was cut short. */
function refusal(code: DiagnosticCode, message: string): CompiledOutput {
  const hint = 'Split the tree, or make its imports, aliases and lists smaller.';
  return {
    ok: false,
    resources: [],
    diagnostics: [{ severity: 'error', code, message, hint }],
    needs: { paths: [], templates: [] },
    templateLock: {},
    assets: [],
    size: 0,
  };
}

// A tree on its way to the worker: in parts, each copied together and handed over without another copy, with a turn of
// the event loop between two, so that a tree of thousands of files holds up nobody. What both threads see is not copied.

/** Bytes and entries of one part: a millisecond or two. */
const partBytes = 1024 * 1024;
const partEntries = 500;

/** An entry with the place of its bytes in the part. */
export interface SentEntry {
  readonly entry: Omit<BundleEntry, 'bytes'>;
  readonly at: number;
  /** -1 where it has none. */
  readonly length: number;
}
export type Message =
  | { readonly kind: 'entries'; readonly bytes: Uint8Array; readonly entries: readonly SentEntry[] }
  | { readonly kind: 'compile'; readonly input: CompilerInput }
  | { readonly kind: 'next' };

interface Port {
  postMessage(message: Message, transfer?: ArrayBuffer[]): void;
}

/** Entries that go together: their bytes copied into one piece, or left in the memory that both threads see. */
class Parcel {
  readonly #memory: SharedArrayBuffer | undefined;
  #batch: BundleEntry[] = [];
  #size = 0;

  constructor(memory: SharedArrayBuffer | undefined) {
    this.#memory = memory;
  }

  /** True where it has become large enough to go. */
  add(entry: BundleEntry): boolean {
    this.#batch.push(entry);
    if (this.#memory === undefined) this.#size += entry.bytes?.length ?? 0;
    return this.#size >= partBytes || this.#batch.length >= partEntries;
  }

  sendTo(port: Port): void {
    if (this.#batch.length === 0) return;
    const memory = this.#memory;
    const bytes = new Uint8Array(memory ?? new ArrayBuffer(this.#size));
    const entries: SentEntry[] = [];
    let at = 0;
    for (const { bytes: content, ...entry } of this.#batch) {
      const length = content?.length ?? -1;
      if (memory !== undefined) at = content?.byteOffset ?? 0;
      else if (content !== undefined) bytes.set(content, at);
      entries.push({ entry, at, length });
      at += Math.max(0, length);
    }
    port.postMessage({ kind: 'entries', bytes, entries }, memory === undefined ? [bytes.buffer as ArrayBuffer] : []);
    this.#batch = [];
    this.#size = 0;
  }
}

/** Sends the files, then what to do with them. Stops where `isWanted` says that nobody waits any more. */
export async function sendInput(port: Port, input: CompilerInput, isWanted: () => boolean): Promise<void> {
  const parcels = new Map<SharedArrayBuffer | undefined, Parcel>();
  for (const entry of input.bundle.entries.values()) {
    const memory = entry.bytes?.buffer instanceof SharedArrayBuffer ? entry.bytes.buffer : undefined;
    const parcel = parcels.get(memory) ?? new Parcel(memory);
    parcels.set(memory, parcel);
    if (!parcel.add(entry)) continue;
    parcel.sendTo(port);
    await yieldToEventLoop();
    if (!isWanted()) return;
  }
  for (const parcel of parcels.values()) parcel.sendTo(port);
  port.postMessage({ kind: 'compile', input: { ...input, bundle: { ...input.bundle, entries: new Map() } } });
}

/** Entries of a part as they were. */
export function* received({ bytes, entries }: Extract<Message, { kind: 'entries' }>): Generator<BundleEntry> {
  for (const { entry, at, length } of entries) {
    yield length < 0 ? entry : { ...entry, bytes: bytes.subarray(at, at + length) };
  }
}
