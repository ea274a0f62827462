// Providers that fail, lie or never stop; and what of a key could be seen.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { inspect } from 'node:util';
import type { ModelRoute } from '../../flows/ports.ts';
import type { ModelSpec } from '../../domain/spec.ts';
import { ask, type Bench, providerKey, startBench } from './gateway-testkit.ts';
import { type ModelAnswer, chatStream, drained, json, messagesStream, responsesStream, streams } from './testkit.ts';

const call = (changes: object = {}) => ({
  model: 'm-1',
  stream: true,
  messages: [{ role: 'user', content: 'hi' }],
  ...changes,
});
const overloaded = json(529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } });
const good = messagesStream(['fine']);

describe('fallbacks', () => {
  let bench: Bench;
  const model: ModelSpec = {
    provider: 'provider-a',
    id: 'm-1',
    fallbacks: [
      { id: 'm-2', provider: 'provider-a' },
      { id: 'm-3', provider: 'provider-a' },
    ],
  };
  beforeEach(async () => {
    bench = await startBench();
  });
  afterEach(() => bench.stop());
  const models = () => bench.stub.asked.map(({ body }) => body['model']);

  for (const [what, failing] of [
    ['408', json(408, {})],
    ['429', json(429, { error: { message: 'slow down' } })],
    ['500', json(500, {})],
    ['529', overloaded],
    [
      'a stream that opens with a failure',
      streams(['event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n']),
    ],
  ] as const) {
    test(`after ${what} the next model is tried, and the harness sees one answer`, async () => {
      bench.stub.answers(failing, failing, streams(good));
      const route = await bench.open({ model });
      const got = await ask(route, '/v1/messages', call());
      assert.equal(got.status, 200);
      assert.equal(got.text, good.join(''));
      assert.deepEqual(models(), ['m-1', 'm-2', 'm-3']);
      await route.settled();
      assert.equal(bench.settled.length, 1);
      assert.equal(bench.settled[0]?.outcome?.model, 'm-3');
    });
  }

  test('the last failure is passed on, and costs nothing', async () => {
    bench.stub.answers(json(500, {}), json(500, {}), overloaded);
    const route = await bench.open({ model });
    const got = await ask(route, '/v1/messages', call());
    assert.equal(got.status, 529);
    assert.match(got.text, /overloaded_error/);
    await route.settled();
    assert.equal(bench.settled[0]?.outcome, null);
    assert.deepEqual(
      { ...route.last(), at: null },
      { at: null, status: 529, ok: false, retryable: true, model: 'm-3', message: 'Overloaded' },
    );
  });

  test('what is wrong with the request itself is not tried again', async () => {
    bench.stub.answers(json(400, { type: 'error', error: { type: 'invalid_request_error', message: 'no' } }));
    const route = await bench.open({ model });
    assert.equal((await ask(route, '/v1/messages', call())).status, 400);
    assert.deepEqual(models(), ['m-1']);
    assert.equal(route.last()?.retryable, false);
  });

  test('once a byte was passed on nothing is tried again', async () => {
    bench.stub.answers((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(good.slice(0, 3).join(''), () => response.destroy());
    }, streams(good));
    const route = await bench.open({ model });
    await assert.rejects(ask(route, '/v1/messages', call()), /terminated/);
    await route.settled();
    assert.deepEqual(models(), ['m-1']);
    assert.equal(bench.settled[0]?.outcome?.usage.estimated, true);
    assert.equal(route.last()?.ok, false);
  });

  test('a model that is not declared becomes the declared one; a declared fallback may be asked for', async () => {
    bench.stub.answers(streams(good));
    const route = await bench.open({ model });
    await ask(route, '/v1/messages', call({ model: 'title-model' }));
    await ask(route, '/v1/messages', call({ model: 'm-2' }));
    await ask(route, '/v1/messages', call({ model: 7 }));
    assert.deepEqual(models(), ['m-1', 'm-2', 'm-1']);
  });
});

describe('a hostile provider', () => {
  let bench: Bench;
  let route: ModelRoute;
  beforeEach(async () => {
    bench = await startBench({ limits: { answerMaxBytes: 4_000_000 } });
    route = await bench.open();
  });
  afterEach(() => bench.stop());

  const plain =
    (status: number, type: string | undefined, text: string, headers = {}): ModelAnswer =>
    (response) => {
      response.writeHead(status, { ...(type && { 'content-type': type }), ...headers }).end(text);
    };
  const usage = async () => {
    await route.settled();
    return bench.settled[0]?.outcome?.usage ?? null;
  };

  for (const [what, answer] of [
    ['a page of HTML', plain(200, 'text/html', '<html>')],
    ['no type at all', plain(200, undefined, '{}')],
    ['a compressed answer', plain(200, 'application/json', '{}', { 'content-encoding': 'br' })],
    ['an empty answer without a body', plain(204, undefined, '')],
  ] as const) {
    test(`${what} is 502, and counts as estimated`, async () => {
      bench.stub.answers(answer);
      const got = await ask(route, '/v1/messages', call());
      assert.equal(got.status, 502);
      assert.equal(JSON.parse(got.text).error.type, 'api_error');
      assert.equal((await usage())?.estimated, true);
      assert.equal(route.last()?.ok, false);
    });
  }

  test('a redirect is not followed', async () => {
    bench.stub.answers(plain(307, undefined, '', { location: `${bench.stub.url}/elsewhere` }));
    assert.equal((await ask(route, '/v1/messages', call())).status, 502);
    assert.equal(bench.stub.asked.length, 1);
    assert.equal(await usage(), null);
  });

  test('a page of HTML as an error gets the shape of the provider', async () => {
    bench.stub.answers(plain(503, 'text/html', '<html>down</html>'));
    const got = await ask(route, '/v1/messages', call());
    assert.equal(got.status, 502);
    assert.deepEqual(JSON.parse(got.text).error, { type: 'api_error', message: 'provider-a answered (503)' });
    assert.equal(route.last()?.retryable, true);
  });

  for (const [what, start, end] of [
    ['negative numbers', { input_tokens: -5, output_tokens: -1 }, { output_tokens: -3 }],
    ['words', { input_tokens: 'many', output_tokens: null }, { output_tokens: [] }],
    ['absurd numbers', { input_tokens: 1e300, output_tokens: 1 }, { output_tokens: 1.5 }],
  ] as const) {
    test(`usage of ${what} is as if it were not told`, async () => {
      bench.stub.answers(streams(messagesStream(['x'.repeat(30)], { start, end })));
      assert.equal((await ask(route, '/v1/messages', call())).status, 200);
      const found = await usage();
      assert.equal(found?.estimated, true);
      assert.equal(found?.outputTokens, 10);
      assert.ok((found?.inputTokens ?? 0) > 0 && (found?.inputTokens ?? 0) < 100);
    });
  }

  test('a line of megabytes passes, and usage at its end is found', async () => {
    const big = JSON.stringify({
      type: 'response.completed',
      response: { model: 'm', output: 'y'.repeat(3_000_000), usage: { input_tokens: 5, output_tokens: 6 }, user: null },
    });
    const text = `event: response.completed\ndata: ${big}\n\n`;
    const one = await bench.open({ model: { provider: 'provider-b', id: 'm' } });
    bench.stub.answers(streams([text]));
    assert.equal((await ask(one, '/v1/responses', { input: 'x', stream: true })).text, text);
    await one.settled();
    const { inputTokens, outputTokens, estimated } = bench.settled[0]?.outcome?.usage ?? {};
    assert.deepEqual({ inputTokens, outputTokens, estimated }, { inputTokens: 5, outputTokens: 6, estimated: false });
  });

  test('an answer that never ends is cut at its limit', async () => {
    bench.stub.answers(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      while (!response.destroyed) {
        if (!response.write('z'.repeat(65_536))) await drained(response);
      }
    });
    await assert.rejects(ask(route, '/v1/messages', call()), /terminated/);
    await bench.stub.asked[0]?.brokenOff;
    assert.equal((await usage())?.estimated, true);
  });

  test('an answer that hangs is cut when its time is over', async () => {
    const hurried = await startBench({ limits: { callMaxMs: 2_000 } });
    try {
      hurried.stub.answers((response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(good[0]);
      });
      const one = await hurried.open();
      await assert.rejects(ask(one, '/v1/messages', call()), /terminated/);
      await one.settled();
      assert.equal(hurried.settled[0]?.outcome?.usage.estimated, true);
    } finally {
      await hurried.stop();
    }
  });

  for (const [what, provider, path, stream] of [
    ['messages', 'provider-a', '/v1/messages', messagesStream(['abc'.repeat(10)]).slice(0, -2)],
    ['responses', 'provider-b', '/v1/responses', responsesStream(['abc'.repeat(10)], null)],
    ['chat', 'provider-c', '/v1/chat/completions', chatStream(['abc'.repeat(10)], null)],
  ] as const) {
    test(`${what} without their usage are estimated`, async () => {
      bench.stub.answers(streams(stream));
      const one = await bench.open({ model: { provider, id: 'v/m' } });
      assert.equal((await ask(one, path, call())).text, stream.join(''));
      await one.settled();
      const found = bench.settled[0]?.outcome?.usage;
      assert.equal(found?.estimated, true);
      assert.equal(found?.outputTokens, 10);
    });
  }

  test('a failure in the stream is one of the last call, though its status is 200', async () => {
    const stream = [...good.slice(0, 3), 'event: error\ndata: {"type":"error","error":{"type":"api_error"}}\n\n'];
    bench.stub.answers(streams(stream));
    const got = await ask(route, '/v1/messages', call());
    assert.equal(got.text, stream.join(''));
    await route.settled();
    assert.deepEqual([route.last()?.status, route.last()?.ok], [200, false]);
    assert.match(route.last()?.message ?? '', /api_error/);
  });
});

describe('what nobody may see', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  test("a refused key is the operator's matter, and no answer shows it", async () => {
    const route = await bench.open();
    for (const [status, shown] of [
      [401, 502],
      [403, 502],
      [400, 400],
    ] as const) {
      bench.stub.answers(
        json(
          status,
          { error: { message: `bad key ${providerKey}` } },
          { 'anthropic-organization-id': 'org', 'set-cookie': 'a=b' },
        ),
      );
      const got = await ask(route, '/v1/messages', call());
      assert.equal(got.status, shown);
      assert.match(got.text, /\[removed\]/);
      assert.doesNotMatch(got.text + JSON.stringify([...got.headers]), /nobody-may-see|org|set-cookie/);
      assert.doesNotMatch(route.last()?.message ?? '', /nobody-may-see/);
    }
  });

  test('no key, a key with a line break and a private address say what to do, and nothing else', async () => {
    for (const [upstream, message] of [
      [{ key: () => Promise.resolve(undefined) }, /No key is configured for provider-a; see providers\.model/],
      [{ key: () => Promise.resolve(`${providerKey}\nx: y`) }, /cannot be used for provider-a/],
      [{ allowPrivate: false }, /address of provider-a is refused: it is not https.*SVC_ALLOW_PRIVATE_NETWORK/],
      [{ allowPrivate: false, addresses: { 'provider-a': 'https://127.0.0.1:1' } }, /refused: its address is private/],
      [{ allowPrivate: false, addresses: { 'provider-a': 'https://localhost:1' } }, /refused: it is this machine/],
      [{ addresses: { 'provider-a': 'http://127.0.0.1:1' } }, /cannot be reached \(ECONNREFUSED\)/],
    ] as const) {
      const other = await startBench({ upstream });
      try {
        const route = await other.open();
        const got = await ask(route, '/v1/messages', call());
        assert.equal(got.status, 502);
        assert.match(got.text, message);
        await route.settled();
        assert.equal(other.settled[0]?.outcome, null, 'nothing was sent, nothing is spent');
        assert.equal(other.stub.asked.length, 0);
        assert.doesNotMatch(got.text + other.log(), /nobody-may-see/);
      } finally {
        await other.stop();
      }
    }
  });

  test('neither key nor token is in the log, the metrics or the gateway itself', async () => {
    const route = await bench.open();
    bench.stub.answers(
      streams(good),
      json(401, { error: { message: providerKey } }),
      (response) => void response.destroy(),
    );
    for (let turn = 0; turn < 3; turn += 1) await ask(route, '/v1/messages', call());
    await ask(route, '/v1/nothing', call());
    await route.settled();
    const token = /\/s\/([^/]+)\//.exec(route.baseUrl())?.[1] ?? assert.fail();
    const seen = `${bench.log()}\n${inspect(bench.gateway, { depth: 12, showHidden: true, maxStringLength: null })}`;
    assert.match(bench.log(), /model\.called/);
    assert.ok(!seen.includes(token));
    assert.ok(!seen.includes(providerKey));
    assert.doesNotMatch(bench.log(), /of-the-harness/);
  });
});

describe('what is asked beside a conversation', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());
  const tools = [{ name: 'look', input_schema: { type: 'object' } }];
  const tellsOf = async (...calls: (readonly [answer: ModelAnswer, body: object])[]) => {
    const route = await bench.open();
    for (const [answer, body] of calls) {
      bench.stub.answers(answer);
      await ask(route, '/v1/messages', body);
    }
    return route.last()?.ok;
  };

  test('says nothing of it, whichever comes last', async () => {
    assert.equal(await tellsOf([streams(good), call({ tools })], [overloaded, call()]), true);
    assert.equal(await tellsOf([overloaded, call({ tools })], [streams(good), call({ tools: [] })]), false);
    assert.equal(await tellsOf([overloaded, call()], [streams(good), call({ tools })]), true);
  });

  test('is the conversation where no call offers tools', async () => {
    assert.equal(await tellsOf([streams(good), call()], [overloaded, call()]), false);
  });
});
