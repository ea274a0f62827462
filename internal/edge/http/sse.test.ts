import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { SseEvent } from './route.ts';
import { sendEvents } from './sse.ts';

test('a stream keeps nothing of what it has sent, however long it stays open', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const sent: WeakRef<SseEvent>[] = [];
  let left = -1;
  async function* events(): AsyncGenerator<SseEvent> {
    for (let at = 0; at < 100; at += 1) {
      const event = { data: { at } };
      sent.push(new WeakRef(event));
      yield event;
    }
    await turn();
    collect();
    left = sent.filter((one) => one.deref() !== undefined).length;
  }
  let written = '';
  const response = {
    writeHead: () => response,
    write: (text: string) => (written += text) !== '',
    end: () => response,
  };
  const { signal } = new AbortController();
  await sendEvents(response as unknown as ServerResponse, {}, events(), { signal });
  assert.ok(written.includes('data: {"at":99}\n\n'));
  // The last one or two may stand in a frame that is still there.
  assert.ok(left < 5, `${left} of 100 are kept`);
});
