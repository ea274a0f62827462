// A large body without its long texts, which go on to the provider as they came: nothing makes strings of them.

import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { yieldToEventLoop } from '../../../base/concurrency.ts';
import { longTexts, type TextPlace, UnterminatedText } from '../../../domain/long-texts.ts';
import { messagesTable } from '../../../domain/messages.ts';
import { BodyProblem } from './problem.ts';

/** Bytes of a body; a smaller one is parsed whole. */
const largeFrom = 1_048_576;
const longFrom = 1_024;
/** Bytes of a body without its long texts: it is made a text, and that made values. */
const restMax = 16_777_216;
/** Bytes of a text that are looked at between two turns of whoever else there is. */
const sliceBytes = 2_097_152;

export interface LongText {
  /** As it stood in the body, between its quotes. */
  readonly bytes: Buffer;
  /** Never fewer than it has. */
  readonly characters: number;
}

export interface Shortened {
  readonly body: Buffer;
  /** What stands in the place of a long text begins so, and a number follows: nobody can have sent it. */
  readonly prefix: string;
  readonly texts: readonly LongText[];
}

/** Of what a tool is, and of the model, the words matter; the rest is the provider's to read. */
const isRead = (key: string | undefined): boolean => key === undefined || key === 'type' || key === 'model';

/** Whether nobody here reads what stands there: the value of a member whose name is plain, or an element of its list. */
const isTaken = ({ kinds, keys }: TextPlace): boolean =>
  kinds.at(-1) === '{' ? !isRead(keys.at(-1)) : kinds.at(-2) === '{' && !isRead(keys.at(-2));

/** Throws BodyProblem for what is no JSON, or is much beside its long texts. */
export async function shorten(raw: Buffer): Promise<Shortened> {
  const prefix = `${randomUUID()}:`;
  if (raw.length <= largeFrom) return { body: raw, prefix, texts: [] };
  if (!isUtf8(raw)) throw new BodyProblem(messagesTable.notJson);
  const texts: LongText[] = [];
  const rest: Buffer[] = [];
  let from = 0;
  try {
    for (const found of longTexts(raw, longFrom, isTaken)) {
      if (found === undefined) {
        await yieldToEventLoop();
        continue;
      }
      const { start, end } = found;
      rest.push(raw.subarray(from, start + 1), Buffer.from(`${prefix}${texts.length}`));
      texts.push({ bytes: raw.subarray(start + 1, end), characters: await charactersIn(raw, start + 1, end) });
      from = end;
    }
  } catch (error) {
    throw error instanceof UnterminatedText ? new BodyProblem(messagesTable.notJson) : error;
  }
  rest.push(raw.subarray(from));
  const size = rest.reduce((sum, part) => sum + part.length, 0);
  if (size > restMax) throw new BodyProblem(`The body holds over ${restMax} bytes beside its long texts.`);
  return { body: Buffer.concat(rest, size), prefix, texts };
}

/** How many characters a text has at most. Throws BodyProblem for one that JSON does not know. */
async function charactersIn(bytes: Buffer, from: number, to: number): Promise<number> {
  let count = 0;
  for (let at = from, slice = from + sliceBytes; at < to; at += 1) {
    const byte = bytes[at] as number;
    // Whatever goes on with a character that has begun; one beyond the plane has two.
    if ((byte & 0xc0) !== 0x80) count += byte >= 0xf0 ? 2 : 1;
    if (byte < 0x20) throw new BodyProblem(messagesTable.notJson);
    if (byte === 0x5c) {
      at += 1;
      const letter = String.fromCharCode(bytes[at] as number);
      const isCode = letter === 'u' && /^[0-9a-fA-F]{4}$/.test(bytes.toString('latin1', at + 1, at + 5));
      if (!isCode && !'"\\/bfnrt'.includes(letter)) throw new BodyProblem(messagesTable.notJson);
      if (isCode) at += 4;
    }
    if (at < slice) continue;
    slice = at + sliceBytes;
    await yieldToEventLoop();
  }
  return count;
}

/** JSON that was made of a shortened body, with the long texts where they belong. */
export function lengthened(json: string, { prefix, texts }: Pick<Shortened, 'prefix' | 'texts'>): Buffer {
  if (texts.length === 0) return Buffer.from(json);
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = json.indexOf(prefix); at !== -1; at = json.indexOf(prefix, from)) {
    const end = json.indexOf('"', at);
    parts.push(Buffer.from(json.slice(from, at)), texts[Number(json.slice(at + prefix.length, end))]?.bytes as Buffer);
    from = end;
  }
  parts.push(Buffer.from(json.slice(from)));
  return Buffer.concat(parts);
}

/** The long text that a string stands for, if it does. */
export function longTextOf(
  value: string,
  { prefix, texts }: Pick<Shortened, 'prefix' | 'texts'>,
): LongText | undefined {
  return texts.length > 0 && value.startsWith(prefix) ? texts[Number(value.slice(prefix.length))] : undefined;
}
