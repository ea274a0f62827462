// SSH signatures (the SSHSIG format) over node:crypto: ed25519, RSA of 2048 bits or more with SHA-2, ECDSA on the
// three NIST curves, and the two kinds of security keys. Checks magic, version, namespace `git`, hash and key.

import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto';
import { RepoCondition } from './types.ts';
import { withoutEnd } from '../../domain/text.ts';

export interface SshKey {
  readonly type: string;
  readonly blob: Buffer;
  /** As ssh-keygen prints it: `SHA256:…`. */
  readonly fingerprint: string;
}

const curves: Record<string, { name: string; crv: string; hash: string; bytes: number }> = {
  'ecdsa-sha2-nistp256': { name: 'nistp256', crv: 'P-256', hash: 'sha256', bytes: 32 },
  'ecdsa-sha2-nistp384': { name: 'nistp384', crv: 'P-384', hash: 'sha384', bytes: 48 },
  'ecdsa-sha2-nistp521': { name: 'nistp521', crv: 'P-521', hash: 'sha512', bytes: 66 },
  'sk-ecdsa-sha2-nistp256@openssh.com': { name: 'nistp256', crv: 'P-256', hash: 'sha256', bytes: 32 },
};
const keyTypes = new Set(['ssh-ed25519', 'ssh-rsa', 'sk-ssh-ed25519@openssh.com', ...Object.keys(curves)]);

/** A line of authorized_keys (or of an allowed-signers file, one principal first). Throws `signature-rejected`. */
export function parseSshPublicKey(line: string): SshKey {
  const words = line.split(/\s+/);
  const at = keyTypes.has(words[0] ?? '') ? 0 : keyTypes.has(words[1] ?? '') && !/[="]/.test(words[0] ?? '') ? 1 : -1;
  const type = words[at];
  const encoded = words[at + 1];
  if (at < 0 || type === undefined || encoded === undefined || !/^[A-Za-z0-9+/]+=*$/.test(encoded)) {
    throw rejected('a key of the policy is neither a line of authorized_keys nor a PGP public key');
  }
  const blob = Buffer.from(encoded, 'base64');
  const key = { type, blob, fingerprint: fingerprintOf(blob) };
  if (new Reader(blob).text() !== type) throw rejected(`the key ${key.fingerprint} of the policy is not of its type`);
  publicKeyOf(blob);
  return key;
}

/** The fingerprint of the key of `allowed` that signed `payload`. Throws `signature-rejected`. */
export function verifySshSignature(armored: string, payload: Buffer, allowed: readonly SshKey[]): string {
  const body = /^-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\n]+)\n-----END SSH SIGNATURE-----\n?$/.exec(
    armored,
  )?.[1];
  if (body === undefined) throw rejected('the SSH signature is not armored as it should be');
  const reader = new Reader(Buffer.from(body, 'base64'));
  if (reader.take(6).toString('latin1') !== 'SSHSIG') throw rejected('the SSH signature has no magic');
  if (reader.uint32() !== 1) throw rejected('the SSH signature is of an unknown version');
  const keyBlob = reader.string();
  const namespace = reader.string();
  const reserved = reader.string();
  const hash = reader.text();
  const signature = reader.string();
  reader.end();
  if (namespace.toString('latin1') !== 'git') throw rejected('the SSH signature was made for another purpose than git');
  if (hash !== 'sha256' && hash !== 'sha512') throw rejected('the SSH signature uses an unknown hash');
  const key = allowed.find((candidate) => candidate.blob.equals(keyBlob));
  if (key === undefined)
    throw rejected(`the commit is signed by ${fingerprintOf(keyBlob)}, which the policy does not name`);
  const digest = createHash(hash).update(payload).digest();
  const signed = Buffer.concat([Buffer.from('SSHSIG'), ...[namespace, reserved, Buffer.from(hash), digest].map(field)]);
  if (!verifyOne(key, signature, signed)) throw rejected(`the signature by ${key.fingerprint} does not fit the commit`);
  return key.fingerprint;
}

function verifyOne(key: SshKey, signature: Buffer, signed: Buffer): boolean {
  const reader = new Reader(signature);
  const algorithm = reader.text();
  const value = reader.string();
  const publicKey = publicKeyOf(key.blob);
  if (key.type.startsWith('sk-')) {
    if (algorithm !== key.type) return false;
    const rest = reader.take(5);
    reader.end();
    // Bit 0: somebody touched the key. Without it a program could have signed by itself.
    if (((rest[0] as number) & 1) === 0) throw rejected('the security key signed without being touched');
    const application = createHash('sha256').update(publicKey.application).digest();
    const message = Buffer.concat([application, rest, createHash('sha256').update(signed).digest()]);
    return check(publicKey.key, key.type, value, message);
  }
  reader.end();
  if (key.type === 'ssh-rsa') {
    if (algorithm !== 'rsa-sha2-256' && algorithm !== 'rsa-sha2-512') throw rejected('RSA with SHA-1 is refused');
    return verify(algorithm === 'rsa-sha2-256' ? 'sha256' : 'sha512', signed, publicKey.key, value);
  }
  return algorithm === key.type && check(publicKey.key, key.type, value, signed);
}

function check(key: KeyObject, type: string, value: Buffer, message: Buffer): boolean {
  const curve = curves[type];
  if (curve === undefined) return value.length === 64 && verify(null, message, key, value);
  const reader = new Reader(value);
  const parts = [reader.string(), reader.string()].map((part) => fixed(part, curve.bytes));
  reader.end();
  const raw = Buffer.concat(parts);
  return raw.length === curve.bytes * 2 && verify(curve.hash, message, { key, dsaEncoding: 'ieee-p1363' }, raw);
}

function publicKeyOf(blob: Buffer): { key: KeyObject; application: Buffer } {
  const reader = new Reader(blob);
  const type = reader.text();
  const jwk = jwkOf(type, reader);
  const application = type.startsWith('sk-') ? reader.string() : Buffer.alloc(0);
  reader.end();
  let key: KeyObject;
  try {
    key = createPublicKey({ key: jwk, format: 'jwk' });
  } catch (error) {
    throw rejected('a public key is malformed', error);
  }
  if (type === 'ssh-rsa' && (key.asymmetricKeyDetails?.modulusLength ?? 0) < 2048) {
    throw rejected('an RSA key of less than 2048 bits is refused');
  }
  return { key, application };
}

function jwkOf(type: string, reader: Reader) {
  const text = (bytes: Buffer) => bytes.toString('base64url');
  if (type === 'ssh-rsa') {
    const e = reader.string();
    return { kty: 'RSA', n: text(unsigned(reader.string())), e: text(unsigned(e)) };
  }
  const curve = curves[type];
  if (curve === undefined) return { kty: 'OKP', crv: 'Ed25519', x: text(reader.string()) };
  if (reader.text() !== curve.name) throw rejected('a public key names another curve than its type');
  const point = reader.string();
  if (point.length !== curve.bytes * 2 + 1 || point[0] !== 4) throw rejected('a public key is malformed');
  return {
    kty: 'EC',
    crv: curve.crv,
    x: text(point.subarray(1, 1 + curve.bytes)),
    y: text(point.subarray(1 + curve.bytes)),
  };
}

function unsigned(mpint: Buffer): Buffer {
  let at = 0;
  while (at < mpint.length && mpint[at] === 0) at += 1;
  return mpint.subarray(at);
}

function fixed(mpint: Buffer, bytes: number): Buffer {
  const value = unsigned(mpint);
  return value.length > bytes ? value : Buffer.concat([Buffer.alloc(bytes - value.length), value]);
}

function field(bytes: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function fingerprintOf(blob: Buffer): string {
  return `SHA256:${withoutEnd(createHash('sha256').update(blob).digest('base64'), '=')}`;
}

function rejected(why: string, cause?: unknown): RepoCondition {
  return new RepoCondition('signature-rejected', why, { cause });
}

class Reader {
  #at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  take(count: number): Buffer {
    if (this.#at + count > this.#bytes.length) throw rejected('the SSH signature or key is cut off');
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  uint32(): number {
    return this.take(4).readUInt32BE(0);
  }

  string(): Buffer {
    return this.take(this.uint32());
  }

  text(): string {
    return this.string().toString('latin1');
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw rejected('the SSH signature or key holds more than it should');
  }
}
