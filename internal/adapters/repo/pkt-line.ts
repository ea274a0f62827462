// Frames of the git wire protocol: four hexadecimal digits of length, then the payload. Pure; lengths are taken
// strictly (4 to 65520), so that whatever a server sends costs at most one frame of memory.

import { RepoCondition } from './types.ts';

export type Pkt = { readonly kind: 'data'; readonly payload: Buffer } | { readonly kind: 'flush' | 'delim' | 'end' };

export const maxPktBytes = 65_520;

/** One data frame. Throws RangeError where the payload does not fit. */
export function encodePkt(payload: string | Uint8Array): Buffer {
  const body = Buffer.from(payload);
  if (body.length + 4 > maxPktBytes) throw new RangeError('pkt-line payload is too long');
  return Buffer.concat([Buffer.from((body.length + 4).toString(16).padStart(4, '0')), body]);
}

export const flushPkt = Buffer.from('0000');
export const delimPkt = Buffer.from('0001');

/** Takes bytes as they come and gives whole frames. */
export class PktDecoder {
  #rest: Buffer = Buffer.alloc(0);

  /** The frames completed by `chunk`. Throws `corrupt` at a length that cannot be. */
  push(chunk: Uint8Array): Pkt[] {
    const fresh = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const bytes = this.#rest.length === 0 ? fresh : Buffer.concat([this.#rest, fresh]);
    const frames: Pkt[] = [];
    let at = 0;
    while (bytes.length - at >= 4) {
      const length = pktLength(bytes, at);
      if (length < 4) {
        frames.push({ kind: length === 0 ? 'flush' : length === 1 ? 'delim' : 'end' });
        at += 4;
        continue;
      }
      if (bytes.length - at < length) break;
      frames.push({ kind: 'data', payload: bytes.subarray(at + 4, at + length) });
      at += length;
    }
    // A copy, so that a small rest does not hold on to a large chunk.
    this.#rest = Buffer.from(bytes.subarray(at));
    return frames;
  }

  /** Throws `corrupt` where the stream ended inside a frame. */
  finish(): void {
    if (this.#rest.length > 0) throw new RepoCondition('corrupt', 'the answer of the git server was cut off');
  }
}

/** All frames of a stream, in order. */
export async function* readPkts(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Pkt> {
  const decoder = new PktDecoder();
  for await (const chunk of chunks) yield* decoder.push(chunk);
  decoder.finish();
}

function pktLength(bytes: Buffer, at: number): number {
  let length = 0;
  for (let index = at; index < at + 4; index += 1) {
    const digit = hexDigit(bytes[index] as number);
    if (digit < 0) throw new RepoCondition('corrupt', 'the answer of the git server is not in pkt-line frames');
    length = length * 16 + digit;
  }
  if (length === 3 || length > maxPktBytes) {
    throw new RepoCondition('corrupt', `the git server sent a frame of impossible length ${length}`);
  }
  return length;
}

function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  if (code >= 97 && code <= 102) return code - 87;
  if (code >= 65 && code <= 70) return code - 55;
  return -1;
}
