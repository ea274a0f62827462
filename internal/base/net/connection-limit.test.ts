import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { it } from 'node:test';
import { limitConnections, tooManyConnections } from './connection-limit.ts';

it('tells those beyond the limit why, closes at once what is beyond those, and takes others once there is room', async () => {
  const most = 2;
  const server = createServer((_request, response) => response.end('served'));
  limitConnections(server, most, tooManyConnections(most));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = async (): Promise<{ socket: Socket; said: () => string; closed: Promise<unknown> }> => {
    // It does not end its side: whoever refuses it waits no longer than it says.
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let text = '';
    socket.on('data', (data: Buffer) => (text += data.toString()));
    socket.on('error', () => socket.destroy());
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await once(socket, 'connect');
    return { socket, said: () => text, closed };
  };
  const held = [await open(), await open()];
  const refused = [await open(), await open()];
  const dropped = await open();
  await once(dropped.socket, 'end');
  dropped.socket.end();
  assert.equal(dropped.said(), '');
  for (const one of refused) {
    if (one.said() === '') await once(one.socket, 'data');
    assert.match(one.said(), /^HTTP\/1\.1 503 [^]*retry-after: 1\r\n[^]*holds 2 connections already/);
  }
  for (const { socket, said } of held) {
    socket.write('GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n');
    await once(socket, 'end');
    assert.match(said(), /served/);
    socket.end();
  }
  await Promise.all([...held, ...refused].map(({ socket, closed }) => (socket.end(), closed)));
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  assert.equal(await answer.text(), 'served');
  await open();
  await new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });
});
