// Connections that send one request after the other, without a client library: what is measured is the server. Requests
// are made and signed before the time begins, and answers are read no further than their status and their length.

import { createHmac, randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';

export interface Load {
  readonly url: string;
  readonly secret: string;
  readonly connections: number;
  readonly bodyBytes: number;
  readonly forMs: number;
  /** Time before that, in which answers do not count: whoever had a pause runs cold at first. Default 0. */
  readonly leadMs?: number;
  /** Of all connections together; absent: as fast as answers come. */
  readonly perSecond?: number;
  /** Requests that are made before the time begins; those beyond them are made while it runs. */
  readonly ready?: number;
}
export interface Loaded {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

let serial = 0;

/** What deliveries are made of: names, times, addresses, hashes and prose, as a code host sends them of a push. */
function commitOf(n: number): object {
  const id = randomBytes(20).toString('hex');
  const person = { name: `Person ${n % 7}`, email: `person-${n % 7}@example.com`, username: `person-${n % 7}` };
  return {
    id,
    tree_id: randomBytes(20).toString('hex'),
    distinct: true,
    message: `Change ${n}: let the reader of ${randomBytes(9).toString('base64url')} say why it stopped`,
    timestamp: '2026-11-22T09:30:00Z',
    url: `https://example.com/acme/widgets/commit/${id}`,
    author: person,
    committer: person,
    added: [],
    removed: [],
    modified: [`src/${randomBytes(6).toString('base64url')}.ts`, 'README.md'],
  };
}

/** Documents of a size without their first member, the key; many, so that no two in a row are the same. */
function documents(bytes: number): readonly string[] {
  return Array.from({ length: 64 }, () => {
    const commits: object[] = [];
    const render = (padding: string): string =>
      JSON.stringify({ action: 'pushed', repository: { id: 1, full_name: 'acme/widgets' }, commits, padding }).slice(1);
    let text = render('');
    for (;;) {
      commits.push(commitOf(commits.length));
      const next = render('');
      if (next.length > bytes) break;
      text = next;
    }
    commits.pop();
    return render(
      randomBytes(bytes)
        .toString('base64')
        .slice(0, bytes - text.length),
    );
  });
}
const made = new Map<number, readonly string[]>();

function requestOf(target: URL, load: Load): Buffer {
  serial += 1;
  const head = `{"dedupKey":"${process.pid}-${String(serial).padStart(9, '0')}",`;
  const bytes = load.bodyBytes - head.length;
  const some = made.get(bytes) ?? documents(bytes);
  made.set(bytes, some);
  const body = head + some[serial % some.length];
  const signature = createHmac('sha256', load.secret).update(body).digest('hex');
  return Buffer.from(
    `POST ${target.pathname} HTTP/1.1\r\nhost: ${target.host}\r\ncontent-type: application/json\r\n` +
      `x-svc-signature-256: ${signature}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    'latin1',
  );
}

const accepted = Buffer.from('HTTP/1.1 202');
const headEnd = Buffer.from('\r\n\r\n');

/** Bytes of the answer that `bytes` begin with; undefined while its head is not all there. */
function answerSize(bytes: Buffer): number | undefined {
  const end = bytes.indexOf(headEnd);
  if (end < 0) return undefined;
  const head = bytes.toString('latin1', 0, end).toLowerCase();
  const at = head.indexOf('content-length:');
  if (at < 0) throw new Error(`an answer without a length: ${head}`);
  return end + headEnd.length + Number.parseInt(head.slice(at + 15), 10);
}

/** Calls `answered` for every whole answer; throws at the first that is not 202. */
function reader(answered: () => void): (chunk: Buffer) => void {
  let rest: Buffer | undefined;
  return (chunk) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    const size = answerSize(bytes);
    if (size === undefined || bytes.length < size) {
      rest = bytes;
      return;
    }
    rest = undefined;
    if (!bytes.subarray(0, accepted.length).equals(accepted)) {
      throw new Error(`not accepted: ${bytes.toString('latin1', 0, 400)}`);
    }
    answered();
  };
}

/** Sends until the time is over; throws at the first answer that is not 202. */
export async function loaded(load: Load): Promise<Loaded> {
  const target = new URL(load.url);
  const ready = Array.from({ length: load.ready ?? 0 }, () => requestOf(target, load));
  const sockets = await Promise.all(Array.from({ length: load.connections }, () => connected(target)));
  const times: number[] = [];
  const start = performance.now();
  const from = start + (load.leadMs ?? 0);
  const end = from + load.forMs;
  const paceMs = load.perSecond === undefined ? 0 : (1_000 * load.connections) / load.perSecond;
  const one = (socket: Socket, index: number): Promise<void> =>
    new Promise((resolve, reject) => {
      // Connections send one after the other, each at its own beat.
      let turnAt = start + (paceMs * index) / load.connections;
      let sentAt = 0;
      const send = (): void => {
        sentAt = performance.now();
        if (sentAt >= end) {
          socket.end();
          resolve();
        } else socket.write(ready.pop() ?? requestOf(target, load));
      };
      const next = (): void => {
        turnAt += paceMs;
        const waitMs = turnAt - performance.now();
        if (waitMs < 1) send();
        else setTimeout(send, waitMs);
      };
      const read = reader(() => {
        const now = performance.now();
        if (now >= from) times.push(now - sentAt);
        next();
      });
      socket.on('error', reject).on('data', (chunk) => {
        try {
          read(chunk);
        } catch (error) {
          reject(error);
        }
      });
      if (paceMs === 0) send();
      else next();
    });
  await Promise.all(sockets.map(one));
  const seconds = (performance.now() - from) / 1_000;
  times.sort((a, b) => a - b);
  const at = (share: number): number => times[Math.floor(times.length * share)] ?? Number.NaN;
  return { perSecond: times.length / seconds, p50Ms: at(0.5), p99Ms: at(0.99) };
}

async function connected(target: URL): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = connect(Number(target.port), target.hostname, resolve).once('error', reject);
  await promise;
  socket.off('error', reject).setNoDelay(true);
  return socket;
}
