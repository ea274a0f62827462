// The answer of a provider, read within bounds: bytes, and what its JSON is made of. A provider is not known to be well, and
// what stands in its place may be anything: what an answer costs is decided here, before it is parsed.

import { Joined } from '../joined.ts';
import { exceedsValues, nestsDeeper } from '../../domain/depth.ts';
import type { Json } from '../../domain/json.ts';
import { parseJson } from '../../domain/json-text.ts';

/** More than an answer to a call of ours can be. */
export class AnswerTooLarge extends Error {
  constructor() {
    super('the provider answered with more than an answer to this call can be');
    this.name = 'AnswerTooLarge';
  }
}

/** The largest lists of a code host, its trees, hold some 200,000 in the bytes that are read of them. */
const valuesMax = 300_000;
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
export function answerJson(bytes: Uint8Array): Json | undefined {
  if (exceedsValues(bytes, valuesMax) || nestsDeeper(bytes, levelsMax)) throw new AnswerTooLarge();
  try {
    return parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')) as Json;
  } catch {
    return undefined;
  }
}
