import assert from 'node:assert/strict';
import { createCipheriv, createHmac, createSecretKey, randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { ConfigError } from '../../base/config/config.ts';
import { Fault } from '../../domain/fault.ts';
import { decrypt, encrypt, keyOf } from './gcm.ts';
import {
  createSealer,
  hmacMatches,
  hmacSha256,
  parseMasterKeys,
  readMasterKeys,
  type SealBinding,
  secretsMatch,
} from './crypto.ts';

const hex = (text: string): Buffer => Buffer.from(text, 'hex');

// Test cases 13 to 16 of the GCM specification (McGrew and Viega), which NIST SP 800-38D refers to: 256-bit keys.
const keyText = 'feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308';
const plainText =
  'd9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255';
const cipher =
  '522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad';
const gcm: readonly { name: string; key: string; nonce: string; plain: string; aad: string; sealed: string }[] = [
  {
    name: '13',
    key: '00'.repeat(32),
    nonce: '00'.repeat(12),
    plain: '',
    aad: '',
    sealed: '530f8afbc74536b9a963b4f1c4cb738b',
  },
  {
    name: '14',
    key: '00'.repeat(32),
    nonce: '00'.repeat(12),
    plain: '00'.repeat(16),
    aad: '',
    sealed: 'cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919',
  },
  {
    name: '15',
    key: keyText,
    nonce: 'cafebabefacedbaddecaf888',
    plain: plainText,
    aad: '',
    sealed: `${cipher}b094dac5d93471bdec1a502270e3cc6c`,
  },
  {
    name: '16',
    key: keyText,
    nonce: 'cafebabefacedbaddecaf888',
    plain: plainText.slice(0, 120),
    aad: 'feedfacedeadbeeffeedfacedeadbeefabaddad2',
    sealed: `${cipher.slice(0, 120)}76fc6ece0f4e1768cddf8853bb2d551b`,
  },
];
for (const { name, key, nonce, plain, aad, sealed } of gcm) {
  test(`GCM test case ${name} encrypts and decrypts as published`, () => {
    assert.equal(encrypt(keyOf(hex(key)), hex(nonce), hex(plain), hex(aad)).toString('hex'), sealed);
    assert.equal(decrypt(keyOf(hex(key)), hex(nonce), hex(sealed), hex(aad))?.toString('hex'), plain);
  });
}

test('encryption is that of the platform with plain key bytes, whatever the input, and each opens the other', () => {
  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
  const text = fc.uint8Array({ maxLength: 300 });
  fc.assert(
    fc.property(bytes(32), bytes(12), text, text, (key, nonce, plain, aad) => {
      const reference = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 }).setAAD(aad);
      const expected = Buffer.concat([reference.update(plain), reference.final(), reference.getAuthTag()]);
      assert.deepEqual(encrypt(keyOf(key), nonce, plain, aad), expected);
      assert.deepEqual(decrypt(keyOf(key), nonce, expected, aad), Buffer.from(plain));
    }),
  );
});

test('a key of any other length is refused', () => {
  for (const length of [0, 16, 24, 31, 33]) assert.throws(() => keyOf(Buffer.alloc(length)), /key length/);
  const short = createSecretKey(Buffer.alloc(16));
  assert.throws(() => encrypt(short, Buffer.alloc(12), Buffer.alloc(1), Buffer.alloc(0)), /key or nonce length/);
  assert.equal(decrypt(short, Buffer.alloc(12), Buffer.alloc(17), Buffer.alloc(0)), undefined);
});

test('a tag shorter than 16 bytes is never taken', () => {
  const [last] = gcm.slice(-1);
  assert.ok(last !== undefined);
  const whole = hex(last.sealed);
  for (let cut = 1; cut <= whole.length; cut += 1) {
    assert.equal(
      decrypt(keyOf(hex(last.key)), hex(last.nonce), whole.subarray(0, whole.length - cut), hex(last.aad)),
      undefined,
    );
  }
});

// RFC 4231, HMAC-SHA-256, test cases 1 to 4, 6 and 7.
const hmac: readonly (readonly [string, Buffer, Buffer, string])[] = [
  [
    '1',
    hex('0b'.repeat(20)),
    Buffer.from('Hi There'),
    'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
  ],
  [
    '2',
    Buffer.from('Jefe'),
    Buffer.from('what do ya want for nothing?'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  ],
  ['3', hex('aa'.repeat(20)), hex('dd'.repeat(50)), '773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe'],
  [
    '4',
    hex('0102030405060708090a0b0c0d0e0f10111213141516171819'),
    hex('cd'.repeat(50)),
    '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b',
  ],
  [
    '6',
    hex('aa'.repeat(131)),
    Buffer.from('Test Using Larger Than Block-Size Key - Hash Key First'),
    '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
  ],
  [
    '7',
    hex('aa'.repeat(131)),
    Buffer.from(
      'This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.',
    ),
    '9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2',
  ],
];
for (const [name, key, body, digest] of hmac) {
  test(`HMAC-SHA-256 of RFC 4231, case ${name}`, () => {
    assert.equal(hmacSha256(key, body).toString('hex'), digest);
    assert.ok(hmacMatches(key, body, digest) && hmacMatches(key, body, `sha256=${digest}`));
  });
}

test('signatures of any other shape do not match and do not throw', () => {
  const key = Buffer.from('key');
  const good = createHmac('sha256', key).update('body').digest('hex');
  const body = Buffer.from('body');
  assert.ok(hmacMatches(key, body, good));
  const bad = [
    undefined,
    '',
    'sha256=',
    good.slice(1),
    `${good}0`,
    `${good.slice(0, 63)}g`,
    ` ${good}`,
    `${good}\n`,
    `sha1=${good}`,
    `sha256=sha256=${good}`,
    '0'.repeat(64),
  ];
  for (const signature of bad) assert.equal(hmacMatches(key, body, signature), false, String(signature));
});

test('an empty HMAC key is refused, whatever the signature', () => {
  const forged = createHmac('sha256', '').update('body').digest('hex');
  assert.equal(hmacMatches(Buffer.alloc(0), Buffer.from('body'), forged), false);
  assert.throws(() => hmacSha256(Buffer.alloc(0), Buffer.from('body')));
});

test('secrets match only when equal and not empty', () => {
  const of = (text: string): Buffer => Buffer.from(text);
  assert.ok(secretsMatch(of('abc'), of('abc')));
  for (const [a, b] of [
    ['abc', 'abd'],
    ['abc', 'ab'],
    ['', ''],
    ['a', ''],
  ] as const)
    assert.ok(!secretsMatch(of(a), of(b)));
});

const line = (version: number, fill: number): string => `${version}:${Buffer.alloc(32, fill).toString('base64')}`;
const keys = parseMasterKeys(`${line(1, 1)}\n${line(2, 2)}\n`);
const sealer = createSealer(keys);
const binding: SealBinding = { orgId: 'org-1', projectId: 'project-1', name: 'API_KEY', use: 'secret' };
const isBroken = (error: unknown): boolean => error instanceof Fault && error.code === 'seal-broken';

test('a value comes back as it went in, whatever its bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), fc.string(), fc.string(), (value, orgId, name) => {
      const own = { ...binding, orgId, name };
      const stored = sealer.seal(value, own);
      assert.equal(stored.keyVersion, 2);
      assert.deepEqual(new Uint8Array(sealer.open(stored, own)), value);
    }),
  );
});

// The layout is that of rows which are stored: it changes with the format byte, or not at all.
const storedList: readonly (readonly [SealBinding, string])[] = [
  [
    { orgId: 'org-1', projectId: 'project-1', name: 'API_KEY', use: 'secret' },
    'AdxEcnly2FaPSMAk+5N0mfx3j/PY+WcxGJoI1Ji//KsKKVeCgD3ILLi3dM3Lso6auNxcaFZwUOb6fTlVLhu+kuI/ziGkhZT5P9GPijZCO97EZsLeo1EhM+NKjsKQXCLAbKNcAs2WIQ==',
  ],
  [
    { orgId: 'örg', name: 'ключ', use: 'connection' },
    'ARDI+WWMKqL/cMAdJ1ZBqd4TUqWE9qGjaAA8ABJnqxZBJdQ4QGJzaxwyUQ5GPd1nj3KqcFkd4pF8XA0dVrlmq8me7kjxNrGAE1MO9rQ18ZJmoeAB1lRsondIlKhcUp8Pelq2LVXkAA==',
  ],
];
for (const [own, sealed] of storedList) {
  test(`a value that was stored for ${own.name} opens`, () => {
    const stored = { keyVersion: 2, sealed: Buffer.from(sealed, 'base64') };
    assert.equal(sealer.open(stored, own).toString(), 'an older value');
    assert.throws(() => sealer.open(stored, { ...own, name: `${own.name}-` }), isBroken);
  });
}

test('two writes of one value share nothing', () => {
  const value = Buffer.from('the same value');
  const [a, b] = [sealer.seal(value, binding).sealed, sealer.seal(value, binding).sealed];
  assert.notDeepEqual(a.subarray(1, 13), b.subarray(1, 13));
  assert.notDeepEqual(a.subarray(13, 61), b.subarray(13, 61));
  assert.notDeepEqual(a.subarray(61), b.subarray(61));
  assert.equal(a.includes(value), false);
});

test('every flipped bit is noticed', () => {
  const stored = sealer.seal(Buffer.from('value'), binding);
  for (let bit = 0; bit < stored.sealed.length * 8; bit += 1) {
    const changed = Buffer.from(stored.sealed);
    changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
    assert.throws(() => sealer.open({ ...stored, sealed: changed }, binding), isBroken, `bit ${bit}`);
  }
});

test('every truncation and every extension is noticed', () => {
  const stored = sealer.seal(Buffer.from('value'), binding);
  for (let length = 0; length < stored.sealed.length; length += 1) {
    assert.throws(() => sealer.open({ ...stored, sealed: stored.sealed.subarray(0, length) }, binding), isBroken);
  }
  const longer = Buffer.concat([stored.sealed, Buffer.of(0)]);
  assert.throws(() => sealer.open({ ...stored, sealed: longer }, binding), isBroken);
});

test('a row moved to another organization, project, name, scope, use or key version does not open', () => {
  const stored = sealer.seal(Buffer.from('value'), binding);
  const others: SealBinding[] = [
    { ...binding, orgId: 'org-2' },
    { ...binding, projectId: 'project-2' },
    { ...binding, projectId: undefined },
    { ...binding, projectId: '' },
    { ...binding, name: 'API_KEY2' },
    { ...binding, name: 'api_key' },
    { ...binding, use: 'connection' },
    { ...binding, orgId: 'org-1project-1', projectId: '' },
  ];
  for (const other of others) assert.throws(() => sealer.open(stored, other), isBroken, JSON.stringify(other));
  assert.throws(() => sealer.open({ ...stored, keyVersion: 1 }, binding), isBroken);
});

test('fields cannot be shifted into each other', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.string(), fc.nat(), (a, b, at) => {
      const joined = a + b;
      const cut = at % (joined.length + 1);
      const other = { ...binding, orgId: joined.slice(0, cut), projectId: joined.slice(cut) };
      fc.pre(other.orgId !== a);
      const stored = sealer.seal(Buffer.from('v'), { ...binding, orgId: a, projectId: b });
      assert.throws(() => sealer.open(stored, other), isBroken);
    }),
  );
});

test('pieces of two values cannot be put together', () => {
  const [a, b] = [sealer.seal(Buffer.from('aaaa'), binding).sealed, sealer.seal(Buffer.from('bbbb'), binding).sealed];
  for (const cut of [1, 13, 61, 73, a.length - 16]) {
    const mixed = Buffer.concat([a.subarray(0, cut), b.subarray(cut)]);
    if (cut === 1) assert.equal(sealer.open({ keyVersion: 2, sealed: mixed }, binding).toString(), 'bbbb');
    else assert.throws(() => sealer.open({ keyVersion: 2, sealed: mixed }, binding), isBroken, `cut at ${cut}`);
  }
});

test('a value sealed under an older key opens, and is resealed under the current one', () => {
  const older = createSealer(parseMasterKeys(line(1, 1)));
  const stored = older.seal(Buffer.from('value'), binding);
  assert.equal(stored.keyVersion, 1);
  assert.equal(sealer.open(stored, binding).toString(), 'value');
  const moved = sealer.reseal(stored, binding);
  assert.equal(moved.keyVersion, 2);
  assert.equal(sealer.open(moved, binding).toString(), 'value');
  const newest = createSealer(parseMasterKeys(line(2, 2)));
  assert.ok(newest.knows(2) && !newest.knows(1));
  assert.throws(
    () => newest.open(stored, binding),
    (error) => error instanceof Fault && error.kind === 'unavailable' && /version 1/.test(error.message),
  );
});

test('a failed opening says nothing of value or key', () => {
  const stored = sealer.seal(Buffer.from('hush-hush'), binding);
  try {
    sealer.open(stored, { ...binding, name: 'other' });
    assert.fail('it opened');
  } catch (error) {
    const text = String((error as Error).stack) + JSON.stringify(error);
    for (const secret of ['hush', Buffer.alloc(32, 2).toString('base64')]) assert.ok(!text.includes(secret));
  }
});

const key32 = randomBytes(32).toString('base64');
const badKeys: readonly (readonly [string, string, RegExp])[] = [
  ['nothing', '\n\n', /holds no key/],
  ['no version', key32, /line 1/],
  ['version 0', `0:${key32}`, /line 1/],
  ['a version too large', `2147483648:${key32}`, /line 1/],
  ['a word as version', `one:${key32}`, /line 1/],
  ['a key too short', `1:${randomBytes(31).toString('base64')}`, /line 1/],
  ['a key too long', `1:${randomBytes(33).toString('base64')}`, /line 1/],
  ['base64url', `1:${'_'.repeat(43)}=`, /line 1/],
  ['text behind the key', `1:${key32} extra`, /line 1/],
  ['one version twice', `${line(1, 1)}\n${line(1, 2)}`, /line 2 names version 1 a second time/],
  ['one key twice', `${line(1, 1)}\n${line(2, 1)}`, /line 2 gives version 2/],
];
for (const [what, text, message] of badKeys) {
  test(`a key file with ${what} is refused by setting and line, without the key`, () => {
    assert.throws(
      () => parseMasterKeys(text),
      (error) =>
        error instanceof ConfigError &&
        error.message.startsWith('SVC_MASTER_KEY_FILE') &&
        message.test(error.message) &&
        !error.message.includes(key32.slice(0, 8)),
    );
  });
}

test('the last key is the current one, and line ends do not matter', () => {
  assert.equal(parseMasterKeys(`${line(7, 1)}\r\n\r\n${line(3, 2)}\r\n`).current, 3);
});

test('a key file is read, and one that cannot be is named', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-seal-'));
  after(() => rm(directory, { recursive: true, force: true }));
  const path = join(directory, 'master.key');
  await writeFile(path, `${line(1, 1)}\n${line(2, 2)}\n`);
  assert.equal((await readMasterKeys(path)).current, 2);
  // As some editors write it.
  await writeFile(path, `\uFEFF${line(5, 1)}\r\n${line(3, 2)}\r\n`);
  assert.equal((await readMasterKeys(path)).current, 3);
  await assert.rejects(
    readMasterKeys(join(directory, 'none')),
    /SVC_MASTER_KEY_FILE names .*none, which cannot be read \(ENOENT\)/,
  );
  await writeFile(path, Buffer.alloc(65 * 1024));
  await assert.rejects(readMasterKeys(path), /too large/);
});
