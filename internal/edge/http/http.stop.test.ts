// What a caller sees of a server that stops, as at a rolling restart: every request that it has begun to take is answered, and the
// last answer of a connection says that it is the last.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../base/testkit/postgres.ts';
import { type HttpServer, startHttp } from './http.ts';
import type { Answer, Route } from './route.ts';

let daemon: TestDaemon;
let database: TestDatabase;
before(async () => {
  database = await createTestDatabase();
  daemon = await startTestDaemon({ database });
});
after(async () => {
  await daemon.stop();
  await database.close();
});

/** More than the system keeps for who does not read. */
const large = 'x'.repeat(16 * 1_048_576);

/** A server whose answers are held until a test lets them go, by the name that it asked for. */
class Holding {
  readonly #held = new Map<string, () => void>();
  readonly #began = new Map<string, () => void>();
  server!: HttpServer;

  static async start(): Promise<Holding> {
    const holding = new Holding();
    const hold = async (name: string): Promise<Answer> => {
      await new Promise<void>((resolve) => {
        holding.#held.set(name, resolve);
        holding.#began.get(name)?.();
      });
      return { status: 202, body: { name } };
    };
    const common = { scope: 'public', permission: null, summary: 'Held', rawBody: true };
    const routes = [
      {
        ...{ ...common, method: 'POST', path: '/api/v1/held/:name' },
        ...{ direct: ({ param }: { param: string }) => hold(param) },
        ...{ handle: ({ params }: { params: { name: string } }) => hold(params.name) },
      },
      {
        ...{ ...common, method: 'GET', path: '/api/v1/soon' },
        handle: async () => {
          await sleep(3);
          return { status: 200, body: {} };
        },
      },
      { ...common, method: 'GET', path: '/api/v1/large', handle: async () => ({ status: 200, body: large }) },
    ] as unknown as Route[];
    const listen = { host: '127.0.0.1', port: 0 };
    holding.server = await startHttp(() => daemon.ctx, { routes, readiness: [], listen, lastCallMs: 50 });
    return holding;
  }

  /** Resolves when the handler of that name is at it. */
  async begun(name: string): Promise<void> {
    if (!this.#held.has(name)) await new Promise<void>((resolve) => this.#began.set(name, resolve));
  }

  answer(name: string): void {
    this.#held.get(name)?.();
  }

  open(): Caller {
    return open(this.server.url);
  }
}

const open = (url: string): Caller => new Caller(connect(Number(new URL(url).port), '127.0.0.1'));

/** Resolves when nobody is let in any more. */
async function isClosed(url: string): Promise<void> {
  for (;;) {
    const { socket } = open(url);
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (!isOpen) return;
    await sleep(5);
  }
}

class Caller {
  readonly socket: Socket;
  readonly closed: Promise<string>;
  text = '';

  constructor(socket: Socket) {
    this.socket = socket.setEncoding('latin1').on('data', (part: string) => (this.text += part));
    let how = 'closed';
    socket.on('error', (error: NodeJS.ErrnoException) => (how = String(error.code)));
    this.closed = new Promise((resolve) => socket.once('close', () => resolve(how)));
  }

  send(text: string): this {
    this.socket.write(text);
    return this;
  }

  /** `202 lived, 202 close`. */
  get answers(): string {
    return [...this.text.matchAll(/HTTP\/1\.1 (\d{3}) .*?\r\n\r\n/gs)]
      .map(([head, status]) => `${status} ${/^connection: (.*)\r$/im.exec(head)?.[1] ?? 'keep-alive'}`)
      .join(', ');
  }
}

const post = (name: string, body = '{}'): string =>
  `POST /api/v1/held/${name} HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

it('every request that was begun is answered, and the last answer of a connection says so', async () => {
  const holding = await Holding.start();
  const several = holding.open().send(post('one') + post('two') + post('three'));
  const before = holding.open().send(post('before'));
  const inBody = holding.open().send(post('body').slice(0, -1));
  const inHead = holding.open().send(post('head').slice(0, 40));
  const chunked = holding.open();
  chunked.send('POST /api/v1/held/chunked HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n');
  // Its answer is written, and most of it waits for whoever reads it.
  const reading = holding.open();
  reading.socket.pause();
  reading.send('GET /api/v1/large HTTP/1.1\r\nhost: x\r\n\r\n');
  const silent = holding.open();
  await Promise.all(['one', 'two', 'three', 'before'].map((name) => holding.begun(name)));
  // All that was sent has arrived.
  await holding.open().send('GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n').closed;
  let isStopped = false;
  const stopped = holding.server.stop().then(() => (isStopped = true));
  // Whoever has said nothing is not waited for, and nobody else is let in.
  assert.equal(await silent.closed, 'closed');
  await isClosed(holding.server.url);
  assert.equal(isStopped, false);
  inBody.send('}');
  inHead.send(post('head').slice(40));
  chunked.send('1\r\n}\r\n0\r\n\r\n');
  before.send(post('after'));
  for (const [name, one] of Object.entries({ body: inBody, head: inHead, chunked, after: before }))
    await Promise.race([holding.begun(name), one.closed]);
  for (const name of ['three', 'two', 'one', 'after', 'before', 'body', 'head', 'chunked']) holding.answer(name);
  reading.socket.resume();
  const answersOf = async (one: Caller): Promise<string> => `${await one.closed}: ${one.answers}`;
  assert.equal(await answersOf(several), 'closed: 202 keep-alive, 202 keep-alive, 202 close');
  assert.equal(await answersOf(before), 'closed: 202 keep-alive, 202 close');
  for (const one of [inBody, inHead, chunked]) assert.equal(await answersOf(one), 'closed: 202 close');
  assert.equal(await answersOf(reading), 'closed: 200 keep-alive');
  assert.ok(reading.text.length > large.length, `${reading.text.length} of ${large.length}`);
  await stopped;
});

/** In a thread of its own: two dozen callers that ask again as soon as they are answered, until nobody is let in. Posts what came of it. */
const restless = `
  const { get, Agent } = require('node:http');
  const { parentPort, workerData } = require('node:worker_threads');
  const agent = new Agent({ keepAlive: true });
  const ends = {};
  let answered = 0;
  const ask = () => new Promise((resolve) => {
    get(workerData, { agent }, (answer) => answer.resume().on('end', () => resolve('answered')))
      .on('error', (error) => resolve(error.code));
  });
  const caller = async () => {
    for (;;) {
      const end = await ask();
      if (end === 'answered') {
        if (++answered === 200) parentPort.postMessage('busy');
      } else {
        ends[end] = (ends[end] ?? 0) + 1;
        if (end === 'ECONNREFUSED') return;
      }
    }
  };
  Promise.all(Array.from({ length: 24 }, caller)).then(() => parentPort.postMessage(ends));
`;

it('cuts nobody off who has come before nobody is let in any more', async () => {
  // A machine that is busy with something else can be late each time, but not every time.
  const ends: object[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    const { server } = await Holding.start();
    const callers = new Worker(restless, { eval: true, workerData: `${server.url}/api/v1/soon` });
    await once(callers, 'message');
    const came = once(callers, 'message');
    await server.stop();
    ends.push((await came)[0] as object);
    await callers.terminate();
    if (Object.keys(ends.at(-1) ?? {}).join() === 'ECONNREFUSED') return;
  }
  assert.fail(JSON.stringify(ends));
});

it('a daemon that stops is not ready from the first moment, and stores what it answers 202 to until the last', async () => {
  const trigger = { event: 'webhook.received', endpoint: 'in', auth: { kind: 'none' }, routing: { kind: 'spawn' } };
  const environment = { name: 'default', image: { kind: 'preset', name: 'base' } };
  const agent = { name: 'in', harness: 'harness-a', environment, triggers: [trigger] };
  const files = [{ path: '.svc/agents/in.yaml', content: JSON.stringify(agent) }];
  const applied = await daemon.api('POST', 'P/apply', { files, prune: false });
  const [{ ingestUrl = '' } = {}] = applied.body['webhooks'] as unknown as { ingestUrl?: string }[];
  const head = `POST ${new URL(ingestUrl).pathname} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n`;
  const halves = Array.from({ length: 20 }, () => open(daemon.url).send(`${head}{"n":`));
  const load = Array.from({ length: 200 }, () => open(daemon.url));
  await Promise.all(load.map(({ socket }) => once(socket, 'connect')));
  await open(daemon.url).send('GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n').closed;
  const stopped = daemon.stop();
  const ready = open(daemon.url).send('GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
  for (const [at, one] of load.entries()) one.send(`${head}{"n":${100 + at}}`);
  await ready.closed;
  assert.equal(ready.answers, '503 close');
  await isClosed(daemon.url);
  for (const [at, one] of halves.entries()) one.send(`${400 + at}}`);
  const answersOf = (callers: readonly Caller[]) =>
    Promise.all(callers.map(async (one) => `${await one.closed}: ${one.answers}`));
  for (const answer of await answersOf(halves)) assert.equal(answer, 'closed: 202 close');
  // Answered before the last call, or in it.
  for (const answer of await answersOf(load)) assert.match(answer, /^closed: 202 (?:keep-alive|close)$/);
  await stopped;
  const { rows } = await database.db.query<{ count: number }>(
    `select count(*)::int as count from svc.events where key = 'webhook.received'`,
  );
  assert.equal(rows[0]?.count, halves.length + load.length);
});
