import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { createLog } from '../../base/log/log.ts';
import { Fault } from '../../domain/fault.ts';
import { createMcpEndpoint } from './mcp.ts';
import { createToolBench, type Seat, type ToolBench } from './mcp-testkit.ts';
import { startUpstream, type Upstream } from './upstream-testkit.ts';

const secret = 'hunter2/of-the-"remote"\\server==';
const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
const bearer = { kind: 'bearer', token: { $secret: 'remote-token' } };
const paths = [
  'json',
  'stream',
  'refuses',
  'forbids',
  'redirects',
  'fails',
  'packs',
  'silent',
  'resets',
  'breaks',
  'endless',
  'refuses-endlessly',
  'huge',
  'dribbles',
];

describe('remote tool servers, passed through', () => {
  let bench: ToolBench;
  let upstream: Upstream;
  let door: Server;
  let endpoint: ReturnType<typeof createMcpEndpoint>;
  let seat: Seat;
  let log = '';
  before(async () => {
    upstream = await startUpstream();
    endpoint = createMcpEndpoint(() => bench.daemon.ctx, upstream.dispatcher);
    const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
      const [, session = '', alias = ''] = /sessions\/([^/]+)\/mcp\/([^/]+)$/.exec(request.url ?? '') ?? [];
      const params = { session, alias };
      if (!(await endpoint.admit({ request, response, params }))) return;
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = chunks.length === 0 ? undefined : Buffer.concat(chunks);
      await endpoint.handle({ request, response, body, params });
    };
    door = createServer((request, response) => void pass(request, response));
    await new Promise<void>((resolve) => door.listen(0, '127.0.0.1', resolve));
    const { port } = door.address() as AddressInfo;
    bench = await createToolBench(
      { log: createLog('trace', { write: (line: string) => void (log += line) }) },
      () => `http://127.0.0.1:${port}`,
    );
    await bench.daemon.api('PUT', 'P/secrets/remote-token', { value: secret });
    await bench.daemon.api('PUT', 'P/secrets/going', { value: 'soon-gone' });
    const remotes = paths.map((path) => [
      path,
      { kind: 'mcp_remote', url: `https://tools.example/${path}`, auth: bearer },
    ]);
    await bench.apply({
      user: {
        tools: {
          ...Object.fromEntries(remotes),
          open: { kind: 'mcp_remote', url: 'https://tools.example/json' },
          shut: { kind: 'mcp_remote', url: 'https://tools.example/refuses' },
          lacking: {
            kind: 'mcp_remote',
            url: 'https://tools.example/json',
            auth: { kind: 'bearer', token: { $secret: 'going' } },
          },
          here: { kind: 'mcp_remote', url: 'https://localhost:1/' },
          loopback: { kind: 'mcp_remote', url: 'https://127.0.0.1:1/' },
          metadata: { kind: 'mcp_remote', url: 'https://169.254.169.254/latest' },
        },
      },
    });
    await bench.daemon.api('DELETE', 'P/secrets/going');
    seat = await bench.start('user');
  });
  after(async () => {
    await bench.stop();
    await endpoint.stop();
    door.closeAllConnections();
    await new Promise((resolve) => door.close(resolve));
    await upstream.stop();
  });
  const refusal = async (alias: string): Promise<string> => {
    const response = await seat.post(alias, list);
    const text = await response.text();
    assert.equal(response.status, 502, `${alias}: ${text}`);
    assert.ok(!text.includes(secret), text);
    return (JSON.parse(text) as { error: { message: string } }).error.message;
  };

  for (const path of ['json', 'stream']) {
    it(`speaks to a server with sessions that answers by ${path}, the credential put on and never given back`, async () => {
      const client = await seat.client(path);
      assert.deepEqual(
        (await client.listTools()).tools.map((tool) => tool.name),
        ['echo', 'slow'],
      );
      const { content } = await client.callTool({ name: 'echo', arguments: { a: 1 } });
      assert.deepEqual(content, [{ type: 'text', text: '{"a":1} Bearer ***' }]);
      const posts = upstream.requests.filter((one) => one.startsWith(`POST /${path} `));
      assert.deepEqual(new Set(posts), new Set([`POST /${path} Bearer ${secret}`]));
      assert.ok(upstream.headers().includes('mcp-session-id'));
      assert.ok(!upstream.requests.join().includes(seat.token));
      await client.close();
    });
  }

  it('hands on nothing but the protocol’s own headers', async () => {
    await (await seat.post('open', list, { 'x-other': '1', cookie: 'a=b', 'x-forwarded-for': '10.0.0.1' })).text();
    const own = ['accept', 'connection', 'content-length', 'content-type', 'host'];
    assert.deepEqual(
      upstream.headers().filter((name) => !own.includes(name)),
      [],
    );
  });

  it('keeps a stream open for what the server says by itself, and breaks it off with its reader', async () => {
    const client = await seat.client('stream');
    let isHeard = false;
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void (isHeard = true));
    while (!upstream.requests.some((one) => one.startsWith('GET /stream '))) await sleep(10);
    // What is said before the server has taken the stream up is said to nobody.
    while (!isHeard) {
      await upstream.announce();
      await sleep(50);
    }
    const before = upstream.broken();
    await client.close();
    while (upstream.broken() === before) await sleep(10);
  });

  it('carries a cancellation to the server', async () => {
    const client = await seat.client('stream');
    const stop = new AbortController();
    const begun = upstream.slow();
    const calling = client.callTool({ name: 'slow', arguments: {} }, undefined, { signal: stop.signal });
    while (upstream.slow() === begun) await sleep(10);
    const before = upstream.broken();
    stop.abort();
    await assert.rejects(calling);
    while (upstream.broken() === before) await sleep(10);
    await client.close();
  });

  it('tells a refused credential as a refusal, not as a challenge; follows no redirect', async () => {
    assert.equal(await refusal('refuses'), 'tools.example: it refused the credential (401)');
    assert.equal(await refusal('forbids'), 'tools.example: it refused the credential (403)');
    assert.equal(await refusal('refuses-endlessly'), 'tools.example: it refused the credential (403)');
    assert.equal(await refusal('shut'), 'tools.example: it wants a credential, and none is declared (401)');
    assert.equal(await refusal('redirects'), 'tools.example: it redirects elsewhere, which is not followed (307)');
    assert.equal(await refusal('packs'), 'tools.example: it answers in an encoding that was not asked for (200)');
    assert.match(await refusal('resets'), /^tools\.example: it did not answer/);
  });

  it('gives an error of the server back as it is, without the credential', async () => {
    const response = await seat.post('fails', list);
    assert.deepEqual([response.status, await response.text()], [500, 'oops: Bearer ***']);
    const dribbled = await seat.post('dribbles', list);
    assert.equal(await dribbled.text(), 'data: Bearer *** and Bearer *** end \\u0068\\u00\n\n');
    assert.equal(dribbled.headers.get('mcp-session-id'), null);
  });

  it('ends with its reader, where a server is silent or never ends', async () => {
    for (const alias of ['silent', 'endless']) {
      const before = upstream.broken();
      const asked = upstream.requests.length;
      const leave = new AbortController();
      const response = fetch(seat.urlOf(alias), {
        method: 'POST',
        headers: { authorization: `Bearer ${seat.token}` },
        body: JSON.stringify(list),
        signal: leave.signal,
      });
      const left = assert.rejects(response.then((one) => one.text()));
      while (upstream.requests.length === asked) await sleep(10);
      leave.abort();
      await left;
      while (upstream.broken() === before) await sleep(10);
    }
  });

  it('breaks an answer off that breaks off, or that is more than anybody reads', async () => {
    const broken = await seat.post('breaks', list);
    await assert.rejects(broken.text());
    const huge = await seat.post('huge', list);
    let bytes = 0;
    await assert.rejects(async () => {
      for await (const chunk of huge.body as unknown as AsyncIterable<Uint8Array>) bytes += chunk.length;
    });
    assert.ok(bytes > 60_000_000 && bytes <= 64 * 1_048_576, String(bytes));
  });

  it('asks no server for which the secret is not there', async () => {
    const before = upstream.requests.length;
    assert.equal(await refusal('lacking'), 'tools.example: Secret not found: going');
    assert.equal(upstream.requests.length, before);
  });

  it('calls nobody on this machine or in private networks', async () => {
    const before = upstream.requests.length;
    assert.match(await refusal('here'), /it cannot be called: it is this machine/);
    assert.match(await refusal('loopback'), /it cannot be called: its address is private/);
    assert.match(await refusal('metadata'), /it cannot be called: its address is private/);
    assert.equal(upstream.requests.length, before);
  });

  it('tells whoever launches the session which servers were listed, and why the others were not', async () => {
    const { listings } = bench.daemon.ctx.host ?? assert.fail('this daemon has no host');
    const { session } = seat;
    const patiently = { timeoutMs: 60_000, signal: new AbortController().signal };
    listings.expect(session);
    await (await seat.client('json')).listTools();
    assert.deepEqual(await listings.wait(session, ['json'], patiently), []);
    listings.expect(session);
    await refusal('refuses');
    // A harness may ask once more, for as long as is waited.
    assert.deepEqual(await listings.wait(session, ['refuses'], { ...patiently, timeoutMs: 500 }), [
      'refuses: tools.example: it refused the credential (401)',
    ]);
    listings.expect(session);
    const isTold = (error: unknown): boolean => error instanceof Fault && /Secret not found: going/.test(error.message);
    const waiting = assert.rejects(listings.wait(session, ['lacking'], patiently), isTold);
    await refusal('lacking');
    await waiting;
  });

  it('breaks off what is under way when the session ends', async () => {
    const ending = await bench.start('user');
    const client = await ending.client('stream');
    const opened = `GET /stream Bearer ${secret}`;
    const before = upstream.requests.filter((one) => one === opened).length;
    const endless = await ending.post('endless', list);
    while (upstream.requests.filter((one) => one === opened).length === before) await sleep(10);
    const broken = upstream.broken();
    await bench.daemon.api('POST', `P/sessions/${ending.session}/archive`);
    await assert.rejects(endless.text());
    while (upstream.broken() < broken + 2) await sleep(10);
    await client.close();
  });

  it('leaves the credential in no log and no answer', () => {
    assert.ok(log.includes('mcp.remote_failed'));
    for (const spelled of [secret, JSON.stringify(secret).slice(1, -1)]) assert.ok(!log.includes(spelled));
    assert.ok(!log.includes(seat.token));
  });
});
