import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { request } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentWithEndpoint, putSecret } from '../../flows/ingest/ingest-testkit.ts';
import { startHttp } from './http.ts';
import { defineRoute, noContent } from './route.ts';

const secret = 'a secret of the hook';
const signed = (body: string): string => createHmac('sha256', secret).update(body).digest('hex');

interface Got {
  readonly status: number;
  readonly headers: { readonly [name: string]: unknown };
  readonly body: { readonly [key: string]: unknown };
}

describe('the short way and the long way of a delivery', () => {
  let daemon: TestDaemon;
  let path = '';
  before(async () => {
    // Nothing routes beside the test, which deletes an event between two deliveries of it.
    daemon = await startTestDaemon({ config: { roles: ['api'] } });
    await putSecret(daemon, 'HOOK', secret);
    path = await agentWithEndpoint(daemon, 'hook', { kind: 'hmac_sha256', secretRef: 'HOOK' });
  });
  after(() => daemon.stop());

  /** `long`: in chunks, whose length nobody knows before the end, so that the framework takes it. */
  function send(way: 'short' | 'long', to: string, body: string, headers: Record<string, string>): Promise<Got> {
    return new Promise((resolve, reject) => {
      const sending = request(`${daemon.url}${to}`, { method: 'POST', headers }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('end', () => {
          const { date: _date, 'keep-alive': _kept, ...kept } = response.headers;
          resolve({ status: response.statusCode ?? 0, headers: kept, body: JSON.parse(text) as Got['body'] });
        });
      });
      sending.on('error', reject);
      if (way === 'short') sending.setHeader('content-length', Buffer.byteLength(body));
      else sending.setHeader('transfer-encoding', 'chunked');
      sending.write(body.slice(0, 3));
      setImmediate(() => sending.end(body.slice(3)));
    });
  }

  const good = '{"event":"built","dedupKey":"same"}';
  const cases: readonly (readonly [string, number, string, string | undefined, Record<string, string>])[] = [
    ['an event', 202, good, undefined, { 'x-svc-signature-256': signed(good) }],
    ['the same event', 200, good, undefined, { 'x-svc-signature-256': signed(good) }],
    ['a bad signature', 401, good, undefined, { 'x-svc-signature-256': signed(`${good} `) }],
    ['no signature', 401, '{}', undefined, {}],
    ['a body that is none', 400, '[1]', undefined, { 'x-svc-signature-256': signed('[1]') }],
    ['a bad signature of a body that is none', 401, '[1]', undefined, { 'x-svc-signature-256': signed('[2]') }],
    ['a number for a key', 400, '{"dedupKey":1}', undefined, { 'x-svc-signature-256': signed('{"dedupKey":1}') }],
    ['an endpoint that is not there', 404, '{}', '/api/v1/webhook-endpoints/nobody/events', {}],
    ['a name that is none', 404, '{}', '/api/v1/webhook-endpoints/No_body/events', {}],
  ];
  for (const [what, status, body, to, headers] of cases) {
    it(`${what} is answered alike: ${status}`, async () => {
      const named = { ...headers, 'x-request-id': 'the-same' };
      // The first of a key is created, whichever way it came: each way gets one of its own.
      const short = await send('short', to ?? path, body, named);
      if (status === 202) await daemon.ctx.db.query('delete from svc.events');
      const long = await send('long', to ?? path, body, named);
      // Routing may end between the two; where it stands is compared only where it cannot have begun.
      const plain = ({ eventRecordId: _id, routerStatus, ...rest }: Got['body']): unknown =>
        status === 202 ? { ...rest, routerStatus } : { ...rest, routed: typeof routerStatus };
      const sized = ({ 'content-length': _size, ...rest }: Got['headers']): unknown => rest;
      assert.equal(short.status, status);
      assert.deepEqual([short.status, plain(short.body)], [long.status, plain(long.body)]);
      assert.deepEqual(sized(short.headers), sized(long.headers));
      if (status === 401) assert.match(String(short.body['detail']), /missing or wrong.*x-svc-signature-256/);
      assert.equal(short.headers['x-request-id'], 'the-same');
      assert.equal(short.headers['access-control-allow-origin'], '*');
    });
  }

  it('gives every request an id, and counts it', async () => {
    const [one, other] = [await send('short', path, '{}', {}), await send('short', path, '{}', {})];
    assert.match(String(one.headers['x-request-id']), /^[0-9a-f-]{36}$/);
    assert.notEqual(one.headers['x-request-id'], other.headers['x-request-id']);
    const metrics = await (await fetch(`${daemon.url}/metrics`)).text();
    const line = /svc_http_request_seconds_count\{route="\/api\/v1\/webhook-endpoints[^}]*status="401"\} (\d+)/.exec(
      metrics,
    );
    assert.ok(Number(line?.[1]) >= 2, metrics);
  });

  it('the long way asks the database as one call from the beginning to the answer', async () => {
    const asked: unknown[] = [];
    const route = defineRoute({
      ...{ method: 'POST', path: '/t/one', summary: 'test', answers: { 204: null } },
      ...{ scope: 'public', permission: null },
      admit: ({ db }) => {
        asked.push(db);
        return () => undefined;
      },
      handle: async ({ ctx }) => {
        asked.push(ctx.db);
        return noContent;
      },
    });
    const each = () => ({ ...daemon.ctx, db: daemon.ctx.db.oneCall() });
    const listen = { host: '127.0.0.1', port: 0 };
    const server = await startHttp(each, { routes: [route], readiness: [], listen });
    try {
      for (let n = 0; n < 2; n += 1) assert.equal((await fetch(`${server.url}/t/one`, { method: 'POST' })).status, 204);
    } finally {
      await server.stop();
    }
    const [first, second, third, fourth] = asked;
    assert.ok(first === second && third === fourth && first !== third);
  });

  it('has those who say that much comes, and send next to nothing, give their room to who sends', async () => {
    const { hostname, port } = new URL(daemon.url);
    const open = await agentWithEndpoint(daemon, 'idled', { kind: 'none' });
    const idle = [open, '/api/v1/webhook-endpoints/nobodys-0123456789/events', `${open}?`].map((to) =>
      Array.from({ length: 260 }, () => {
        const socket = connect(Number(port), hostname).on('error', () => undefined);
        socket.write(`POST ${to} HTTP/1.1\r\nhost: x\r\ncontent-length: 1048576\r\n\r\n{"a":`);
        let heard = '';
        socket.on('data', (part) => (heard += part.toString('latin1')));
        return { socket, heard: () => heard };
      }),
    );
    const all = idle.flat();
    try {
      // The last ones have room when those before them were told.
      while (all.filter(({ heard }) => heard() !== '').length < all.length - 256) await sleep(10);
      for (const { heard } of all) assert.match(heard() || 'HTTP/1.1 503 ', /^HTTP\/1\.1 503 /);
      for (let times = 0; times < 3; times += 1) {
        const answer = await fetch(`${daemon.url}${open}`, { method: 'POST', body: '{"quick": true}' });
        assert.equal(answer.status, 202, await answer.text());
      }
    } finally {
      for (const { socket } of all) socket.destroy();
    }
  });

  it('gives the room of a body back when its sender goes away', async () => {
    const { ingest } = daemon.ctx;
    for (let n = 0; n < 50; n += 1) {
      await new Promise<void>((resolve) => {
        const sending = request(`${daemon.url}${path}`, { method: 'POST', headers: { 'content-length': '1000' } });
        sending.on('error', () => resolve());
        sending.write('{');
        setTimeout(() => sending.destroy(new Error('gone')), 5);
      });
    }
    // 256 MiB of room: all of it is there again, in bodies of the largest size.
    let releases: (() => void)[] = [];
    for (let tries = 0; tries < 6_000 && releases.length < 256; tries += 1) {
      for (const release of releases) release();
      releases = [];
      await new Promise((resolve) => setTimeout(resolve, 10));
      try {
        while (releases.length < 256) releases.push(ingest?.admit(1_048_576) ?? (() => undefined));
      } catch {
        // Not yet.
      }
    }
    assert.equal(releases.length, 256);
    for (const release of releases) release();
  });
});
