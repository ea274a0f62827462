import assert from 'node:assert/strict';
import { type AddressInfo, connect, createServer } from 'node:net';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { endGently } from './linger.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon();
});
after(() => daemon.stop());

test('who goes on sending more than is taken can still read that it is too much', async () => {
  const { hostname, port } = new URL(daemon.url);
  const socket = connect({ host: hostname, port: Number(port) });
  let text = '';
  let failure: unknown;
  let isReading = false;
  socket.on('error', (error) => {
    failure ??= error;
  });
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await once(socket, 'connect');
  socket.write('POST /api/v1/orgs HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: keep-alive\r\n');
  socket.write(`authorization: Bearer ${daemon.token}\r\ncontent-type: application/json\r\n\r\n`);
  const chunk = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(0x10000, 32), Buffer.from('\r\n')]);
  let taken = 0;
  // As senders do: it writes as fast as the other side takes it, and looks for an answer only when that takes no more.
  const send = (): void => {
    while (!socket.destroyed) {
      taken += 1;
      if (!socket.write(chunk)) break;
    }
    if (!isReading) socket.once('drain', send);
  };
  send();
  let seen = -1;
  while (seen !== taken && failure === undefined) {
    seen = taken;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  isReading = true;
  socket.setEncoding('utf8').on('data', (part: string) => (text += part));
  await closed;
  assert.match(text, /^HTTP\/1.1 413 [^]*connection: close\r\n[^]*"body-too-large"/i, String(failure));
  assert.ok(taken < 1_000, `${taken} chunks of 64 KiB were taken`);
});

test('a connection goes behind the last that was said on it, though the other side neither closes it nor says anything', async () => {
  const server = createServer({ allowHalfOpen: true }, (socket) => endGently(socket.resume(), 'no'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const silent = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  let text = '';
  silent.on('data', (part) => (text += String(part)));
  await once(silent, 'end');
  assert.equal(text, 'no');
  const open = (): Promise<number> => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
  while ((await open()) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  silent.destroy();
  server.close();
});
