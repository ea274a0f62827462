// The hashes by which contents are known: of files, specs, tokens and objects of git. Each is one call of the runtime: its
// hash objects, which are fed and then asked, cost several times as much for short input, and are garbage afterwards.

import { createHash, hash } from 'node:crypto';

/** SHA-256 in lower-case hex; of a text, of its UTF-8. */
export const sha256 = (data: Uint8Array | string): string => hash('sha256', data, 'hex');

/** SHA-256 as its 32 bytes; of a text, of its UTF-8. */
export const sha256Bytes = (data: Uint8Array | string): Buffer => hash('sha256', data, 'buffer');

/** Up to so many bytes, copying them costs less than a hash object. */
const copiedMax = 65_536;

/** The id of an object of git: SHA-1 of its type, its length and its bytes, in lower-case hex. */
export function gitId(type: 'commit' | 'tree' | 'blob' | 'tag', bytes: Uint8Array): string {
  const head = `${type} ${bytes.length}\0`;
  if (bytes.length > copiedMax) return createHash('sha1').update(head).update(bytes).digest('hex');
  return hash('sha1', Buffer.concat([Buffer.from(head, 'latin1'), bytes]), 'hex');
}
