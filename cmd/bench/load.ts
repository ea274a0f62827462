// Connections that send one request after the other, without a client library: what is measured is the server.

import { createHmac, randomBytes } from 'node:crypto';
import { connect } from 'node:net';

export interface Load {
  readonly url: string;
  readonly secret: string;
  readonly connections: number;
  readonly bodyBytes: number;
  readonly forMs: number;
}
export interface Loaded {
  readonly perSecond: number;
  readonly p50Ms: number;
}

let serial = 0;
/** Text that does not compress: a server must not look fast because every body is the same letter. */
const noise = randomBytes(96 * 1_024).toString('base64');

function requestOf(target: URL, load: Load): string {
  serial += 1;
  const head = `{"dedupKey":"${process.pid}-${serial}","text":"`;
  const from = (serial * 97) % (noise.length - load.bodyBytes);
  const body = `${head}${noise.slice(from, from + load.bodyBytes - head.length - 2)}"}`;
  const signature = createHmac('sha256', load.secret).update(body).digest('hex');
  return (
    `POST ${target.pathname} HTTP/1.1\r\nhost: ${target.host}\r\ncontent-type: application/json\r\n` +
    `x-svc-signature-256: ${signature}\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  );
}

/** Sends until the time is over; throws at the first answer that is not 202. */
export async function loaded(load: Load): Promise<Loaded> {
  const target = new URL(load.url);
  const times: number[] = [];
  const start = performance.now();
  const end = start + load.forMs;
  const one = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(target.port), target.hostname);
      let sentAt = 0;
      let text = '';
      const send = (): void => {
        sentAt = performance.now();
        if (sentAt >= end) {
          socket.end();
          resolve();
        } else socket.write(requestOf(target, load));
      };
      socket.setNoDelay(true);
      socket.on('connect', send).on('error', reject);
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
        const head = text.indexOf('\r\n\r\n');
        const size = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? Number.NaN);
        if (head < 0 || text.length < head + 4 + size) return;
        if (!text.startsWith('HTTP/1.1 202')) return reject(new Error(`not accepted: ${text.slice(0, 300)}`));
        text = '';
        times.push(performance.now() - sentAt);
        send();
      });
    });
  await Promise.all(Array.from({ length: load.connections }, one));
  const seconds = (performance.now() - start) / 1_000;
  times.sort((a, b) => a - b);
  return { perSecond: times.length / seconds, p50Ms: times[times.length >> 1] ?? Number.NaN };
}
