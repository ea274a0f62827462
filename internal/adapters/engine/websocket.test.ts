import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import { test } from 'node:test';
import { WebSocketConnection } from './websocket.ts';

/** What a client says and how it ends, where its peer sends these frames. */
async function heard(frames: readonly Buffer[]): Promise<{ messages: string[]; reason: string | undefined }> {
  const [near, far] = duplexPair();
  const messages: string[] = [];
  let reason: string | undefined;
  new WebSocketConnection(near, {
    end: 'client',
    maxMessageBytes: 1024 * 1024,
    pingMs: 0,
    onMessage: (data) => messages.push(data.toString()) > 0,
    onDrain: () => undefined,
    onClose: (_code, why) => (reason = why),
  });
  far.resume();
  for (const frame of frames) if (!far.write(frame)) await new Promise(setImmediate);
  await new Promise((resolve) => setTimeout(resolve, 20));
  near.destroy();
  return { messages, reason };
}

/** A frame of less than 126 bytes: of a binary message, or what continues one. */
const frame = (data: string, { first = false, last = false } = {}): Buffer =>
  Buffer.concat([Buffer.from([(last ? 0x80 : 0) | (first ? 2 : 0), data.length]), Buffer.from(data)]);

test('a message in parts is one message, also where some of them are empty', async () => {
  const parts = [frame('', { first: true }), frame('a'), frame(''), frame('b', { last: true })];
  assert.deepEqual(await heard([...parts, frame('c', { first: true, last: true })]), {
    messages: ['ab', 'c'],
    reason: undefined,
  });
});

for (const [what, data] of [
  ['nothing', ''],
  ['a byte each', 'x'],
] as const)
  test(`a message in parts without end, of ${what}, ends the connection before it fills the memory`, async () => {
    const part = Buffer.concat(Array.from({ length: 1_000 }, () => frame(data)));
    const { messages, reason } = await heard([frame('', { first: true }), ...Array.from({ length: 100 }, () => part)]);
    assert.deepEqual(messages, []);
    assert.match(reason ?? '', /a message of more than 1048576 bytes/);
  });
