// The server's end of `pods/exec` by WebSocket: versions 4 and 5 of the channel protocol. A program whose client is gone
// runs on, as under a real kubelet; only its standard input ends.

import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketConnection } from '../../internal/adapters/engine/websocket.ts';
import type { RunningPod } from './runner.ts';

const PROTOCOLS = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];
const MAGIC = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

const statusOf = (code: number | null): object =>
  code === 0
    ? { metadata: {}, status: 'Success' }
    : {
        metadata: {},
        status: 'Failure',
        message: `command terminated with non-zero exit code: exit status ${code}`,
        reason: 'NonZeroExitCode',
        details: { causes: [{ reason: 'ExitCode', message: String(code ?? 137) }] },
      };

export function serveExec(
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
  pod: RunningPod,
  params: URLSearchParams,
): void {
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((one) => one.trim());
  const protocol = PROTOCOLS.find((one) => offered.includes(one));
  if (protocol === undefined) return void socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n');
  const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}${MAGIC}`).digest('base64');
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade'];
  lines.push(`Sec-WebSocket-Accept: ${accept}`, `Sec-WebSocket-Protocol: ${protocol}`);
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  if (head.length > 0) socket.unshift(head);
  const child = pod.exec(params.getAll('command'));
  const { stdin, stdout, stderr } = child;
  if (params.get('stdin') !== 'true') stdin?.end();
  const send = (channel: number, data: Uint8Array): boolean =>
    connection.send(Buffer.concat([Buffer.from([channel]), data]));
  const connection = new WebSocketConnection(socket, {
    end: 'server',
    maxMessageBytes: 32 << 20,
    pingMs: 0,
    onMessage: (data) => {
      const [channel, which] = data;
      if (channel === 0 && data.length > 1) return stdin?.write(Buffer.from(data.subarray(1))) ?? true;
      if (channel === 255 && which === 0 && protocol === PROTOCOLS[0]) stdin?.end();
      return true;
    },
    onDrain: () => {
      stdout?.resume();
      stderr?.resume();
    },
    onClose: () => stdin?.destroy(),
  });
  stdin?.on('drain', () => connection.resume());
  for (const one of [stdin, stdout, stderr]) one?.on('error', () => undefined);
  stdout?.on('data', (data: Buffer) => void (send(1, data) || stdout.pause()));
  stderr?.on('data', (data: Buffer) => void (send(2, data) || stderr.pause()));
  // Clients that wait for the first message of each channel get one.
  child.on('error', () => undefined);
  child.on('close', (code) => {
    send(3, Buffer.from(JSON.stringify(statusOf(code))));
    connection.close(1000);
  });
}
