// Boxes that come to their daemon (docs/reference/sessions.md#dial): the real first process as a program of this machine,
// which is told the way over its socket and dials a real port. Then who comes there and is no box of this daemon.

import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { after, before, describe, it, type TestContext } from 'node:test';
import * as tls from 'node:tls';
import { sha256 } from '../../base/hash.ts';
import { freePort } from '../../base/testkit/installed-postgres.ts';
import { eventually, runId, startInit, testPath } from './test-support.ts';
import { Wire } from './wire.ts';
import { DialedWay } from './wire-dial.ts';
import { WireDoor, wireKey } from './wire-door.ts';

const env = { PATH: testPath };
const speaks = { minVersion: 'TLSv1.3', ciphers: 'TLS_AES_128_GCM_SHA256' } as const;
const loopback = { host: '127.0.0.1', port: 0 };

let door: WireDoor;
before(async () => {
  door = await WireDoor.open({ listen: loopback, address: { host: '127.0.0.1' } });
});
after(() => door.close());

interface Box {
  readonly dir: string;
  readonly init: ChildProcess;
  /** A stream into it, of which there were so many. */
  into(): Promise<Duplex>;
  told(): number;
  /** False: nobody gets in. */
  isOpen: boolean;
}

/** Programs are told apart by it on this machine. */
let boxes = 0;
async function startBox(t: TestContext, seconds = 60, more: NodeJS.ProcessEnv = {}): Promise<Box> {
  const { dir, socket, init } = await startInit(t, { seconds, tag: `t${runId}x${(boxes += 1)}`, env: more });
  let count = 0;
  const box: Box = {
    dir,
    init,
    isOpen: true,
    told: () => count,
    async into() {
      if (!box.isOpen) throw new Error('the API server is away');
      count += 1;
      const stream = connect(socket);
      await once(stream, 'connect');
      return stream;
    },
  };
  return box;
}

function openWire(t: TestContext, box: Box, secret: string, { at = door, isTakenOver = false, more = {} } = {}): Wire {
  const way = new DialedWay(at, secret, isTakenOver);
  const wire = new Wire({
    dial: () => way.dial(() => box.into()),
    secret,
    socketOf: (name) => join(box.dir, `${name}.sock`),
    onState: (state) => state === 'dead' && way.end(),
    ...more,
  });
  t.after(() => wire.end('the test is over'));
  return wire;
}

const newSecret = (): string => randomBytes(32).toString('base64url');
const bytesOf = async (stream: AsyncIterable<Buffer>): Promise<Buffer> => Buffer.concat(await Array.fromAsync(stream));

/** An error of its own is how a connection ends here. */
const closed = (socket: Socket): Promise<void> => new Promise((resolve) => socket.once('close', () => resolve()));

/** A network before a door, whose connections tests cut, or hold without a word. */
class Between {
  readonly server: Server;
  readonly pairs = new Set<readonly [Socket, Socket]>();
  isHeld = false;
  count = 0;

  private constructor(to: WireDoor) {
    this.server = createServer((near) => {
      this.count += 1;
      const far = connect(to.place.port, '127.0.0.1');
      const pair = [near, far] as const;
      this.pairs.add(pair);
      for (const [one, other] of [pair, [far, near] as const]) {
        one.on('error', () => undefined);
        one.on('data', (chunk: Buffer) => this.isHeld || other.write(chunk));
        one.on('close', () => this.isHeld || other.destroy());
      }
      near.on('close', () => this.pairs.delete(pair));
    });
  }

  static async before(t: TestContext, to: WireDoor): Promise<{ between: Between; at: WireDoor }> {
    const between = new Between(to);
    await new Promise<void>((resolve) => between.server.listen(0, '127.0.0.1', resolve));
    const { port } = between.server.address() as AddressInfo;
    t.after(() => {
      between.cut();
      between.server.close();
    });
    // The same door under another address, as behind a balancer.
    const at = Object.create(to, { place: { value: { host: '127.0.0.1', port } } }) as WireDoor;
    at.addresses = () => Promise.resolve([{ host: '127.0.0.1', port }]);
    at.expect = (secret) => to.expect(secret);
    return { between, at };
  }

  cut(): void {
    for (const pair of this.pairs) for (const one of pair) one.destroy();
  }
}

// They wait more than they work.
describe('wires that boxes dial:', { concurrency: true }, () => {
  it('a box is told the way once, comes by itself after each cut, and loses and repeats no byte', async (t) => {
    const box = await startBox(t);
    const { between, at } = await Between.before(t, door);
    const secret = newSecret();
    const states: string[] = [];
    const wire = openWire(t, box, secret, { at, more: { onState: (state: string) => states.push(state) } });
    await wire.open();
    // From now on nobody gets into it: neither a cut nor a program needs that.
    box.isOpen = false;
    const echo = createServer({ allowHalfOpen: true }, (inner) => inner.pipe(inner));
    await new Promise<void>((resolve) => echo.listen(join(box.dir, 'echo.sock'), resolve));
    t.after(() => echo.close());
    const port = await freePort();
    wire.listen([{ name: 'echo', port }]);
    const channel = `const s=require('net').connect(${port},'127.0.0.1');process.stdin.pipe(s);s.pipe(process.stdout)`;
    for (const argv of [['cat'], [process.execPath, '-e', channel]]) {
      const data = randomBytes(6_000_000);
      const child = await wire.start({ argv, env, cwd: box.dir });
      child.stderr.resume();
      const got = bytesOf(child.stdout as AsyncIterable<Buffer>);
      child.stdin.write(data.subarray(0, 2_000_000));
      for (let cuts = 0; cuts < 3; cuts += 1) {
        const before = wire.cuts;
        between.cut();
        assert.ok(await eventually(() => wire.cuts > before && wire.state === 'ok'));
        child.stdin.write(data.subarray(2_000_000 + cuts * 1_000_000, 3_000_000 + cuts * 1_000_000));
      }
      child.stdin.end(data.subarray(5_000_000));
      assert.equal(sha256(await got), sha256(data));
      assert.deepEqual(await child.exited, { code: 0, signal: null });
    }
    assert.equal(box.told(), 1);
    assert.ok(states.filter((state) => state === 'ok').length >= 7, states.join(' '));
    // Neither the secret nor the key stands in an argument, a variable or a file of the box.
    const { psk } = wireKey(secret);
    const shown = ['cmdline', 'environ']
      .map((name) => readFileSync(`/proc/${box.init.pid}/${name}`, 'latin1'))
      .join('\n');
    for (const text of [secret, psk.toString('hex'), psk.toString('base64'), psk.toString('latin1')])
      assert.equal(shown.includes(text), false);
  });

  it('a stream that says nothing any more is given up by the daemon, and the box is told the way anew', async (t) => {
    const box = await startBox(t);
    const { between, at } = await Between.before(t, door);
    const wire = openWire(t, box, newSecret(), { at, more: { pingMs: 200 } });
    await wire.open();
    between.isHeld = true;
    assert.ok(await eventually(() => wire.state === 'lost'));
    // The box has not heard of it: for its end the stream is still there.
    between.isHeld = false;
    assert.ok(await eventually(() => wire.state === 'ok'));
    assert.ok(box.told() >= 2);
    const child = await wire.start({ argv: ['echo', 'here'], env, cwd: box.dir });
    assert.equal(String(await bytesOf(child.stdout as AsyncIterable<Buffer>)), 'here\n');
  });

  it('another daemon takes the box over: one at the same address without a word, one at another by telling it', async (t) => {
    const box = await startBox(t);
    const secret = newSecret();
    const first = openWire(t, box, secret);
    await first.open();
    const child = await first.start({ argv: ['cat'], env, cwd: box.dir }, true);
    child.stdin.write('one');
    await once(child.stdout, 'data');
    await first.leave(1_000);
    box.isOpen = false;
    const second = openWire(t, box, secret, { isTakenOver: true });
    const again = await second.takeOver({ id: 1, outBytes: 3, inBytes: 3 });
    assert.ok(again !== null);
    again.stdin.write('two');
    assert.equal(String((await once(again.stdout, 'data'))[0]), 'two');
    assert.equal(box.told(), 1);
    await second.leave(1_000);
    box.isOpen = true;
    const elsewhere = await WireDoor.open({ listen: loopback, address: { host: 'localhost' } });
    t.after(() => elsewhere.close());
    const third = openWire(t, box, secret, { at: elsewhere, isTakenOver: true });
    const last = await third.takeOver({ id: 1, outBytes: 6, inBytes: 6 });
    assert.ok(last !== null);
    last.stdin.end('three');
    assert.equal(String(await bytesOf(last.stdout as AsyncIterable<Buffer>)), 'three');
    assert.equal(box.told(), 2);
  });

  it('the trial of a fence asks the API server that a pod is told of', async (t) => {
    const api = createServer();
    await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
    t.after(() => api.close());
    const { port } = api.address() as AddressInfo;
    const told = { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(port) };
    const wire = openWire(t, await startBox(t, 60, told), newSecret());
    await wire.open();
    assert.deepEqual(await wire.tryAll([]), [`127.0.0.1:${port}`]);
  });

  it('a box without its daemon ends itself, however often it dials; one that reaches nobody says so', async (t) => {
    const box = await startBox(t, 3);
    const wire = openWire(t, box, newSecret());
    await wire.open();
    const child = await wire.start({ argv: ['sleep', '300'], env, cwd: box.dir });
    const ended = once(box.init, 'exit');
    wire.end('its daemon is gone');
    assert.deepEqual(await ended, [0, null]);
    assert.deepEqual(await child.exited, { code: null, signal: 'SIGKILL' });
    const other = await startBox(t);
    const gone = createServer();
    await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve));
    const { port } = gone.address() as AddressInfo;
    await new Promise((resolve) => gone.close(resolve));
    const nowhere = await WireDoor.open({ listen: loopback, address: { host: '127.0.0.1', port } });
    t.after(() => nowhere.close());
    const lost = openWire(t, other, newSecret(), { at: nowhere, more: { lostMs: 100 } });
    const words = new RegExp(`does not reach this daemon at 127\\.0\\.0\\.1:${port} \\(ECONNREFUSED\\)`);
    await assert.rejects(lost.open(), { code: 'engine-unreachable', message: words });
    assert.equal(await nowhere.trouble(), 'ECONNREFUSED');
    assert.equal(await door.trouble(), null);
  });

  /** Of a client with a key: what it was told, until the end. */
  function dialing(
    identity: string,
    psk: Buffer,
    more: tls.ConnectionOptions = {},
  ): { socket: tls.TLSSocket; ended: Promise<string> } {
    const options: tls.ConnectionOptions = { host: '127.0.0.1', port: door.place.port, ...speaks, ...more };
    const socket = tls.connect({
      ...options,
      pskCallback: () => ({ psk, identity }),
      checkServerIdentity: () => undefined,
    });
    let told = '';
    socket.on('data', (chunk: Buffer) => (told += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    const ended = closed(socket).then(() => told);
    return { socket, ended };
  }

  it('who has no key of a wire gets nothing but the end: no key, another one, garbage, a certificate, a replay', async (t) => {
    const box = await startBox(t);
    const secret = newSecret();
    const { between, at } = await Between.before(t, door);
    const heard: Buffer[] = [];
    const wire = openWire(t, box, secret, { at });
    between.server.on('connection', (near: Socket) => near.on('data', (chunk: Buffer) => void heard.push(chunk)));
    await wire.open();
    const { identity, psk } = wireKey(secret);
    for (const [name, key] of [
      [identity, randomBytes(32)],
      [randomBytes(16).toString('hex'), psk],
      ['', Buffer.alloc(32)],
      ['x'.repeat(120), psk],
    ] as const)
      assert.equal(await dialing(name, key).ended, '');
    // Older protocols, and ciphers whose key exchange nobody would need to know a key for.
    for (const more of [
      { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2', ciphers: 'PSK-AES128-GCM-SHA256:ECDHE-PSK-CHACHA20-POLY1305' },
      { minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2', ciphers: 'aNULL:@SECLEVEL=0' },
    ] as const)
      assert.equal(await dialing(identity, psk, more).ended, '');
    const raw = (bytes: Uint8Array): Promise<string> => {
      const socket = connect(door.place.port, '127.0.0.1');
      let told = '';
      socket.on('data', (chunk: Buffer) => (told += chunk.toString('latin1')));
      socket.on('error', () => undefined);
      socket.write(bytes);
      return closed(socket).then(() => told);
    };
    const hello = Buffer.from('\0\0\0\x30\0\0\0\0{"t":"hello","secret":"0123456789abcdef","got":0}');
    // The last is all that the box itself has sent, word for word.
    for (const bytes of [
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      hello,
      randomBytes(4_096),
      Buffer.alloc(70_000),
      Buffer.concat(heard),
    ]) {
      const told = await raw(bytes);
      // An alert of TLS, or the server's half of a handshake that nobody can finish.
      assert.ok(told === '' || ['\x15', '\x16'].includes(told.charAt(0)), JSON.stringify(told.slice(0, 40)));
      assert.equal(told.includes('hello'), false);
    }
    assert.equal(wire.state, 'ok');
    assert.equal(wire.cuts, 0);
    wire.end('over');
    assert.equal(await dialing(identity, psk).ended, '', 'a wire that is over lets nobody in');
  });

  it('the newest with the key is the box; it comes so often and no oftener; what it says is bounded', async (t) => {
    const secret = newSecret();
    const { identity, psk } = wireKey(secret);
    const visit = door.expect(secret);
    t.after(() => visit.end());
    const older = dialing(identity, psk);
    const first = await visit.next(10_000);
    assert.ok(first !== null);
    const newer = dialing(identity, psk);
    const second = await visit.next(10_000);
    assert.ok(second !== null && second !== first);
    assert.equal(await older.ended, '');
    newer.socket.destroy();
    const refused: Promise<string>[] = [];
    for (let count = 0; count < 60; count += 1) refused.push(dialing(identity, psk).ended);
    // All but the one that waits to be taken.
    let ends = 0;
    for (const one of refused) void one.then(() => (ends += 1));
    assert.ok(await eventually(() => ends === 59));
    const last = await visit.next(10_000);
    last?.destroy();
    assert.equal((await Promise.all(refused)).join(''), '');
    const other = newSecret();
    const way = new DialedWay(door, other, true);
    t.after(() => way.end());
    const wire = new Wire({
      dial: () => way.dial(() => Promise.reject(new Error('away'))),
      secret: other,
      socketOf: () => null,
      lostMs: 200,
    });
    const key = wireKey(other);
    const hostile = dialing(key.identity, key.psk);
    await once(hostile.socket, 'secureConnect');
    const opening = assert.rejects(wire.open());
    // A frame of four gigabytes.
    hostile.socket.write(Buffer.from([0, 0, 0, 16, 0xff, 0xff, 0xff, 0xff]));
    await hostile.ended;
    await opening;
  });

  it('who says nothing is let go, and does not keep others out', async (t) => {
    const alone = await WireDoor.open({ listen: loopback, address: { host: '127.0.0.1' } });
    t.after(() => alone.close());
    const quiet: Socket[] = [];
    t.after(() => quiet.forEach((socket) => socket.destroy()));
    const ends: Promise<void>[] = [];
    for (let count = 0; count < 80; count += 1) {
      const socket = connect(alone.place.port, '127.0.0.1');
      socket.on('error', () => undefined);
      // Each begins a record and does not go on.
      socket.write(Buffer.from([0x16, 0x03, 0x01]));
      quiet.push(socket);
      ends.push(closed(socket));
    }
    assert.ok(
      await eventually(() => quiet.filter((socket) => socket.destroyed || socket.readyState === 'closed').length >= 16),
    );
    assert.ok(alone.strangers <= 64);
    await Promise.all(ends);
    assert.ok(await eventually(() => alone.strangers === 0));
    assert.equal(await alone.trouble(), null);
  });
});
