import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { refusal, Refusal } from './failure.ts';
import { createSseParser, type SseMessage, sseMessages } from './sse.ts';

const text =
  ': hi\r\nid: 1\r\nevent: run\r\ndata: {"a":1}\r\n\r\ndata: x\ndata: y\n\nretry: 40\nid: 2\rdata\r\rdata: cut off';

test('events are read whatever the line ends and however the text is cut', () => {
  const expected: SseMessage[] = [
    { id: '1', event: 'run', data: '{"a":1}' },
    { id: '1', event: 'message', data: 'x\ny' },
    { id: '2', event: 'message', data: '' },
  ];
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: text.length })), (cuts) => {
      const parser = createSseParser();
      const points = [0, ...cuts.toSorted((a, b) => a - b), text.length];
      const got = points.slice(1).flatMap((end, index) => parser.feed(text.slice(points[index], end)));
      assert.deepEqual(got, expected);
      assert.equal(parser.retryMs(), 40);
    }),
  );
});

test('a stream that breaks is opened again from the last id', async () => {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(request.headers['last-event-id'] as string | undefined);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`retry: 5\nid: ${asked.length}\ndata: ${asked.length}\n\n`);
    // Broken in the middle of an event, which must not be told.
    response.write('data: half', () => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const stop = new AbortController();
  const open = (lastEventId: string | undefined): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}`, {
      headers: lastEventId === undefined ? {} : { 'last-event-id': lastEventId },
      signal: stop.signal,
    });
  const got: string[] = [];
  for await (const message of sseMessages(open, stop.signal)) {
    got.push(message.data);
    if (got.length === 3) stop.abort();
  }
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  assert.deepEqual(got, ['1', '2', '3']);
  assert.deepEqual(asked, [undefined, '1', '2']);
});

test('a server that refuses is not asked again', async () => {
  const stop = new AbortController();
  let opened = 0;
  const open = async (): Promise<Response> => {
    opened += 1;
    if (opened === 1) return new Response('id: 1\nretry: 1\ndata: x\n\n');
    throw new Refusal({ ...refusal('gone', 'no such project').problem, status: 404 });
  };
  const got: string[] = [];
  await assert.rejects(async () => {
    for await (const message of sseMessages(open, stop.signal)) got.push(message.data);
  }, /no such project/);
  assert.deepEqual(got, ['x']);
  assert.equal(opened, 2);
});
