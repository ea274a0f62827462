import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
import { agentWithEndpoint, deliver, ingestPath, putSecret } from './ingest-testkit.ts';

const secret = 'a secret of the hook';
const signed = (body: string | Buffer, key = secret): string => createHmac('sha256', key).update(body).digest('hex');

describe('webhook ingest', () => {
  let daemon: TestDaemon;
  const paths: Record<string, string> = {};
  before(async () => {
    daemon = await startTestDaemon();
    await putSecret(daemon, 'HOOK', secret);
    const kinds = {
      open: { kind: 'none' },
      signed: { kind: 'hmac_sha256', secretRef: 'HOOK' },
      token: { kind: 'bearer_token', secretRef: 'HOOK' },
      missing: { kind: 'hmac_sha256', secretRef: 'NOT_THERE' },
      empty: { kind: 'hmac_sha256', secretRef: 'EMPTY' },
    };
    await putSecret(daemon, 'EMPTY', '');
    await putSecret(daemon, 'NOT_THERE', 'soon gone');
    for (const [name, auth] of Object.entries(kinds)) paths[name] = await agentWithEndpoint(daemon, name, auth);
    await daemon.ctx.db.query(`delete from svc.secrets where name = 'NOT_THERE'`);
  });
  after(() => daemon.stop());

  const post = (name: string, body: string | Buffer, headers: Record<string, string> = {}) =>
    deliver(daemon, paths[name] ?? name, body, headers);

  it('records once and answers with the record', async () => {
    const first = await post('open', '{"a":1,"dedupKey":"k1"}');
    assert.deepEqual(first.body, {
      eventRecordId: first.body['eventRecordId'],
      created: true,
      routerStatus: 'pending',
    });
    assert.equal(first.status, 202);
    assert.match(String(first.body['eventRecordId']), /^[0-9a-f]{8}-[0-9a-f]{4}-7/);
    const again = await post('open', '{"a":2,"dedupKey":"k1"}');
    assert.equal(again.status, 200);
    // Routing goes on meanwhile.
    const { routerStatus } = again.body;
    assert.deepEqual(again.body, { ...first.body, created: false, routerStatus });
    const shown = await daemon.api('GET', `P/events/${first.body['eventRecordId']}`);
    assert.deepEqual(shown.body['payload'] as unknown, { a: 1, dedupKey: 'k1' });
    assert.deepEqual([shown.body['key'], shown.body['source'], shown.body['target']] as unknown[], [
      'webhook.received',
      'webhook',
      null,
    ]);
  });

  it('deduplicates within an endpoint, not across them', async () => {
    const body = '{"dedupKey":"shared"}';
    const one = await post('open', body);
    const other = await post('signed', body, { 'x-svc-signature-256': signed(body) });
    assert.deepEqual([one.status, other.status], [202, 202]);
    assert.notEqual(one.body['eventRecordId'], other.body['eventRecordId']);
  });

  it('tells halves of surrogate pairs apart as keys', async () => {
    const one = await post('open', String.raw`{"dedupKey":"\ud800"}`);
    const other = await post('open', String.raw`{"dedupKey":"\ud801"}`);
    assert.deepEqual([one.status, other.status], [202, 202]);
  });

  const body = '{"x":"ü"}';
  const proofs: readonly (readonly [string, number, string, Record<string, string>])[] = [
    ['a signature', 202, 'signed', { 'x-svc-signature-256': signed(body) }],
    ['a signature with its prefix', 202, 'signed', { 'x-svc-signature-256': `sha256=${signed(body)}` }],
    ['no signature', 401, 'signed', {}],
    ['a signature under another key', 401, 'signed', { 'x-svc-signature-256': signed(body, 'other') }],
    ['a signature of another body', 401, 'signed', { 'x-svc-signature-256': signed(`${body} `) }],
    ['a short signature', 401, 'signed', { 'x-svc-signature-256': signed(body).slice(0, 62) }],
    ['a signature with a bad digit', 401, 'signed', { 'x-svc-signature-256': `${signed(body).slice(0, 63)}g` }],
    ['a token where a signature is due', 401, 'signed', { authorization: `Bearer ${secret}` }],
    ['a token', 202, 'token', { authorization: `Bearer ${secret}` }],
    ['a wrong token', 401, 'token', { authorization: `Bearer ${secret}x` }],
    ['a token without its scheme', 401, 'token', { authorization: secret }],
    ['an empty token', 401, 'token', { authorization: 'Bearer ' }],
    [
      'a secret that is not there',
      401,
      'missing',
      { 'x-svc-signature-256': signed(body, '') === '' ? '' : '0'.repeat(64) },
    ],
    [
      'an empty secret and its signature',
      401,
      'empty',
      { 'x-svc-signature-256': createHmac('sha256', '').update(body).digest('hex') },
    ],
    ['bad credentials and a body that cannot be read', 401, 'signed', { 'x-svc-signature-256': '0'.repeat(64) }],
  ];
  for (const [what, status, name, headers] of proofs) {
    it(`${what} is ${status}`, async () => {
      assert.equal((await post(name, body, headers)).status, status);
    });
  }

  it('a rotated secret counts from the next request on, and an expired one opens nothing', async () => {
    const text = '{"n":1}';
    await putSecret(daemon, 'HOOK', 'the next one');
    assert.equal((await post('signed', text, { 'x-svc-signature-256': signed(text) })).status, 401);
    const answer = await post('signed', text, { 'x-svc-signature-256': signed(text, 'the next one') });
    assert.equal(answer.status, 202);
    await daemon.ctx.db.query(`update svc.secrets set expires_at = '2001-01-01' where name = 'HOOK'`);
    const late = await post('signed', text, { 'x-svc-signature-256': signed(text, 'the next one') });
    assert.equal(late.status, 401);
    await putSecret(daemon, 'HOOK', secret);
    assert.equal((await post('signed', text, { 'x-svc-signature-256': signed(text) })).status, 202);
  });

  it('unknown and reserved endpoints answer alike', async () => {
    const reserved = await daemon.api('POST', 'P/endpoints', { name: 'later' });
    const one = await post(new URL(String(reserved.body['ingestUrl'])).pathname, '{}');
    const other = await post(ingestPath('nobody-0123456789'), '{}');
    const plain = ({ requestId: _id, ...rest }: Record<string, unknown>): unknown => rest;
    assert.deepEqual([one.status, plain(one.body)], [404, plain(other.body)]);
    assert.equal((await post(ingestPath('N%00o'), '{}')).status, 404);
  });

  it('sees at once that an endpoint is made and that it is gone', async () => {
    const path = await agentWithEndpoint(daemon, 'brief', { kind: 'none' });
    assert.equal((await post(path, '{}')).status, 202);
    assert.equal((await daemon.api('DELETE', 'P/agents/brief')).status, 204);
    const gone = await daemon.api('DELETE', 'P/endpoints/brief');
    assert.equal(gone.status, 204);
    // The word of it comes by another connection.
    let status = 0;
    for (let tries = 0; tries < 6_000 && status !== 404; tries += 1) {
      status = (await post(path, '{}')).status;
      await sleep(10);
    }
    assert.equal(status, 404);
  });

  it('is open to any origin, also where it refuses', async () => {
    const url = `${daemon.url}${paths['token']}`;
    const asked = await fetch(url, { method: 'OPTIONS', headers: { origin: 'https://x.test' } });
    assert.equal(asked.status, 204);
    assert.equal(asked.headers.get('access-control-allow-origin'), '*');
    assert.match(asked.headers.get('access-control-allow-headers') ?? '', /authorization/);
    assert.equal(asked.headers.get('access-control-allow-credentials'), null);
    const refused = await fetch(url, { method: 'POST', body: '{}' });
    assert.deepEqual([refused.status, refused.headers.get('access-control-allow-origin')], [401, '*']);
    assert.equal(refused.headers.get('set-cookie'), null);
  });

  const names: readonly (readonly [string, number, string?])[] = [
    ['{"event":"built"}', 202, 'webhook.built'],
    ['{"event":"webhook.built"}', 202, 'webhook.built'],
    ['{"event":"webhook.received"}', 202, 'webhook.received'],
    ['{"event":""}', 202, 'webhook.received'],
    ['{"event":{"type":"x"}}', 202, 'webhook.received'],
    ['{"event":7}', 202, 'webhook.received'],
    ['{"event":null}', 202, 'webhook.received'],
    [`{"event":"${'e'.repeat(512)}"}`, 202, `webhook.${'e'.repeat(512)}`],
    [`{"event":"${'e'.repeat(513)}"}`, 400],
    [`{"dedupKey":"${'k'.repeat(1_024)}"}`, 202, 'webhook.received'],
    [`{"dedupKey":"${'k'.repeat(1_025)}"}`, 400],
    ['{"dedupKey":""}', 400],
    ['{"dedupKey":1}', 400],
    ['{"dedupKey":null}', 400],
    ['{"dedupKey":["a"]}', 400],
  ];
  for (const [text, status, key] of names) {
    it(`${text.slice(0, 40)} is ${status} ${key?.slice(0, 30) ?? ''}`, async () => {
      const answer = await post('open', text);
      assert.equal(answer.status, status);
      if (key === undefined) return;
      const shown = await daemon.api('GET', `P/events/${answer.body['eventRecordId']}`);
      assert.equal(String(shown.body['key']), key);
    });
  }

  it('keeps the bytes and prints numbers as they came', async () => {
    const text = '{ "n": 12345678901234567890, "e":1e400, "z":-0, "__proto__":{"a":"\\u0000\\ud800"}, "d":1, "d":2 }';
    const answer = await post('open', text, { 'content-type': 'text/plain' });
    assert.equal(answer.status, 202);
    const id = String(answer.body['eventRecordId']);
    const { rows } = await daemon.ctx.db.query<{ raw: Buffer; payload: Buffer | null }>(
      'select raw, payload from svc.event_bodies where event_id = $1::uuid',
      [id],
    );
    assert.deepEqual([rows[0]?.raw.toString(), rows[0]?.payload], [text, null]);
    const response = await fetch(`${daemon.url}/api/v1/orgs/default/projects/default/events/${id}`, {
      headers: { authorization: `Bearer ${daemon.token}` },
    });
    const printed = await response.text();
    assert.ok(printed.includes('"payload":{"n":12345678901234567890,"e":1e400,"z":-0,"__proto__":{"a":'), printed);
  });

  it('keeps a large body smaller than it came, and shows it as it came', async () => {
    const sent = Array.from({ length: 40 }, (_, at) => ({
      at,
      text: `${at} `.repeat(10_000),
      n: '12345678901234567890',
    }));
    const ids = await Promise.all(
      sent.map(async (body) => String((await post('open', JSON.stringify(body))).body['eventRecordId'])),
    );
    for (const [at, id] of ids.entries()) {
      const { rows } = await daemon.ctx.db.query<{ stored: number; bytes: number }>(
        'select octet_length(raw) as stored, raw_bytes as bytes from svc.event_bodies where event_id = $1::uuid',
        [id],
      );
      assert.equal(rows[0]?.bytes, JSON.stringify(sent[at]).length);
      assert.ok((rows[0]?.stored ?? Number.NaN) < 2_000);
      assert.deepEqual((await daemon.api('GET', `P/events/${id}`)).body['payload'], sent[at]);
    }
  });

  it('fifty parallel deliveries of one key make one record', async () => {
    for (let round = 0; round < (isLong ? 1_000 : 20); round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, at) => post('open', `{"at":${at},"dedupKey":"round-${round}"}`)),
      );
      assert.equal(answers.filter((one) => one.status === 202 && one.body['created'] === true).length, 1);
      assert.equal(answers.filter((one) => one.status === 200 && one.body['created'] === false).length, 49);
      assert.equal(new Set(answers.map((one) => one.body['eventRecordId'])).size, 1);
    }
  });

  it('two daemons on one database deduplicate as one', async () => {
    const config = { masterKeyFile: join(daemon.dataDir, 'master.key') };
    const second = await startTestDaemon({ database: daemon.database, token: daemon.token, config });
    try {
      for (let round = 0; round < (isLong ? 200 : 5); round += 1) {
        const bodies = Array.from({ length: 40 }, (_, at) => `{"dedupKey":"two-${round}-${at % 8}"}`);
        const answers = await Promise.all(
          bodies.map((text, at) => deliver(at % 2 === 0 ? daemon : second, paths['open'] ?? '', text)),
        );
        assert.equal(answers.filter((one) => one.body['created'] === true).length, 8);
        assert.ok(answers.every((one) => one.status === 200 || one.status === 202));
      }
    } finally {
      await second.stop();
    }
  });

  it('an archived project takes nothing', async () => {
    const path = await agentWithEndpoint(daemon, 'shut', { kind: 'none' });
    assert.equal((await post(path, '{}')).status, 202);
    await daemon.ctx.db.query(`update svc.projects set archived_at = now() where slug = 'default'`);
    let status = 0;
    for (let tries = 0; tries < 6_000 && status !== 404; tries += 1) {
      status = (await post(path, '{}')).status;
      await sleep(10);
    }
    assert.equal(status, 404);
  });
});
