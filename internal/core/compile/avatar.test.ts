import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { avatarProblem, avatarBytesMax, readImage } from './avatar.ts';
import { jpeg, png } from './testkit.ts';

test('a PNG tells its size in its header', () => {
  assert.deepEqual(readImage(png(512, 600)), { mediaType: 'image/png', width: 512, height: 600 });
  assert.equal(avatarProblem(png(512, 512)), null);
  assert.equal(avatarProblem(png(2000, 2000)), null);
});

test('a JPEG tells its size in its frame, baseline or progressive, never in a thumbnail', () => {
  assert.deepEqual(readImage(jpeg(700, 800)), { mediaType: 'image/jpeg', width: 700, height: 800 });
  assert.deepEqual(readImage(jpeg(640, 640, { frame: 0xc2 })), { mediaType: 'image/jpeg', width: 640, height: 640 });
  const thumbnail = [0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 160, 0, 160, 1, 1, 0x11, 0];
  assert.deepEqual(readImage(jpeg(640, 640, { application: thumbnail })), {
    mediaType: 'image/jpeg',
    width: 640,
    height: 640,
  });
  assert.equal(
    avatarProblem(jpeg(160, 160, { application: [0xff, 0xc0, 0, 11, 8, 2, 0, 2, 0] })),
    'is 160x160 pixels; accepted are 512x512 to 2000x2000',
  );
});

test('tables, restarts and fill bytes before the frame are passed over', () => {
  const before = [0xff, 0xc4, 0, 4, 9, 9, 0xff, 0xd0, 0xff, 0xff, 0xdb, 0, 3, 1, 0xff, 0x01];
  assert.equal(readImage(jpeg(512, 512, { before }))?.width, 512);
});

test('every kind of frame tells the size, and nothing else does, whatever it is', () => {
  const like = [0, 11, 8, 0, 1, 0, 1, 1, 1, 0x11, 0];
  for (const frame of [0xc0, 0xc1, 0xc3, 0xc5, 0xc7, 0xc9, 0xcb, 0xcd, 0xcf])
    assert.equal(readImage(jpeg(512, 600, { frame }))?.height, 600, String(frame));
  for (const marker of [0x10, 0xbf, 0xc4, 0xc8, 0xcc, 0xdb, 0xe2, 0xfe])
    assert.equal(readImage(jpeg(512, 600, { before: [0xff, marker, ...like] }))?.height, 600, String(marker));
  for (const marker of [0x01, 0xd0, 0xd7])
    assert.equal(readImage(jpeg(512, 600, { before: [0xff, marker] }))?.height, 600, String(marker));
  assert.equal(readImage(jpeg(512, 600, { before: [0xff, 0xe2, 0, 2] }))?.height, 600, 'a segment that holds nothing');
});

test('a frame is read as far as its size, and not when that is cut off', () => {
  const whole = [0xff, 0xd8, 0xff, 0xc0, 0, 8, 8, 2, 0, 3, 0];
  assert.deepEqual(readImage(Uint8Array.from(whole)), { mediaType: 'image/jpeg', width: 768, height: 512 });
  for (let length = 0; length < whole.length; length += 1)
    assert.equal(readImage(Uint8Array.from(whole.slice(0, length))), null, String(length));
  assert.equal(readImage(Uint8Array.from([0, 0, ...whole.slice(2)])), null, 'another kind of file');
  assert.equal(readImage(jpeg(512, 512, { before: [0xff, 0xd9, 0, 2] })), null, 'behind the end');
});

test('an avatar may have two megabytes', () => {
  const bytes = new Uint8Array(avatarBytesMax);
  bytes.set(png(512, 512));
  assert.equal(avatarProblem(bytes), null);
});

test('what is not an avatar is told why', () => {
  const cases: readonly (readonly [Uint8Array, RegExp])[] = [
    [new Uint8Array(0), /is empty/],
    [new Uint8Array(avatarBytesMax + 1), /2 MiB/],
    [new TextEncoder().encode('GIF89a'), /not a PNG or JPEG/],
    [png(512, 512).slice(0, 20), /not a PNG or JPEG/],
    [png(512, 512).fill(0, 12, 16), /not a PNG or JPEG/],
    [jpeg(512, 512).slice(0, 8), /not a PNG or JPEG/],
    [jpeg(512, 512, { before: [0xff, 0xd9] }), /not a PNG or JPEG/],
    [jpeg(512, 512, { before: [0xff, 0xda, 0, 2] }), /not a PNG or JPEG/],
    [jpeg(512, 512, { before: [0x00, 0x01] }), /not a PNG or JPEG/],
    [jpeg(512, 512, { before: [0xff, 0xe0, 0, 0] }), /not a PNG or JPEG/],
    [Uint8Array.from([0xff, 0xd8, 0xff, 0xc0, 0, 4, 8, 2, 0, 2, 0, 1]), /not a PNG or JPEG/],
    [png(512, 513), /square/],
    [png(511, 511), /511x511/],
    [png(2001, 2001), /2001x2001/],
  ];
  for (const [bytes, problem] of cases) assert.match(avatarProblem(bytes) ?? 'none', problem);
});

test('no bytes whatever make it throw', () => {
  const start = fc.constantFrom([0xff, 0xd8, 0xff], [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a], []);
  const rest = fc.array(fc.oneof(fc.constantFrom(0xff, 0xc0, 0xe0, 0, 2, 8), fc.integer({ min: 0, max: 255 })), {
    maxLength: 60,
  });
  fc.assert(
    fc.property(start, rest, (head, tail) => {
      const image = readImage(Uint8Array.from([...head, ...tail]));
      assert.ok(image === null || (image.width >= 0 && image.height >= 0));
    }),
  );
});
