// What a provider sends faster than it is read.

import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { test } from 'node:test';
import type { ModelUpstream } from '../../adapters/providers/model/model.ts';
import { relay } from './relay.ts';
import { type Call, type Deps, limits, SessionRoute } from './route.ts';

for (const [what, chunks] of [
  ['large chunks', Array.from({ length: 64 }, () => Buffer.alloc(65_536, 'data:{}\n'))],
  ['chunks of a line', Array.from({ length: 8_192 }, () => Buffer.from('data:{}\n'.repeat(64)))],
] as const) {
  test(`an answer that is buffered in ${what} leaves turns of the event loop to others, and ends with its last byte`, async () => {
    const body = Readable.from(chunks, { objectMode: true });
    const answer = { status: 200, headers: {}, mediaType: 'text/event-stream', encoding: undefined, body };
    const upstream = { send: () => Promise.resolve(answer) } as unknown as ModelUpstream;
    const deps = { upstream, limits, runtime: { now: () => new Date(0) } } as unknown as Deps;
    const sent = new PassThrough();
    const response = Object.assign(sent, { writeHead: () => undefined, flushHeaders: () => undefined });
    const spender = { projectId: 'p', agentId: 'a', agentName: 'a', sessionId: 's' };
    const route = new SessionRoute('token', { spender, model: { provider: 'provider-a', id: 'm' } });
    const call = { request: { headers: {} }, response, provider: 'provider-a', path: '/v1/messages', query: '' };
    const endpoint = { kind: 'metered', wire: 'messages', hasBody: true } as const;
    let bytes = 0;
    sent.on('data', (chunk: Buffer) => (bytes += chunk.length));
    let turns = 0;
    let isOver = false;
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const signal = new AbortController().signal;
    const { end } = await relay(
      deps,
      route,
      { ...call, signal, offersTools: false } as unknown as Call,
      endpoint,
      null,
    );
    isOver = true;
    assert.deepEqual([end, bytes], ['done', 4_194_304]);
    assert.ok(turns >= 256, `${turns} turns for 4 MiB`);
  });
}
