import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelSpec } from '../../../domain/spec.ts';
import { BodyProblem, type Endpoint, prepareBody, type Shortened, shorten } from './model.ts';

const messages: Endpoint = { kind: 'metered', wire: 'messages', hasBody: true };
const declared: ModelSpec = { provider: 'provider-a', id: 'm', fallbacks: [{ id: 'n', provider: 'provider-a' }] };
const whole = (body: Buffer): Shortened => ({ body, prefix: 'none:', texts: [] });

test('a large one goes on with its long texts as they came, and is bound like any other', async () => {
  const long = (unit: string): string => unit.repeat(Math.ceil(1_100 / unit.length));
  const texts = ['x', 'é😀', '"\\\n', '\u0001', '</', '\ud800'].map(long);
  const body = {
    model: long('dear'),
    service_tier: long('flex'),
    messages: texts.map((text) => ({ role: 'user', content: [{ type: 'text', text }, text] })),
    tools: [
      { type: `mcp${long('x')}`, url: 'u' },
      { name: 'fine', description: long('d') },
    ],
    system: 's'.repeat(1_100_000),
    stop_sequences: [long('stop')],
    metadata: { data: 'D'.repeat(5_000) },
  };
  const raw = Buffer.from(JSON.stringify(body));
  const taken = await shorten(raw);
  assert.ok(taken.body.length < 12_000 && taken.texts.length === 17, `${taken.body.length} ${taken.texts.length}`);
  const [large, small] = [taken, whole(raw)].map((sent) => prepareBody(messages, declared, sent));
  assert.deepEqual(JSON.parse(String(large?.bodyFor('n'))), JSON.parse(String(small?.bodyFor('n'))));
  assert.equal(JSON.parse(String(large?.bodyFor('m'))).tools.length, 1);
  const [counted = 0, exact = 0] = [large?.inputTokens, small?.inputTokens];
  assert.ok(counted >= exact && counted < exact * 1.05, `${counted} ${exact}`);
});

test('what stands in a long text that JSON does not know is refused', async () => {
  const padding = 'p'.repeat(1_100_000);
  for (const bad of ['\\x', '\\u12', '\\u12g4', '\n', '\u0001']) {
    const raw = Buffer.from(`{"system":"${padding}${bad}${padding}"}`);
    await assert.rejects(shorten(raw), BodyProblem, JSON.stringify(bad));
  }
  await assert.rejects(shorten(Buffer.from(`{"system":"${padding}`)), BodyProblem);
  await assert.rejects(
    shorten(Buffer.concat([Buffer.from(`{"system":"${padding}`), Buffer.from([0xff, 0x22, 0x7d])])),
    BodyProblem,
  );
  await assert.rejects(shorten(Buffer.from(`{"a":[${'"short",'.repeat(2_200_000)}0]}`)), BodyProblem);
});
