import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { boundPipelining } from './pipelined.ts';

test('of very many requests at once those that a connection may have waiting are answered, and it ends', async () => {
  const waiting: ServerResponse[] = [];
  const server = createServer(boundPipelining((_request, response) => void waiting.push(response)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const ask = (requests: number) => {
    const socket = connect(port, '127.0.0.1');
    let said = '';
    socket.on('data', (data: Buffer) => (said += data.toString()));
    socket.on('error', () => socket.destroy());
    socket.write('GET / HTTP/1.1\r\nhost: h\r\n\r\n'.repeat(requests));
    return { socket, closed: once(socket, 'close'), answers: () => said.split('HTTP/1.1 200').length - 1 };
  };
  const answerAll = (): void => {
    for (const response of waiting.splice(0)) response.end('.');
  };
  const many = ask(1_000);
  while (waiting.length < 64) await once(server, 'request');
  // Whatever else has arrived by then.
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(waiting.length, 64);
  answerAll();
  await many.closed;
  assert.equal(many.answers(), 64);
  const few = ask(10);
  while (waiting.length < 10) await once(server, 'request');
  answerAll();
  while (few.answers() < 10) await once(few.socket, 'data');
  // The connection goes on.
  few.socket.write('GET / HTTP/1.1\r\nhost: h\r\n\r\n');
  while (waiting.length < 1) await once(server, 'request');
  answerAll();
  while (few.answers() < 11) await once(few.socket, 'data');
  few.socket.destroy();
  server.close();
});
