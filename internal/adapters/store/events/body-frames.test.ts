import assert from 'node:assert/strict';
import { it } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { frameOf, unframed } from './body-frames.ts';

const mark = Buffer.from([0xef, 0xbb, 0xbf]);
const anyBytes = fc.uint8Array({ maxLength: 3_000 }).map((bytes) => Buffer.from(bytes));
/** What shrinks, what does not, and both behind a byte order mark. */
const body = fc
  .tuple(fc.boolean(), fc.array(fc.tuple(anyBytes, fc.nat(20)), { maxLength: 6 }), fc.json())
  .map(([isMarked, parts, json]) =>
    Buffer.concat([
      ...(isMarked ? [mark] : []),
      Buffer.from(json),
      ...parts.flatMap(([part, times]) => Array.from({ length: times }, () => part)),
    ]),
  );

const back = (raw: Buffer | null, rawBytes: number | null): Buffer | null | undefined =>
  unframed({ raw, rawBytes, payload: null })?.raw;

it('a frame is smaller than its body, and gives back exactly its bytes', () => {
  fc.assert(
    fc.property(body, (raw) => {
      const frame = frameOf(raw);
      if (frame === undefined) return;
      assert.ok(frame.length < raw.length);
      assert.ok(back(frame, raw.length)?.equals(raw));
    }),
    { numRuns: 500 },
  );
  assert.notEqual(frameOf(Buffer.alloc(10_000, 'a')), undefined);
});

it('what is no frame is what was received', () => {
  const frame = frameOf(Buffer.alloc(10_000, 'a')) as Buffer;
  assert.equal(back(frame, null), frame);
  assert.equal(back(null, null), null);
});

it('a damaged frame gives nothing, and never more than was received', () => {
  const raw = Buffer.from(JSON.stringify(Array.from({ length: 2_000 }, (_, at) => `value ${at}`)));
  const frame = frameOf(raw) as Buffer;
  fc.assert(
    fc.property(fc.nat(frame.length - 1), fc.integer({ min: 1, max: 255 }), fc.boolean(), (at, by, isCut) => {
      const damaged = isCut ? Buffer.from(frame.subarray(0, at)) : Buffer.from(frame);
      if (!isCut) damaged[at] = (damaged[at] as number) ^ by;
      const got = back(damaged, raw.length);
      // A bit that says nothing may be another.
      assert.ok(got === undefined || got?.equals(raw));
    }),
    { numRuns: 1_000 },
  );
  for (const bytes of [0, 1, raw.length - 1, raw.length + 1]) assert.equal(back(frame, bytes), undefined);
  assert.equal(back(zstdCompressSync(Buffer.alloc(50 * 1_048_576)), 20_000), undefined);
});
