import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { ModelRoute } from '../../flows/ports.ts';
import { ask, type Bench, providerKey, startBench } from './gateway-testkit.ts';
import { chatStream, json, messagesStream, responsesStream, streams } from './testkit.ts';

const call = (changes: object = {}) => ({
  model: 'm-1',
  stream: true,
  messages: [{ role: 'user', content: 'hi' }],
  ...changes,
});
const responses = (changes: object = {}) => ({ model: 'm-1', stream: true, input: 'hi', ...changes });

describe('the model gateway', () => {
  let bench: Bench;
  let route: ModelRoute;
  beforeEach(async () => {
    bench = await startBench();
    route = await bench.open();
  });
  afterEach(() => bench.stop());
  const usageOf = async (index = 0) => {
    await route.settled();
    return bench.settled[index]?.outcome?.usage;
  };

  test('a streamed answer comes through byte for byte, and is metered', async () => {
    const stream = messagesStream(['Grüße, ', 'мир', ' 👋'], {
      start: { input_tokens: 7, output_tokens: 1, cache_read_input_tokens: 90, cache_creation_input_tokens: 3 },
      end: { output_tokens: 42 },
    });
    // Cut in the middle of characters and lines.
    const whole = Buffer.from(stream.join(''));
    const pieces = Array.from({ length: Math.ceil(whole.length / 11) }, (_, n) => whole.subarray(n * 11, n * 11 + 11));
    bench.stub.answers(streams(pieces));
    const got = await ask(route, '/v1/messages?beta=true', call());
    assert.equal(got.status, 200);
    assert.equal(got.text, whole.toString('utf8'));
    assert.equal(got.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    assert.equal(got.headers.get('request-id'), 'req_1');
    assert.deepEqual(await usageOf(), {
      inputTokens: 7,
      outputTokens: 42,
      cacheReadTokens: 90,
      cacheWriteTokens: 3,
      estimated: false,
    });
    assert.equal(bench.stub.asked[0]?.path, '/v1/messages?beta=true');
    assert.equal(route.last()?.ok, true);
  });

  test('the token may be a key instead of a part of the address', async () => {
    bench.stub.answers(streams(messagesStream(['fine'])));
    const { baseUrl, key } = route.keyed();
    assert.ok(!baseUrl.includes(key));
    const asked = async (authorization: string): Promise<number> => {
      const headers = { authorization, 'content-type': 'application/json' };
      return (await fetch(`${baseUrl}/v1/messages`, { method: 'POST', headers, body: JSON.stringify(call()) })).status;
    };
    assert.equal(await asked(`Bearer ${key}`), 200);
    assert.equal(bench.stub.asked[0]?.headers['authorization'], undefined);
    assert.equal(await asked(`Bearer ${key.slice(1)}A`), 401);
    assert.equal(await asked('Bearer of-the-harness'), 401);
    assert.equal(bench.stub.asked.length, 1);
  });

  test("the harness's credentials are taken off and the provider's put on", async () => {
    bench.stub.answers(json(200, { model: 'm-1', usage: { input_tokens: 1, output_tokens: 1 } }));
    await ask(route, '/v1/messages', call({ stream: false }), {
      headers: {
        authorization: 'Bearer of-the-harness',
        'x-api-key': 'of-the-harness',
        cookie: 'a=b',
        'x-forwarded-for': '1.2.3.4',
        'anthropic-version': '2023-06-01',
        'anthropic-beta': 'b1',
        'x-stainless-lang': 'js',
        'accept-encoding': 'gzip',
      },
    });
    const headers = { ...bench.stub.asked[0]?.headers };
    assert.equal(headers['x-api-key'], providerKey);
    assert.equal(headers['authorization'], undefined);
    assert.equal(headers['cookie'], undefined);
    assert.equal(headers['x-forwarded-for'], undefined);
    assert.equal(headers['anthropic-version'], '2023-06-01');
    assert.equal(headers['anthropic-beta'], 'b1');
    assert.equal(headers['x-stainless-lang'], 'js');
    assert.equal(headers['accept-encoding'], 'identity');
    assert.doesNotMatch(JSON.stringify(headers), /of-the-harness/);
  });

  test('the other providers get a bearer key below their base address', async () => {
    bench.stub.answers(json(200, { model: 'm', usage: { input_tokens: 1, output_tokens: 1 } }));
    const b = await bench.open({ model: { provider: 'provider-b', id: 'm' } });
    await ask(b, '/v1/responses', responses({ stream: false }));
    assert.equal(bench.stub.asked[0]?.path, '/b/v1/responses');
    assert.equal(bench.stub.asked[0]?.headers['authorization'], `Bearer ${providerKey}`);
    const c = await bench.open({ model: { provider: 'provider-c', id: 'v/m' } });
    await ask(c, '/v1/responses', responses({ stream: false }));
    assert.equal(bench.stub.asked[1]?.path, '/api/v1/responses');
  });

  for (const [what, path, init] of [
    ['another provider', '/../provider-b/v1/responses', { method: 'POST', body: '{}' }],
    ['a path outside', '/../../../../v1/messages', { method: 'POST', body: '{}' }],
    ['an unknown path', '/v1/files', { method: 'POST', body: '{}' }],
    ['batches', '/v1/messages/batches', { method: 'POST', body: '{}' }],
    ['another method', '/v1/messages', { method: 'DELETE' }],
    ['the base address itself', '', { method: 'HEAD' }],
    ['an escaped path', '/v1/%6dessages', { method: 'POST', body: '{}' }],
  ] as const) {
    test(`${what} is not there`, async () => {
      const got = await ask(route, path, undefined, init);
      assert.ok(got.status === 404 || got.status === 401, `${got.status}`);
      assert.equal(bench.stub.asked.length, 0);
      assert.equal(route.last(), undefined);
    });
  }

  test('a wrong token and one of a closed route are 401', async () => {
    const url = route.baseUrl();
    assert.match(
      route.scrub(`error: 402, url: ${url}/v1/messages`),
      /^error: 402, url: http:\/\/127\.0\.0\.1:\d+\/s\/\[removed\]\/provider-a\/v1\/messages$/,
    );
    const wrong = url.replace(/\/s\/./, (text) => `/s/${text.endsWith('A') ? 'B' : 'A'}`);
    assert.equal((await fetch(`${wrong}/v1/models`)).status, 401);
    await route.close();
    const got = await fetch(`${url}/v1/messages`, { method: 'POST', body: '{}' });
    assert.equal(got.status, 401);
    assert.deepEqual(await got.json(), {
      type: 'error',
      error: { type: 'authentication_error', message: 'Unknown or revoked session token.' },
    });
    assert.equal(bench.stub.asked.length, 0);
  });

  test('counting tokens and listing models is free', async () => {
    bench.stub.answers(json(200, { input_tokens: 5 }));
    bench.verdict = () => assert.fail('nobody has to allow it');
    assert.equal((await ask(route, '/v1/messages/count_tokens', call({ model: 'other' }))).text, '{"input_tokens":5}');
    assert.equal(bench.stub.asked[0]?.body['model'], 'm-1');
    assert.equal((await ask(route, '/v1/models?limit=3')).status, 200);
    assert.equal((await ask(route, '/v1/models/m-1')).status, 200);
    await route.settled();
    assert.deepEqual(bench.settled, []);
    assert.deepEqual(bench.events, []);
  });

  test('a call that is over a cap gets 402 in the shape of its provider', async () => {
    const refusal = {
      cap: 'dailyUsd' as const,
      spentUsd: '2',
      limitUsd: '1',
      resetsAt: new Date('2030-01-02'),
      message: 'Spend cap reached: dailyUsd',
    };
    bench.verdict = () => ({ allowed: false, kind: 'capped', code: 'spend-cap', message: refusal.message, refusal });
    const got = await ask(route, '/v1/messages', call());
    assert.equal(got.status, 402);
    assert.equal(got.headers.get('x-should-retry'), 'false');
    assert.deepEqual(JSON.parse(got.text), {
      type: 'error',
      error: { type: 'billing_error', message: refusal.message },
    });
    for (const [provider, expected] of [
      ['provider-b', { message: refusal.message, type: 'insufficient_quota', param: null, code: 'spend-cap' }],
      ['provider-c', { code: 402, message: refusal.message, metadata: { reason: 'spend-cap' } }],
    ] as const) {
      const other = await bench.open({ model: { provider, id: 'v/m' } });
      const answer = await ask(other, '/v1/responses', responses());
      assert.equal(answer.status, 402);
      assert.deepEqual(JSON.parse(answer.text), { error: expected });
    }
    assert.equal(bench.stub.asked.length, 0);
    assert.deepEqual(bench.events[0], { kind: 'capped', refused: true, refusal });
    assert.deepEqual(route.last(), {
      at: new Date(0),
      status: 402,
      ok: false,
      retryable: false,
      model: 'm-1',
      message: refusal.message,
    });
    await route.settled();
    assert.deepEqual(bench.settled, []);
  });

  test('a harness that breaks off breaks off the provider, and pays for what it saw', async () => {
    const [start = '', open = '', ...texts] = messagesStream(['x'.repeat(300), 'never']);
    let endless = true;
    bench.stub.answers(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`${start}${open}${texts[0]}`);
      while (endless && !response.destroyed) await new Promise((resolve) => setTimeout(resolve, 5));
    });
    const controller = new AbortController();
    const response = await fetch(`${route.baseUrl()}/v1/messages`, {
      method: 'POST',
      body: JSON.stringify(call()),
      signal: controller.signal,
    });
    const reader = response.body?.getReader();
    let seen = '';
    while (!seen.includes('xxx')) seen += Buffer.from((await reader?.read())?.value ?? []).toString('utf8');
    controller.abort();
    await bench.stub.asked[0]?.brokenOff;
    endless = false;
    assert.deepEqual(await usageOf(), {
      inputTokens: 100,
      outputTokens: 100,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      estimated: true,
    });
    assert.equal(route.last(), undefined, 'what the harness broke off says nothing of the provider');
  });

  test('a harness that goes away before the answer pays for what it asked', async () => {
    let arrived: (() => void) | undefined;
    const asked = new Promise<void>((resolve) => (arrived = resolve));
    bench.stub.answers(() => arrived?.());
    const controller = new AbortController();
    const got = ask(route, '/v1/messages', call(), { signal: controller.signal });
    await asked;
    controller.abort();
    await assert.rejects(got);
    await bench.stub.asked[0]?.brokenOff;
    const usage = await usageOf();
    assert.equal(usage?.estimated, true);
    assert.ok((usage?.inputTokens ?? 0) > 5);
  });

  test('closing a route breaks off its calls and enters them', async () => {
    bench.stub.answers((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(messagesStream(['x'])[0]);
    });
    const response = await fetch(`${route.baseUrl()}/v1/messages`, { method: 'POST', body: JSON.stringify(call()) });
    const text = response.text();
    await Promise.all([route.close(), assert.rejects(text)]);
    await bench.stub.asked[0]?.brokenOff;
    assert.equal(bench.settled[0]?.outcome?.usage.estimated, true);
  });

  test('one session may make so many calls at a time', async () => {
    const small = await startBench({ limits: { callsMax: 2 } });
    try {
      const one = await small.open();
      let release: (() => void) | undefined;
      const held = new Promise<void>((resolve) => (release = resolve));
      small.stub.answers(async (response, asked) => {
        await held;
        await streams(messagesStream(['x']))(response, asked);
      });
      const running = [ask(one, '/v1/messages', call()), ask(one, '/v1/messages', call())];
      while (small.stub.asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      const third = await ask(one, '/v1/messages', call());
      assert.equal(third.status, 429);
      assert.equal(third.headers.get('retry-after'), '1');
      release?.();
      assert.deepEqual(
        (await Promise.all(running)).map(({ status }) => status),
        [200, 200],
      );
    } finally {
      await small.stop();
    }
  });

  test('a body that is too large, compressed or no document is refused', async () => {
    const small = await startBench({ limits: { bodyMaxBytes: 1_000 } });
    try {
      const one = await small.open();
      const status = async (body: string, headers = {}) => (await ask(one, '/v1/messages', body, { headers })).status;
      assert.equal(await status(JSON.stringify(call({ x: 'y'.repeat(1_000) }))), 413);
      assert.equal(await status('{}', { 'content-encoding': 'gzip' }), 400);
      for (const body of ['', '[]', 'null', '"x"', '{', '{"a":']) assert.equal(await status(body), 400, body);
      const chunked = await fetch(`${one.baseUrl()}/v1/messages`, {
        method: 'POST',
        body: new ReadableStream({
          pull: (controller) => controller.enqueue(new Uint8Array(400)),
        }),
        duplex: 'half',
      } as RequestInit).catch((error: unknown) => error as Error);
      // The rest of an endless body is not read: a client may see that before it sees the answer.
      assert.ok(chunked instanceof Error || chunked.status === 413);
      assert.equal(small.stub.asked.length, 0);
    } finally {
      await small.stop();
    }
  });
});

describe('a socket for a sandbox', () => {
  let bench: Bench;
  let dir: string;
  before(async () => {
    bench = await startBench();
    dir = await mkdtemp(join(tmpdir(), 'svc-gateway-'));
  });
  after(async () => {
    await bench.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const over = (socketPath: string, path: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const sent = httpRequest({ socketPath, path, method: 'POST', agent: false }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0));
      });
      sent.on('error', reject).end(JSON.stringify({ model: 'm-1', messages: [] }));
    });

  test('takes the calls of its session alone, and goes with it', async () => {
    bench.stub.answers(json(200, { model: 'm-1', usage: { input_tokens: 1, output_tokens: 1 } }));
    const socketPath = join(dir, 'model.sock');
    const mine = await bench.open({ socketPath });
    const other = await bench.open();
    assert.match(mine.baseUrl(8_080), /^http:\/\/127\.0\.0\.1:8080\/s\//);
    assert.equal(await over(socketPath, `${new URL(mine.baseUrl()).pathname}/v1/messages`), 200);
    assert.equal(await over(socketPath, `${new URL(other.baseUrl()).pathname}/v1/messages`), 401);
    await mine.close();
    await assert.rejects(over(socketPath, '/'), /ENOENT|ECONNREFUSED/);
    const again = await bench.open({ socketPath });
    assert.equal(await over(socketPath, `${new URL(again.baseUrl()).pathname}/v1/messages`), 200);
  });
});

describe('wires', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  for (const [what, provider, path, stream, expected] of [
    [
      'responses',
      'provider-b',
      '/v1/responses',
      responsesStream(['a', 'b'], { input_tokens: 100, input_tokens_details: { cached_tokens: 60 }, output_tokens: 9 }),
      { inputTokens: 40, outputTokens: 9, cacheReadTokens: 60, cacheWriteTokens: 0, estimated: false },
    ],
    [
      'chat, with its cost',
      'provider-c',
      '/v1/chat/completions',
      chatStream(['a'], { prompt_tokens: 10, completion_tokens: 3, cost: 0.0000123 }),
      {
        inputTokens: 10,
        outputTokens: 3,
        cacheReadTokens: 0,
        cacheWriteTokens: 0,
        reportedUsd: '0.0000123',
        estimated: false,
      },
    ],
    [
      'responses of a router, with their cost',
      'provider-c',
      '/v1/responses',
      responsesStream(['a'], { input_tokens: 10, output_tokens: 3, cost: 0.5 }),
      {
        inputTokens: 10,
        outputTokens: 3,
        cacheReadTokens: 0,
        cacheWriteTokens: 0,
        reportedUsd: '0.5',
        estimated: false,
      },
    ],
  ] as const) {
    test(`${what}: the same bytes, and the usage`, async () => {
      bench.stub.answers(streams(stream));
      const route = await bench.open({ model: { provider, id: 'v/m' } });
      const body = path.endsWith('responses') ? responses() : call();
      assert.equal((await ask(route, path, body)).text, stream.join(''));
      await route.settled();
      assert.deepEqual(bench.settled.at(-1)?.outcome?.usage, expected);
    });
  }
});
