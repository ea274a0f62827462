// A long value sealed piece by piece under one data key: each piece is bound to its place, and the last one to being the
// last, so that none can be left out, repeated or moved.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { Fault } from '../../domain/fault.ts';

const nonceBytes = 12;
const tagBytes = 16;
const cipherName = 'aes-256-gcm';

export interface PiecePlace {
  /** Which value of the key it is of. */
  readonly part: number;
  /** From 0. */
  readonly number: number;
  readonly isLast: boolean;
}

export const newDataKey = (): Buffer => randomBytes(32);

const boundTo = ({ part, number, isLast }: PiecePlace): Buffer =>
  Buffer.from(`svc-piece-1/${part}/${number}/${isLast ? 'last' : 'more'}`);

export function sealPiece(key: Uint8Array, place: PiecePlace, plaintext: Uint8Array): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(cipherName, key, nonce, { authTagLength: tagBytes }).setAAD(boundTo(place));
  const body = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

/** Throws Fault `internal` for anything that was not sealed for this place. */
export function openPiece(key: Uint8Array, place: PiecePlace, sealed: Buffer): Buffer {
  try {
    const [nonce, tag] = [sealed.subarray(0, nonceBytes), sealed.subarray(nonceBytes, nonceBytes + tagBytes)];
    const decipher = createDecipheriv(cipherName, key, nonce, { authTagLength: tagBytes }).setAAD(boundTo(place));
    decipher.setAuthTag(tag);
    return Buffer.concat([decipher.update(sealed.subarray(nonceBytes + tagBytes)), decipher.final()]);
  } catch {
    throw new Fault('internal', 'sealed-piece', 'A sealed piece cannot be opened.');
  }
}
