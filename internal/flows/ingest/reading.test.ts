import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import examples from '@octokit/webhooks-examples' with { type: 'json' };
import fc from 'fast-check';
import { readPayload } from '../../core/match/match.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { jsonPieces } from './json-pieces.ts';
import { type LargeResult, largeBounds, type LargeRequest } from './large.ts';
import { type DeliverySource, readHere } from './reading.ts';

const testdata = join(import.meta.dirname, '../../../testdata/events');
const sample = (path: string): JsonObject => JSON.parse(readFileSync(join(testdata, path), 'utf8')) as JsonObject;
const corpus = examples as unknown as readonly { readonly name: string; readonly examples: readonly JsonObject[] }[];

/** Every text that somebody writes so long that nothing of it is read with what stands beside it. */
const swollen = (value: Json): Json =>
  JSON.parse(
    JSON.stringify(value, (key, inner: unknown) =>
      ['body', 'description', 'message', 'text'].includes(key) && typeof inner === 'string'
        ? `${inner} @triage <!-- svc:v=1 ф "\\ \n -->${'long '.repeat(8_000)}`
        : inner,
    ),
  ) as Json;

/** A delivery read by the thread: what it said, and what it made of it. */
class Thread {
  readonly #worker = new Worker(new URL('./large-worker.ts', import.meta.url));
  async ask(order: LargeRequest): Promise<LargeResult> {
    const { promise, resolve, reject } = Promise.withResolvers<LargeResult>();
    this.#worker.once('message', resolve).once('error', reject);
    this.#worker.postMessage(order);
    return promise.finally(() => this.#worker.removeListener('error', reject));
  }
  end = (): Promise<number> => this.#worker.terminate();
}

const text = (payload: string | readonly Uint8Array[]): string =>
  typeof payload === 'string' ? payload : Buffer.concat(payload).toString();

describe('a delivery read in a thread', () => {
  it('says what it says when it is read here', async () => {
    const self = { appId: '7', botLogin: 'svc-app', usernames: ['triage'] };
    const given: (readonly [DeliverySource, JsonObject])[] = corpus.flatMap(({ name, examples: bodies }) =>
      bodies.slice(0, 3).map((body) => [{ provider: 'codehost', event: name, deliveryId: 'd', self }, body] as const),
    );
    for (const name of ['issue-created', 'comment-created', 'issue-labeled-and-moved'])
      given.push([{ provider: 'tracker', nowMs: 0, self: { usernames: ['triage'] } }, sample(`tracker/${name}.json`)]);
    for (const name of ['message-mentioned', 'message-edited', 'reaction-added'])
      given.push([{ provider: 'chat', self: { botUserId: 'U0' } }, sample(`chat/${name}.json`)]);
    const known = new Map<string, string>();
    const thread = new Thread();
    let events = 0;
    for (const [asked, body] of given) {
      const bytes = Buffer.from(JSON.stringify(swollen(body)));
      const here = readHere(asked, bytes, readPayload(bytes.toString()) as JsonObject);
      const there = await thread.ask({ kind: 'read', raw: new Uint8Array(bytes), bounds: largeBounds, asked });
      assert.ok(there.kind === 'said', JSON.stringify(there));
      const { delivery, ...envelope } = here;
      assert.deepEqual(there.envelope, envelope);
      if (delivery.kind !== 'event') {
        assert.deepEqual(there.delivery, delivery);
        continue;
      }
      const { finish, isLarge: _isLarge, ...outline } = delivery as Extract<typeof delivery, { finish: unknown }>;
      assert.deepEqual(there.delivery, outline);
      const [one, other] = [await finish(known), await thread.ask({ kind: 'finish', known })];
      assert.ok(other.kind === 'finished');
      const printed = (of: readonly { readonly payload: string | readonly Uint8Array[] }[]) =>
        of.map((event) => ({ ...event, payload: text(event.payload) }));
      assert.deepEqual(printed(other.events), printed([one.event, ...one.derived]));
      assert.deepEqual(Buffer.from(other.raw), bytes);
      events += 1;
    }
    await thread.end();
    assert.ok(events > 12, `${events}`);
  });

  it('is refused in the same words where it is none', async () => {
    const thread = new Thread();
    const asked: DeliverySource = { provider: 'chat', self: {} };
    const cases: readonly (readonly [string, string | Buffer])[] = [
      ['is not UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
      ['is not JSON', '{"a":'],
      ['is not a JSON object', '[1]'],
      ['is not a JSON object', '123456789012345678901234567890'],
      ['nests over 64 levels', '['.repeat(65)],
      [`holds over ${largeBounds.values} values`, `{"a":[${'0,'.repeat(largeBounds.values)}0]}`],
    ];
    for (const [why, bytes] of cases) {
      const answer = await thread.ask({
        kind: 'read',
        raw: new Uint8Array(Buffer.from(bytes as string)),
        bounds: largeBounds,
        asked,
      });
      assert.deepEqual(answer, { kind: 'refused', why });
    }
    await thread.end();
  });
});

describe('an answer to a question', () => {
  const chat = (text: string, botUserId?: string): readonly [DeliverySource, JsonObject] => [
    { provider: 'chat', self: { botUserId } },
    {
      type: 'event_callback',
      team_id: 'T1',
      event: { type: 'app_mention', user: 'U1', channel: 'C1', ts: '1.1', text },
    },
  ];
  const authorised = (text: string): readonly [DeliverySource, JsonObject] => {
    const [asked, body] = chat(text);
    return [asked, { ...body, authorizations: [{ is_bot: true, user_id: 'UBOT' }] }];
  };
  const code = (body: string, botLogin?: string): readonly [DeliverySource, JsonObject] => [
    { provider: 'codehost', event: 'issue_comment', deliveryId: 'd', self: { botLogin, usernames: ['Triage'] } },
    {
      action: 'created',
      repository: { id: 1, full_name: 'o/r' },
      sender: { id: 5, login: 'ann' },
      issue: { number: 1 },
      comment: { id: 2, body, user: { id: 5, login: 'ann' } },
    },
  ];

  for (const [decision, [asked, body]] of [
    ['allow', chat('allow', 'UBOT')],
    ['allow', chat('<@UBOT> Allow', 'UBOT')],
    ['reject', chat('reject <@UBOT|svc>', 'UBOT')],
    [undefined, chat('<@UBOB> allow', 'UBOT')],
    [undefined, chat('allow <@UBOB>', 'UBOT')],
    [undefined, chat('<@UBOT> <@UBOB> allow', 'UBOT')],
    [undefined, chat('@bob allow', 'UBOT')],
    ['allow', authorised('<@UBOT>: allow')],
    [undefined, authorised('<@UBOB> allow')],
    ['allow', chat('<@UANYBODY> allow')],
    ['allow', code('@svc-app[bot] allow', 'svc-app[bot]')],
    ['allow', code('@Svc-App, allow', 'svc-app')],
    ['reject', code('reject @triage', 'svc-app')],
    [undefined, code('@bob allow', 'svc-app')],
    [undefined, code('allow @svc-app-2', 'svc-app')],
    ['allow', code('@anybody allow')],
  ] as const) {
    it(`is ${decision ?? 'none'}: ${JSON.stringify(body).slice(-180)} to ${JSON.stringify(asked.self)}`, async () => {
      const { delivery } = readHere(asked, Buffer.from(JSON.stringify(body)), body);
      assert.ok(delivery.kind === 'event', JSON.stringify(delivery));
      const { event } = await delivery.finish(new Map());
      assert.equal(event.answer?.decision, decision);
    });
  }
});

describe('JSON in pieces', () => {
  it('is what the language prints', () => {
    const long = fc
      .tuple(fc.string({ unit: 'binary' }), fc.constantFrom(1, 300_000))
      .map(([unit, length]) => unit.repeat(Math.ceil(length / Math.max(1, unit.length))));
    fc.assert(
      fc.property(fc.jsonValue(), fc.string({ unit: 'binary-ascii' }), long, (value, key, one) => {
        const whole = { [key]: value, one, none: undefined, list: [one.slice(0, 5), undefined, '\ud800'] };
        assert.equal(Buffer.concat(jsonPieces(whole)).toString(), JSON.stringify(whole));
      }),
      { numRuns: 8 },
    );
    const many = { list: Array.from({ length: 200_000 }, (_, at) => `é${at}`) };
    assert.equal(Buffer.concat(jsonPieces(many)).toString(), JSON.stringify(many));
  });
});
