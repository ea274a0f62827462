// Lines of JSON over a program's stdin and stdout, with bounds: the size of a line, what it holds, questions that wait, and no reading
// ahead of a consumer that is behind. What is not a JSON object on a line of its own is reported, never skipped.

import type { Readable, Writable } from 'node:stream';
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { Joined } from '../../base/joined.ts';
import { exceedsValues, parseWithin, TooDeep } from '../../domain/depth.ts';
import { parseJson } from '../../domain/json-text.ts';
import { type ReadingShare, SharedReading } from './shared-reading.ts';
import type { HarnessWriting, Limits } from './types.ts';

export interface FrameEvents {
  /** Waited for before each message is passed on. */
  gate(): Promise<void> | undefined;
  /**
   * `session/update`s, which are kept from the library: it would take them up in its own time, after an answer behind them.
   * `end`: the byte of the output behind it.
   */
  onUpdate(params: unknown, end: number): void;
  /** Any other message that was read. */
  onOther(message: Read): void;
  /** Waited for before each message that is written. */
  onWrite(message: HarnessWriting): Promise<void>;
  onGarbage(line: string): void;
  onTooLarge(size: string): void;
  /** A large line has not come for long, and others wait to write theirs. */
  onSlow(): void;
  /** The output ended; `partial` is a last line without its end. */
  onEnd(partial: string | undefined): void;
  /** An answer to nothing that was asked; dropped. */
  onStray(id: unknown): void;
}

/** `answer`: to the prompt of an earlier connection. */
export interface Read {
  readonly kind: 'request' | 'answer' | 'other';
  /** The byte of the output behind it. */
  readonly end: number;
  readonly message: AnyMessage;
}

/** Where a connection goes on from that of another process. */
interface FrameStart {
  /** Of the output. */
  readonly from: number;
  /** Ids of requests that are free. */
  readonly nextId: number;
  /** Of a request that waits for its answer. */
  readonly asked: number | undefined;
  /** Absent: nothing else is read. */
  readonly share?: ReadingShare | undefined;
}

const newline = 0x0a;
const sampleCharsMax = 120;
/**
 * Bytes of a line from which on what it takes to read it goes in several turns of the event loop: its looking at, its
 * characters, its values.
 */
const largeLine = 1_048_576;
/** What is read of a program before it is another one's turn, in bytes; a line costs some that it does not have. */
const [sliceBytes, lineBytes] = [16_384, 128];
/** Of a line that takes a place among the large ones. */
const placeBytes = 262_144;
/**
 * Lists and objects inside each other: what is deeper by some thousands throws at whatever follows it by calls, such as the
 * text that is made of it.
 */
const maxLevels = 1_000;
/** What the library repeats in an answer. */
const maxNameChars = 1_024;
/** Of a line that is JSON and no message of JSON-RPC; more is no slip of a program that means well. */
const strayBytes = 65_536;
const isLongNamed = (message: AnyMessage): boolean =>
  ['method', 'id'].some((name) => {
    const value = (message as { readonly [name: string]: unknown })[name];
    return typeof value === 'string' && value.length > maxNameChars;
  });

/** The start of a line for a message, printable. */
const sample = (bytes: Buffer): string =>
  bytes
    .subarray(0, sampleCharsMax * 4)
    .toString('utf8')
    .replace(/[\u0000-\u001f\u007f]/g, ' ')
    .slice(0, sampleCharsMax);

/** How lines share the event loop and the memory with those of others. */
interface Manners extends Pick<ReadingShare, 'turn'> {
  /** Waited for before more is read of a line that is large; the answer says that it was read, or will not be. */
  place(): Promise<{ whole(): void; give(): void }>;
}

/** Yields complete lines; returns the unfinished last one. A line longer than `maxBytes` ends it with `tooLarge`. */
async function* lines(
  input: Readable,
  maxBytes: number,
  from: number,
  { turn, place }: Manners,
): AsyncGenerator<{ readonly line: Buffer; readonly end: number }, Buffer | 'tooLarge' | undefined> {
  const pending = new Joined();
  let before = from;
  let spent = 0;
  let large: Awaited<ReturnType<Manners['place']>> | undefined;
  try {
    for await (const read of input as AsyncIterable<Buffer | string>) {
      const chunk = typeof read === 'string' ? Buffer.from(read) : read;
      let start = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
        // Empty ones are nothing: a program that writes millions holds nobody up.
        if (at === start && pending.length === 0) {
          start = at + 1;
          spent += 1;
          continue;
        }
        const tail = chunk.subarray(start, at);
        if (pending.length + tail.length > maxBytes) return 'tooLarge';
        pending.add(tail);
        const line = pending.take();
        large?.whole();
        start = at + 1;
        spent += line.length + lineBytes;
        if (spent >= sliceBytes) {
          spent = 0;
          await turn();
        }
        yield { line, end: before + start };
        large?.give();
        large = undefined;
      }
      before += chunk.length;
      if (start < chunk.length) {
        pending.add(chunk.subarray(start));
        if (pending.length > maxBytes) return 'tooLarge';
        if (pending.length > placeBytes) large ??= await place();
      }
    }
  } finally {
    large?.give();
  }
  return pending.length === 0 ? undefined : pending.take();
}

async function parse(line: Buffer, turn: Manners['turn']): Promise<AnyMessage | 'tooDeep' | undefined> {
  const text = line.toString('utf8');
  if (line.length >= largeLine) await turn();
  let value: unknown;
  try {
    value = parseWithin(line, maxLevels, () => parseJson(text));
  } catch (error) {
    return error instanceof TooDeep ? 'tooDeep' : undefined;
  }
  if (line.length >= largeLine) await turn();
  const isMessage =
    typeof value === 'object' && value !== null && !Array.isArray(value) && ('method' in value || 'id' in value);
  return isMessage ? (value as AnyMessage) : undefined;
}

/** A request of the library, whose ids begin with 0. */
const numbered = (message: AnyMessage, nextId: number): AnyMessage =>
  'method' in message && 'id' in message && typeof message.id === 'number'
    ? { ...message, id: message.id + nextId }
    : message;

type Id = string | number | null;

/**
 * What the program asked and was not answered yet, also one whose answer it does not read: the library keeps each question, and each
 * answer that waits to be written, for as long as that takes.
 */
class Questions {
  readonly #open = new Map<Id, { readonly end: number; readonly bytes: number }[]>();
  #count = 0;
  #bytes = 0;
  #freed = Promise.withResolvers<void>();

  add(id: Id, end: number, bytes: number): void {
    const same = this.#open.get(id) ?? [];
    same.push({ end, bytes });
    this.#open.set(id, same);
    this.#count += 1;
    this.#bytes += bytes;
  }

  /** The byte behind the question of this id that is answered next. */
  endOf(id: Id): number | undefined {
    return this.#open.get(id)?.[0]?.end;
  }

  /** Its answer has gone out. */
  remove(id: Id): void {
    const same = this.#open.get(id);
    const answered = same?.shift();
    if (answered === undefined) return;
    if (same?.length === 0) this.#open.delete(id);
    this.#count -= 1;
    this.#bytes -= answered.bytes;
    this.#freed.resolve();
  }

  /** Resolves when one more may be asked. */
  async room({ maxOpenRequests, maxFrameBytes }: FrameLimits): Promise<void> {
    while (this.#count >= maxOpenRequests || this.#bytes >= maxFrameBytes) {
      this.#freed = Promise.withResolvers();
      await this.#freed.promise;
    }
  }
}

type FrameLimits = Pick<Limits, 'maxFrameBytes' | 'maxFrameValues' | 'maxOpenRequests'>;

/** Of a call or a notification: whether it is as JSON-RPC has them. */
function isWellFormed(message: AnyMessage & { readonly method: string }): boolean {
  const id: unknown = 'id' in message ? message.id : undefined;
  const isId = id === undefined || id === null || typeof id === 'string' || Number.isFinite(id);
  return message.jsonrpc === '2.0' && typeof message.method === 'string' && isId;
}

/** The id under which the library answers it; undefined where it does not. What is no message it answers without one. */
function answeredAs(message: AnyMessage): Id | undefined {
  if (!('method' in message)) return undefined;
  return isWellFormed(message) ? ('id' in message ? message.id : undefined) : null;
}

/** What was asked on either side and is not answered yet. */
interface Open {
  /** Ids of our requests, as they went out. */
  readonly asked: Set<Id>;
  readonly questions: Questions;
}

function mannersOf(limits: FrameLimits, events: FrameEvents, { share }: FrameStart, questions: Questions): Manners {
  const { turn, place } = share ?? new SharedReading().of('');
  return {
    turn,
    async place() {
      // What would be waited for once the line is there.
      await events.gate();
      await questions.room(limits);
      let isComing = true;
      const give = await place(() => {
        if (isComing) events.onSlow();
        isComing = false;
      });
      return { whole: () => void (isComing = false), give };
    },
  };
}

/** Reads the next message for the library; undefined at the end, which was told. */
function reader(
  stdout: Readable,
  limits: FrameLimits,
  events: FrameEvents,
  start: FrameStart,
  { asked, questions }: Open,
): () => Promise<AnyMessage | undefined> {
  const { maxFrameBytes, maxFrameValues } = limits;
  const manners = mannersOf(limits, events, start, questions);
  const { turn } = manners;
  const source = lines(stdout, maxFrameBytes, start.from, manners);
  /** What a line holds; undefined where it ends the stream. */
  const messageOf = async (line: Buffer): Promise<AnyMessage | undefined> => {
    if (line.length > maxFrameValues && exceedsValues(line, maxFrameValues)) {
      events.onTooLarge(`${maxFrameValues} values`);
      return undefined;
    }
    if (line.length >= largeLine) await turn();
    const message = await parse(line, turn);
    if (message === undefined) events.onGarbage(sample(line));
    else if (message === 'tooDeep') events.onTooLarge(`${maxLevels} levels`);
    else if (!isLongNamed(message)) return message;
    else events.onTooLarge(`${maxNameChars} characters in the name of a method or the id of a call`);
    return undefined;
  };
  return async () => {
    for (;;) {
      // A destroyed or broken pipe is an end like any other.
      const read = await source.next().catch(() => ({ done: true as const, value: undefined }));
      if (read.done) {
        if (read.value === 'tooLarge') events.onTooLarge(`${maxFrameBytes} bytes`);
        else events.onEnd(read.value === undefined ? undefined : sample(read.value));
        return undefined;
      }
      const { line, end } = read.value;
      if (line.length === 1 && line[0] === 0x0d) continue;
      const message = await messageOf(line);
      if (message === undefined) return undefined;
      if (!('method' in message) && !asked.delete(message.id)) {
        events.onStray(message.id);
        continue;
      }
      await events.gate();
      if ('method' in message && !('id' in message) && message.method === 'session/update') {
        events.onUpdate(message.params, end);
        continue;
      }
      if ('method' in message) {
        const isRequest = 'id' in message;
        // The library would repeat it whole in its answer.
        if (line.length > strayBytes && !isWellFormed(message)) {
          events.onGarbage(sample(line));
          return undefined;
        }
        const id = answeredAs(message);
        if (id !== undefined) {
          await questions.room(limits);
          questions.add(id, end, line.length);
        }
        events.onOther({ kind: isRequest ? 'request' : 'other', end, message });
        return message;
      }
      const isAdopted = message.id === start.asked;
      events.onOther({ kind: isAdopted ? 'answer' : 'other', end, message });
      if (isAdopted) continue;
      return typeof message.id === 'number' ? { ...message, id: message.id - start.nextId } : message;
    }
  };
}

/** What is about to be written, and noted as asked or answered. */
function written(message: AnyMessage, { asked, questions }: Open): Omit<HarnessWriting, 'bytes'> {
  if (!('method' in message)) return { id: undefined, method: undefined, answers: questions.endOf(message.id) };
  if (!('id' in message)) return { id: undefined, method: message.method, answers: undefined };
  asked.add(message.id);
  return { id: typeof message.id === 'number' ? message.id : undefined, method: message.method, answers: undefined };
}

/** Nobody but the connection ends the stream: after its last message it stays open until then. */
export function frameStream(
  stdin: Writable,
  stdout: Readable,
  limits: FrameLimits,
  events: FrameEvents,
  start: FrameStart = { from: 0, nextId: 0, asked: undefined },
): Stream {
  const open: Open = { asked: new Set(start.asked === undefined ? [] : [start.asked]), questions: new Questions() };
  const next = reader(stdout, limits, events, start, open);
  let ended = false;
  const readable = new ReadableStream<AnyMessage>(
    {
      pull: async (controller) => {
        const message = ended ? undefined : await next();
        ended ||= message === undefined;
        if (message !== undefined) controller.enqueue(message);
      },
      // The iterator is left to the stream's own end: waiting for it here would wait for the program.
      cancel: () => void stdout.destroy(),
    },
    { highWaterMark: 0 },
  );
  const writable = new WritableStream<AnyMessage>({
    write: async (given) => {
      const message = numbered(given, start.nextId);
      const line = Buffer.from(`${JSON.stringify(message)}\n`);
      await events.onWrite({ ...written(message, open), bytes: line.length });
      await writeLine(stdin, line);
      if (!('method' in message)) open.questions.remove(message.id);
    },
  });
  return { readable, writable };
}

const writeLine = (stdin: Writable, line: Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    stdin.write(line, (error) => (error ? reject(error) : resolve()));
  });
