import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { sha256 } from '../../base/hash.ts';
import { freePort } from '../../base/testkit/installed-postgres.ts';
import { commandLines, environments, eventually, testPath, runId, startInit } from './test-support.ts';
import { bridgeArgv, endingFlags, initArgv, localInitArgv, Wire } from './wire.ts';

const secretText = 'a-secret-of-the-first-peer';
const env = { PATH: testPath, SECRET_OF_TEST: 'x' };

async function connectTo(socket: string): Promise<Socket> {
  const stream = connect(socket);
  await once(stream, 'connect');
  return stream;
}

function open(dial: () => Promise<Duplex>, dir: string, secret = secretText, more: object = {}): Wire {
  return new Wire({ dial, secret, socketOf: (name) => join(dir, `${name}.sock`), ...more });
}

/** A stream that breaks off after so many bytes, in whichever direction they go. */
class Cut extends Duplex {
  readonly #inner: Socket;
  #left: number;

  constructor(inner: Socket, bytes: number) {
    super();
    this.#inner = inner;
    this.#left = bytes;
    inner.on('data', (chunk: Buffer) => void this.push(this.#part(chunk)));
    inner.on('close', () => this.destroy());
    inner.on('error', () => this.destroy());
  }

  limit(bytes: number): void {
    this.#left = bytes;
  }

  #part(chunk: Buffer): Buffer {
    const part = chunk.subarray(0, this.#left);
    this.#left -= part.length;
    // What was let through still arrives: a cut comes at any byte, also in the middle of a frame.
    if (this.#left === 0) setImmediate(() => this.#inner.destroy());
    return part;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const part = this.#part(chunk);
    if (part.length === 0) return done();
    this.#inner.write(part, () => done());
  }

  override _destroy(_error: Error | null, done: () => void): void {
    this.#inner.destroy();
    done();
  }
}

async function digestOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of stream) hash.update(chunk);
  return hash.digest('hex');
}

test('no byte of a program, of its input or of a connection is lost or repeated, wherever the wire is cut', async (t) => {
  const { dir, socket } = await startInit(t);
  const echo = createServer({ allowHalfOpen: true }, (inner) => inner.pipe(inner));
  await new Promise<void>((resolve) => echo.listen(join(dir, 'echo.sock'), resolve));
  t.after(() => echo.close());
  let cuts: number[] = [];
  let current: Cut | undefined;
  const wire = open(async () => (current = new Cut(await connectTo(socket), cuts.shift() ?? Infinity)), dir);
  await wire.open();
  const port = await freePort();
  wire.listen([{ name: 'echo', port }]);
  let total = 0;
  const channel = `const s=require('net').connect(${port},'127.0.0.1');process.stdin.pipe(s);s.pipe(process.stdout)`;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 300_000 }), { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 0, max: 400_000 }),
      fc.boolean(),
      async (points, size, byChannel) => {
        const before = wire.cuts;
        const [first = 1, ...later] = points;
        cuts = later;
        current?.limit(first);
        const data = randomBytes(size);
        const argv = byChannel ? [process.execPath, '-e', channel] : ['cat'];
        const child = await wire.start({ argv, env: env, cwd: dir });
        const got = digestOf(child.stdout as AsyncIterable<Buffer>);
        child.stderr.resume();
        child.stdin.end(data);
        assert.deepEqual([await got, await child.exited], [sha256(data), { code: 0, signal: null }]);
        total += wire.cuts - before;
        cuts = [];
      },
    ),
    {
      numRuns: 20,
      examples: [
        [[1, 8, 9, 40, 5_000], 300_000, false],
        [[60, 70_000, 3], 300_000, true],
      ],
    },
  );
  assert.ok(total >= 20);
  wire.end('done');
});

/** Says numbered lines, and when it has heard `end` all that it has heard. */
const counter = `let heard='';let n=0;process.stdin.on('data',(d)=>{heard+=d});
  const go=()=>{if(n<3000){process.stdout.write('line '+(n+=1)+' '+'x'.repeat(n%700)+'\\n');return n%50===0?setTimeout(go,1):go()}
  if(!heard.includes('end'))return setTimeout(go,5);process.stdout.write('heard '+JSON.stringify(heard)+'\\n');
  process.stdin.destroy()};go()`;
const expectedLines = Array.from({ length: 3_000 }, (_, n) => `line ${n + 1} ${'x'.repeat((n + 1) % 700)}\n`).join('');

test('a program that lasts goes on with another owner from what the one before has taken for good', async (t) => {
  const { dir, socket } = await startInit(t);
  const first = open(() => connectTo(socket), dir);
  await first.open();
  const argv = [process.execPath, '-e', counter];
  const child = await first.start({ argv, env: env, cwd: dir }, true);
  const mark = `owner-${runId}`;
  const other = await first.start({ argv: ['sleep', '300'], env: { ...env, MARK: mark }, cwd: dir });
  const { lasting } = child;
  assert.ok(lasting !== undefined && other.lasting === undefined);
  child.stdin.write('one ');
  let text = '';
  let [owner, process_] = [first, child] as const;
  for (const readBytes of [1, 70_000, 40_001, 300_000]) {
    let read = '';
    for await (const chunk of process_.stdout.iterator({ destroyOnReturn: false })) {
      read += String(chunk);
      if (read.length >= readBytes) break;
    }
    // Less than was read is taken for good; the rest is said again.
    const good = Math.floor((read.length * 2) / 3);
    text += read.slice(0, good);
    process_.lasting?.release(text.length);
    owner.end('its daemon was killed');
    const next = open(() => connectTo(socket), dir);
    const found = await next.takeOver({ id: lasting.id, outBytes: text.length, inBytes: 4 });
    assert.ok(found !== null);
    [owner, process_] = [next, found];
  }
  process_.stdin.write('end');
  for await (const chunk of process_.stdout) text += String(chunk);
  assert.equal(text, `${expectedLines}heard "one end"\n`);
  assert.deepEqual(await process_.exited, { code: 0, signal: null });
  // Others end with their owner.
  await other.exited;
  assert.ok(await eventually(() => environments(mark).length === 0));
  // It has ended, and nobody takes it over again.
  owner.end('done');
  const last = open(() => connectTo(socket), dir);
  assert.equal(await last.takeOver({ id: lasting.id, outBytes: text.length, inBytes: 7 }), null);
  last.end('done');
});

/** A stream that lets nothing through any more and stays open, as an engine's does when the daemon has gone. */
class Mute extends Cut {
  isMute = false;

  constructor(inner: Socket) {
    super(inner, Infinity);
  }

  override push(chunk: Buffer | null): boolean {
    return this.isMute ? true : super.push(chunk);
  }
}

test('a connection that is made after its daemon has gone waits for the next one, though their stream stands', async (t) => {
  const { dir, socket } = await startInit(t);
  const echo = createServer({ allowHalfOpen: true }, (inner) => inner.pipe(inner));
  await new Promise<void>((resolve) => echo.listen(join(dir, 'echo.sock'), resolve));
  t.after(() => echo.close());
  const stream = new Mute(await connectTo(socket));
  const first = open(async () => stream, dir);
  await first.open();
  const port = await freePort();
  first.listen([{ name: 'echo', port }]);
  const [go, sent] = [join(dir, 'go'), join(dir, 'sent')];
  const client = `const fs=require('fs');const wait=()=>fs.existsSync('${go}')?ask():setTimeout(wait,10);const ask=()=>{
    const s=require('net').connect(${port},'127.0.0.1',()=>s.end('hello',()=>fs.writeFileSync('${sent}','')));
    s.on('error',(e)=>console.log(e.code));s.pipe(process.stdout)};wait()`;
  const child = await first.start({ argv: [process.execPath, '-e', client], env: env, cwd: dir }, true);
  stream.isMute = true;
  writeFileSync(go, '');
  assert.ok(await eventually(() => existsSync(sent)));
  const next = open(() => connectTo(socket), dir);
  const found = await next.takeOver({ id: child.lasting?.id ?? 0, outBytes: 0, inBytes: 0 });
  assert.ok(found !== null);
  assert.equal((await found.stdout.toArray()).join(''), 'hello');
  first.end('done');
  next.end('done');
});

test('who takes over finds a program that was given something else than was noted, and takes nothing', async (t) => {
  const { dir, socket } = await startInit(t);
  const first = open(() => connectTo(socket), dir);
  await first.open();
  const child = await first.start({ argv: ['cat'], env: env, cwd: dir }, true);
  child.stdin.write('12345');
  assert.equal(String((await once(child.stdout, 'data'))[0]), '12345');
  first.end('its daemon was killed');
  const next = open(() => connectTo(socket), dir);
  assert.equal(await next.takeOver({ id: child.lasting?.id ?? 0, outBytes: 0, inBytes: 4 }), null);
  next.end('done');
});

test('who comes later without the secret is sent away, and the newest who has it wins', async (t) => {
  const { dir, socket } = await startInit(t);
  const wire = open(() => connectTo(socket), dir);
  await wire.open();
  const stranger = open(() => connectTo(socket), dir, 'another-secret-altogether', { lostMs: 100 });
  await assert.rejects(stranger.open(), /does not answer/);
  const child = await wire.start({ argv: ['/bin/sh', '-c', 'read x; echo "got $x"'], env: env, cwd: dir });
  assert.equal(wire.cuts, 0);
  child.stdin.end('it\n');
  assert.equal((await child.stdout.toArray()).join(''), 'got it\n');
  wire.end('done');
});

test('a program whose output nobody reads is paused, and others go on', async (t) => {
  const { dir, socket } = await startInit(t);
  const wire = open(() => connectTo(socket), dir);
  await wire.open();
  const count = join(dir, 'count');
  const writer = `let n=0;const fs=require('fs');const b=Buffer.alloc(65536);
    const go=()=>process.stdout.write(b,()=>{n+=65536;fs.writeFileSync(${JSON.stringify(count)},String(n));n<33554432?go():0});go()`;
  const child = await wire.start({ argv: [process.execPath, '-e', writer], env: env, cwd: dir });
  const other = await wire.start({ argv: ['/bin/sh', '-c', 'sleep 1; echo on'], env: env, cwd: dir });
  assert.equal((await other.stdout.toArray()).join(''), 'on\n');
  assert.ok(Number(readFileSync(count, 'utf8')) < 6 * 1024 * 1024);
  let bytes = 0;
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) bytes += chunk.length;
  assert.deepEqual([bytes, await child.exited], [33_554_432, { code: 0, signal: null }]);
  wire.end('done');
});

test('without its peer all of it ends, programs with what they left included', async (t) => {
  const { dir, socket, init } = await startInit(t, { seconds: 2 });
  const wire = open(() => connectTo(socket), dir);
  await wire.open();
  const mark = `deadman-${runId}`;
  const script = `(setsid sleep 300 </dev/null >/dev/null 2>&1 &); env -i sleep 307.25${runId} & exec sleep 300`;
  await wire.start({ argv: ['/bin/sh', '-c', script], env: { ...env, MARK: mark }, cwd: dir });
  // The one that has no mark runs, and the shells that began the others are done.
  const begun = (): boolean =>
    commandLines(`307.25${runId}`).filter((line) => line.startsWith('sleep')).length === 1 &&
    environments(mark).length === 2;
  assert.ok(await eventually(begun));
  assert.deepEqual(commandLines(mark), []);
  const ended = once(init, 'exit');
  wire.end('gone');
  await ended;
  assert.deepEqual([environments(mark), commandLines(`307.25${runId}`)], [[], []]);
});

test('the bridge carries a wire over standard streams, and a program that is not there is said so', async (t) => {
  const { dir, socket } = await startInit(t);
  const [, ...args] = bridgeArgv(socket);
  const wire = open(() => {
    const bridge = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    return Promise.resolve(Duplex.from({ readable: bridge.stdout, writable: bridge.stdin }));
  }, dir);
  await wire.open();
  await assert.rejects(
    wire.start({ argv: ['/no/such'], env: env, cwd: dir }),
    /cannot be started in the sandbox \(ENOENT\)/,
  );
  assert.deepEqual(await wire.tryAll([{ host: '127.0.0.1', port: 1 }]), ['127.0.0.1:1']);
  await wire.stop(1_000);
  await assert.rejects(wire.start({ argv: ['true'], env: env, cwd: dir }), /was stopped/);
});

test('what the programs of a box compile waits for nobody, who may wait for it where they end', () => {
  const hot = 'const f=(n)=>{let s=0;for(let i=0;i<n;i++)s=(s*31+i)|0;return s};for(let k=0;k<20000;k++)f(200)';
  const traced = spawnSync(process.execPath, [...endingFlags, '--trace-opt', '-e', hot], { encoding: 'utf8' });
  const compiled = traced.stdout.split('\n').filter((line) => line.startsWith('[compiling method'));
  assert.ok(compiled.length > 0 && compiled.every((line) => line.includes('kSynchronous')), traced.stdout);
  const program = ['node', ...endingFlags, '-e'].join(' ');
  for (const stdio of [true, false]) assert.ok(initArgv({ tag: 'any', stdio })[2]?.includes(program));
  for (const argv of [bridgeArgv(), localInitArgv('node')]) assert.ok(endingFlags.every((flag) => argv.includes(flag)));
});
