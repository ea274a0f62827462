import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { ExecStream } from './docker-stream.ts';

function frame(kind: number, size: number, data = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt8(kind, 0);
  head.writeUInt32BE(size, 4);
  return Buffer.concat([head, data]);
}

test('a frame is given on as it comes, whatever length it says: none is kept until its end', async () => {
  const [near, far] = duplexPair();
  const stream = new ExecStream(near);
  let bytes = 0;
  stream.on('data', (data: Buffer) => (bytes += data.length));
  far.write(frame(1, 0xffff_ffff, Buffer.alloc(1_000)));
  far.write(Buffer.alloc(500));
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(bytes, 1_500);
  stream.destroy();
});

test('what a program says is the same however its frames are cut', async () => {
  const said = Buffer.concat([
    frame(1, 5, Buffer.from('hello')),
    frame(2, 3, Buffer.from('oh ')),
    frame(1, 0),
    frame(2, 2, Buffer.from('no')),
    frame(1, 6, Buffer.from(' world')),
  ]);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: said.length - 1 })), async (cuts) => {
      const [near, far] = duplexPair();
      const stream = new ExecStream(near);
      let out = '';
      stream.on('data', (data: Buffer) => (out += data.toString()));
      const at = [0, ...cuts.sort((a, b) => a - b), said.length];
      for (const [index, end] of at.slice(1).entries()) far.write(said.subarray(at[index], end));
      await new Promise(setImmediate);
      await new Promise(setImmediate);
      assert.deepEqual([out, stream.stderr], ['hello world', 'oh no']);
      stream.destroy();
    }),
    { numRuns: 30 },
  );
});
