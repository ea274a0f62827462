import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { frameStream } from './frames.ts';
import { CallCategories, mapPermission, permissionAnswer } from './permission.ts';
import { StderrTail } from './stderr-tail.ts';
import type { HarnessUpdate } from './types.ts';
import { cut, jsonText, mapUpdate, sessionFailureOf } from './updates.ts';

const text = (value: string) => ({ type: 'text', text: value });
const chunk = (sessionUpdate: string, content: unknown) => ({ sessionUpdate, content });

const cases: readonly (readonly [string, unknown, HarnessUpdate | undefined])[] = [
  ['a text', chunk('agent_message_chunk', text('hi')), { kind: 'text', text: 'hi' }],
  ['an empty text', chunk('agent_message_chunk', text('')), undefined],
  ['an image', chunk('agent_message_chunk', { type: 'image', data: 'x' }), { kind: 'text', text: '[image]' }],
  ['a thought', chunk('agent_thought_chunk', text('hm')), { kind: 'thought', text: 'hm' }],
  ['the user’s own words', chunk('user_message_chunk', text('me')), undefined],
  [
    'a tool call',
    { sessionUpdate: 'tool_call', toolCallId: '1', title: 'ls', kind: 'execute', rawInput: { a: 1 } },
    { kind: 'tool_started', callId: '1', title: 'ls', category: 'execute', status: 'pending', input: '{"a":1}' },
  ],
  [
    'a tool call that is over when it is told',
    { sessionUpdate: 'tool_call', toolCallId: '1', title: 'ls', status: 'completed', rawOutput: 'out' },
    { kind: 'tool_finished', callId: '1', status: 'completed', category: 'other', title: 'ls', text: 'out' },
  ],
  [
    'an update with contents',
    {
      sessionUpdate: 'tool_call_update',
      toolCallId: '1',
      status: 'in_progress',
      content: [
        { type: 'content', content: text('a') },
        { type: 'diff', path: 'b.ts' },
        { type: 'terminal', terminalId: 't' },
      ],
    },
    { kind: 'tool_updated', callId: '1', status: 'in_progress', text: 'a\n[diff b.ts]' },
  ],
  [
    'a piece of what a command writes',
    {
      sessionUpdate: 'tool_call_update',
      toolCallId: '1',
      _meta: { terminal_output_delta: { data: 'é'.repeat(513), terminal_id: '1' } },
    },
    { kind: 'tool_updated', callId: '1', more: 'é'.repeat(512), truncated: true },
  ],
  [
    'all of it, told at once',
    {
      sessionUpdate: 'tool_call',
      toolCallId: '1',
      title: 'ls',
      status: 'completed',
      _meta: { terminal_output_delta: { data: 'a' } },
    },
    { kind: 'tool_finished', callId: '1', status: 'completed', category: 'other', title: 'ls', text: 'a' },
  ],
  ['a tool call without an id', { sessionUpdate: 'tool_call', title: 'x' }, undefined],
  [
    'a plan',
    { sessionUpdate: 'plan', entries: [{ content: 'dig', status: 'completed' }, null] },
    {
      kind: 'plan',
      entries: [
        { text: 'dig', status: 'completed' },
        { text: '', status: 'pending' },
      ],
    },
  ],
  [
    'usage with a tiny cost',
    { sessionUpdate: 'usage_update', used: 5, size: 9, cost: { amount: 0.0000012, currency: 'USD' } },
    { kind: 'usage', usedTokens: 5, windowTokens: 9, cost: { amount: '0.0000012', currency: 'USD' } },
  ],
  [
    'usage with a whole cost',
    { sessionUpdate: 'usage_update', used: 5, size: 9, cost: { amount: 10, currency: 'USD' } },
    { kind: 'usage', usedTokens: 5, windowTokens: 9, cost: { amount: '10', currency: 'USD' } },
  ],
  ['usage without numbers', { sessionUpdate: 'usage_update', used: 'x' }, undefined],
  [
    'a typed warning',
    {
      sessionUpdate: 'session_info_update',
      _meta: { jetbrains: { air: { sessionFailure: { severity: 'warning', title: 'slow' } } } },
    },
    { kind: 'notice', severity: 'warning', text: 'slow' },
  ],
  ['a title', { sessionUpdate: 'session_info_update', title: 'x' }, undefined],
  ['a kind of tomorrow', { sessionUpdate: 'mood', value: 1 }, undefined],
  ['nothing', null, undefined],
];

for (const [name, update, expected] of cases) {
  test(`${name} becomes ${expected === undefined ? 'nothing' : expected.kind}`, () => {
    assert.deepEqual(mapUpdate(update, 1024), expected);
  });
}

test('whatever a harness sends, what comes of it is bounded and of our own list', () => {
  const kinds = fc.constantFrom('agent_message_chunk', 'tool_call', 'tool_call_update', 'plan', 'usage_update', 'x');
  const anything = fc.record({
    sessionUpdate: kinds,
    toolCallId: fc.oneof(fc.string(), fc.anything()),
    title: fc.anything(),
    status: fc.oneof(fc.constantFrom('completed', 'failed', 'pending'), fc.anything()),
    content: fc.oneof(
      fc.anything(),
      fc.string({ size: 'large' }).map(text),
      fc.array(fc.string({ size: 'large' }).map((value) => ({ type: 'content', content: text(value) }))),
    ),
    rawInput: fc.jsonValue(),
    entries: fc.anything(),
    _meta: fc.anything(),
  });
  fc.assert(
    fc.property(anything, (update) => {
      const mapped = mapUpdate(update, 256);
      if (mapped === undefined) return;
      if ('text' in mapped && mapped.text !== undefined) assert.ok(Buffer.byteLength(mapped.text) <= 256);
      if ('input' in mapped && mapped.input !== undefined) assert.ok(Buffer.byteLength(mapped.input) <= 256);
    }),
  );
});

test('a name is bounded like a text, and an option that could not be chosen by its own is none', () => {
  const long = 'ä'.repeat(3_000);
  const sizeOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? '');
  const names = { toolCallId: long, kind: long, title: long };
  const usage = { used: 1, size: 2, cost: { amount: 1, currency: long } };
  for (const update of [
    { sessionUpdate: 'tool_call', ...names },
    { sessionUpdate: 'tool_call_update', ...names, status: 'completed' },
    { sessionUpdate: 'plan', entries: [{ content: 'x', status: long }] },
    { sessionUpdate: 'usage_update', ...usage },
  ]) {
    assert.ok(sizeOf(mapUpdate(update, 64)) < 4_000, update.sessionUpdate);
  }
  const options = [long, 'a'].map((optionId) => ({ optionId, name: long, kind: long }));
  const asked = mapPermission({ toolCall: names, options }, 64);
  assert.deepEqual(
    asked.options.map(({ id }) => id),
    ['a'],
  );
  assert.ok(sizeOf(asked) < 6_000);
});

test('a value is told as its JSON begins', () => {
  const value = fc.jsonValue({ stringUnit: fc.constantFrom('a', '"', '\\', 'é', '😀', '\ud83d', '\u2028') });
  fc.assert(
    fc.property(value, fc.integer({ min: 4, max: 64 }), (whole, max) => {
      fc.pre(whole !== null && typeof whole !== 'string');
      assert.deepEqual(jsonText(whole, max), cut(JSON.stringify(whole), max));
    }),
  );
});

test('a value may nest deeper than a call could follow it', () => {
  const deep: unknown = JSON.parse(`${'['.repeat(400_000)}${']'.repeat(400_000)}`);
  assert.deepEqual(jsonText(deep, 64), { text: '['.repeat(64), truncated: true });
  assert.deepEqual(jsonText(deep, 800_000), { text: `${'['.repeat(400_000)}${']'.repeat(400_000)}`, truncated: false });
});

test('a text is cut at a character, and not where it fits', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 4, max: 64 }), (value, max) => {
      const whole = value.toWellFormed();
      const { text: kept, truncated } = cut(whole, max);
      assert.ok(Buffer.byteLength(kept) <= max);
      assert.ok(whole.startsWith(kept), 'a part of it, in whole characters');
      assert.equal(truncated, kept !== whole);
    }),
  );
});

test('a failure is read only where the extension puts it', () => {
  assert.equal(sessionFailureOf({ jetbrains: { air: {} } }), undefined);
  assert.equal(sessionFailureOf({ sessionFailure: {} }), undefined);
  assert.equal(sessionFailureOf(null), undefined);
  assert.equal(sessionFailureOf({ jetbrains: { air: { sessionFailure: {} } } })?.severity, 'error');
});

test('a question about a call is of the kind that the call was told to be', () => {
  const categories = new CallCategories();
  categories.note({ kind: 'tool_started', callId: '1', title: 'ls', category: 'execute', status: 'pending' });
  const kindOf = (toolCall: object) => mapPermission({ toolCall }, 99, categories).category;
  assert.equal(kindOf({ toolCallId: '1' }), 'execute');
  assert.equal(kindOf({ toolCallId: '1', kind: 'edit' }), 'edit');
  assert.equal(kindOf({ toolCallId: '2' }), 'other');
});

test('a decision takes the once-only option before the lasting one, and cancels where none is offered', () => {
  const options = (...kinds: string[]) =>
    mapPermission({ options: kinds.map((kind) => ({ optionId: `id-${kind}`, name: kind, kind })), toolCall: {} }, 99);
  const answer = (decision: 'allow' | 'allow_always' | 'reject' | 'cancelled', ...kinds: string[]) =>
    JSON.stringify(permissionAnswer(options(...kinds), decision));
  assert.match(answer('allow', 'allow_always', 'allow_once'), /id-allow_once/);
  assert.match(answer('allow', 'reject_once', 'allow_always'), /id-allow_always/);
  assert.match(answer('allow_always', 'allow_once', 'allow_always'), /id-allow_always/);
  assert.match(answer('reject', 'allow_once', 'reject_always'), /id-reject_always/);
  assert.equal(answer('allow', 'reject_once'), '{"outcome":{"outcome":"cancelled"}}');
  assert.equal(answer('cancelled', 'allow_once', 'reject_once'), '{"outcome":{"outcome":"cancelled"}}');
});

/** Until nothing moves in memory any more. */
const settle = async (): Promise<void> => {
  for (let turns = 0; turns < 50; turns += 1) await new Promise<void>((resolve) => setImmediate(resolve));
};

/** Reads all messages of these chunks. */
async function framesOf(chunks: readonly Buffer[], maxBytes = 1_000, maxFrameValues = 40) {
  const seen: unknown[] = [];
  let ended = '';
  await new Promise<void>((resolve) => {
    const finish = (how: string) => {
      ended = how;
      resolve();
    };
    const limits = { maxFrameBytes: maxBytes, maxFrameValues, maxOpenRequests: 4 };
    const stream = frameStream(new PassThrough(), Readable.from(chunks, { objectMode: false }), limits, {
      gate: () => undefined,
      onUpdate: (params) => seen.push(params),
      onOther: () => undefined,
      onWrite: async () => undefined,
      onGarbage: () => finish('garbage'),
      onTooLarge: () => finish('too large'),
      onSlow: () => finish('slow'),
      onEnd: (partial) => finish(partial === undefined ? 'end' : 'partial'),
      onStray: () => undefined,
    });
    const reader = stream.readable.getReader();
    void (async () => {
      for (let next = await reader.read(); !next.done; next = await reader.read()) seen.push(next.value);
    })();
  });
  return { seen, ended };
}

test('messages are the same however their bytes are cut into chunks', async () => {
  const update = { sessionId: '1', update: { sessionUpdate: 'x' } };
  const messages = [
    { method: 'a', params: { text: 'äöü→💡' } },
    { method: 'session/update', params: update },
    { id: 1, method: 'c' },
  ];
  const bytes = Buffer.from(messages.map((message) => `${JSON.stringify(message)}\r\n`).join('\n'));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: bytes.length - 1 })), async (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), bytes.length];
      const chunks = at.slice(1).map((end, index) => bytes.subarray(at[index], end));
      assert.deepEqual(await framesOf(chunks), { seen: [messages[0], update, messages[2]], ended: 'end' });
    }),
    { numRuns: 40 },
  );
});

test('a line is taken up to its bound and refused above it, whether or not it has ended', async () => {
  const line = (length: number) => `{"method":"${'x'.repeat(length - 13)}"}`;
  assert.equal((await framesOf([Buffer.from(`${line(100)}\n`)], 100)).ended, 'end');
  assert.equal((await framesOf([Buffer.from(`${line(101)}\n`)], 100)).ended, 'too large');
  assert.equal((await framesOf([Buffer.from('x'.repeat(60)), Buffer.from('x'.repeat(41))], 100)).ended, 'too large');
  assert.equal((await framesOf([Buffer.from('{"method":"a"}\n{"meth')], 100)).ended, 'partial');
  for (const garbage of ['hello', '[]', 'null', '3', '"x"', '{}', '{"jsonrpc":"2.0"}']) {
    assert.equal((await framesOf([Buffer.from(`${garbage}\n`)], 100)).ended, 'garbage', garbage);
  }
});

test('a method or an id that is repeated in an answer is short', async () => {
  const line = (message: object) => Buffer.from(`${JSON.stringify(message)}\n`);
  const long = 'x'.repeat(1_025);
  assert.equal((await framesOf([line({ method: long.slice(1), id: long.slice(1) })], 10_000)).ended, 'end');
  assert.equal((await framesOf([line({ method: long })], 10_000)).ended, 'too large');
  assert.equal((await framesOf([line({ method: 'm', id: long })], 10_000)).ended, 'too large');
  assert.equal((await framesOf([line({ id: long, result: {} })], 10_000)).ended, 'too large');
});

test('no more is asked than is answered, in number and in bytes, whatever the ids', async () => {
  const ask = (id: number | undefined, size: number) => ({ jsonrpc: '2.0', id, method: 'm', params: 'x'.repeat(size) });
  /** How many messages are passed on before and after one answer goes out. */
  const passed = async (messages: readonly object[], maxFrameBytes: number): Promise<number[]> => {
    let seen = 0;
    const stdin = new PassThrough();
    const source = new PassThrough();
    const limits = { maxFrameBytes, maxFrameValues: 40, maxOpenRequests: 4 };
    const stream = frameStream(stdin, source, limits, {
      gate: () => undefined,
      onUpdate: () => undefined,
      onOther: () => void (seen += 1),
      onWrite: async () => undefined,
      onGarbage: (line) => assert.fail(line),
      onTooLarge: (size) => assert.fail(size),
      onSlow: () => assert.fail(),
      onEnd: () => undefined,
      onStray: () => undefined,
    });
    for (const message of messages) source.write(`${JSON.stringify(message)}\n`);
    const reader = stream.readable.getReader();
    void (async () => {
      for (let next = await reader.read(); !next.done; next = await reader.read());
    })();
    await settle();
    const before = seen;
    const writer = stream.writable.getWriter();
    const { id: asked } = messages[0] as { readonly id?: unknown };
    const id = typeof asked === 'number' ? asked : null;
    await writer.write({ jsonrpc: '2.0', id, result: {} });
    await settle();
    return [before, seen];
  };
  const ten = <T>(make: (index: number) => T): T[] => Array.from({ length: 10 }, (_, index) => make(index));
  assert.deepEqual(
    await passed(
      ten((id) => ask(id, 1)),
      1_000,
    ),
    [4, 5],
  );
  assert.deepEqual(
    await passed(
      ten(() => ask(7, 1)),
      1_000,
    ),
    [4, 5],
    'an id that is used again',
  );
  assert.deepEqual(
    await passed(
      ten((id) => ask(id, 600)),
      1_000,
    ),
    [2, 3],
  );
  assert.deepEqual(
    await passed(
      ten(() => ({ method: 'm' })),
      1_000,
    ),
    [4, 5],
    'what the library answers as no message',
  );
  assert.deepEqual(
    await passed(
      ten(() => ({ ...ask(undefined, 1), id: [] })),
      1_000,
    ),
    [4, 5],
    'an id that is none',
  );
  assert.deepEqual(
    await passed(
      ten(() => ask(undefined, 600)),
      1_000,
    ),
    [10, 10],
    'what asks nothing',
  );
});

test('a line that holds very many values is refused before it is parsed, one that holds them in a text is not', async () => {
  const line = (params: unknown) => Buffer.from(`${JSON.stringify({ method: 'a', params })}\n`);
  assert.equal((await framesOf([line([Array.from({ length: 30 }, () => 0)])])).ended, 'end');
  assert.equal((await framesOf([line([Array.from({ length: 60 }, () => 0)])])).ended, 'too large');
  assert.equal((await framesOf([line(['[0,'.repeat(60)])])).ended, 'end');
});

test('a line that nests deeper than what reads it can follow is refused', async () => {
  const line = (levels: number) => Buffer.from(`{"method":"a","params":${'['.repeat(levels)}${']'.repeat(levels)}}\n`);
  assert.equal((await framesOf([line(999)], 100_000, 10_000)).ended, 'end');
  assert.equal((await framesOf([line(1_000)], 100_000, 10_000)).ended, 'too large');
});

test('no secret is read back from stderr, wherever the bound cuts', () => {
  fc.assert(
    fc.property(fc.nat({ max: 60 }), fc.nat({ max: 60 }), fc.nat({ max: 6 }), (before, after, times) => {
      const stream = new PassThrough();
      const tail = new StderrTail(stream, 32);
      tail.hide(['secret-token', 'abc']);
      stream.emit('data', Buffer.from(`${'b'.repeat(before)}${'secret-token'.repeat(times)}${'a'.repeat(after)}`));
      assert.doesNotMatch(tail.read(), /token/);
      assert.ok(tail.read().length <= 32);
      assert.equal(tail.redact('abc'), 'abc', 'a short word is none to be hidden');
    }),
  );
});
