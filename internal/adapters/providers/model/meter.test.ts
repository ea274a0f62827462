import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createMeter } from './model.ts';

test('a meter keeps of what is told as usage what it reads, however many words there are', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const meter = createMeter('messages', { sse: true, inputTokens: 1 });
  const delta = (usage: object): Buffer => Buffer.from(`data: ${JSON.stringify({ type: 'message_delta', usage })}\n\n`);
  const many = (from: number): object =>
    Object.fromEntries(Array.from({ length: 40_000 }, (_, at) => [`key_${from}_${at}`, 0]));
  meter.push(delta({ input_tokens: 7, output_tokens: 3, server_tool_use: { web_search_requests: 2 } }));
  collect();
  const before = process.memoryUsage().heapUsed;
  for (let at = 0; at < 4; at += 1) meter.push(delta({ ...many(at), output_tokens: 4 + at }));
  collect();
  const keptMb = (process.memoryUsage().heapUsed - before) / 1_048_576;
  const { usage } = meter.end();
  assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usage?.webSearches], [7, 7, 2]);
  assert.ok(keptMb < 3, `${keptMb} MB are kept`);
});

test('empty lines are neither joined nor parsed: a stream may hold nothing else', (t) => {
  const joined = t.mock.method(Buffer, 'concat');
  const read = t.mock.method(JSON, 'parse');
  for (const sse of [true, false]) {
    const meter = createMeter('messages', { sse, inputTokens: 1 });
    meter.push(Buffer.from(' '.repeat(1_048_577)));
    const before = joined.mock.callCount() + read.mock.callCount();
    meter.push(Buffer.from('\n'.repeat(1_000)));
    const cost = joined.mock.callCount() + read.mock.callCount() - before;
    assert.ok(cost < 5, `${cost} calls for 1,000 empty lines`);
  }
});

test('a line of very many values, or that is no object, never becomes values; its usage is found at its end', (t) => {
  const many = (value: string): string => `${value},`.repeat(60_000);
  const cases: readonly (readonly [boolean, string])[] = [
    ...['[]', '{}', '"a"'].map(
      (value) => [true, `data: {"type":"x","a":[${many(value)}0],"usage":{"input_tokens":7}}`] as const,
    ),
    [true, 'data:x'],
    [true, 'data:\r'],
    [false, `{"a":[${many('[]')}0],"usage":{"input_tokens":7}}`],
    [false, `${'{x\n'.repeat(400_000)}"usage":{"input_tokens":7}`],
  ];
  for (const [sse, line] of cases) {
    const read = t.mock.method(JSON, 'parse');
    const meter = createMeter('messages', { sse, inputTokens: 1 });
    meter.push(Buffer.from(`${line}\n\n`));
    const { usage } = meter.end();
    const texts = read.mock.calls.map(({ arguments: [text] }) => text);
    read.mock.restore();
    assert.equal(usage?.inputTokens, line.includes('usage') ? 7 : 1, line.slice(0, 40));
    assert.deepEqual(texts, line.includes('usage') ? ['{"input_tokens":7}'] : [], line.slice(0, 40));
  }
});

test('a stream tells its usage however its lines are framed', () => {
  const told = { input_tokens: 70, output_tokens: 30 };
  const events = [
    { type: 'response.created', response: { id: 'r' } },
    { type: 'response.completed', response: { id: 'r', model: 'm', usage: told } },
  ];
  const framed = (data: (text: string) => string, end: string): string =>
    events.map((one) => `event: ${one.type}${end}${data(JSON.stringify(one))}${end}${end}`).join('');
  const plain = (text: string): string => `data: ${text}`;
  const inLines = (end: string) => (text: string) =>
    JSON.stringify(JSON.parse(text), null, 1)
      .split('\n')
      .map((line) => `data: ${line}`)
      .join(end);
  const cases: readonly (readonly [string, string])[] = [
    ['LF', framed(plain, '\n')],
    ['CRLF', framed(plain, '\r\n')],
    ['CR', framed(plain, '\r')],
    ['several lines', framed(inLines('\n'), '\n')],
    ['several lines, CRLF', framed(inLines('\r\n'), '\r\n')],
    ['no space, and nothing between', events.map((one) => `data:${JSON.stringify(one)}\n`).join('')],
    ['a mark in front, comments between', `\uFEFFdata: {}\n\n: ping\n\n${framed(plain, '\n: x\n')}`],
    ['a broken event before', `data: {"a":\ndata: 1\n\n${framed(plain, '\n')}`],
    ['a broken line before', `data: {"a":\n${framed(plain, '\n')}`],
    ['without its last end', framed(inLines('\n'), '\n').trimEnd()],
  ];
  for (const [how, text] of cases) {
    for (const size of [1, 7, 100_000]) {
      const meter = createMeter('responses', { sse: true, inputTokens: 1 });
      const bytes = Buffer.from(text);
      for (let at = 0; at < bytes.length; at += size) meter.push(bytes.subarray(at, at + size));
      const { usage } = meter.end();
      assert.deepEqual(
        [usage?.inputTokens, usage?.outputTokens, usage?.estimated],
        [70, 30, false],
        `${how} by ${size}`,
      );
    }
  }
});
