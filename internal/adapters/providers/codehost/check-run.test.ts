import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { type CheckRun, type CheckRunError, putCheckRun } from './codehost.ts';

interface Asked {
  readonly call: string;
  readonly body: { readonly [field: string]: unknown } | undefined;
}
let asked: Asked[] = [];
/** What the provider answers, by method and the path's last word; otherwise that it is done. */
let answers: { readonly [call: string]: readonly [status: number, body: string, headers?: Record<string, string>] } =
  {};
let server: Server;
let apiUrl: string;
before(async () => {
  server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const text = Buffer.concat(chunks).toString();
      asked.push({
        call: `${incoming.method} ${incoming.url}`,
        body: text === '' ? undefined : (JSON.parse(text) as Asked['body']),
      });
      assert.equal(incoming.headers.authorization, 'Bearer secret-token');
      const [status, body, headers = {}] = answers[incoming.method ?? ''] ?? [200, '{"id":7,"check_runs":[]}'];
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  apiUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => server.close());
beforeEach(() => {
  asked = [];
  answers = {};
});

const run = (more: Partial<CheckRun> = {}): CheckRun => ({
  apiUrl,
  token: 'secret-token',
  repository: 'acme/site',
  commit: 'abc',
  id: 'own-1',
  externalId: null,
  name: 'Lint & more',
  state: 'queued',
  conclusion: null,
  title: 'Lint',
  summary: 'Reads',
  allowPrivate: true,
  ...more,
});
const output = { title: 'Lint', summary: 'Reads' };
const calls = (): string[] => asked.map((one) => one.call);
const runs = '/repos/acme/site/check-runs';

test('a check that the provider does not know is made on the head, with the id that finds it again', async () => {
  assert.equal(await putCheckRun(run()), '7');
  assert.deepEqual(calls(), [
    'GET /repos/acme/site/commits/abc/check-runs?check_name=Lint+%26+more&filter=all&per_page=100',
    `POST ${runs}`,
  ]);
  assert.deepEqual(asked[1]?.body, {
    name: 'Lint & more',
    head_sha: 'abc',
    status: 'queued',
    external_id: 'own-1',
    output,
  });
});

test('one whose making was never answered is found and changed, not made again', async () => {
  answers = { GET: [200, '{"check_runs":[{"id":8,"external_id":"other"},{"id":9,"external_id":"own-1"}]}'] };
  assert.equal(await putCheckRun(run({ state: 'in_progress' })), '9');
  assert.deepEqual(calls().slice(1), [`PATCH ${runs}/9`]);
  assert.deepEqual(asked[1]?.body, { status: 'in_progress', external_id: 'own-1', output });
});

test('a known one is concluded', async () => {
  for (const conclusion of ['success', 'failure', 'skipped'] as const) {
    assert.equal(await putCheckRun(run({ externalId: '5', state: 'concluded', conclusion })), '5');
    assert.deepEqual(asked.pop(), {
      call: `PATCH ${runs}/5`,
      body: { status: 'completed', conclusion, external_id: 'own-1', output },
    });
  }
});

test('one that is dropped is cancelled, unless it is concluded there', async () => {
  const dropped = run({ externalId: '5', state: 'dropped' });
  answers = { GET: [200, '{"id":5,"status":"completed","conclusion":"success"}'] };
  assert.equal(await putCheckRun(dropped), '5');
  assert.deepEqual(calls(), [`GET ${runs}/5`]);
  answers = { GET: [200, '{"id":5,"status":"queued"}'] };
  await putCheckRun(dropped);
  assert.equal(asked.at(-1)?.body?.['conclusion'], 'cancelled');
});

test('a refusal names its status and no secret; only a making without a clear answer is unknown', async () => {
  const refused = async (input: CheckRun): Promise<CheckRunError> => {
    const error = await putCheckRun(input).then(
      () => assert.fail('it was taken'),
      (reason: CheckRunError) => reason,
    );
    assert.doesNotMatch(error.message, /secret-token/);
    return error;
  };
  const known = run({ externalId: '5' });
  const cases = [
    [run(), { POST: [422, '{}'] }, 422, undefined],
    [run(), { POST: [502, 'x'] }, 502, true],
    [run(), { POST: [201, 'no JSON'] }, undefined, true],
    [run(), { POST: [201, '{}'] }, undefined, true],
    [run(), { GET: [500, ''] }, 500, undefined],
    [known, { PATCH: [404, '{}'] }, 404, undefined],
    [known, { PATCH: [503, '{}'] }, 503, undefined],
    [known, { PATCH: [403, '{}'] }, 403, undefined],
    [known, { PATCH: [403, '{}', { 'x-ratelimit-remaining': '0' }] }, 429, undefined],
  ] as const;
  for (const [input, given, status, isUnknown] of cases) {
    answers = given;
    const error = await refused(input);
    assert.deepEqual([error.status, error.isUnknown], [status, isUnknown], JSON.stringify(given));
  }
  const nobody = await refused(run({ apiUrl: 'http://127.0.0.1:1' }));
  assert.deepEqual([nobody.status, nobody.isUnknown], [undefined, undefined]);
  await assert.rejects(putCheckRun(run({ allowPrivate: false })), /is not a public https address/);
});
