// The code host's own examples of its deliveries, through the public door, and what a sender may get wrong about them.

import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import examples from '@octokit/webhooks-examples' with { type: 'json' };
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import type { JsonObject } from '../../domain/json.ts';
import { addConnection, type Delivered, deliver } from './ingest-testkit.ts';

const corpus = examples as unknown as readonly { readonly name: string; readonly examples: readonly JsonObject[] }[];
const secret = 'the secret of the connection';
const sign = (body: string | Buffer, algorithm = 'sha256'): string =>
  createHmac(algorithm, secret).update(body).digest('hex');
/** Keys of deliveries whose name is not that of the event. */
const families: { readonly [event: string]: string } = { issues: 'issue', pull_request_review: 'review' };

describe('deliveries of a code host, as it sends them', () => {
  let daemon: TestDaemon;
  let path = '';
  before(async () => {
    daemon = await startTestDaemon();
    const config = { appId: 7, botLogin: 'svc-app' };
    const id = await addConnection(daemon, {
      provider: 'codehost',
      name: 'hub',
      config,
      credentials: { webhookSecret: secret },
    });
    path = `/api/v1/intake/codehost/${id}`;
  });
  after(() => daemon.stop());

  const send = (
    event: string,
    body: string | Buffer,
    more: { readonly [name: string]: string } = {},
  ): Promise<Delivered> =>
    deliver(daemon, path, body, {
      'content-type': 'application/json',
      'x-github-event': event,
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${sign(body)}`,
      ...more,
    });
  const count = async (): Promise<number> =>
    (await daemon.ctx.db.query<{ n: number }>('select count(*)::int as n from svc.events')).rows[0]?.n ?? -1;
  const shown = async (answer: Delivered) => {
    const { body } = await daemon.api('GET', `P/events/${String(answer.body['eventRecordId'])}`);
    return body as unknown as { key: string; target: { type: string } | null; payload: JsonObject };
  };
  const at = (value: unknown, ...steps: string[]): unknown =>
    steps.reduce((inner, step) => (inner as { [key: string]: unknown } | undefined)?.[step], value);

  for (const { name, examples: bodies } of corpus) {
    it(`${name}: each of ${bodies.length} is recorded once under its key, or ignored with a reason`, async () => {
      for (const body of bodies) {
        const text = JSON.stringify(body);
        const known = await count();
        const delivery = { 'x-github-delivery': randomUUID() };
        const answer = await send(name, text, delivery);
        assert.equal(answer.status, 202, JSON.stringify(answer.body));
        const again = await send(name, text, delivery);
        if (answer.body['ignored'] === true) {
          assert.deepEqual(Object.keys(answer.body).toSorted(), ['ignored', 'reason']);
          assert.match(
            String(answer.body['reason']),
            new RegExp(`^the event ${name}|^no-change$|^other-installation$`),
          );
          assert.deepEqual([again.status, again.body], [202, answer.body]);
          assert.equal(await count(), known);
          continue;
        }
        assert.deepEqual(
          [again.status, again.body['created'], again.body['eventRecordId']],
          [200, false, answer.body['eventRecordId']],
        );
        const { key, payload } = await shown(answer);
        if (name.startsWith('installation')) {
          assert.match(key, /^svc\.connection\./);
          continue;
        }
        assert.ok(key.startsWith(`codehost.${families[name] ?? (name === 'issue_comment' ? 'issue' : name)}`), key);
        assert.deepEqual(at(payload, 'raw'), body);
        assert.equal(at(payload, 'codehost', 'deliveryId'), delivery['x-github-delivery']);
      }
    });
  }

  const example = (name: string, action: string): JsonObject => {
    const found = corpus.find((one) => one.name === name)?.examples.find((one) => one['action'] === action);
    assert.ok(found, `${name} ${action}`);
    return structuredClone(found);
  };

  it('a check says whether the head that it is of is the current one', async () => {
    for (const isCurrent of [true, false]) {
      const body = example('check_run', 'completed');
      const run = body['check_run'] as { head_sha: string; pull_requests: object[] };
      run.pull_requests = [{ number: 5, head: { ref: 'f', sha: isCurrent ? run.head_sha : 'f'.repeat(40) }, base: {} }];
      const { target, payload } = await shown(await send('check_run', JSON.stringify(body)));
      assert.equal(at(payload, 'codehost', 'checkRun', 'headIsCurrent'), isCurrent);
      assert.deepEqual(target, { type: 'codehost.pull_request', key: 'Codertocat/Hello-World#5' });
    }
  });

  const wrong: readonly (readonly [string, number, () => Promise<Delivered>])[] = [
    ['without a signature', 401, () => send('push', '{}', { 'x-hub-signature-256': '' })],
    [
      'with the older signature alone',
      401,
      () => send('push', '{}', { 'x-hub-signature-256': `sha1=${sign('{}', 'sha1')}` }),
    ],
    ['signed without the name of the algorithm', 401, () => send('push', '{}', { 'x-hub-signature-256': sign('{}') })],
    [
      'signed in capital letters',
      401,
      () => send('push', '{}', { 'x-hub-signature-256': `sha256=${sign('{}').toUpperCase()}` }),
    ],
    [
      'signed by an algorithm in capital letters',
      401,
      () => send('push', '{}', { 'x-hub-signature-256': `SHA256=${sign('{}')}` }),
    ],
    [
      'signed over its text in other bytes',
      401,
      () => send('push', '{ }', { 'x-hub-signature-256': `sha256=${sign('{}')}` }),
    ],
    ['of a form', 400, () => send('push', 'payload=%7B%7D')],
    ['of a list', 400, () => send('push', '[]')],
    ['nested too deeply', 400, () => send('push', `{"a":${'['.repeat(64)}${']'.repeat(64)}}`)],
    ['in no text at all', 400, () => send('push', Buffer.from([0x7b, 0xff, 0x7d]))],
    ['without its name', 400, () => send('', '{}')],
    ['without its id', 400, () => send('push', '{}', { 'x-github-delivery': '' })],
    ['of an event without what it is about', 400, () => send('pull_request', '{"action":"opened"}')],
    ['of an event that nobody knows', 202, () => send('__proto__', '{}')],
    ['of a test', 202, () => send('ping', '{"zen":"…","hook_id":1}')],
  ];
  for (const [what, status, post] of wrong) {
    it(`one ${what} is ${status} and leaves nothing`, async () => {
      const known = await count();
      const answer = await post();
      assert.equal(answer.status, status, JSON.stringify(answer.body));
      assert.equal(typeof answer.body[status === 202 ? 'reason' : 'code'], 'string');
      assert.equal(await count(), known);
    });
  }

  it('texts that the database cannot hold are kept as they are', async () => {
    const body = example('issues', 'opened');
    Object.assign(body['issue'] as object, { title: 'a\0b', body: '\ud800 @SVC-App look' });
    const { payload } = await shown(await send('issues', JSON.stringify(body)));
    assert.equal(at(payload, 'codehost', 'issue', 'title'), 'a\0b');
    assert.equal(at(payload, 'codehost', 'issue', 'body'), '\ud800 @SVC-App look');
    assert.equal(at(payload, 'codehost', 'svc', 'mentioned'), true);
  });

  it('a project that is archived takes none, and takes them again afterwards', async () => {
    const text = JSON.stringify(example('issues', 'opened'));
    assert.equal((await daemon.api('PATCH', 'P', { archived: true })).status, 200);
    assert.equal((await send('issues', text)).status, 404);
    assert.equal((await daemon.api('PATCH', 'P', { archived: false })).status, 200);
    assert.equal((await send('issues', text)).status, 202);
  });
});
