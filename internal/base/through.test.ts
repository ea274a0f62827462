import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { createZstdCompress, createZstdDecompress, zstdCompressSync } from 'node:zlib';
import { pipeThrough } from './through.ts';

async function* of(...parts: Buffer[]): AsyncGenerator<Buffer> {
  yield* parts;
}

test('all that the source gives comes out', async () => {
  const packed = pipeThrough(of(Buffer.from('one '), Buffer.from('two')), createZstdCompress());
  assert.equal(await text(pipeThrough(packed as AsyncIterable<Buffer>, createZstdDecompress())), 'one two');
});

test('a source that breaks, and bytes that are none, are told to the reader', async () => {
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from('one');
    throw new Error('the source broke');
  }
  await assert.rejects(text(pipeThrough(broken(), createZstdCompress())), /the source broke/);
  await assert.rejects(text(pipeThrough(of(Buffer.from('no archive')), createZstdDecompress())));
});

test('a reader that leaves early ends nothing but the reading, however much is held', async () => {
  // From less than a pipe takes to more than all the buffers between hold.
  for (let bytes = 100_000; bytes <= 400_000; bytes += 20_000) {
    const child = spawn('/bin/sh', ['-c', 'sleep 0.05'], { stdio: ['pipe', 'ignore', 'ignore'] });
    child.stdin.on('error', () => undefined);
    const source = pipeThrough(of(zstdCompressSync(Buffer.alloc(bytes))), createZstdDecompress());
    await pipeline(source, child.stdin).catch((error: NodeJS.ErrnoException) =>
      assert.match(String(error.code), /EPIPE|ERR_STREAM_PREMATURE_CLOSE/),
    );
  }
});

test('a reader that stops in the middle of a loop leaves nothing behind', async () => {
  for (let bytes = 50_000; bytes <= 400_000; bytes += 50_000) {
    for await (const part of pipeThrough(of(zstdCompressSync(Buffer.alloc(bytes))), createZstdDecompress())) {
      assert.ok((part as Buffer).length > 0);
      break;
    }
  }
  await new Promise((resolve) => setImmediate(resolve));
});
