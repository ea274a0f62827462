// Lines of JSON over a program's stdin and stdout, with bounds: the size of a line, what it holds, and no reading ahead of a consumer
// that is behind. What is not a JSON object on a line of its own is reported, never skipped.

import type { Readable, Writable } from 'node:stream';
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { holdsMore } from '../../domain/depth.ts';
import type { Limits } from './types.ts';

export interface FrameEvents {
  /** Waited for before each message is passed on. */
  gate(): Promise<void> | undefined;
  /** `session/update`s, which are kept from the library: it would take them up in its own time, after an answer behind them. */
  onUpdate(params: unknown): void;
  onGarbage(line: string): void;
  onTooLarge(size: string): void;
  /** The output ended; `partial` is a last line without its end. */
  onEnd(partial: string | undefined): void;
  /** An answer to nothing that was asked; dropped. */
  onStray(id: unknown): void;
}

const newline = 0x0a;
const sampleCharsMax = 120;
/** What the library repeats in an answer. */
const maxNameChars = 1_024;
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

/** Yields complete lines; returns the unfinished last one. A line longer than `maxBytes` ends it with `tooLarge`. */
async function* lines(input: Readable, maxBytes: number): AsyncGenerator<Buffer, Buffer | 'tooLarge' | undefined> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (const read of input as AsyncIterable<Buffer | string>) {
    const chunk = typeof read === 'string' ? Buffer.from(read) : read;
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      const tail = chunk.subarray(start, at);
      if (pendingBytes + tail.length > maxBytes) return 'tooLarge';
      const line = pending.length === 0 ? tail : Buffer.concat([...pending, tail]);
      pending = [];
      pendingBytes = 0;
      start = at + 1;
      yield line;
    }
    if (start < chunk.length) {
      pending.push(chunk.subarray(start));
      pendingBytes += chunk.length - start;
      if (pendingBytes > maxBytes) return 'tooLarge';
    }
  }
  return pendingBytes === 0 ? undefined : Buffer.concat(pending);
}

function parse(line: Buffer): AnyMessage | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line.toString('utf8'));
  } catch {
    return undefined;
  }
  const isMessage =
    typeof value === 'object' && value !== null && !Array.isArray(value) && ('method' in value || 'id' in value);
  return isMessage ? (value as AnyMessage) : undefined;
}

/** Nobody but the connection ends the stream: after its last message it stays open until then. */
export function frameStream(
  stdin: Writable,
  stdout: Readable,
  limits: Pick<Limits, 'maxFrameBytes' | 'maxFrameValues'>,
  events: FrameEvents,
): Stream {
  const { maxFrameBytes, maxFrameValues } = limits;
  const asked = new Set<string | number | null>();
  const source = lines(stdout, maxFrameBytes);
  let ended = false;
  const next = async (): Promise<AnyMessage | undefined> => {
    for (;;) {
      // A destroyed or broken pipe is an end like any other.
      const read = await source.next().catch(() => ({ done: true as const, value: undefined }));
      if (read.done) {
        ended = true;
        if (read.value === 'tooLarge') events.onTooLarge(`${maxFrameBytes} bytes`);
        else events.onEnd(read.value === undefined ? undefined : sample(read.value));
        return undefined;
      }
      if (read.value.length === 0 || (read.value.length === 1 && read.value[0] === 0x0d)) continue;
      if (read.value.length > maxFrameValues && holdsMore(read.value, maxFrameValues)) {
        ended = true;
        events.onTooLarge(`${maxFrameValues} values`);
        return undefined;
      }
      const message = parse(read.value);
      if (message === undefined) {
        ended = true;
        events.onGarbage(sample(read.value));
        return undefined;
      }
      if (isLongNamed(message)) {
        ended = true;
        events.onTooLarge(`${maxNameChars} characters in the name of a method or the id of a call`);
        return undefined;
      }
      if (!('method' in message) && !asked.delete(message.id)) {
        events.onStray(message.id);
        continue;
      }
      await events.gate();
      if (!('method' in message) || 'id' in message || message.method !== 'session/update') return message;
      events.onUpdate(message.params);
    }
  };
  const readable = new ReadableStream<AnyMessage>(
    {
      pull: async (controller) => {
        const message = ended ? undefined : await next();
        if (message !== undefined) controller.enqueue(message);
      },
      // The iterator is left to the stream's own end: waiting for it here would wait for the program.
      cancel: () => void stdout.destroy(),
    },
    { highWaterMark: 0 },
  );
  const writable = new WritableStream<AnyMessage>({
    write: (message) => {
      if ('method' in message && 'id' in message) asked.add(message.id);
      return writeLine(stdin, `${JSON.stringify(message)}\n`);
    },
  });
  return { readable, writable };
}

const writeLine = (stdin: Writable, line: string): Promise<void> =>
  new Promise((resolve, reject) => {
    stdin.write(line, (error) => (error ? reject(error) : resolve()));
  });
