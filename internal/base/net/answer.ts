// The answer of a provider, read within bounds: bytes, and what its JSON is made of. A provider is not known to be well, and
// what stands in its place may be anything: what an answer costs is decided here, before it is parsed.

import { Joined } from '../joined.ts';
import { exceedsValues, nestsDeeper } from '../../domain/depth.ts';
import { objectAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { parseJson } from '../../domain/json-text.ts';

/** More than an answer to a call of ours can be. */
export class AnswerTooLarge extends Error {
  constructor() {
    super('the provider answered with more than an answer to this call can be');
    this.name = 'AnswerTooLarge';
  }
}

/** A page of a hundred pull requests has some 40,000; as many keys of one object keep the event loop for tenths of a second. */
const valuesMax = 100_000;
/** No provider comes near it, and whoever walks the value stays far from the end of the stack. */
const levelsMax = 64;

/** The bytes of an answer. Throws AnswerTooLarge, and gives the connection up, where there are more than `most`. */
export async function boundedBytes(body: AsyncIterable<Uint8Array>, most: number): Promise<Buffer> {
  const joined = new Joined();
  for await (const { buffer, byteOffset, length } of body) {
    joined.add(Buffer.from(buffer, byteOffset, length));
    if (joined.length > most) throw new AnswerTooLarge();
  }
  return joined.take();
}

/** The text of an answer, as `boundedBytes`. */
export const boundedText = async (body: AsyncIterable<Uint8Array>, most: number): Promise<string> =>
  (await boundedBytes(body, most)).toString('utf8');

/** The JSON of an answer; undefined where it is none. Throws AnswerTooLarge for more values or levels than one has. */
export function answerJson(bytes: Uint8Array, most = valuesMax): Json | undefined {
  if (exceedsValues(bytes, most) || nestsDeeper(bytes, levelsMax)) throw new AnswerTooLarge();
  try {
    return parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')) as Json;
  } catch {
    return undefined;
  }
}

/** Of a stream, what stands beside the reply: notes of progress and the like. */
const besideMax = { events: 1_000, chars: 1_048_576 } as const;

/**
 * The reply to request `id` of JSON-RPC: an answer of JSON, or the one among the events of a stream. Undefined where there
 * is none. Throws AnswerTooLarge.
 */
export function rpcReply(text: string, contentType: string, id: number): JsonObject | undefined {
  if (!contentType.startsWith('text/event-stream')) {
    const json = answerJson(Buffer.from(text));
    return json === undefined ? undefined : objectAt(json);
  }
  let chars = 0;
  for (const data of eventsIn(text)) {
    const said = objectAt(answerJson(Buffer.from(data)));
    if (said['id'] === id) return said;
    chars += data.length;
    if (chars > besideMax.chars) throw new AnswerTooLarge();
  }
  return undefined;
}

/** The data of each event. A line ends at CR, LF or both, and at no other character that JSON lets stand in a text. */
function* eventsIn(text: string): Generator<string> {
  const ends = /[\r\n]/g;
  let [lines, end] = [0, 0];
  let data: string | undefined;
  for (let at = text.indexOf('data:'); at !== -1; at = text.indexOf('data:', Math.max(at + 1, end))) {
    if (at > 0 && text[at - 1] !== '\n' && text[at - 1] !== '\r') continue;
    lines += 1;
    if (lines > besideMax.events) throw new AnswerTooLarge();
    const isNext = data !== undefined && /\n\r?\n|\r\r/.test(text.slice(end, at));
    if (isNext) yield data as string;
    ends.lastIndex = at;
    end = ends.exec(text)?.index ?? text.length;
    const line = text.slice(at + 5, end).replace(/^ /, '');
    data = data === undefined || isNext ? line : `${data}\n${line}`;
  }
  if (data !== undefined) yield data;
}
