// Bodies over a mebibyte, in no more memory than they take: one that says how long it is is read into one piece, and long
// texts of files are taken out of their JSON where they stand, escapes undone in place, before a parser sees the rest.

import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import { sharedRoom } from '../../base/shared-room.ts';
import { Joined } from '../../base/joined.ts';
import { errorCodes, type FastifyInstance, type FastifyRequest } from 'fastify';
import { Fault } from '../../domain/fault.ts';
import { longTexts, type TextPlace, UnterminatedText } from '../../domain/long-texts.ts';
import { messagesTable } from '../../domain/messages.ts';

/** Bytes of a body; one of more is large. */
export const largeFrom = 1_048_576;

/** What a body is called on its way to the framework, whatever it was sent as. */
const types = { any: 'application/octet-stream', large: 'application/x-large' } as const;

export const typeOf = (request: FastifyRequest): string =>
  Number(request.headers['content-length'] ?? 0) > largeFrom ? types.large : types.any;

/** The readers of bodies: one that joins parts as they come, and for a large one of a length that is known another, which joins none. */
export function addReaders(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', readJoined);
  app.addContentTypeParser(types.large, readAnnounced);
}

/** The framework's own reader keeps every part to the end: of a body in parts of a byte each, some hundred times its size. */
async function readJoined(request: FastifyRequest, payload: Readable): Promise<Buffer> {
  const { bodyLimit } = request.routeOptions;
  const said = request.headers['content-length'];
  if (Number(said ?? 0) > bodyLimit) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
  const body = new Joined();
  await eachPart(request, payload, (part) => {
    body.add(part);
    if (body.length <= bodyLimit) return;
    for (const one of body.drop()) letGo(one);
    throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
  });
  if (said !== undefined && Number(said) !== body.length) throw new errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH();
  return body.take();
}

/** Bodies that are being read, and what ends that. */
const readings = new WeakMap<object, (why: Error) => void>();

/** Has no more of a body read, and its request answered by this failure; false where all of it is there, or none is read yet. */
export function refuseRest({ raw }: FastifyRequest, why: Error): boolean {
  const end = readings.get(raw);
  if (end === undefined || raw.complete) return false;
  end(why);
  return true;
}

/** Takes the parts in the turn in which they arrive. */
function eachPart({ raw }: FastifyRequest, payload: Readable, take: (part: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    // The rest goes by unread; the connection outlives a refusal, for it carries the answer.
    const end = (why: Error): void => {
      payload.off('data', onData);
      reject(why);
    };
    const onData = (part: Buffer): void => {
      try {
        take(part);
      } catch (error) {
        end(error as Error);
      }
    };
    readings.set(raw, end);
    payload.on('data', onData);
    payload.once('end', resolve);
    // Stays: what breaks behind a refusal is nobody's any more.
    payload.on('error', (error: Error & { statusCode?: number }) => {
      error.statusCode ??= 400;
      reject(error);
    });
    payload.resume();
  });
}

async function readAnnounced(request: FastifyRequest, payload: Readable): Promise<Buffer> {
  const length = Number(request.headers['content-length']);
  if (length > request.routeOptions.bodyLimit) throw new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE();
  // The files of a tree go on to the thread that compiles them, which reads them where they are.
  const { takesTexts } = request.routeOptions.config as { readonly takesTexts?: boolean };
  const whole = takesTexts === true ? sharedRoom(length) : Buffer.allocUnsafeSlow(length);
  let at = 0;
  await eachPart(request, payload, (part) => {
    at += part.copy(whole, at);
    letGo(part);
  });
  if (at !== length) throw new errorCodes.FST_ERR_CTP_INVALID_CONTENT_LENGTH();
  return whole;
}

/** Frees the memory of a part that nobody reads any more: left to the collector, all parts would take as much again. */
function letGo({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** A text that was taken out: its UTF-8, or where it has none a string that says so by being none either. */
export type TakenText = Buffer | '\ud800';

const taken = new WeakMap<Buffer, ReadonlyMap<string, TakenText>>();

/** The texts that were taken out of a body by `takeTexts`, by what stands in their place. */
export const textsOf = (body: Buffer): ReadonlyMap<string, TakenText> => taken.get(body) ?? new Map();

const backslash = 0x5c;
/** A shorter text stays where it is. */
const longFrom = 256;
/** Bytes of a body without its long texts. */
const restMax = 16_777_216;
/** Bytes of a text whose escapes are undone between two turns of whoever else there is. */
const writtenBytes = 524_288;

const notJson = (): Fault => new Fault('invalid', 'invalid-json', messagesTable.notJson);

/**
 * A body of the same JSON in which each long text at `files[…].content` is a name that nobody can have sent; the texts are
 * `textsOf` the answer, and views of the bytes given, which are changed. Throws Fault `invalid` for a text that is none;
 * whether the rest is JSON, a parser tells.
 */
export async function takeTexts(bytes: Buffer): Promise<Buffer> {
  if (!isUtf8(bytes)) throw new Fault('invalid', 'invalid-json', 'The body is not valid UTF-8.');
  const texts = new Map<string, TakenText>();
  const rest: Buffer[] = [];
  const prefix = randomUUID();
  let from = 0;
  try {
    for (const found of longTexts(bytes, longFrom, isFileText)) {
      if (found === undefined) {
        await yieldToEventLoop();
        continue;
      }
      const { start, end } = found;
      const undoing = unescaped(bytes, start + 1, end);
      let done = undoing.next();
      for (; done.done !== true; done = undoing.next()) await yieldToEventLoop();
      const name = `${prefix}:${texts.size}`;
      texts.set(name, done.value);
      rest.push(bytes.subarray(from, start + 1), Buffer.from(name));
      from = end;
    }
  } catch (error) {
    throw error instanceof UnterminatedText ? notJson() : error;
  }
  rest.push(bytes.subarray(from));
  const size = rest.reduce((sum, part) => sum + part.length, 0);
  // It is made a text, and that made texts: all that a client has to say takes a fraction.
  if (size > restMax) {
    const message = `Beside the contents of its files the body holds over ${restMax} bytes.`;
    throw new Fault('too_large', 'body-too-large', message);
  }
  const body = Buffer.concat(rest, size);
  taken.set(body, texts);
  return body;
}

/** Whether what stands there is `files[…].content`. */
const isFileText = ({ kinds, keys }: TextPlace): boolean =>
  kinds.join('') === '{[{' && keys[0] === 'files' && keys[2] === 'content';

const escaped: { readonly [letter: number]: number } = {
  0x22: 0x22,
  0x5c: 0x5c,
  0x2f: 0x2f,
  0x62: 0x08,
  0x66: 0x0c,
  0x6e: 0x0a,
  0x72: 0x0d,
  0x74: 0x09,
};

/** Undoes the escapes of `[from, to)` in place: what they stand for is never longer. Yields between slices. */
function* unescaped(bytes: Buffer, from: number, to: number): Generator<undefined, TakenText> {
  let write = from;
  let isText = true;
  let slice = from + writtenBytes;
  for (let at = from; at < to; ) {
    const byte = bytes[at] as number;
    if (byte < 0x20) throw notJson();
    if (byte !== backslash) {
      bytes[write++] = byte;
      at += 1;
    } else if (bytes[at + 1] === 0x75) {
      const unit = unitAt(bytes, at + 2);
      const isHigh = unit >= 0xd800 && unit < 0xdc00;
      const isPair = isHigh && bytes[at + 6] === backslash && bytes[at + 7] === 0x75;
      const low = isPair ? unitAt(bytes, at + 8) : 0;
      const isWhole = isPair && low >= 0xdc00 && low < 0xe000;
      if (!isWhole && unit >= 0xd800 && unit < 0xe000) isText = false;
      const point = isWhole ? 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00) : unit;
      write += bytes.write(String.fromCodePoint(point), write, 'utf8');
      at += isWhole ? 12 : 6;
    } else {
      const meant = escaped[bytes[at + 1] as number];
      if (meant === undefined) throw notJson();
      bytes[write++] = meant;
      at += 2;
    }
    if (at < slice) continue;
    slice = at + writtenBytes;
    yield undefined;
  }
  return isText ? bytes.subarray(from, write) : '\ud800';
}

/** The code unit of four hexadecimal digits. */
function unitAt(bytes: Buffer, at: number): number {
  let unit = 0;
  for (let digit = at; digit < at + 4; digit += 1) {
    const byte = bytes[digit] ?? 0;
    const letter = byte | 0x20;
    if (byte >= 0x30 && byte <= 0x39) unit = unit * 16 + byte - 0x30;
    else if (letter >= 0x61 && letter <= 0x66) unit = unit * 16 + letter - 0x57;
    else throw notJson();
  }
  return unit;
}
