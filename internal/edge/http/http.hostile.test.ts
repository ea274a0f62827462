import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { Agent, request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { startHttp } from './http.ts';

let daemon: TestDaemon;
let skewMs = 0;
before(async () => {
  daemon = await startTestDaemon({ runtime: { now: () => new Date(Date.now() + skewMs) } });
});
after(() => daemon.stop());

/** Sends bytes as they are; answers with the status line's code. */
const raw = async (text: string): Promise<number> => {
  const { hostname, port } = new URL(daemon.url);
  const socket = connect(Number(port), hostname);
  let answer = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (answer += chunk));
  socket.write(Buffer.from(text, 'latin1'));
  await new Promise((resolve) => socket.once('close', resolve));
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]);
};

const endpointSpec = (name: string, auth: object) => ({
  name,
  harness: 'harness-a',
  environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
  triggers: [{ event: 'webhook.received', endpoint: name, auth, routing: { kind: 'spawn' } }],
});

describe('requests that say what they should not', () => {
  it('a Host or an Authorization that is said twice is refused', async () => {
    const right = `authorization: Bearer ${daemon.token}\r\n`;
    const get = (headers: string) => raw(`GET /api/v1/me HTTP/1.1\r\n${headers}connection: close\r\n\r\n`);
    assert.equal(await get(`host: x\r\n${right}`), 200);
    assert.equal(await get(`host: x\r\nHOST: x\r\n${right}`), 400);
    assert.equal(await get(`host: x\r\n${right}Authorization: Bearer other\r\n`), 400);
    const post = (headers: string) =>
      raw(
        `POST /api/v1/webhook-endpoints/none/events HTTP/1.1\r\n${headers}content-length: 2\r\nconnection: close\r\n\r\n{}`,
      );
    assert.equal(await post('host: x\r\n'), 404);
    assert.equal(await post('host: x\r\nhost: y\r\n'), 400);
  });

  it('a body in parts of a byte each is taken as one, and refused where it is too large', async () => {
    const inParts = (path: string, text: string, whole = '') => {
      const first = whole === '' ? '' : `${whole.length.toString(16)}\r\n${whole}\r\n`;
      const parts = first + [...text].map((sign) => `1\r\n${sign}\r\n`).join('');
      const head = `host: x\r\nauthorization: Bearer ${daemon.token}\r\ntransfer-encoding: chunked\r\nconnection: close`;
      return raw(`POST ${path} HTTP/1.1\r\n${head}\r\n\r\n${parts}0\r\n\r\n`);
    };
    const project = '/api/v1/orgs/default/projects/default';
    const files = [
      { path: '.svc/agents/a.yaml', content: JSON.stringify({ ...endpointSpec('a', { kind: 'none' }), name: 'a' }) },
    ];
    assert.equal(await inParts(`${project}/apply`, JSON.stringify({ files, dryRun: true, prune: false })), 200);
    assert.equal(await inParts(`${project}/apply`, '{"files":'), 400);
    // What comes before is one part: a million of them take a slow machine longer than a request may.
    const [most, before] = [1_048_576, 1_000_000];
    const over = ' '.repeat(most - before + 64);
    assert.equal(await inParts(`${project}/agents/none/sessions`, over, ' '.repeat(before)), 413);
  });

  it('whatever no endpoint is called is not found', async () => {
    const long = 'a'.repeat(10_000);
    for (const slug of ['none', long, '%00', '%', '%ff', 'caf\u00e9', '..%2f', 'a b'.replace(' ', '%20'), '%zz', '']) {
      const send = (method: string, tail: string) => {
        const head = 'host: x\r\ncontent-length: 2\r\nconnection: close';
        return raw(`${method} /api/v1/webhook-endpoints/${slug}${tail} HTTP/1.1\r\n${head}\r\n\r\n{}`);
      };
      assert.equal(await send('POST', '/events'), 404, slug.slice(0, 20));
      for (const tail of ['', '/', '/events/', '/events/x', '/%']) {
        for (const method of ['POST', 'GET']) assert.equal(await send(method, tail), 404, `${method} ${tail}`);
      }
      // What could be a name is told which method it would have.
      for (const method of ['GET', 'PUT', 'DELETE']) {
        assert.ok([404, 405].includes(await send(method, '/events')), `${method} ${slug.slice(0, 20)}`);
      }
    }
  });

  it('a body that is no object is 400 whatever its value, behind its proof', async () => {
    const auth = { kind: 'hmac_sha256', secretRef: 'hook' };
    await daemon.api('PUT', 'P/secrets/hook', { value: 'key' });
    const files = [
      { path: '.svc/agents/open.yaml', content: JSON.stringify(endpointSpec('open', { kind: 'none' })) },
      { path: '.svc/agents/shut.yaml', content: JSON.stringify(endpointSpec('shut', auth)) },
    ];
    const applied = await daemon.api('POST', 'P/apply', { files });
    assert.equal(applied.status, 200, JSON.stringify(applied.body));
    const urls = (applied.body['webhooks'] as unknown as { endpoint: string; ingestUrl: string }[]).map(
      (one) => [one.endpoint, `${daemon.url}${new URL(one.ingestUrl).pathname}`] as const,
    );
    const { open = '', shut = '' } = Object.fromEntries(urls);
    for (const body of [
      '-123123123123123123123123123123',
      '0.4e00669999999999999999',
      '1e400',
      '7',
      '[]',
      'null',
      '"a"',
    ]) {
      assert.equal((await fetch(open, { method: 'POST', body })).status, 400, body);
      assert.equal((await fetch(shut, { method: 'POST', body })).status, 401, body);
      const digest = createHmac('sha256', 'key').update(body).digest('hex');
      const signed = (value: string) =>
        fetch(shut, { method: 'POST', body, headers: { 'x-svc-signature-256': value } });
      assert.equal((await signed(`sha256=${digest}`)).status, 400, body);
      assert.equal((await signed(`SHA256=${digest}`)).status, 401, body);
      assert.equal((await daemon.api('POST', 'P/triggers/explain', JSON.parse('{}'))).status, 400);
    }
    const explain = await fetch(`${daemon.url}/api/v1/orgs/default/projects/default/triggers/explain`, {
      method: 'POST',
      headers: { authorization: `Bearer ${daemon.token}`, 'content-type': 'application/json' },
      body: '123123123123123123123123',
    });
    assert.equal(explain.status, 400);
  });

  it('text that the database cannot keep as it is is refused by its field, and nothing is done', async () => {
    const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q';
    const repository = { name: 'odd', path: '/srv/none' };
    const apply = { files: [{ path: '.svc/agents/a.yaml', content: 'name: default' }] };
    const receiver = { name: 'odd', kind: 'webhook' };
    const chat = { provider: 'chat', name: 'chat', credentials: { signingSecret: 'sign' } };
    assert.equal((await daemon.api('POST', 'P/connections', chat)).status, 201);
    for (const half of ['\ud800', '\udc00x', '\0']) {
      for (const [method, path, body] of [
        ['POST', 'P/repositories', { ...repository, path: `/srv/${half}` }],
        ['POST', 'P/repositories', { name: 'odd', url: `https://git.example/${half}` }],
        ['POST', 'P/repositories', { ...repository, branch: half }],
        ['POST', 'P/repositories', { ...repository, root: half }],
        ['POST', 'P/repositories', { ...repository, context: { a: half } }],
        ['POST', 'P/repositories', { ...repository, auth: { kind: 'token', secretRef: 's', username: half } }],
        ['POST', 'P/repositories', { ...repository, verify: { keys: [`${key} ${half}`] } }],
        ['POST', 'P/apply', { ...apply, context: { a: half } }],
        ['PATCH', 'P', { approvers: { chat: [half] } }],
        ['POST', 'P/receivers', { ...receiver, url: `https://told.example/${half}` }],
        ['POST', 'P/receivers', { ...receiver, url: 'https://told.example/', secret: `key ${half}` }],
        ['POST', 'P/receivers', { name: 'odd', kind: 'chat', connection: 'chat', channel: `C1${half}` }],
        ['PUT', 'P/secrets/s', { value: 'v', injection: { hosts: ['a.test'], header: 'x', format: `{value}${half}` } }],
      ] as const) {
        const answer = await daemon.api(method, path, body);
        const told = [answer.status, answer.body['code']];
        assert.deepEqual(told, [400, 'invalid-body'], `${path} ${JSON.stringify(body)}`);
      }
    }
    const failed = await daemon.api('GET', 'P/events?key=svc.project_resource_apply.failed');
    assert.deepEqual(failed.body['items'], []);
  });

  it('what one sender calls its keys does not rename those of the next', async () => {
    const auth = { kind: 'none' };
    const files = [{ path: '.svc/agents/keys.yaml', content: JSON.stringify(endpointSpec('keys', auth)) }];
    const applied = await daemon.api('POST', 'P/apply', { files, prune: false });
    const [{ ingestUrl = '' } = {}] = applied.body['webhooks'] as unknown as { ingestUrl?: string }[];
    const send = (body: string) =>
      fetch(`${daemon.url}${new URL(ingestUrl).pathname}`, { method: 'POST', body }).then((answer) => answer.json());
    // The runtime goes by what it has seen behind a key, where it has seen one thing alone.
    await send(String.raw`{"first":"a","dedup\\u0":"b"}`);
    const sent = Object(await send(String.raw`{"first":"a","dedup\u004bey":"k"}`));
    const { body } = await daemon.api('GET', `P/events/${String(sent.eventRecordId)}`);
    assert.equal(JSON.stringify(body['payload']), '{"first":"a","dedupKey":"k"}');
    assert.equal(Object(await send('{"dedupKey":"k"}')).created, false);
  });
});

describe('open streams', () => {
  /** Reads a stream to its end; answers with all of its text and how long it stayed open after `act`. */
  const readOn = async (path: string, token: string, act: () => Promise<unknown>): Promise<[string, number]> => {
    const response = await fetch(`${daemon.url}${path}`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(response.status, 200);
    await act();
    const since = performance.now();
    return [await response.text(), performance.now() - since];
  };
  const project = '/api/v1/orgs/default/projects/default';

  const org = '/api/v1/orgs/default';
  /** Somebody of the organization, who administers it, with a token; answers with the token and the way to what they may. */
  const lend = async (name: string): Promise<{ readonly token: string; readonly membership: string }> => {
    const { body } = await daemon.api('POST', `${org}/service-accounts`, { name, role: 'admin' });
    const lent = await daemon.api('POST', `${org}/tokens`, { serviceAccount: name, name: 'w' });
    assert.equal((await daemon.api('POST', `${org}/members`, { serviceAccount: name, role: 'admin' })).status, 201);
    return { token: String(lent.body['token']), membership: `${org}/members/${body['id']}` };
  };

  it('end with the right to them: revoked, removed, lowered, or at its end', async () => {
    const made = await daemon.api('POST', '/api/v1/tokens', { name: 'short' });
    const revoke = () => daemon.api('DELETE', `/api/v1/tokens/${made.body['id']}`);
    const [worker, lowered] = [await lend('worker'), await lend('lowered')];
    const remove = () => daemon.api('DELETE', worker.membership);
    const lower = async (): Promise<void> => {
      const { status, body } = await daemon.api('PATCH', lowered.membership, { role: 'member' });
      assert.equal(status, 200, JSON.stringify(body));
    };
    const session = await daemon.api('POST', 'P/agents/open/sessions', { message: 'hello' });
    assert.equal(session.status, 201, JSON.stringify(session.body));
    const [runs, one] = [`${project}/reconciles/stream`, `${project}/sessions/${session.body['id']}/stream`];
    const expiring = await daemon.api('POST', '/api/v1/tokens', {
      name: 'expiring',
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    });
    assert.equal(expiring.status, 201, JSON.stringify(expiring.body));
    const expire = async (): Promise<void> => void (skewMs = 3_600_000);
    const ended = await Promise.all([
      readOn(one, String(expiring.body['token']), expire),
      readOn(runs, String(made.body['token']), revoke),
      readOn(one, worker.token, remove),
      readOn(runs, lowered.token, lower),
    ]);
    for (const [text, ms] of ended) {
      assert.match(text, /event: signed-out\ndata: \{\}\n\n$/);
      assert.ok(isWithin(ms, 5_000), `${ms} ms`);
    }
  });
});

describe('what stops answers what is on its way on connections that it holds open', () => {
  /** Asks on kept connections, one each, `rounds` times some of them after the stop has begun. */
  const keepAsking = async (of: { readonly url: string; stop(): Promise<void> }, rounds: number): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 40 });
    const { hostname, port } = new URL(of.url);
    const ask = (): Promise<number> =>
      new Promise((resolve, reject) => {
        const asked = httpRequest({ agent, hostname, port, path: '/healthz' }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode ?? 0));
        });
        asked.once('error', reject).end();
      });
    await Promise.all(Array.from({ length: 40 }, ask));
    const stopped = of.stop();
    for (let round = 0; round < rounds; round += 1) {
      const answers = await Promise.allSettled(Array.from({ length: 40 / rounds }, ask));
      for (const one of answers) assert.equal(one.status, 'fulfilled', JSON.stringify(one));
      if (rounds > 1) await sleep(20);
    }
    agent.destroy();
    await stopped;
  };

  it('a daemon, at once', async () => keepAsking(await startTestDaemon(), 1));

  it('a server, for as long as its last call lasts', async () => {
    const listen = { host: '127.0.0.1', port: 0 };
    // Longer than any machine takes for the rounds.
    await keepAsking(await startHttp(() => daemon.ctx, { routes: [], readiness: [], listen, lastCallMs: 3_000 }), 5);
  });
});
