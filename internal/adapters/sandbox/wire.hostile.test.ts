// A box that is not the first process as it ships: whatever runs inside may have taken its place.

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Duplex, duplexPair } from 'node:stream';
import { test, type TestContext } from 'node:test';
import { eventually, testPath } from './test-support.ts';
import { Wire } from './wire.ts';
import { encode, type Header, readFrames } from './wire-link.ts';

interface Box {
  readonly wire: Wire;
  readonly dir: string;
  /** The stream that the wire goes over now. */
  stream(): Duplex;
  /** Says a frame, numbered. */
  say(header: object, data?: Uint8Array): void;
  /** All headers that it was told. */
  readonly told: Header[];
  /** Bytes that it was sent behind them. */
  bytes(): number;
}

async function hostileBox(t: TestContext): Promise<Box> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-wire-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const told: Header[] = [];
  let [numbered, bytes] = [0, 0];
  let inner: Duplex | undefined;
  const dial = async (): Promise<Duplex> => {
    const [near, far] = duplexPair();
    inner = far;
    readFrames(far, (header, data) => {
      told.push(header);
      bytes += data.length;
      if (header.t === 'hello') far.write(encode({ t: 'state', got: 0, ids: 0, oom: 0, programs: [] }));
      return true;
    });
    return near;
  };
  const socketOf = (name: string): string | null => (name === 'tools' ? join(dir, 'tools.sock') : null);
  const wire = new Wire({ dial, secret: 'secret', socketOf, lostMs: 500 });
  t.after(() => wire.end('over'));
  await wire.open();
  return {
    ...{ wire, dir, told },
    stream: () => inner as Duplex,
    bytes: () => bytes,
    say: (header, data) => void inner?.write(encode({ ...header, n: (numbered += 1) }, data)),
  };
}

/** JSON that no number and no text can be made of. */
const nothing = { toString: 1, valueOf: 1 };
const deep = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`) as unknown;

for (const [what, value] of [
  ['an object that is no text', nothing],
  ['a list in lists', deep],
] as const) {
  for (const header of [
    { t: 'open', c: value, name: 'tools' },
    { t: 'open', c: 1, name: value },
    { t: 'data', c: value },
    { t: 'tried', id: value, answered: [] },
    { t: 'tried', id: 2, answered: [value] },
    { t: 'out', id: value, fd: 1 },
    { t: 'out', id: 1, fd: 1, at: value },
    { t: 'started', id: 1, pid: value },
    { t: 'failed', id: 1, code: value },
    { t: 'inack', id: 1, bytes: value },
    { t: 'exit', id: 1, code: 0, signal: null, oom: value },
  ]) {
    const field = Object.entries(header).find(([, one]) => one === value || Array.isArray(one))?.[0];
    test(`a box that says ${what} as ${field} of ${header.t} ends nobody but itself`, async (t) => {
      const box = await hostileBox(t);
      const starting = box.wire.start({ argv: ['true'], env: { PATH: testPath }, cwd: '/' });
      starting.catch(() => undefined);
      void box.wire.tryAll([]);
      const text = what === 'a list in lists' ? undefined : JSON.stringify(header);
      // Texts of that depth cannot be made by the runtime.
      if (text === undefined) {
        const whole = JSON.stringify({ ...header, n: 1 }, (_key, one: unknown) => (one === value ? 'DEEP' : one));
        const head = Buffer.from(whole.replace('"DEEP"', `${'['.repeat(20_000)}${']'.repeat(20_000)}`));
        const lengths = Buffer.alloc(8);
        lengths.writeUInt32BE(head.length, 0);
        box.stream().write(Buffer.concat([lengths, head]));
      } else box.say(header);
      await eventually(() => box.wire.cuts > 0 || box.told.some((one) => one.t === 'got' || one.t === 'reset'));
      assert.notEqual(box.wire.state, 'dead');
    });
  }
}

/** A way out of the box that does `met` with each connection. */
async function wayOut(t: TestContext, dir: string, met: (socket: Socket) => void): Promise<Socket[]> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    sockets.push(socket);
    met(socket);
  });
  await new Promise<void>((resolve) => server.listen(join(dir, 'tools.sock'), resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return sockets;
}

const mebibyte = 1024 * 1024;

test('a box that sends a connection more than its window is told that the connection is over', async (t) => {
  const box = await hostileBox(t);
  const sockets = await wayOut(t, box.dir, (socket) => socket.pause());
  box.say({ t: 'open', c: 1, name: 'tools' });
  assert.ok(await eventually(() => sockets.length === 1));
  const piece = Buffer.alloc(mebibyte);
  for (let sent = 0; sent < 16; sent += 1) box.say({ t: 'data', c: 1 }, piece);
  assert.ok(await eventually(() => box.told.some(({ t: kind, c }) => kind === 'reset' && c === 1)));
});

test('a box that says it has read what it never says it got is sent no more than can be kept for it', async (t) => {
  const box = await hostileBox(t);
  const piece = Buffer.alloc(mebibyte);
  await wayOut(t, box.dir, (socket) => {
    const more = (): void => {
      while (!socket.destroyed && socket.write(piece));
    };
    socket.on('drain', more);
    more();
  });
  box.say({ t: 'open', c: 1, name: 'tools' });
  box.say({ t: 'ack', c: 1, bytes: Number.MAX_SAFE_INTEGER });
  for (let tries = 0; tries < 200 && box.bytes() < 128 * mebibyte; tries += 1) {
    box.say({ t: 'ack', c: 1, bytes: 2 * mebibyte });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.ok(box.bytes() > mebibyte);
  assert.ok(box.bytes() < 64 * mebibyte, `${box.bytes()}`);
});

test('a box that asks on and on and takes no answer is given up', async (t) => {
  const box = await hostileBox(t);
  for (let asked = 0; asked < 500_000 && box.wire.state === 'ok'; asked += 1) {
    box.say({ t: 'open', c: asked + 1, name: 'nowhere' });
    if (asked % 1_000 === 999) await new Promise(setImmediate);
  }
  assert.equal(box.wire.state, 'dead');
});
