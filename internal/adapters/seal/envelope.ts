// The envelope itself: what is bound to a value, how it is laid out, and the sealer over a set of master keys.

import { randomBytes as systemRandomBytes } from 'node:crypto';
import { Fault } from '../../words/fault.ts';
import { decrypt, encrypt, KEY_BYTES, NONCE_BYTES, TAG_BYTES } from './gcm.ts';
import { hmacSha256 } from './hmac.ts';
import type { MasterKeys } from './master-keys.ts';

/** Whose value it is. Every field is bound; ids rather than slugs, so that a renamed project keeps its secrets. */
export interface SealBinding {
  readonly orgId: string;
  /** Absent: organization scope. */
  readonly projectId?: string | undefined;
  readonly name: string;
  /** What kind of row holds it; a secret's value does not open as a connection's credentials. */
  readonly use: 'secret' | 'connection' | 'oauth-token';
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

const FORMAT = 1;
const WRAPPED_BYTES = KEY_BYTES + TAG_BYTES;
const HEADER_BYTES = 1 + NONCE_BYTES + WRAPPED_BYTES + NONCE_BYTES;

/** Each field with its length before it: joined plainly, "a"+"bc" and "ab"+"c" would be one. */
function additionalData(binding: SealBinding, keyVersion: number, layer: 'dek' | 'value'): Buffer {
  const fields = [
    `svc-seal-${FORMAT}`,
    binding.orgId,
    binding.projectId === undefined ? 'org' : 'project',
    binding.projectId ?? '',
    binding.name,
    String(keyVersion),
    `${binding.use}.${layer}`,
  ];
  let size = 0;
  for (const field of fields) size += 4 + Buffer.byteLength(field);
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const field of fields) {
    const length = bytes.write(field, at + 4, 'utf8');
    bytes.writeUInt32BE(length, at);
    at += 4 + length;
  }
  return bytes;
}

/** A sealer over these keys. `randomBytes` is replaced by tests alone. */
export function createSealer(keys: MasterKeys, randomBytes: (count: number) => Buffer = systemRandomBytes): Sealer {
  const keyOf = (version: number): Buffer => {
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
    const dataKey = randomBytes(KEY_BYTES);
    try {
      const wrapNonce = randomBytes(NONCE_BYTES);
      const valueNonce = randomBytes(NONCE_BYTES);
      const wrapped = encrypt(keyOf(keyVersion), wrapNonce, dataKey, additionalData(binding, keyVersion, 'dek'));
      const value = encrypt(dataKey, valueNonce, plaintext, additionalData(binding, keyVersion, 'value'));
      return { keyVersion, sealed: Buffer.concat([Buffer.of(FORMAT), wrapNonce, wrapped, valueNonce, value]) };
    } finally {
      dataKey.fill(0);
    }
  };

  const open: Sealer['open'] = ({ keyVersion, sealed }, binding) => {
    const master = keyOf(keyVersion);
    if (sealed.length < HEADER_BYTES + TAG_BYTES || sealed[0] !== FORMAT) throw broken();
    const wrapNonce = sealed.subarray(1, 1 + NONCE_BYTES);
    const wrapped = sealed.subarray(1 + NONCE_BYTES, 1 + NONCE_BYTES + WRAPPED_BYTES);
    const dataKey = decrypt(master, wrapNonce, wrapped, additionalData(binding, keyVersion, 'dek'));
    if (dataKey === undefined) throw broken();
    try {
      const valueNonce = sealed.subarray(HEADER_BYTES - NONCE_BYTES, HEADER_BYTES);
      const bound = additionalData(binding, keyVersion, 'value');
      const plaintext = decrypt(dataKey, valueNonce, sealed.subarray(HEADER_BYTES), bound);
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
