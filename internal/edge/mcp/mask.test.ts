import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { isWithin } from '../../base/testkit/parsing.ts';
import { maskStream } from './mask.ts';

const passed = (chunks: readonly Buffer[], secret: string): Promise<string> =>
  text(Readable.from(chunks).pipe(maskStream(secret, undefined)));

test('an answer that repeats itself as the credential does is passed on in a time that grows with its bytes alone', async () => {
  const secret = `${'a'.repeat(16_384)}b`;
  const chunk = Buffer.alloc(65_536, 'a');
  const since = performance.now();
  const given = await passed([chunk, chunk, chunk, Buffer.from('b!')], secret);
  const ms = performance.now() - since;
  assert.equal(given, `${'a'.repeat(3 * chunk.length - 16_384)}***!`);
  assert.ok(isWithin(ms, 1_000), `it took ${Math.round(ms)} ms`);
});

test('the credential is found in every spelling of JSON, wherever the chunks of an answer end', async () => {
  for (const [secret, said, shown] of [
    ['aab', 'aaab aa\\u0062 \\u0061aB \\a\\ab', 'a*** *** \\u0061aB ***'],
    ['aab', '\\\\\\aab \\u006 aab \\u\\u0061ab \\uaab', '\\\\*** \\u006 *** \\u*** \\u***'],
    ['a\\"b', 'a\\"b a\\\\\\"b a\\\\"b "a\\u005c\\"b" a\\', '*** *** *** "***" a\\'],
    ['abab', 'abababab aba', '****** aba'],
  ] as const) {
    for (let size = 1; size <= said.length; size += 1) {
      const chunks = Array.from({ length: Math.ceil(said.length / size) }, (_, at) =>
        Buffer.from(said.slice(at * size, (at + 1) * size)),
      );
      assert.equal(await passed(chunks, secret), shown, `in chunks of ${size}`);
    }
  }
});
