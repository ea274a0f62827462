// Deltas of a pack: a recipe of copies and insertions that turns a base object into another. The size of the result is
// known, and judged by the caller, before anything is allocated.

import { inSlices } from '../../base/concurrency.ts';
import { RepoCondition } from './types.ts';

export interface DeltaSizes {
  readonly baseBytes: number;
  readonly resultBytes: number;
  /** Where the instructions begin. */
  readonly at: number;
}

/** The two sizes at the head of a delta. */
export function deltaSizes(delta: Buffer): DeltaSizes {
  const base = sizeAt(delta, 0);
  const result = sizeAt(delta, base.next);
  return { baseBytes: base.value, resultBytes: result.value, at: result.next };
}

/** Instructions between two looks at the clock: each may make a single byte of millions. */
const stepInstructions = 4_096;

/**
 * Applies a delta, with turns of the event loop. Every copy and insertion must lie inside the base and fill the result exactly.
 * The result is written to `room` where that is given and large enough.
 */
export function applyDelta(base: Buffer, delta: Buffer, room?: Buffer): Promise<Buffer> {
  return inSlices(stepsOf(base, delta, room));
}

function* stepsOf(base: Buffer, delta: Buffer, room: Buffer = Buffer.alloc(0)): Generator<void, Buffer> {
  const sizes = deltaSizes(delta);
  if (sizes.baseBytes !== base.length) throw badDelta();
  const bytes = sizes.resultBytes;
  const result = room.length >= bytes ? room.subarray(0, bytes) : Buffer.allocUnsafe(bytes);
  let at = sizes.at;
  let filled = 0;
  for (let steps = 1; at < delta.length; steps += 1) {
    if (steps % stepInstructions === 0) yield;
    const op = delta[at] as number;
    at += 1;
    if (op === 0) throw badDelta();
    if (op < 0x80) {
      if (at + op > delta.length || filled + op > result.length) throw badDelta();
      delta.copy(result, filled, at, at + op);
      at += op;
      filled += op;
      continue;
    }
    const copy = copyAt(delta, at, op);
    at = copy.next;
    if (copy.offset + copy.size > base.length || filled + copy.size > result.length) throw badDelta();
    base.copy(result, filled, copy.offset, copy.offset + copy.size);
    filled += copy.size;
  }
  if (filled !== result.length) throw badDelta();
  return result;
}

function copyAt(delta: Buffer, start: number, op: number): { offset: number; size: number; next: number } {
  let at = start;
  const take = (bits: readonly number[]) => {
    let value = 0;
    let weight = 1;
    for (const bit of bits) {
      if ((op & bit) !== 0) {
        const byte = delta[at];
        if (byte === undefined) throw badDelta();
        value += byte * weight;
        at += 1;
      }
      weight *= 256;
    }
    return value;
  };
  const offset = take([1, 2, 4, 8]);
  const size = take([16, 32, 64]);
  return { offset, size: size === 0 ? 0x10000 : size, next: at };
}

function sizeAt(bytes: Buffer, start: number): { value: number; next: number } {
  let value = 0;
  let weight = 1;
  for (let at = start; at < start + 7; at += 1) {
    const byte = bytes[at];
    if (byte === undefined) throw badDelta();
    value += (byte & 0x7f) * weight;
    if ((byte & 0x80) === 0) return { value, next: at + 1 };
    weight *= 128;
  }
  throw badDelta();
}

function badDelta(): RepoCondition {
  return new RepoCondition('corrupt', 'the pack holds a delta that does not fit its base');
}
