// The envelope itself: what is bound to a value, how it is laid out, and the sealer over a set of master keys.

import { type KeyObject, randomFillSync } from 'node:crypto';
import { Fault } from '../../domain/fault.ts';
import { decrypt, encrypt, keyBytes, keyOf, nonceBytes, tagBytes } from './gcm.ts';
import { hmacSha256 } from './hmac.ts';
import type { MasterKeys } from './master-keys.ts';

/** Whose value it is. Every field is bound; ids rather than slugs, so that a renamed project keeps its secrets. */
export interface SealBinding {
  readonly orgId: string;
  /** Absent: organization scope. */
  readonly projectId?: string | undefined;
  readonly name: string;
  /** What kind of row holds it; a secret's value does not open as a connection's credentials. */
  readonly use:
    | 'secret'
    | 'connection'
    | 'oauth-token'
    | 'receiver'
    | 'session-hold'
    | 'session-snapshot'
    | 'setup-archive';
}

/** As stored: `key_version` and `sealed` of a row. */
export interface Sealed {
  readonly keyVersion: number;
  readonly sealed: Buffer;
}

export interface Sealer {
  /** The version that new values get. */
  readonly currentVersion: number;
  /** Whether this process holds the key of a version; a daemon with a row it cannot open must not start. */
  knows(keyVersion: number): boolean;
  /**
   * 16 bytes that tell the key of a version from any other key, and nothing about it: a keyed hash of a constant.
   * Undefined for a version that is not held.
   */
  fingerprint(keyVersion: number): Buffer | undefined;
  /** Seals under the current master key. The caller wipes `plaintext` when it is done with it. */
  seal(plaintext: Uint8Array, binding: SealBinding): Sealed;
  /**
   * Opens a value; the caller wipes the result. Throws Fault `unavailable` for a key version that is not held and
   * Fault `internal` for anything that was not sealed with this binding.
   */
  open(stored: Sealed, binding: SealBinding): Buffer;
  /** The same value under the current master key: both layers bind the version, so rotation re-encrypts. */
  reseal(stored: Sealed, binding: SealBinding): Sealed;
}

const format = 1;
const formatByte = Buffer.of(format);
const wrappedBytes = keyBytes + tagBytes;
const headerBytes = 1 + nonceBytes + wrappedBytes + nonceBytes;

type Layer = 'dek' | 'value';

/**
 * What both layers bind, as one buffer. Each field with its length before it: joined plainly, "a"+"bc" and "ab"+"c" would
 * be one. The layer, the last field, is written over the one before: an answer holds until the next call.
 */
function additionalData(binding: SealBinding, keyVersion: number): (layer: Layer) => Buffer {
  const project = binding.projectId;
  const fields = [`svc-seal-${format}`, binding.orgId, project === undefined ? 'org' : 'project', project ?? ''];
  fields.push(binding.name, String(keyVersion));
  let room = 4 + binding.use.length + '.value'.length;
  // A UTF-16 unit is at most three bytes of UTF-8.
  for (const field of fields) room += 4 + field.length * 3;
  const bytes = Buffer.allocUnsafe(room);
  const append = (field: string, at: number): number => {
    const length = bytes.write(field, at + 4, 'utf8');
    bytes.writeUInt32BE(length, at);
    return at + 4 + length;
  };
  let shared = 0;
  for (const field of fields) shared = append(field, shared);
  return (layer) => bytes.subarray(0, append(`${binding.use}.${layer}`, shared));
}

export function createSealer(keys: MasterKeys): Sealer {
  const masterKey = (version: number): KeyObject => {
    const key = keys.byVersion.get(version);
    if (key !== undefined) return key;
    const held = [...keys.byVersion.keys()].join(', ');
    throw new Fault(
      'unavailable',
      'master-key-missing',
      `no master key of version ${version}; SVC_MASTER_KEY_FILE holds ${held}`,
    );
  };

  const seal: Sealer['seal'] = (plaintext, binding) => {
    const keyVersion = keys.current;
    const bound = additionalData(binding, keyVersion);
    // One draw for the data key and both nonces.
    const drawn = randomFillSync(Buffer.allocUnsafe(keyBytes + 2 * nonceBytes));
    const dataKey = drawn.subarray(0, keyBytes);
    const wrapNonce = drawn.subarray(keyBytes, keyBytes + nonceBytes);
    const valueNonce = drawn.subarray(keyBytes + nonceBytes);
    try {
      const wrapped = encrypt(masterKey(keyVersion), wrapNonce, dataKey, bound('dek'));
      const value = encrypt(keyOf(dataKey), valueNonce, plaintext, bound('value'));
      return { keyVersion, sealed: Buffer.concat([formatByte, wrapNonce, wrapped, valueNonce, value]) };
    } finally {
      drawn.fill(0);
    }
  };

  const open: Sealer['open'] = ({ keyVersion, sealed }, binding) => {
    const master = masterKey(keyVersion);
    if (sealed.length < headerBytes + tagBytes || sealed[0] !== format) throw broken();
    const bound = additionalData(binding, keyVersion);
    const wrapNonce = sealed.subarray(1, 1 + nonceBytes);
    const wrapped = sealed.subarray(1 + nonceBytes, 1 + nonceBytes + wrappedBytes);
    const dataKey = decrypt(master, wrapNonce, wrapped, bound('dek'));
    if (dataKey === undefined) throw broken();
    try {
      const valueNonce = sealed.subarray(headerBytes - nonceBytes, headerBytes);
      const plaintext = decrypt(keyOf(dataKey), valueNonce, sealed.subarray(headerBytes), bound('value'));
      if (plaintext === undefined) throw broken();
      return plaintext;
    } finally {
      dataKey.fill(0);
    }
  };

  return {
    currentVersion: keys.current,
    knows: (keyVersion) => keys.byVersion.has(keyVersion),
    fingerprint: (keyVersion) => {
      const key = keys.byVersion.get(keyVersion);
      return key && hmacSha256(key, Buffer.from('svc-master-key-fingerprint-1')).subarray(0, 16);
    },
    seal,
    open,
    reseal: (stored, binding) => {
      const plaintext = open(stored, binding);
      try {
        return seal(plaintext, binding);
      } finally {
        plaintext.fill(0);
      }
    },
  };
}

const broken = (): Fault =>
  new Fault('internal', 'seal-broken', 'a sealed value does not open: it was changed, cut, or belongs to another row');
