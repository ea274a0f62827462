import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AnswerTooLarge, answerJson, boundedBytes, rpcReply } from './answer.ts';

const json = (text: string) => answerJson(Buffer.from(text));

test('the JSON of an answer, and what is none', () => {
  assert.deepEqual(json('{"a":[1,"é"]}'), { a: [1, 'é'] });
  for (const text of ['', '<html>', '{"a":', '[1]]']) assert.equal(json(text), undefined, text);
});

test('an answer of more values, or nested deeper, than one can be is not parsed', () => {
  const levels = (count: number): string => `${'['.repeat(count)}${']'.repeat(count)}`;
  assert.deepEqual(json(`{"a":"${'[,{'.repeat(200_000)}"}`), { a: '[,{'.repeat(200_000) });
  assert.ok(Array.isArray(json(levels(64))));
  assert.equal((json(`[${'0,'.repeat(90_000)}0]`) as unknown[]).length, 90_001);
  for (const text of [levels(65), levels(1_000_000), `[${'0,'.repeat(100_000)}0]`, `{${'"a":{},'.repeat(200_000)}`]) {
    assert.throws(() => json(text), AnswerTooLarge);
  }
});

test('an answer is read up to its bound', async () => {
  const parts = async function* (count: number) {
    for (let at = 0; at < count; at += 1) yield Buffer.from('x');
  };
  assert.equal((await boundedBytes(parts(1_000), 1_000)).toString(), 'x'.repeat(1_000));
  await assert.rejects(boundedBytes(parts(1_001), 1_000), AnswerTooLarge);
});

test('the reply of a tool server is found among the events of its stream', () => {
  const reply = (text: string) => rpcReply(text, 'text/event-stream; charset=utf-8', 1);
  const note = '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"data: x"}}';
  const said = '{"jsonrpc":"2.0","id":1,"result":"a\u2028b"}';
  const found = { jsonrpc: '2.0', id: 1, result: 'a\u2028b' };
  for (const text of [
    `data: ${said}`,
    `event: message\ndata:${said}\n\n`,
    `: ping\n\ndata: ${note}\n\nid: 7\ndata: ${said}\n\n`,
    `data: ${note}\r\n\r\nevent: message\r\ndata: ${said}\r\n\r\n`,
    `data: ${note}\r\rdata: ${said}\r\r`,
    `data: {"jsonrpc":"2.0",\ndata: "id":1,\nid: 7\ndata: "result":"a\u2028b"}\n\n`,
  ]) {
    assert.deepEqual(reply(text), found, JSON.stringify(text));
  }
  assert.equal(reply(`data: ${note}\n\n`), undefined);
  assert.deepEqual(rpcReply(said, 'application/json', 1), found);
  for (const beside of ['data:\n\n'.repeat(1_001), `data: "${'x'.repeat(1_100_000)}"\n\n`]) {
    assert.throws(() => reply(`${beside}data: ${said}\n\n`), AnswerTooLarge);
  }
});
