import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { createSlugs } from './slugs.ts';

let answer: (response: ServerResponse) => void;
let asked: { path: string | undefined; authorization: string | undefined }[] = [];
const server = createServer((request, response) => {
  asked.push({ path: request.url, authorization: request.headers.authorization });
  answer(response);
});
before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
after(() => {
  server.closeAllConnections();
  server.close();
});

let now = 0;
let unread: unknown;
function slugs(path = '', allowPrivate = true) {
  asked = [];
  const { port } = server.address() as AddressInfo;
  return createSlugs({
    addresses: { 'provider-c': `http://127.0.0.1:${port}${path}` },
    allowPrivate,
    now: () => now,
    unread: (error) => void (unread = error),
  });
}
const json = (body: unknown) => (response: ServerResponse) => void response.end(JSON.stringify(body));
const words = (found: ReadonlySet<string> | undefined) => (found === undefined ? undefined : [...found].toSorted());

test('ids and canonical slugs are what it lists, asked for below its address and without a key', async () => {
  answer = json({
    data: [{ id: 'a/b' }, { id: 'c/d:free', canonical_slug: 'c/d-1' }, { id: 7 }, null, { id: 'plain' }],
  });
  assert.deepEqual(words(await slugs('/api/')()), ['a/b', 'c/d-1', 'c/d:free']);
  assert.deepEqual(asked, [{ path: '/api/v1/models', authorization: undefined }]);
});

const none: { readonly [name: string]: (response: ServerResponse) => void } = {
  'an empty list': json({ data: [] }),
  'no list': json({ data: 'a/b' }),
  null: json(null),
  'what is not JSON': (response) => void response.end('<html>'),
  'another status': (response) => void response.writeHead(404).end('{"data":[{"id":"a/b"}]}'),
  'a redirect': (response) => void response.writeHead(302, { location: '/elsewhere' }).end(),
  'too much': (response) => void response.end(`{"data":[{"id":"a/b"}],"x":"${'x'.repeat(8 * 1024 * 1024)}"}`),
  'an end in the middle': (response) => {
    response.writeHead(200, { 'content-length': 100 });
    response.write('{"data":[');
    setImmediate(() => response.destroy());
  },
  silence: () => undefined,
};
for (const [name, act] of Object.entries(none)) {
  test(`who answers with ${name} lists nothing that is known`, async () => {
    answer = act;
    assert.equal(await slugs()(), undefined);
    assert.equal(asked.length, 1);
  });
}

test('the network rules hold, and why nothing was read is heard', async () => {
  answer = json({ data: [{ id: 'a/b' }] });
  assert.equal(await slugs('', false)(), undefined);
  assert.deepEqual(asked, []);
  assert.match(String(unread), /^UpstreamFailure: The address of provider-c is refused/);
});

test('an answer holds for an hour and is shared; where there was none, the next look is a minute later', async () => {
  answer = json({ data: [{ id: 'a/b' }] });
  const read = slugs();
  assert.deepEqual((await Promise.all([read(), read()])).map(words), [['a/b'], ['a/b']]);
  now += 3_599_999;
  assert.deepEqual(words(await read()), ['a/b']);
  assert.equal(asked.length, 1);
  answer = json({ data: [] });
  now += 1;
  assert.equal(await read(), undefined);
  now += 59_999;
  assert.equal(await read(), undefined);
  assert.equal(asked.length, 2);
  answer = json({ data: [{ id: 'c/d' }] });
  now += 1;
  assert.deepEqual(words(await read()), ['c/d']);
  assert.equal(asked.length, 3);
});
