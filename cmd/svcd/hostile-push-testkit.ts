// What svcd.hostile-git.fuzz.test.ts has a session's git send through the daemon, and what the code host says to it: a session
// with a clone, the code host behind it, and a way to send what no git would.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { createServer, request as ask } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { CodehostSimulator } from '../../internal/base/testkit/codehost-simulator.ts';
import type { SimRepository } from '../../internal/base/testkit/codehost-state.ts';
import type { MeasuredDaemon } from '../../internal/base/testkit/measured-daemon.ts';
import { appKey, appPublicKey } from '../../internal/edge/mcp/codehost-testkit.ts';
import { applyAgents } from '../../internal/flows/routing/routing-testkit.ts';
import { mebibyte } from './hostile-testkit.ts';

/** Pieces of a body, one write each. */
type Pieces = () => Iterable<Buffer> | AsyncIterable<Buffer>;

/** What one call of git is, and what the code host says to it; without `answer` the code host's own git does. */
export interface GitCall {
  readonly what: 'info/refs?service=git-receive-pack' | 'git-receive-pack' | 'git-upload-pack';
  readonly headers?: { readonly [name: string]: string };
  /** In so large chunks; without, it says how long it is, which is `size`. */
  readonly chunk?: number;
  readonly size?: number;
  readonly body?: Pieces;
  readonly answer?: Pieces;
  /** In so large chunks, else one for each piece. */
  readonly answerChunk?: number;
  /** Goes away so long after it has sent all, whatever was said. */
  readonly leavesAfterMs?: number;
  /** Of the first of what is told. */
  readonly told: RegExp;
}

/** A session with a clone of `acme/app`. */
export interface Seat {
  /** Of the clone. */
  readonly work: string;
  readonly app: SimRepository;
  /** Does what the session's git would; answers with the first of what it was told. */
  call(of: GitCall): Promise<string>;
  stop(): Promise<void>;
}

export async function takeSeat(daemon: MeasuredDaemon): Promise<Seat> {
  const sim = await new CodehostSimulator({ appPublicKey }).start();
  const app = await sim.repository('acme/app');
  // What is pushed stays the pack that it was.
  await app.git.git(['config', 'receive.unpackLimit', '1']);
  let said: GitCall | undefined;
  const front = createServer((request, response) => {
    if (said !== undefined && /\.git\//.test(request.url ?? '')) {
      const call = said;
      request.resume();
      request.once('end', () => void answerWith(call, request.socket));
      return;
    }
    const { method, headers, url = '' } = request;
    const onward = ask(`${sim.origin}${url}`, { method, headers }, (got) => {
      response.writeHead(got.statusCode ?? 500, got.headers);
      pipeline(got, response).catch(() => response.destroy());
    });
    pipeline(request, onward).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => front.listen(0, '127.0.0.1', resolve));
  const apiUrl = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
  const made = await daemon.api('POST', 'P/connections', {
    provider: 'codehost',
    name: 'pushed-to',
    config: { apiUrl, appId: '1', installationId: '1', botLogin: 'svc-app[bot]' },
    credentials: { webhookSecret: 'a-secret-of-the-hook', privateKey: appKey },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const capabilities = { contents: 'write' };
  const mount = { repository: 'acme/app', mountPath: '/workspace/app', auth: { kind: 'codehostApp', capabilities } };
  await applyAgents(daemon.api, { pusher: { mounts: [{ kind: 'git', ...mount }] } });
  const { body } = await daemon.api('POST', 'P/agents/pusher/sessions', { message: '{"lines":[]}' });
  await untilIdle(daemon, String(body['id']));
  const work = await cloneOf(daemon.dataDir);
  const config = await readFile(join(work, '.git', 'config'), 'utf8');
  const remote = config.match(/http:\/\/127\.0\.0\.1:\d+\/git\/acme\/app\.git/g)?.at(-1) ?? assert.fail(config);
  return {
    work,
    app,
    async call(of) {
      said = of.answer === undefined ? undefined : of;
      try {
        return await exchange(remote, of);
      } finally {
        said = undefined;
      }
    },
    async stop() {
      front.closeAllConnections();
      front.close();
      await sim.stop();
    },
  };
}

async function untilIdle(daemon: MeasuredDaemon, session: string): Promise<void> {
  for (let waited = 0; ; waited += 50) {
    const { body } = await daemon.api('GET', `P/sessions/${session}`);
    if (String(body['state']) === 'idle') return;
    assert.ok(waited < 120_000 && String(body['state']) !== 'failed', JSON.stringify(body) + daemon.log());
    await sleep(50);
  }
}

async function cloneOf(dataDir: string): Promise<string> {
  const all = await readdir(join(dataDir, 'sandboxes'), { recursive: true });
  const head = all.find((path) => path.endsWith('app/.git/config')) ?? assert.fail(all.slice(0, 100).join('\n'));
  return join(dataDir, 'sandboxes', head, '..', '..');
}

/** Writes pieces, each in so large chunks, no faster than they are read. */
async function pour(socket: Socket, pieces: ReturnType<Pieces>, write: (piece: Buffer) => Buffer): Promise<void> {
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  for await (const piece of pieces) {
    if (socket.destroyed) return;
    if (socket.write(write(piece))) continue;
    await Promise.race([new Promise<void>((resolve) => socket.once('drain', () => resolve())), closed]);
  }
}

/** Answers as git's server would. */
async function answerWith({ answer = () => [], answerChunk }: GitCall, socket: Socket): Promise<void> {
  const head = ['200 OK', 'content-type: application/x-git-result', 'transfer-encoding: chunked', 'connection: close'];
  socket.on('error', () => socket.destroy()).write(`HTTP/1.1 ${head.join('\r\n')}\r\n\r\n`);
  await pour(socket, answer(), (piece) => inChunks(piece, answerChunk ?? piece.length));
  socket.end('0\r\n\r\n');
}

const toldBytes = 400;
/** Sends a call as it is, and reads what comes back to its end; the first of it. */
async function exchange(remote: string, of: GitCall): Promise<string> {
  const { host, hostname, port, pathname } = new URL(remote);
  const socket = connect(Number(port), hostname);
  let told = '';
  let left = false;
  socket.on('error', () => socket.destroy());
  socket.on('data', (bytes: Buffer) => {
    if (told.length < toldBytes) told += bytes.toString('latin1');
  });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const { size, chunk, body = () => [], headers = {}, leavesAfterMs } = of;
  const length = size === undefined ? 'transfer-encoding: chunked' : `content-length: ${size}`;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const isGet = of.what.startsWith('info');
  socket.write(
    `${isGet ? 'GET' : 'POST'} ${pathname}/${of.what} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n${lines.join('')}${isGet ? '' : `${length}\r\n`}\r\n`,
  );
  await pour(socket, body(), (piece) => (size === undefined ? inChunks(piece, chunk ?? piece.length) : piece));
  if (!isGet && size === undefined && leavesAfterMs === undefined) socket.write('0\r\n\r\n');
  if (leavesAfterMs !== undefined) left = (await Promise.race([closed, sleep(leavesAfterMs, true)])) === true;
  if (!left) await closed;
  socket.destroy();
  return told.slice(0, toldBytes);
}

function inChunks(bytes: Buffer, size: number): Buffer {
  const head = Buffer.from(`${size.toString(16)}\r\n`);
  const end = Buffer.from('\r\n');
  const many = Math.ceil(bytes.length / size);
  const out = Buffer.allocUnsafe(bytes.length + many * (head.length + 8 + end.length));
  let at = 0;
  for (let from = 0; from < bytes.length; from += size) {
    const part = bytes.subarray(from, from + size);
    const own = part.length === size ? head : Buffer.from(`${part.length.toString(16)}\r\n`);
    at += own.copy(out, at);
    at += part.copy(out, at);
    at += end.copy(out, at);
  }
  return out.subarray(0, at);
}

const line = (text: string): string => (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text;
const [none, some] = ['0'.repeat(40), '1'.repeat(40)];
const refName = (at: number): string => `refs/heads/b${at}`;
/** What is to become of so many refs, as git says it. */
const commands = (many: number, nameOf = refName): Buffer => {
  const each = Array.from({ length: many }, (_, at) =>
    line(`${none} ${some} ${nameOf(at)}${at === 0 ? '\0report-status side-band-64k' : ''}`),
  );
  return Buffer.from(`${each.join('')}0000`);
};
/** As many as a push may name. */
const refsMost = 10_000;
const pieceBytes = 65_536;
const pieces = function* (bytes: number, piece: Buffer = Buffer.alloc(pieceBytes)): Generator<Buffer> {
  for (let at = 0; at < bytes; at += piece.length) yield piece.subarray(0, Math.min(piece.length, bytes - at));
};
const pushOf = (pack: Pieces, head = commands(1)): Pieces =>
  async function* () {
    yield head;
    yield* pack();
  };
/** A report of the code host, in packets as git's are. */
const reportOf = (many: number, say: (name: string) => string): Pieces => {
  const lines = Array.from({ length: many }, (_, at) => line(say(refName(at))));
  const text = `${line('unpack ok\n')}${lines.join('')}0000`;
  return function* () {
    for (let at = 0; at < text.length; at += 60_000) yield Buffer.from(line(`\x01${text.slice(at, at + 60_000)}`));
    yield Buffer.from('0000');
  };
};
const oneOk = reportOf(1, (name) => `ok ${name}\n`);
const push = { what: 'git-receive-pack', answer: oneOk } as const;
const pushMost = 256 * mebibyte;
const passed = /^HTTP\/1\.1 200 [^]*ok refs\/heads\/b0/;
const refused = /^HTTP\/1\.1 502 [^]*svc: refused: /;
/** The same, where what is sent after it may take the answer along. */
const unread = /^(?:HTTP\/1\.1 502 [^]*svc: refused: |$)/;

/** A quarter of a gigabyte of wishes. */
const bomb = (): Buffer => {
  const part = gzipSync(Buffer.alloc(16 * mebibyte, line(`want ${some}\n`)), { level: 1 });
  return Buffer.concat(Array.from({ length: 16 }, () => part));
};

/** What a session sends. */
export const pushes: { readonly [what: string]: GitCall } = {
  'a pack as large as is taken': {
    ...push,
    size: pushMost,
    body: pushOf(() => pieces(pushMost - commands(1).length)),
    told: passed,
  },
  'a pack that is larger, and says so': {
    ...push,
    size: 2 * pushMost,
    body: pushOf(() => pieces(2 * pushMost - commands(1).length)),
    told: /^HTTP\/1\.1 200 [^]*svc: too-large/,
  },
  'a pack that is larger, and does not say so': {
    ...push,
    body: pushOf(() => pieces(pushMost + 16 * mebibyte)),
    told: /^HTTP\/1\.1 200 [^]*svc: too-large/,
  },
  'a pack of chunks of a byte': {
    ...push,
    chunk: 1,
    body: pushOf(() => pieces(mebibyte)),
    told: passed,
  },
  'refs of chunks of a byte': { ...push, chunk: 1, body: () => pieces(mebibyte - 1, commands(refsMost)), told: passed },
  'a pack that trickles, and then stops': {
    ...push,
    body: pushOf(async function* () {
      for (let at = 0; at < 200; at += 1) {
        await sleep(5);
        yield Buffer.from('x');
      }
    }),
    leavesAfterMs: 500,
    told: /^$/,
  },
  'as many refs as are taken': {
    ...push,
    body: () => [commands(refsMost)],
    answer: reportOf(refsMost, (name) => `ok ${name}\n`),
    told: passed,
  },
  'as many refs as are taken, of which none is let': {
    ...push,
    body: () => [commands(refsMost)],
    answer: reportOf(refsMost, (name) => `ng ${name} no\n`),
    told: /^HTTP\/1\.1 200 [^]*ng refs\/heads\/b0 no/,
  },
  'as many refs as are taken, and a pack that is larger': {
    ...push,
    size: 2 * pushMost,
    body: pushOf(() => pieces(2 * pushMost - commands(refsMost).length), commands(refsMost)),
    told: /^HTTP\/1\.1 200 [^]*svc: too-large[^]*ng refs\/heads\/b0 too-large/,
  },
  'more refs than are taken': { ...push, body: () => [commands(2 * refsMost)], told: refused },
  'refs of the longest names': {
    ...push,
    body: () => [commands(15, (at) => `refs/heads/b${at}${'n'.repeat(65_000)}`)],
    told: passed,
  },
  'very many ends of a shallow clone': {
    ...push,
    body: () => [Buffer.from(line(`shallow ${some}`).repeat(20_000)), commands(1)],
    told: passed,
  },
  'what is no push': {
    ...push,
    size: 60 * mebibyte,
    body: () => pieces(60 * mebibyte, randomBytes(mebibyte)),
    told: unread,
  },
  'a flush, and very much behind it': {
    ...push,
    body: () => pieces(60 * mebibyte, Buffer.alloc(pieceBytes, '0000')),
    told: /^HTTP\/1\.1 200 /,
  },
  'a push that is compressed as a whole': {
    ...push,
    headers: { 'content-encoding': 'gzip' },
    body: () => [bomb()],
    told: unread,
  },
  'a pack that is none, to the code host’s git': {
    what: 'git-receive-pack',
    headers: { 'content-type': 'application/x-git-receive-pack-request' },
    body: pushOf(() => pieces(60 * mebibyte, randomBytes(mebibyte))),
    told: /^HTTP\/1\.1 200 [^]*ng refs\/heads\/b0 unpacker error/,
  },
  'a wish that is compressed, to the code host’s git': {
    what: 'git-upload-pack',
    headers: { 'content-encoding': 'gzip', 'content-type': 'application/x-git-upload-pack-request' },
    body: () => [bomb()],
    told: /^HTTP\/1\.1 /,
  },
  'a wish of chunks of a byte': {
    what: 'git-upload-pack',
    chunk: 1,
    body: () => pieces(mebibyte),
    answer: oneOk,
    told: passed,
  },
};

const large =
  (bytes: number): Pieces =>
  () =>
    pieces(bytes);
const unknown = /^HTTP\/1\.1 200 [^]*svc: outcome-unknown/;

/** What a code host answers. */
export const hostAnswers: { readonly [what: string]: GitCall } = {
  'a report of as many bytes as are read': {
    ...push,
    body: () => [commands(1)],
    answer: large(4 * mebibyte),
    told: /^HTTP\/1\.1 200 /,
  },
  'a report of chunks of a byte': {
    ...push,
    body: () => [commands(1)],
    answer: large(mebibyte),
    answerChunk: 1,
    told: /^HTTP\/1\.1 200 /,
  },
  'a report without an end': { ...push, body: () => [commands(1)], answer: large(512 * mebibyte), told: unknown },
  'refs without an end': {
    what: 'info/refs?service=git-receive-pack',
    answer: large(256 * mebibyte),
    told: /^HTTP\/1\.1 200 /,
  },
  'refs of chunks of a byte': {
    what: 'info/refs?service=git-receive-pack',
    answer: large(mebibyte),
    answerChunk: 1,
    told: /^HTTP\/1\.1 200 /,
  },
  'a pack of a quarter of a gigabyte': {
    what: 'git-upload-pack',
    body: () => [Buffer.from('0000')],
    answer: large(256 * mebibyte),
    told: /^HTTP\/1\.1 200 /,
  },
  'a pack of chunks of a byte': {
    what: 'git-upload-pack',
    body: () => [Buffer.from('0000')],
    answer: large(mebibyte),
    answerChunk: 1,
    told: /^HTTP\/1\.1 200 /,
  },
};
