// Received bodies as they are stored: large ones each as a zstd frame of its own, where that is smaller, with the size of
// what was received beside it; all others byte for byte (docs/adr/0015-large-bodies-are-kept-compressed.md).

import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/** Bytes; a smaller body costs more to compress than to write. */
export const framedMin = 8_192;

const params = {
  [constants.ZSTD_c_compressionLevel]: 1,
  [constants.ZSTD_c_checksumFlag]: 1,
};

/** Bytes that room is made for at a time: what most frames need, for room that is not used costs a tenth of compressing. */
const roomFor = (bytes: number): number => Math.max(8_192, bytes >> 2);

/** The frame of a body; undefined where it is no smaller than the body. */
export function frameOf(raw: Uint8Array): Buffer | undefined {
  const frame = zstdCompressSync(raw, { params, pledgedSrcSize: raw.length, chunkSize: roomFor(raw.length) });
  return frame.length < raw.length ? frame : undefined;
}

/** The columns of a stored body. */
export interface StoredBody {
  readonly raw: Buffer | null;
  /** Bytes that were received, where `raw` is their frame. */
  readonly rawBytes: number | null;
  readonly payload: Buffer | null;
}

/** What was received, byte for byte; undefined where the frame is damaged. Never makes more of it than was received. */
function received(frame: Buffer, bytes: number): Buffer | undefined {
  try {
    const raw = zstdDecompressSync(frame, { maxOutputLength: Math.max(bytes, 1) });
    return raw.length === bytes ? raw : undefined;
  } catch {
    return undefined;
  }
}

/** A stored body with what was received as it was; undefined where that cannot be had any more. */
export function unframed({ raw, rawBytes, payload }: StoredBody): Omit<StoredBody, 'rawBytes'> | undefined {
  if (raw === null || rawBytes === null) return { raw, payload };
  const bytes = received(raw, rawBytes);
  return bytes && { raw: bytes, payload };
}

/** SQL of the bytes of a body, of what was received and of its payload; 0 where there is none. */
export const bodyBytes = (b: string): string =>
  `coalesce(${b}.raw_bytes, octet_length(${b}.raw), 0) + coalesce(octet_length(${b}.payload), 0)`;
