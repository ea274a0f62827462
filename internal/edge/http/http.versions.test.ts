// Of two who change what both have read, one is told: ETag of a read, If-Match of a change, and 412 where it has changed since.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'], allowPrivateNetwork: true } });
});
after(() => daemon?.stop());

const call = (method: string, path: string, body?: unknown, headers: { readonly [name: string]: string } = {}) =>
  daemon.api(method, path, body, { headers });
const tagOf = async (path: string): Promise<string> => {
  const { status, headers } = await call('GET', path);
  assert.equal(status, 200);
  const tag = headers.get('etag') ?? '';
  assert.match(tag, /^"[^"]+"$/);
  return tag;
};
const codeOf = ({ status, body }: Awaited<ReturnType<typeof call>>) => [status, body?.['code']];
const stale = [412, 'precondition-failed'];

test('a repository changes for one of two who have read the same', async () => {
  const made = await call('POST', 'P/repositories', { name: 'one', url: 'https://127.0.0.1:1/a.git', suspended: true });
  assert.equal(made.status, 201);
  const tag = await tagOf('P/repositories/one');
  const both = await Promise.all(
    [120, 180].map((intervalSeconds) => call('PATCH', 'P/repositories/one', { intervalSeconds }, { 'if-match': tag })),
  );
  assert.deepEqual(
    both.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 412],
  );
  const winner = both.find(({ status }) => status === 200);
  assert.equal(await tagOf('P/repositories/one'), winner?.headers.get('etag'));
  assert.deepEqual(codeOf(await call('DELETE', 'P/repositories/one', undefined, { 'if-match': tag })), stale);
  const several = `"0", ${await tagOf('P/repositories/one')}`;
  assert.equal((await call('PATCH', 'P/repositories/one', { branch: 'main' }, { 'if-match': several })).status, 200);
  const weak = `W/${await tagOf('P/repositories/one')}`;
  assert.deepEqual(codeOf(await call('DELETE', 'P/repositories/one', undefined, { 'if-match': weak })), stale);
  assert.equal((await call('DELETE', 'P/repositories/one', undefined, { 'if-match': '*' })).status, 204);
});

test('every act on a repository is done for one of two who have read the same, and is looked at on the same terms', async () => {
  const path = 'P/repositories/two';
  const settings = { name: 'two', url: 'https://127.0.0.1:1/a.git', suspended: true };
  const made = await call('POST', 'P/repositories', settings);
  assert.deepEqual([made.status, made.headers.get('etag')], [201, await tagOf(path)]);
  const old = await tagOf(path);
  const resumed = await call('POST', `${path}/resume`, undefined, { 'if-match': old });
  assert.deepEqual([resumed.status, resumed.headers.get('etag')], [200, await tagOf(path)]);
  assert.notEqual(await tagOf(path), old);
  const commit = 'a'.repeat(40);
  for (const [act, body] of [
    ['suspend', {}],
    ['resume', undefined],
    ['pin', { commit }],
    ['unpin', {}],
    ['rollback', { commit }],
    ['release', {}],
    ['approve', { reconcileId: '00000000-0000-4000-8000-000000000000' }],
    ['pin?dryRun=true', { commit }],
    ['rollback?dryRun=true', { commit }],
  ] as const)
    assert.deepEqual(codeOf(await call('POST', `${path}/${act}`, body, { 'if-match': old })), stale, act);
  assert.deepEqual(codeOf(await call('DELETE', `${path}?dryRun=true`, undefined, { 'if-match': old })), stale);
  const read = await tagOf(path);
  assert.equal((await call('DELETE', `${path}?dryRun=true`, undefined, { 'if-match': read })).status, 200);
  assert.equal((await call('POST', `${path}/pin`, { commit }, { 'if-match': read })).status, 202);
  assert.deepEqual(codeOf(await call('POST', `${path}/unpin`, {}, { 'if-match': read })), stale);
});

test('a thing of the same name that was made anew is another one', async () => {
  const settings = { name: 'again', url: 'https://127.0.0.1:1/a.git', suspended: true };
  assert.equal((await call('POST', 'P/repositories', settings)).status, 201);
  const repository = await tagOf('P/repositories/again');
  assert.equal((await call('DELETE', 'P/repositories/again')).status, 204);
  assert.equal((await call('POST', 'P/repositories', settings)).status, 201);
  assert.deepEqual(codeOf(await call('DELETE', 'P/repositories/again', undefined, { 'if-match': repository })), stale);
  const content = 'name: again\nharness: harness-a\nenvironment: { name: e2, image: { kind: preset, name: base } }\n';
  const files = { files: [{ path: '.svc/agents/again.yaml', content }], prune: false };
  assert.equal((await call('POST', 'P/apply', files)).status, 200);
  const agent = await tagOf('P/agents/again');
  assert.equal((await call('DELETE', 'P/agents/again')).status, 204);
  assert.equal((await call('POST', 'P/apply', files)).status, 200);
  assert.deepEqual(codeOf(await call('DELETE', 'P/agents/again', undefined, { 'if-match': agent })), stale);
});

test('a secret is made once, and written over by whoever read it last', async () => {
  for (const base of ['P/secrets', '/api/v1/orgs/default/secrets']) {
    const path = `${base}/token`;
    assert.deepEqual(codeOf(await call('PUT', path, { value: 'a' }, { 'if-match': '*' })), stale);
    const once = { 'if-none-match': '*' };
    const made = await call('PUT', path, { value: 'a', protected: false }, once);
    assert.deepEqual([made.status, made.headers.get('etag')], [201, await tagOf(path)]);
    assert.deepEqual(codeOf(await call('PUT', path, { value: 'b' }, once)), stale);
    const tag = await tagOf(path);
    assert.equal((await call('POST', `${path}/reveal`)).body['value'], 'a');
    assert.equal(await tagOf(path), tag, 'that it was used is no change');
    const changed = await call('PATCH', path, { description: 'x' }, { 'if-match': tag });
    assert.equal(changed.status, 200);
    for (const [method, at, body] of [
      ['PATCH', path, { description: 'y' }],
      ['PUT', path, { value: 'c' }],
      ['POST', `${path}/rotate`, { value: 'c' }],
      ['DELETE', path, undefined],
      ['DELETE', `${path}?dryRun=true`, undefined],
    ] as const) {
      assert.deepEqual(codeOf(await call(method, at, body, { 'if-match': tag })), stale, `${method} ${at}`);
    }
    assert.equal((await call('POST', `${path}/reveal`)).body['value'], 'a');
    assert.equal((await call('DELETE', path, undefined, { 'if-match': await tagOf(path) })).status, 204);
  }
});

test('a secret that many ask to make at once is made by one of them', async () => {
  for (let round = 0; round < 5; round += 1) {
    const path = `P/secrets/once-${round}`;
    const once = { 'if-none-match': '*' };
    const make = (value: string) => call('PUT', path, { value, protected: false }, once);
    const values = Array.from({ length: 20 }, (_, at) => `v${at}`);
    const answers = await Promise.all(values.map(make));
    const made = values.filter((_, at) => answers[at]?.status === 201);
    const refused = answers.filter(({ status }) => status !== 201).map(codeOf);
    assert.deepEqual(
      refused,
      Array.from({ length: 19 }, () => stale),
    );
    assert.deepEqual([(await call('POST', `${path}/reveal`)).body['value']], made);
  }
});

test('changes of a secret in the same moment have a version each', async () => {
  const path = 'P/secrets/busy';
  assert.equal((await call('PUT', path, { value: 'a' })).status, 201);
  const changes = Array.from({ length: 30 }, (_, at) =>
    at % 3 === 0 ? call('PUT', path, { value: `v${at}` }) : call('PATCH', path, { description: `d${at}` }),
  );
  const answers = await Promise.all(changes);
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(new Set(answers.map(({ headers }) => headers.get('etag'))).size, answers.length);
  const last = answers.map(({ headers }) => headers.get('etag'));
  assert.ok(last.includes(await tagOf(path)));
});

test('an agent that was applied again is not deleted by who read it before', async () => {
  const files = (prompt: string) => ({
    files: [
      {
        path: '.svc/agents/a.yaml',
        content: `name: a\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }\nsystemPrompt: ${prompt}\n`,
      },
    ],
  });
  assert.equal((await call('POST', 'P/apply', files('one'))).status, 200);
  const tag = await tagOf('P/agents/a');
  assert.equal((await call('POST', 'P/apply', files('two'))).status, 200);
  for (const path of ['P/agents/a', 'P/agents/a?dryRun=true'])
    assert.deepEqual(codeOf(await call('DELETE', path, undefined, { 'if-match': tag })), stale);
  assert.equal((await call('DELETE', 'P/agents/a', undefined, { 'if-match': await tagOf('P/agents/a') })).status, 204);
});

test('the description tells the headers and the answer', async () => {
  const { body } = await call('GET', '/api/v1/openapi.json');
  const path = body['paths']?.['/api/v1/orgs/{org}/projects/{project}/repositories/{name}'];
  const names = [...Array(4).keys()].map((n) => String(path?.['patch']?.['parameters']?.[n]?.['name']));
  assert.ok(names.includes('if-match'), names.join(' '));
  assert.ok(path?.['patch']?.['responses']?.['412'] !== undefined);
  assert.ok(path?.['get']?.['responses']?.['200']?.['headers']?.['ETag'] !== undefined);
  assert.equal(path?.['delete']?.['responses']?.['200']?.['headers'], undefined, 'what would follow has no version');
});
