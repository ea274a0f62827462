import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { chunksOf } from './answer-body.ts';

/** A body of which a reader has taken the first chunk and no more. */
async function leftAfterOne(): Promise<Readable> {
  const body = new Readable({ read: () => undefined });
  body.push('refs, and the end of them');
  for await (const chunk of chunksOf(body)) {
    assert.equal(String(chunk), 'refs, and the end of them');
    break;
  }
  assert.equal(body.destroyed, false);
  return body;
}

test('what is left of an answer is read to its end, so that its connection serves the next', async () => {
  const body = await leftAfterOne();
  body.push('0000');
  body.push(null);
  await once(body, 'end');
});

test('an answer behind which too much comes is cut off, and so is one that breaks', async () => {
  const long = await leftAfterOne();
  long.push(Buffer.alloc(5_000));
  await once(long, 'close');
  assert.equal(long.readableEnded, false);
  const broken = await leftAfterOne();
  const closed = new Promise((resolve) => broken.on('close', resolve));
  broken.destroy(new Error('the connection was cut'));
  await closed;
});

test('an answer that does not end is cut off', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const silent = await leftAfterOne();
  const closed = once(silent, 'close');
  t.mock.timers.tick(1_000);
  await closed;
  assert.equal(silent.readableEnded, false);
});

test('a reader who reads to the end, or whose stream breaks, leaves nothing behind', async () => {
  const whole = Readable.from([Buffer.from('a'), Buffer.from('b')]);
  const read: string[] = [];
  for await (const chunk of chunksOf(whole)) read.push(String(chunk));
  assert.deepEqual([read, whole.readableEnded], [['a', 'b'], true]);
  const body = new Readable({ read: () => undefined });
  const reading = chunksOf(body).next();
  body.destroy(new Error('cut'));
  await assert.rejects(reading, /^Error: cut$/);
  assert.equal(body.listenerCount('data'), 0);
});
