// What comes back from a remote server, without the credential that it was sent: a server that repeats its request's
// headers must not bring the credential into a sandbox. Bounded in bytes, and no byte waits longer than it must: only an
// end that may be the secret's beginning is held back.

import { Transform } from 'node:stream';

const MASKED = Buffer.from('***');

/** Passes bytes on, `secret` replaced wherever it stands. Fails above `bytesMax`; undefined: no bound. */
export function maskStream(secret: string | undefined, bytesMax: number | undefined): Transform {
  const needle = Buffer.from(secret ?? '');
  let held: Buffer = Buffer.alloc(0);
  let seen = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      seen += chunk.length;
      if (bytesMax !== undefined && seen > bytesMax) return done(new Error('the answer is too large'));
      if (needle.length === 0) return done(null, chunk);
      const { clean, rest } = split(held.length === 0 ? chunk : Buffer.concat([held, chunk]), needle);
      held = rest;
      done(null, clean);
    },
    flush(done) {
      done(null, held);
    },
  });
}

/** What may go on, masked, and the end that is the beginning of the secret. */
function split(bytes: Buffer, needle: Buffer): { readonly clean: Buffer; readonly rest: Buffer } {
  const parts: Buffer[] = [];
  let from = 0;
  for (let at = bytes.indexOf(needle); at !== -1; at = bytes.indexOf(needle, from)) {
    parts.push(bytes.subarray(from, at), MASKED);
    from = at + needle.length;
  }
  const end = beginningOf(needle, bytes, from);
  parts.push(bytes.subarray(from, end));
  return { clean: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts), rest: bytes.subarray(end) };
}

/** Where the longest end of `bytes` that begins `needle` begins. */
function beginningOf(needle: Buffer, bytes: Buffer, from: number): number {
  const [first] = needle as unknown as [number];
  let at = bytes.indexOf(first, Math.max(from, bytes.length - needle.length + 1));
  while (at !== -1) {
    if (bytes.compare(needle, 0, bytes.length - at, at) === 0) return at;
    at = bytes.indexOf(first, at + 1);
  }
  return bytes.length;
}
