import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { ModelProvider, ModelSpec } from '../../../domain/spec.ts';
import { readLines } from './lines.ts';
import {
  BodyProblem,
  createMeter,
  type Endpoint,
  endpointOf,
  errorBody,
  opensWithFailure,
  prepareBody,
  type Shortened,
} from './model.ts';
import type { Wire } from './wire.ts';

describe('calls', () => {
  const kinds: { readonly [provider in ModelProvider]: { readonly [call: string]: string } } = {
    'provider-a': {
      'POST /v1/messages': 'metered messages',
      'POST /v1/messages/count_tokens': 'free messages',
      'GET /v1/models': 'free messages',
      'GET /v1/models/m-1': 'free messages',
      'POST /v1/responses': '',
      'POST /v1/messages/batches': '',
      'GET /v1/messages': '',
      'POST /v1/messages/': '',
      'GET /v1/models/../files': '',
    },
    'provider-b': {
      'POST /v1/responses': 'metered responses',
      'POST /v1/responses/compact': 'metered responses',
      'POST /v1/responses/input_tokens': 'free responses',
      'POST /v1/chat/completions': 'metered chat',
      'GET /v1/responses/resp_1': '',
      'POST /v1/embeddings': '',
      'POST /v1/messages': '',
    },
    'provider-c': {
      'POST /v1/responses': 'metered responses',
      'POST /v1/chat/completions': 'metered chat',
      'GET /v1/models/vendor/model:free': 'free chat',
      'GET /v1/models/vendor/model/endpoints': 'free chat',
      'GET /v1/key': '',
      'GET /v1/credits': '',
    },
  };
  for (const [provider, calls] of Object.entries(kinds)) {
    for (const [call, expected] of Object.entries(calls)) {
      test(`${provider} ${call} is ${expected || 'not there'}`, () => {
        const [method = '', path = ''] = call.split(' ');
        const found = endpointOf(provider as ModelProvider, method, path);
        assert.equal(found === undefined ? '' : `${found.kind} ${found.wire}`, expected);
      });
    }
  }
});

const endpoint = (wire: Wire, kind: Endpoint['kind'] = 'metered'): Endpoint => ({ kind, wire, hasBody: true });
const whole = (text: string | Buffer): Shortened => ({ body: Buffer.from(text as string), prefix: 'none:', texts: [] });
const bound = (model: ModelSpec, body: object, at = endpoint('messages')) => {
  const prepared = prepareBody(at, model, whole(JSON.stringify(body)));
  const sent = (id = prepared.models[0] ?? '') => JSON.parse(prepared.bodyFor(id).toString('utf8')) as typeof body;
  return { ...prepared, sent };
};
const declared: ModelSpec = { provider: 'provider-a', id: 'm', fallbacks: [{ id: 'n', provider: 'provider-a' }] };
const routed: ModelSpec = {
  provider: 'provider-c',
  id: 'v/m',
  gateway: {
    models: ['v/n', 'w/o'],
    provider: { allowFallbacks: false, order: ['x'], sort: 'price', only: ['x', 'y'], ignore: ['z'] },
  },
};

describe('bodies', () => {
  test('name the declared model, and keep all else as it is', () => {
    const body = {
      model: 'title',
      max_tokens: 5,
      messages: [{ role: 'user', content: 'é\u0000"' }],
      temperature: 1,
      metadata: null,
    };
    const { sent, models, stream } = bound(declared, body);
    assert.deepEqual(models, ['m', 'n']);
    assert.equal(stream, false);
    assert.deepEqual(sent(), { ...body, model: 'm' });
    assert.deepEqual(sent('n'), { ...body, model: 'n' });
    assert.deepEqual(bound(declared, { model: 'n' }).models, ['n']);
  });

  test('a key that is written twice means what was checked', () => {
    const raw = Buffer.from(
      '{"model":"m","model":"dear","service_tier":"flex","service_tier":"priority","__proto__":{"model":"x"}}',
    );
    const sent = prepareBody(endpoint('messages'), declared, whole(raw)).bodyFor('m').toString('utf8');
    assert.equal(sent, '{"model":"m"}');
  });

  test('reach nothing on the side of the provider that the session could not reach itself', () => {
    const tools = [{ type: 'mcp', server_url: 'https://evil.example' }, { type: 'mcp_toolset' }, { name: 'own' }];
    const around = {
      mcp_servers: [{ url: 'https://evil.example' }],
      container: 'c',
      plugins: [{ id: 'web' }],
      prompt: {},
    };
    for (const wire of ['messages', 'responses', 'chat'] as const) {
      const { sent } = bound(declared, { model: 'm', tools, ...around }, endpoint(wire));
      assert.deepEqual(sent(), { model: 'm', tools: [{ name: 'own' }] });
    }
  });

  test('ask for no other price and no other route than declared', () => {
    const wishes = {
      service_tier: 'priority',
      speed: 'fast',
      inference_geo: 'us',
      background: true,
      models: ['dear'],
      provider: { order: ['dear'] },
      route: 'fallback',
      preset: 'p',
      fallbacks: ['dear'],
    };
    assert.deepEqual(bound(declared, wishes).sent(), { model: 'm' });
    const plain: ModelSpec = { provider: 'provider-c', id: 'v/m' };
    assert.deepEqual(bound(plain, wishes, endpoint('responses')).sent(), { model: 'v/m' });
  });

  test('carry the gateway object in the words of its provider, the primary in front', () => {
    assert.deepEqual(bound(routed, { model: 'v/m', input: [] }, endpoint('responses')).sent(), {
      model: 'v/m',
      input: [],
      models: ['v/m', 'v/n', 'w/o'],
      provider: { allow_fallbacks: false, order: ['x'], sort: 'price', only: ['x', 'y'], ignore: ['z'] },
    });
    const bare: ModelSpec = { provider: 'provider-c', id: 'v/m', gateway: { models: ['v/n'] } };
    assert.deepEqual(bound(bare, {}, endpoint('responses')).sent(), { model: 'v/m', models: ['v/m', 'v/n'] });
  });

  test('of the chat wire ask for their usage', () => {
    const b: ModelSpec = { provider: 'provider-b', id: 'm' };
    const asked = { stream: true, stream_options: { x: 1, include_usage: false } };
    assert.deepEqual(bound(b, asked, endpoint('chat')).sent(), {
      stream: true,
      stream_options: { x: 1, include_usage: true },
      model: 'm',
    });
    assert.deepEqual(bound({ provider: 'provider-c', id: 'v/m' }, {}, endpoint('chat')).sent(), {
      usage: { include: true },
      model: 'v/m',
    });
  });

  test('are counted by their text, and what is sealed by its number', () => {
    const tokens = (body: object) => bound(declared, body).inputTokens;
    assert.ok(tokens({ messages: 'x'.repeat(3_000) }) >= 1_000);
    assert.ok(tokens({ messages: 'x'.repeat(3_000) }) < 1_020);
    assert.ok(tokens({ messages: { data: 'A'.repeat(6_000_000) } }) < 2_000);
    assert.ok(tokens({ system: 'A'.repeat(6_000_000) }) > 1_000_000);
    assert.equal(bound(declared, { max_tokens: 7 }).maxOutputTokens, 7);
    assert.equal(bound(declared, { max_output_tokens: 1e9 }, endpoint('responses')).maxOutputTokens, 128_000);
    for (const max_tokens of [undefined, -1, 'x', 0.5]) {
      assert.equal(bound(declared, { max_tokens }).maxOutputTokens, 32_000);
    }
  });

  for (const text of ['', '{', '[]', '"x"', '1', 'null', `${'['.repeat(9)}`, '\ufeff{}']) {
    test(`${JSON.stringify(text)} is no body`, () =>
      assert.throws(() => prepareBody(endpoint('messages'), declared, whole(text)), BodyProblem));
  }
  test('one that is nested without end is refused, not fatal', () => {
    const deep = Buffer.from(`{"messages":${'['.repeat(200_000)}${']'.repeat(200_000)}}`);
    assert.throws(() => prepareBody(endpoint('messages'), declared, whole(deep)).bodyFor('m'), BodyProblem);
  });
});

const sse = (...events: object[]): string =>
  events.map((data) => `event: e\r\ndata: ${JSON.stringify(data)}\r\n\r\n`).join('');
const metered = (wire: Wire, text: string, pieces: readonly number[] = [], isSse = true) => {
  const meter = createMeter(wire, { sse: isSse, inputTokens: 1_234 });
  const bytes = Buffer.from(text);
  let from = 0;
  for (const piece of [...pieces, bytes.length]) {
    meter.push(bytes.subarray(from, from + piece));
    from += piece;
  }
  return meter.end();
};
const messages = sse(
  {
    type: 'message_start',
    message: {
      model: 'm-2026',
      usage: {
        input_tokens: 5,
        output_tokens: 1,
        cache_creation_input_tokens: 30,
        cache_creation: { ephemeral_1h_input_tokens: 10 },
      },
    },
  },
  { type: 'content_block_delta', delta: { type: 'text_delta', text: 'Grüße 👋 "usage":{"output_tokens":9}' } },
  { type: 'message_delta', usage: { output_tokens: 77, cache_read_input_tokens: null } },
  { type: 'message_stop' },
);
const told = {
  inputTokens: 5,
  outputTokens: 77,
  cacheReadTokens: 0,
  cacheWriteTokens: 30,
  cacheWriteLongTokens: 10,
  estimated: false,
};

describe('usage', () => {
  test('is the same however a stream is cut into chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 60 })), (pieces) => {
        assert.deepEqual(metered('messages', messages, pieces), { usage: told, model: 'm-2026' });
      }),
    );
  });

  test('of a stream that is cut anywhere is never less than what was told by then', () => {
    const length = Buffer.byteLength(messages);
    for (let cut = 0; cut <= length; cut += 1) {
      const { usage } = metered('messages', Buffer.from(messages).subarray(0, cut).toString('latin1'));
      assert.ok(usage !== null);
      const hasStart = cut > messages.indexOf('content_block_delta');
      assert.equal(usage.inputTokens, hasStart ? 5 : usage.inputTokens);
      if (usage.estimated) assert.ok(usage.inputTokens === 1_234 || usage.inputTokens === 5);
      else assert.deepEqual(usage, told);
    }
  });

  for (const [what, wire, text, isSse, expected] of [
    ['a plain answer', 'messages', '{"model":"m","usage":{"input_tokens":1,"output_tokens":2}}', false, [1, 2, 0, 0]],
    [
      'a plain answer over several lines',
      'responses',
      '{\n "usage": {\n"input_tokens":1,\n"output_tokens":2}}\n',
      false,
      [1, 2, 0, 0],
    ],
    [
      'more cached than sent',
      'responses',
      sse({
        type: 'response.completed',
        response: { usage: { input_tokens: 5, output_tokens: 2, input_tokens_details: { cached_tokens: 9 } } },
      }),
      true,
      [0, 2, 5, 0],
    ],
    [
      'written to a cache',
      'chat',
      sse({
        choices: [],
        usage: {
          prompt_tokens: 10,
          completion_tokens: 2,
          prompt_tokens_details: { cached_tokens: 3, cache_write_tokens: 4 },
        },
      }),
      true,
      [3, 2, 3, 4],
    ],
    [
      'an incomplete answer',
      'responses',
      sse({ type: 'response.incomplete', response: { usage: { input_tokens: 5, output_tokens: 2 } } }),
      true,
      [5, 2, 0, 0],
    ],
  ] as const) {
    test(`${what}`, () => {
      const { usage } = metered(wire, text, [], isSse);
      assert.ok(usage !== null && !usage.estimated);
      assert.deepEqual(
        [usage.inputTokens, usage.outputTokens, usage.cacheReadTokens, usage.cacheWriteTokens],
        expected,
      );
    });
  }

  test('counts reasoning, tool calls and text of a cut chat', () => {
    const { usage } = metered(
      'chat',
      sse({
        choices: [
          {
            delta: {
              content: 'abc',
              reasoning: 'def',
              tool_calls: [{ function: { name: 'ghi', arguments: 'jkl' } }, 7],
            },
          },
          null,
        ],
      }),
    );
    assert.deepEqual([usage?.outputTokens, usage?.inputTokens, usage?.estimated], [4, 1_234, true]);
  });

  test("a cost that is told is exact, and one of a key of one's own has two parts", () => {
    const cost = (usage: object) =>
      metered('chat', sse({ usage: { prompt_tokens: 1, completion_tokens: 1, ...usage } })).usage?.reportedUsd;
    assert.equal(cost({ cost: 0.1 }), '0.1');
    assert.equal(cost({ cost: 1.5e-7 }), '0.00000015');
    assert.equal(cost({ cost: 0.01, is_byok: true, cost_details: { upstream_inference_cost: 0.2 } }), '0.21');
    for (const bad of [-1, '1', null, 1e9, {}]) assert.equal(cost({ cost: bad }), undefined);
  });

  test('a failure that nothing was made for costs nothing; one after a part does', () => {
    assert.deepEqual(metered('messages', sse({ type: 'error', error: { type: 'overloaded_error' } })), {
      usage: null,
      failure: 'overloaded_error',
    });
    assert.equal(
      metered('responses', sse({ type: 'response.failed', response: { error: { code: 'server_error' } } })).usage,
      null,
    );
    const part = sse({ type: 'response.output_text.delta', delta: 'abc' }, { type: 'error', code: 'server_error' });
    assert.deepEqual(
      [metered('responses', part).usage?.outputTokens, metered('responses', part).failure],
      [1, 'server_error'],
    );
  });

  test('searches that the provider makes itself are counted', () => {
    const searches = (wire: Wire, text: string, isSse = true) => metered(wire, text, [], isSse).usage?.webSearches;
    const block = { type: 'content_block_start', content_block: { type: 'server_tool_use', name: 'web_search' } };
    const end = { input_tokens: 1, output_tokens: 1, server_tool_use: { web_search_requests: 3 } };
    assert.equal(searches('messages', sse(block)), 1, 'of a stream that was cut');
    assert.equal(searches('messages', sse(block, { type: 'message_delta', usage: end })), 3);
    const item = { type: 'web_search_call' };
    const done = { type: 'response.output_item.done', item };
    assert.equal(searches('responses', sse(done, done)), 2);
    assert.equal(searches('responses', JSON.stringify({ output: [item, { type: 'message' }] }), false), 1);
    assert.equal(searches('messages', messages), undefined);
  });

  test('what is no event changes nothing', () => {
    const junk =
      'data: {"broken\n\ndata:\n\n: comment\n\ndata: []\n\ndata: null\n\nevent: x\n\nid: 7\n\ndata: [DONE]\n\n';
    for (const wire of ['messages', 'responses', 'chat'] as const) {
      const { usage, failure } = metered(wire, junk + messages.replaceAll(/message_|content_/g, 'x_') + junk);
      assert.deepEqual([usage?.outputTokens, usage?.estimated, failure], [0, true, undefined]);
    }
  });

  test('a stream that opens with a failure of the provider is told from one that opens with another', () => {
    const opens = (error: object) => opensWithFailure('messages', sse({ type: 'error', error }));
    assert.equal(opens({ type: 'overloaded_error' }), true);
    assert.equal(opens({ type: 'invalid_request_error' }), false);
    assert.equal(opensWithFailure('messages', messages), false);
    assert.equal(opensWithFailure('chat', sse({ error: { code: 429 } })), true);
    assert.equal(opensWithFailure('messages', ''), false);
  });
});

describe('lines', () => {
  test('are cut as text is, and a long one keeps its end alone', () => {
    const limits = { bytesMax: 20, valuesMax: 20, tailBytes: 5 };
    fc.assert(
      fc.property(fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '\n', '\r'), maxLength: 30 })), (chunks) => {
        const seen: [string, boolean][] = [];
        const reader = readLines(limits, (text, isCut) => seen.push([text, isCut]));
        for (const chunk of chunks) reader.push(Buffer.from(chunk));
        reader.end();
        const lines = chunks.join('').split('\n');
        if (lines.at(-1) === '') lines.pop();
        assert.equal(seen.length, lines.length);
        for (const [index, line] of lines.entries()) {
          const [text, isCut] = seen[index] ?? assert.fail();
          const bare = line.replace(/\r$/, '');
          if (isCut) assert.ok(line.length > 20 && bare.endsWith(text) && text.length >= 4 && text.length <= 10);
          else assert.equal(text, bare);
        }
      }),
    );
  });
});

test('errors have the shape and the status of each provider', () => {
  const shapes = (['provider-a', 'provider-b', 'provider-c', undefined] as const).map((provider) =>
    errorBody(provider, 'capped', 'spend-cap', 'no'),
  );
  assert.deepEqual(shapes, [
    { status: 402, body: { type: 'error', error: { type: 'billing_error', message: 'no' } } },
    { status: 402, body: { error: { message: 'no', type: 'insufficient_quota', param: null, code: 'spend-cap' } } },
    { status: 402, body: { error: { code: 402, message: 'no', metadata: { reason: 'spend-cap' } } } },
    { status: 402, body: { error: { message: 'no', type: 'insufficient_quota', param: null, code: 'spend-cap' } } },
  ]);
});
