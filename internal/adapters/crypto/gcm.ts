// AES-256-GCM with nothing left to choose: 32-byte keys, 12-byte nonces, 16-byte tags, never a shorter one (Node takes
// tags of four bytes unless told), and no byte of plaintext before the tag has been checked. Keys are KeyObjects: given
// plain bytes, Node first finds out by a thrown error that they are none, which costs three times the encryption itself.

import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject } from 'node:crypto';

export const keyBytes = 32;
export const nonceBytes = 12;
export const tagBytes = 16;

const options = { authTagLength: tagBytes } as const;

/** A copy of the 32 bytes outside the JavaScript heap, cleansed by OpenSSL when it goes; the caller wipes the original. */
export function keyOf(bytes: Uint8Array): KeyObject {
  if (bytes.length !== keyBytes) throw new Error('AES-256-GCM: bad key length');
  return createSecretKey(bytes);
}

/** Ciphertext followed by its tag. */
export function encrypt(key: KeyObject, nonce: Uint8Array, plaintext: Uint8Array, aad: Uint8Array): Buffer {
  if (key.symmetricKeySize !== keyBytes || nonce.length !== nonceBytes) {
    throw new Error('AES-256-GCM: bad key or nonce length');
  }
  const cipher = createCipheriv('aes-256-gcm', key, nonce, options);
  cipher.setAAD(aad);
  return Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

/** The plaintext, or undefined where key, nonce, text, tag or additional data are not those of the encryption. */
export function decrypt(key: KeyObject, nonce: Uint8Array, sealed: Uint8Array, aad: Uint8Array): Buffer | undefined {
  if (key.symmetricKeySize !== keyBytes || nonce.length !== nonceBytes || sealed.length < tagBytes) return undefined;
  const cut = sealed.length - tagBytes;
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, options);
  decipher.setAAD(aad);
  decipher.setAuthTag(sealed.subarray(cut));
  const plaintext = decipher.update(sealed.subarray(0, cut));
  try {
    decipher.final();
  } catch {
    // The only failure of final() here is a tag that does not fit: an answer, not an accident.
    plaintext.fill(0);
    return undefined;
  }
  return plaintext;
}
