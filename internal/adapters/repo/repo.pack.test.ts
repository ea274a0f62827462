import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { gitId } from '../../base/hash.ts';
import fc from 'fast-check';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { inPieces } from './pack-bytes.ts';
import { type PackLimits, readPack } from './pack-reader.ts';
import { SpoolPack } from './spool-pack.ts';
import { condition, ofsDelta, packOf, refDelta, sizeBytes, temporary, wholeEntry } from './test-support.ts';
import { defaultCaps, type RepoCaps } from './types.ts';

const limits: PackLimits = defaultCaps;
const half = 512 * 1024 * 1024;

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += 1000) yield bytes.subarray(at, at + 1000);
}

async function spooled(t: { after(fn: () => Promise<void>): void }, pack: Buffer, caps: RepoCaps = defaultCaps) {
  const spool = await SpoolPack.take(once(pack), await temporary(t), caps, new AbortController().signal);
  t.after(() => spool.close());
  return spool;
}

/** A delta that turns `base` into a result of `size` bytes by copying the base over and over. */
function growing(baseBytes: number, size: number): Buffer {
  const copy = Buffer.from([0x80 | 0x10 | 0x20 | 0x40, 0xff, 0xff, 0xff]);
  return Buffer.concat([sizeBytes(baseBytes), sizeBytes(size), copy]);
}

test('a blob bomb is refused by the size that it claims, before it is inflated', async () => {
  const bomb = wholeEntry('blob', Buffer.alloc(1000), half);
  await assert.rejects(readPack(packOf([bomb]), limits), condition('too-large', /536870912/));
});

test('a blob that inflates to more than it claims is corrupt', async () => {
  await assert.rejects(
    readPack(packOf([wholeEntry('blob', Buffer.alloc(5_000_000), 10)]), limits),
    condition('corrupt'),
  );
  await assert.rejects(readPack(packOf([wholeEntry('blob', Buffer.alloc(10), 11)]), limits), condition('corrupt'));
});

test('a delta of a few bytes that makes half a gigabyte is refused before anything is allocated', async () => {
  const base = wholeEntry('blob', Buffer.alloc(20));
  const pack = packOf([base, ofsDelta(base.length, growing(20, half))]);
  assert.ok(pack.length < 158);
  await assert.rejects(readPack(pack, limits), condition('too-large', /536870912/));
});

test('the sum of all that is inflated is bounded', async () => {
  const blob = wholeEntry('blob', Buffer.alloc(1_000_000));
  const pack = packOf(new Array<Buffer>(70).fill(blob));
  await assert.rejects(readPack(pack, limits), condition('too-large', /inflates/));
});

/** A delta that inserts the text, whatever it builds upon. */
const inserting = (base: string, text: string): Buffer =>
  Buffer.concat([sizeBytes(base.length), sizeBytes(text.length), Buffer.from([text.length]), Buffer.from(text)]);

/** A blob and so many deltas, each upon the one before, with the text of the last. */
const chainOf = (deltas: number): { readonly entries: Buffer[]; readonly texts: string[] } => {
  const texts = Array.from({ length: deltas + 1 }, (_, n) => `v${n}`);
  const entries = [wholeEntry('blob', Buffer.from('v0'))];
  for (let n = 1; n <= deltas; n += 1) {
    const delta = inserting(`v${n - 1}`, `v${n}`);
    entries.push(ofsDelta((entries.at(-1) as Buffer).length, delta));
  }
  return { entries, texts };
};

test('a chain as deep as git makes any is read, in memory and spooled, and a deeper one is refused', async (t) => {
  const { entries, texts } = chainOf(4_096);
  const deepest = packOf(entries.slice(0, -1));
  assert.equal((await readPack(deepest, limits)).size, 4_096);
  const oids = texts.slice(0, -1).map((text) => gitId('blob', Buffer.from(text)));
  const found = await (await spooled(t, deepest)).blobs(oids.toReversed());
  assert.deepEqual(
    oids.map((oid) => found.get(oid)?.toString()),
    texts.slice(0, -1),
  );
  await assert.rejects(readPack(packOf(entries), limits), condition('corrupt', /4095 deltas/));
  const deeper = await spooled(t, packOf(entries));
  await assert.rejects(deeper.blobs(['d'.repeat(40)]), condition('corrupt', /4095 deltas/));
});

test('deltas that name their bases by id are built in whatever order they come', async (t) => {
  const texts = Array.from({ length: 4_000 }, (_, n) => `v${n}`);
  const oids = texts.map((text) => gitId('blob', Buffer.from(text)));
  const entries = texts.map((text, n) => {
    const before = texts[n - 1];
    if (before === undefined) return wholeEntry('blob', Buffer.from(text));
    return refDelta(oids[n - 1] as string, inserting(before, text));
  });
  for (const order of [entries, entries.toReversed()])
    assert.equal((await readPack(packOf(order), limits)).size, 4_000);
  const found = await (await spooled(t, packOf(entries))).blobs(oids);
  assert.equal(found.get(oids.at(-1) as string)?.toString(), texts.at(-1));
});

test('what a deep chain of large objects takes ends with the time of its read', async (t) => {
  const [baseBytes, bytes] = [60_000, 15_000_000];
  const copyOf = (size: number): Buffer => Buffer.from([0xf0, size & 255, (size >> 8) & 255, (size >> 16) & 255]);
  const grown = Buffer.concat([
    sizeBytes(baseBytes),
    sizeBytes(bytes),
    ...new Array<Buffer>(250).fill(copyOf(baseBytes)),
  ]);
  const same = Buffer.concat([sizeBytes(bytes), sizeBytes(bytes), copyOf(bytes)]);
  const first = wholeEntry('tree', Buffer.alloc(baseBytes));
  const entries = [first, ofsDelta(first.length, grown)];
  while (entries.length < 4_000) entries.push(ofsDelta((entries.at(-1) as Buffer).length, same));
  const signal = AbortSignal.timeout(1_000);
  const spool = await SpoolPack.take(once(packOf(entries)), await temporary(t), defaultCaps, signal);
  t.after(() => spool.close());
  const begun = performance.now();
  await assert.rejects(spool.small('d'.repeat(40)), { name: 'TimeoutError' });
  assert.ok(performance.now() - begun < 5_000);
  await assert.rejects(readPack(packOf(entries), limits), condition('too-large'));
});

const hello = wholeEntry('blob', Buffer.from('hello'));
const misfits: readonly (readonly [string, Buffer])[] = [
  ['another checksum', Buffer.concat([packOf([hello]).subarray(0, -1), Buffer.from([0])])],
  ['fewer objects than it says', packOf([hello], 2)],
  ['more objects than it says', packOf([hello, hello], 1)],
  ['an unknown type', packOf([Buffer.concat([Buffer.from([0x55]), hello.subarray(1)])])],
  ['a delta on itself', packOf([hello, ofsDelta(0, growing(5, 5))])],
  ['a delta on the header', packOf([hello, ofsDelta(hello.length + 5, growing(5, 5))])],
  ['a delta between two entries', packOf([hello, ofsDelta(hello.length - 1, growing(5, 5))])],
  ['a delta on a base of another size', packOf([hello, ofsDelta(hello.length, growing(6, 5))])],
  ['a copy outside the base', packOf([hello, ofsDelta(hello.length, Buffer.from([5, 4, 0x91, 9, 4]))])],
  ['an insertion past the end', packOf([hello, ofsDelta(hello.length, Buffer.from([5, 4, 4, 65]))])],
  ['a reserved instruction', packOf([hello, ofsDelta(hello.length, Buffer.from([5, 4, 0]))])],
  ['a result that is too short', packOf([hello, ofsDelta(hello.length, Buffer.from([5, 4, 1, 65]))])],
  ['a base that nobody has', packOf([refDelta('d'.repeat(40), Buffer.from([5, 1, 1, 65]))])],
  ['no header', Buffer.alloc(100)],
  ['hardly any bytes', Buffer.from('PACK')],
];
for (const [what, pack] of misfits) {
  test(`a pack with ${what} is corrupt, in memory and spooled`, async (t) => {
    await assert.rejects(readPack(pack, limits), condition('corrupt'));
    await assert.rejects(async () => {
      const spool = await spooled(t, pack);
      const wanted = gitId('blob', Buffer.from('A'));
      const found = await spool.blobs([wanted]);
      if (!found.has(wanted)) throw await rejection(readPack(pack, limits));
    }, condition('corrupt'));
  });
}

async function rejection(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => new Error('no rejection'),
    (error: unknown) => error,
  );
}

test('a pack cut at any byte is refused', async () => {
  const pack = packOf([hello, ofsDelta(hello.length, Buffer.from([5, 1, 1, 65]))]);
  assert.equal((await readPack(pack, limits)).size, 2);
  for (let length = 0; length < pack.length; length += 1) {
    await assert.rejects(readPack(pack.subarray(0, length), limits), condition('corrupt'), `cut at ${length}`);
  }
});

test('a pack with any byte changed gives its objects or a condition', async () => {
  const pack = packOf([hello, ofsDelta(hello.length, Buffer.from([5, 1, 1, 65]))]);
  await fc.assert(
    fc.asyncProperty(fc.nat(pack.length - 21), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const bad = Buffer.from(pack);
      bad[at] = (bad[at] as number) ^ flip;
      const resealed = packOf([bad.subarray(12, -20)], bad.readUInt32BE(8) >>> 0);
      await readPack(resealed, limits).catch((error: unknown) => {
        if (!['corrupt', 'too-large'].includes((error as { condition: string }).condition)) throw error;
      });
    }),
  );
});

test('a blob of many windows is spooled, and leaves no listener behind for each', async (t) => {
  const warnings: string[] = [];
  const note = ({ message }: Error): number => warnings.push(message);
  process.on('warning', note);
  t.after(async () => void process.off('warning', note));
  const pack = packOf([wholeEntry('blob', randomBytes(13_000_000))]);
  await spooled(t, pack);
  // Warnings are told in the turn after.
  await new Promise(setImmediate);
  assert.deepEqual(warnings, []);
});

test('a base that the pack lacks is taken from outside, and checked', async () => {
  const base = Buffer.from('hello');
  const oid = gitId('blob', base);
  const pack = packOf([refDelta(oid, Buffer.from([5, 6, 0x90, 5, 1, 33]))]);
  const read = await readPack(pack, limits, async () => new Map([[oid, { type: 'blob', bytes: base }]]));
  assert.deepEqual(
    [...read.values()].map(({ bytes }) => bytes.toString()),
    ['hello!'],
  );
  const lying = async () => new Map([[oid, { type: 'blob' as const, bytes: Buffer.from('other') }]]);
  await assert.rejects(readPack(pack, limits, lying), condition('corrupt', /another content/));
});

test('what git packs is read as git reads it, with deltas of both kinds, in memory and spooled', async (t) => {
  const repo = await GitFixture.create(join(await temporary(t), 'r.git'));
  let text = randomBytes(4000).toString('base64');
  for (let round = 0; round < 12; round += 1) {
    text = `${text.slice(0, 900 + round * 10)}changed ${round}${text.slice(900 + round * 10)}`;
    await repo.commit({
      'a.txt': text,
      [`d/${round}.txt`]: text.slice(round * 100),
      'big.bin': Buffer.alloc(3_000_000 + round, round),
    });
  }
  const listed = (await repo.git(['cat-file', '--batch-all-objects', '--batch-check']))
    .split('\n')
    .map((line) => line.split(' '));
  for (const flags of [['--delta-base-offset'], []]) {
    const pack = await repo.gitBytes(['pack-objects', '--all', '--stdout', '--window=50', '-q', ...flags], '');
    const objects = await readPack(pack, { ...limits, fileBytes: 4_000_000 });
    assert.deepEqual([...objects.keys()].sort(), listed.map(([oid = '']) => oid).sort());
    const spool = await spooled(t, pack);
    const blobs = listed.filter(([, type]) => type === 'blob');
    const found = await spool.blobs(blobs.map(([oid]) => oid as string));
    for (const [oid = '', , size] of blobs) {
      const expected = Number(size) > defaultCaps.fileBytes ? null : objects.get(oid)?.bytes;
      assert.deepEqual(found.get(oid), expected, `${oid} of ${size} bytes`);
    }
    for (const [oid = '', type] of listed)
      if (type === 'tree') assert.deepEqual((await spool.small(oid))?.bytes, objects.get(oid)?.bytes);
    assert.equal(await spool.small('f'.repeat(40)), undefined);
  }
});

test('a recipe of single bytes lets others run while it is followed, in memory and spooled', async (t) => {
  const many = 3_000_000;
  const steps = Buffer.alloc(2 * many, Buffer.from([0x90, 1]));
  const base = wholeEntry('tree', Buffer.alloc(8));
  const delta = Buffer.concat([sizeBytes(8), sizeBytes(many), steps]);
  const pack = packOf([base, ofsDelta(base.length, delta)]);
  const spool = await spooled(t, pack);
  for (const read of [() => readPack(pack, limits), () => spool.small(gitId('tree', Buffer.alloc(many)))]) {
    let turns = 0;
    let next = setImmediate(function turn() {
      turns += 1;
      next = setImmediate(turn);
    });
    assert.ok((await read()) !== undefined);
    clearImmediate(next);
    // By turns of ten milliseconds, of what takes some hundred.
    assert.ok(turns > 6, `${turns} turns`);
  }
});

test('parts of a byte each are taken together, and read as one', async () => {
  const pack = packOf([wholeEntry('blob', randomBytes(100_000))]);
  const bytes = async function* () {
    for (let at = 0; at < pack.length; at += 1) yield pack.subarray(at, at + 1);
  };
  const pieces = await Array.fromAsync(inPieces(bytes()));
  assert.deepEqual([pieces.length, Buffer.concat(pieces).equals(pack)], [2, true]);
});
