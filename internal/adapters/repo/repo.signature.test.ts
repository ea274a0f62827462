import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import fc from 'fast-check';
import * as openpgp from 'openpgp';
import { readPolicy, verifyCommit } from './commit-signature.ts';
import { type ParsedCommit, parseCommit } from './objects.ts';
import { verifySshSignature } from './ssh-signature.ts';
import { condition, temporary } from './test-support.ts';

const now = new Date('2026-06-01T00:00:00Z');
const text = `tree ${'a'.repeat(40)}\nauthor A <a@b.example> 1780000000 +0000\ncommitter A <a@b.example> 1780000000 +0000\n\nSigned\n`;

function signed(signature: string, body = text): ParsedCommit {
  const header = `gpgsig ${signature.trimEnd().split('\n').join('\n ')}\n`;
  return parseCommit(Buffer.from(body.replace('\n\n', `\n${header}\n`)));
}

const field = (value: Buffer | string) => {
  const bytes = Buffer.from(value as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
};
const mpint = (bytes: Buffer) => field((bytes[0] as number) >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes);

interface Signer {
  readonly type: string;
  readonly blob: Buffer;
  readonly line: string;
  sign(message: Buffer): Buffer;
}

function signer(type: string, blob: Buffer, make: (message: Buffer) => Buffer): Signer {
  return { type, blob, line: `${type} ${blob.toString('base64')} me@example.com`, sign: make };
}

function ed25519(): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const raw = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url');
  const make = (message: Buffer) => Buffer.concat([field('ssh-ed25519'), field(sign(null, message, privateKey))]);
  return signer('ssh-ed25519', Buffer.concat([field('ssh-ed25519'), field(raw)]), make);
}

function rsa(bits: number, algorithm = 'rsa-sha2-512', hash = 'sha512'): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: bits });
  const { n, e } = publicKey.export({ format: 'jwk' });
  const parts = [e, n].map((part) => mpint(Buffer.from(part as string, 'base64url')));
  const make = (message: Buffer) => Buffer.concat([field(algorithm), field(sign(hash, message, privateKey))]);
  return signer('ssh-rsa', Buffer.concat([field('ssh-rsa'), ...parts]), make);
}

function point(publicKey: KeyObject): Buffer {
  const { x, y } = publicKey.export({ format: 'jwk' });
  return Buffer.concat([
    Buffer.from([4]),
    Buffer.from(x as string, 'base64url'),
    Buffer.from(y as string, 'base64url'),
  ]);
}

function ecdsaValue(hash: string, message: Buffer, key: KeyObject): Buffer {
  const value = sign(hash, message, { key, dsaEncoding: 'ieee-p1363' });
  const unsigned = (bytes: Buffer) => bytes.subarray(bytes.findIndex((byte) => byte !== 0));
  return Buffer.concat([
    mpint(unsigned(value.subarray(0, value.length / 2))),
    mpint(unsigned(value.subarray(value.length / 2))),
  ]);
}

function ecdsa(bits: 256 | 384 | 521, hash: string): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: `P-${bits}` });
  const type = `ecdsa-sha2-nistp${bits}`;
  const blob = Buffer.concat([field(type), field(`nistp${bits}`), field(point(publicKey))]);
  return signer(type, blob, (message) => Buffer.concat([field(type), field(ecdsaValue(hash, message, privateKey))]));
}

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest();

function securityKey(kind: 'ed25519' | 'ecdsa', flags = 1): Signer {
  const pair = kind === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const type = kind === 'ed25519' ? 'sk-ssh-ed25519@openssh.com' : 'sk-ecdsa-sha2-nistp256@openssh.com';
  const raw =
    kind === 'ed25519'
      ? Buffer.from(pair.publicKey.export({ format: 'jwk' }).x as string, 'base64url')
      : point(pair.publicKey);
  const curve = kind === 'ed25519' ? [] : [field('nistp256')];
  const blob = Buffer.concat([field(type), ...curve, field(raw), field('ssh:')]);
  return signer(type, blob, (message) => {
    const rest = Buffer.from([flags, 0, 0, 0, 7]);
    const touched = Buffer.concat([sha256('ssh:'), rest, sha256(message)]);
    const value =
      kind === 'ed25519' ? sign(null, touched, pair.privateKey) : ecdsaValue('sha256', touched, pair.privateKey);
    return Buffer.concat([field(type), field(value), rest]);
  });
}

function sshSignature(
  by: Signer,
  options: { namespace?: string; hash?: string; payload?: string; version?: number } = {},
): string {
  const { namespace = 'git', hash = 'sha512', payload = text, version = 1 } = options;
  const digest = createHash(hash === 'sha256' ? 'sha256' : 'sha512')
    .update(payload)
    .digest();
  const head = [field(namespace), field(''), field(hash)];
  const value = by.sign(Buffer.concat([Buffer.from('SSHSIG'), ...head, field(digest)]));
  const bytes = Buffer.concat([
    Buffer.from('SSHSIG'),
    Buffer.from([0, 0, 0, version]),
    field(by.blob),
    ...head,
    field(value),
  ]);
  const lines = (bytes.toString('base64').match(/.{1,70}/g) ?? []).join('\n');
  return `-----BEGIN SSH SIGNATURE-----\n${lines}\n-----END SSH SIGNATURE-----\n`;
}

const good: readonly (readonly [string, Signer])[] = [
  ['ed25519', ed25519()],
  ['RSA of 2048 bits with SHA-512', rsa(2048)],
  ['RSA with SHA-256', rsa(2048, 'rsa-sha2-256', 'sha256')],
  ['ECDSA P-256', ecdsa(256, 'sha256')],
  ['ECDSA P-384', ecdsa(384, 'sha384')],
  ['ECDSA P-521', ecdsa(521, 'sha512')],
  ['an ed25519 security key', securityKey('ed25519')],
  ['an ECDSA security key', securityKey('ecdsa')],
];
for (const [what, key] of good) {
  test(`a commit signed with ${what} is verified, and a changed one is not`, async () => {
    const keys = ['# people', ed25519().line, key.line];
    const status = await verifyCommit(signed(sshSignature(key)), { keys }, now);
    assert.deepEqual(status, {
      status: 'verified',
      format: 'ssh',
      key: `SHA256:${sha256(key.blob).toString('base64').replace(/=+$/, '')}`,
    });
    const changed = signed(sshSignature(key), text.replace('Signed', 'Changed'));
    await assert.rejects(verifyCommit(changed, { keys }, now), condition('signature-rejected', /does not fit/));
  });
}

const known = ed25519();
const policy = { keys: [`alice@example.com ${known.line}`] };
const bad: readonly (readonly [string, () => ParsedCommit, RegExp])[] = [
  ['no signature', () => parseCommit(Buffer.from(text)), /not signed/],
  ['a key that the policy does not name', () => signed(sshSignature(ed25519())), /does not name/],
  ['a signature made for files', () => signed(sshSignature(known, { namespace: 'file' })), /another purpose/],
  ['an unknown hash', () => signed(sshSignature(known, { hash: 'sha1' })), /unknown hash/],
  ['an unknown version', () => signed(sshSignature(known, { version: 2 })), /unknown version/],
  [
    'a signature that is cut off',
    () => signed('-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----'),
    /cut off/,
  ],
  ['an S/MIME signature', () => signed('-----BEGIN SIGNED MESSAGE-----\nx\n-----END SIGNED MESSAGE-----'), /S\/MIME/],
  ['some other text', () => signed('hello'), /no known kind/],
  [
    'two signatures',
    () => ({ ...signed(sshSignature(known)), signatures: [sshSignature(known), sshSignature(known)] }),
    /several/,
  ],
  [
    'a PGP signature under a policy of SSH keys',
    () => signed('-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----'),
    /no PGP key/,
  ],
];
for (const [what, commit, words] of bad) {
  test(`a commit with ${what} is rejected`, async () => {
    await assert.rejects(verifyCommit(commit(), policy, now), condition('signature-rejected', words));
  });
}

test('RSA with SHA-1, short RSA keys and untouched security keys are rejected', async () => {
  const old = rsa(2048, 'ssh-rsa', 'sha1');
  await assert.rejects(
    verifyCommit(signed(sshSignature(old)), { keys: [old.line] }, now),
    condition('signature-rejected', /SHA-1/),
  );
  assert.throws(() => readPolicy({ keys: [rsa(1024).line] }), condition('signature-rejected', /2048/));
  const untouched = securityKey('ed25519', 0);
  await assert.rejects(
    verifyCommit(signed(sshSignature(untouched)), { keys: [untouched.line] }, now),
    condition('signature-rejected', /touched/),
  );
});

test('any bytes as a key or signature are rejected, and nothing else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, framed) => {
      const start = framed
        ? Buffer.concat([
            Buffer.from('SSHSIG'),
            Buffer.from([0, 0, 0, 1]),
            field(known.blob),
            field('git'),
            field(''),
            field('sha512'),
          ])
        : Buffer.alloc(0);
      const body = Buffer.concat([start, bytes]).toString('base64');
      const armored = `-----BEGIN SSH SIGNATURE-----\n${body}\n-----END SSH SIGNATURE-----`;
      assert.throws(
        () => verifySshSignature(armored, Buffer.from(text), readPolicy(policy).ssh),
        condition('signature-rejected'),
      );
      assert.throws(() => readPolicy({ keys: [`ssh-ed25519 ${body}`] }), condition('signature-rejected'));
    }),
  );
});

test('a policy without keys, or with something that is none, is refused', () => {
  for (const keys of [
    [],
    ['# nothing'],
    ['hello world'],
    ['ssh-ed25519 AAAA'],
    ['cert-authority="x" ssh-ed25519 AAAA'],
  ]) {
    assert.throws(() => readPolicy({ keys }), condition('signature-rejected'), JSON.stringify(keys));
  }
});

async function pgpKey(more: object = {}) {
  return openpgp.generateKey({
    userIDs: [{ name: 'A', email: 'a@b.example' }],
    format: 'object',
    date: new Date('2025-01-01'),
    ...more,
  });
}

async function pgpSignature(privateKey: openpgp.PrivateKey, date: Date, payload = text): Promise<string> {
  const message = await openpgp.createMessage({ binary: new Uint8Array(Buffer.from(payload)) });
  return (await openpgp.sign({ message, signingKeys: privateKey, detached: true, date })) as string;
}

test('a commit signed with PGP is verified by the keys of the policy alone', async () => {
  const { privateKey, publicKey } = await pgpKey();
  const other = await pgpKey();
  const commit = signed(await pgpSignature(privateKey, new Date('2026-01-01')));
  const status = await verifyCommit(commit, { keys: [known.line, publicKey.armor()] }, now);
  assert.deepEqual(status, { status: 'verified', format: 'pgp', key: publicKey.getFingerprint() });
  await assert.rejects(verifyCommit(commit, { keys: [other.publicKey.armor()] }, now), condition('signature-rejected'));
  const changed = signed(commit.signatures[0] as string, text.replace('Signed', 'Changed'));
  await assert.rejects(verifyCommit(changed, { keys: [publicKey.armor()] }, now), condition('signature-rejected'));
});

test('a PGP key that had expired when it signed, or is revoked, is rejected', async () => {
  const short = await pgpKey({ keyExpirationTime: 3600 });
  const during = signed(await pgpSignature(short.privateKey, new Date('2025-01-01T00:30:00Z')));
  assert.equal((await verifyCommit(during, { keys: [short.publicKey.armor()] }, now)).status, 'verified');
  const longer = await openpgp.reformatKey({
    privateKey: short.privateKey,
    userIDs: [{ name: 'A' }],
    keyExpirationTime: 0,
    format: 'object',
    date: new Date('2025-01-01'),
  });
  const late = signed(await pgpSignature(longer.privateKey, new Date('2026-01-01')));
  await assert.rejects(verifyCommit(late, { keys: [short.publicKey.armor()] }, now), condition('signature-rejected'));
  const { privateKey, publicKey } = await pgpKey();
  const commit = signed(await pgpSignature(privateKey, new Date('2026-01-01')));
  const revoked = await openpgp.revokeKey({
    key: publicKey,
    revocationCertificate: await makeRevocation(privateKey),
    format: 'object',
    date: new Date('2026-02-01'),
  });
  const revokedKey = (revoked as { publicKey: openpgp.PublicKey }).publicKey;
  await assert.rejects(verifyCommit(commit, { keys: [revokedKey.armor()] }, now), condition('signature-rejected'));
});

async function makeRevocation(privateKey: openpgp.PrivateKey): Promise<string> {
  const revoked = await openpgp.revokeKey({ key: privateKey, format: 'object', date: new Date('2026-02-01') });
  return (revoked as { publicKey: openpgp.PublicKey }).publicKey.getRevocationCertificate(
    new Date('2026-02-01'),
  ) as Promise<string>;
}

test('what ssh-keygen signs is verified where ssh-keygen is there; its format is checked above without it', async (t) => {
  const dir = await temporary(t);
  const run = promisify(execFile);
  const present = await run('ssh-keygen', ['-?']).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  );
  for (const type of present ? [['ed25519'], ['rsa', '-b', '2048'], ['ecdsa', '-b', '384']] : []) {
    const key = join(dir, type[0] as string);
    await run('ssh-keygen', ['-q', '-t', ...type, '-N', '', '-f', key]);
    await writeFile(join(dir, 'payload'), text);
    await run('ssh-keygen', ['-q', '-Y', 'sign', '-n', 'git', '-f', key, join(dir, 'payload')]);
    const signature = await readFile(join(dir, 'payload.sig'), 'utf8');
    const status = await verifyCommit(signed(signature), { keys: [await readFile(`${key}.pub`, 'utf8')] }, now);
    assert.equal(status.status, 'verified');
    await promisify(execFile)('rm', [join(dir, 'payload.sig')]);
  }
});
