import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { sealingOf } from '../context.ts';
import {
  agentFile,
  agentNames,
  type Bench,
  runsOf,
  settled,
  startBench,
  syncNow,
  until,
  word,
} from './sync-testkit.ts';

const webhookSecret = 'a secret of the hook';

describe('pushes of a code host', () => {
  let bench: Bench;
  let connectionId: string;
  before(async () => {
    bench = await startBench();
    connectionId = await connect('hub', { webhookSecret, token: 'good-token' });
  });
  after(() => bench.stop());

  /** A connection as its POST will store it. */
  async function connect(name: string, credentials: object): Promise<string> {
    const { ctx } = bench.daemon;
    const { rows } = await ctx.db.query<{ id: string; orgId: string }>(
      `select id, org_id as "orgId" from svc.projects where slug = 'default'`,
    );
    const [project] = rows;
    assert.ok(project);
    const binding = { orgId: project.orgId, projectId: project.id, name, use: 'connection' } as const;
    const { keyVersion, sealed } = sealingOf(ctx).sealer.seal(Buffer.from(JSON.stringify(credentials)), binding);
    const made = await ctx.db.query<{ id: string }>(
      `insert into svc.connections (project_id, provider, product, name, key_version, sealed_credentials)
       values ($1::uuid, 'codehost', 'codehost', $2::text, $3::int, $4::bytea) returning id`,
      [project.id, name, keyVersion, sealed],
    );
    return made.rows[0]?.id ?? '';
  }

  const bodyOf = (name: string, more: object = {}) =>
    JSON.stringify({
      ref: 'refs/heads/main',
      before: '0'.repeat(40),
      after: 'a'.repeat(40),
      deleted: false,
      repository: {
        full_name: `acme/${name}`,
        name,
        default_branch: 'main',
        clone_url: bench.server.url(`${name}.git`),
      },
      commits: [],
      ...more,
    });

  async function deliver(
    body: string | Buffer,
    headers: { readonly [name: string]: string | undefined } = {},
    to = connectionId,
  ) {
    const all: { readonly [name: string]: string | undefined } = {
      'content-type': 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': randomUUID(),
      'x-hub-signature-256': `sha256=${createHmac('sha256', webhookSecret).update(body).digest('hex')}`,
      ...headers,
    };
    const given = Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined);
    const url = `${bench.daemon.url}/api/v1/intake/codehost/${to}`;
    const response = await fetch(url, { method: 'POST', body, headers: Object.fromEntries(given) });
    return { status: response.status, body: (await response.json()) as { readonly [key: string]: unknown } };
  }

  it('a push is recorded once per delivery, and syncs the repository that follows its branch', async () => {
    const repo = await bench.repository('app');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('app-one') });
    await bench.watch('app');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('app-two') });
    const delivery = { 'x-github-delivery': randomUUID() };
    const first = await deliver(bodyOf('app', { after: commit }), delivery);
    assert.equal(first.status, 202);
    assert.deepEqual(first.body, {
      eventRecordId: first.body['eventRecordId'],
      created: true,
      routerStatus: 'pending',
    });
    const again = await deliver(bodyOf('app', { after: commit }), delivery);
    assert.equal(again.status, 200);
    // Routing goes on meanwhile.
    const { routerStatus } = again.body;
    assert.deepEqual(again.body, { ...first.body, created: false, routerStatus });
    const run = await settled(bench.daemon, 'app', (latest) => word(latest['commit']) === commit);
    assert.deepEqual([word(run['reason']), word(run['status'])], ['push', 'applied']);
    assert.ok((await agentNames(bench.daemon)).includes('app-two'));
    const { rows } = await bench.daemon.ctx.db.query<{ raw: Buffer; payload: Buffer }>(
      'select raw, payload from svc.events join svc.event_bodies on event_id = id where key = $1::text',
      ['codehost.push'],
    );
    assert.equal(rows.length, 1);
    assert.equal(rows[0]?.raw.toString(), bodyOf('app', { after: commit }), 'kept byte for byte');
    assert.equal(JSON.parse(rows[0]?.payload.toString() ?? '').codehost.push.branch, 'main');
  });

  it('a branch that is given by its full name is the one that is pushed', async () => {
    const repo = await bench.repository('full');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('full-one') });
    await bench.watch('full', { branch: 'refs/heads/main' });
    const read = async () => (await bench.daemon.api('GET', 'P/repositories/full')).body;
    assert.equal(word((await read())['branch']), 'main');
    const commit = await repo.commit({ '.svc/agents/a.yaml': agentFile('full-two') });
    await deliver(bodyOf('full', { after: commit }));
    const run = await settled(bench.daemon, 'full', (latest) => word(latest['commit']) === commit);
    assert.deepEqual([word(run['reason']), word(run['status'])], ['push', 'applied']);
    await bench.daemon.api('PATCH', 'P/repositories/full', { branch: 'refs/heads/other' });
    assert.equal(word((await read())['branch']), 'other');
  });

  it('a push of another branch or repository syncs nothing', async () => {
    const count = (await runsOf(bench.daemon, 'app')).length;
    const wishes = async () =>
      (await bench.daemon.ctx.db.query('select 1 from svc.repository_polls where wanted is not null')).rows.length;
    await until('the wish for the run before', async () => (await wishes()) === 0);
    assert.equal((await deliver(bodyOf('app', { ref: 'refs/heads/other' }))).status, 202);
    assert.equal((await deliver(bodyOf('elsewhere'))).status, 202);
    assert.equal((await deliver(bodyOf('app', { ref: 'refs/tags/v1' }))).status, 202);
    assert.equal(await wishes(), 0);
    assert.equal((await runsOf(bench.daemon, 'app')).length, count);
  });

  const body = () => bodyOf('app');
  const cases: readonly (readonly [string, number, () => Promise<{ status: number }>])[] = [
    ['a wrong signature', 401, () => deliver(body(), { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` })],
    ['no signature', 401, () => deliver(body(), { 'x-hub-signature-256': undefined })],
    ['a signature of another shape', 401, () => deliver(body(), { 'x-hub-signature-256': 'sha1=abc' })],
    ['an unknown connection', 404, () => deliver(body(), {}, randomUUID())],
    ['what is no id', 404, () => deliver(body(), {}, 'nobody')],
    ['a body that is not JSON', 400, () => deliver('{"ref":')],
    ['a body that is not an object', 400, () => deliver('[1]')],
    ['a body that is not UTF-8', 400, () => deliver(Buffer.from([0x22, 0xff, 0x22]))],
    ['a body that nests too deep', 400, () => deliver(`${'{"a":'.repeat(70)}1${'}'.repeat(70)}`)],
    ['a missing delivery id', 400, () => deliver(body(), { 'x-github-delivery': undefined })],
    ['an encoded body', 415, () => deliver(body(), { 'content-encoding': 'gzip' })],
    ['a body over the limit', 413, () => deliver(`"${'x'.repeat(25 * 1_048_576)}"`)],
  ];
  for (const [what, status, send] of cases) {
    it(`${what} is ${status}`, async () => {
      assert.equal((await send()).status, status);
    });
  }

  it('an event that is not in the catalog is ignored and not stored', async () => {
    const { status, body: answer } = await deliver('{"zen":"…"}', { 'x-github-event': 'ping' });
    assert.equal(status, 202);
    assert.equal(answer['ignored'], true);
    const { rows } = await bench.daemon.ctx.db.query(`select 1 from svc.events where key = 'codehost.ping'`);
    assert.equal(rows.length, 0);
  });

  it('reads with the token of a connection, and says so when it is refused', async () => {
    bench.server.options = { ...bench.server.options, auth: { tokens: ['good-token'] } };
    const repo = await bench.repository('private');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('private-a', 'labels: { from: plain }') });
    const run = await bench.watch('private', { auth: { kind: 'connection', connection: 'hub' } });
    assert.equal(word(run['status']), 'applied', JSON.stringify(run));
    await connect('dull', { webhookSecret });
    await bench.daemon.api('PATCH', 'P/repositories/private', { auth: { kind: 'connection', connection: 'dull' } });
    const refused = await syncNow(bench.daemon, 'private');
    assert.deepEqual([word(refused['status']), word(refused['condition'])], ['failed', 'auth-failed']);
    assert.match(word(refused['detail']), /dull/);
    await bench.daemon.api('PATCH', 'P/repositories/private', { auth: null });
    const open = await syncNow(bench.daemon, 'private');
    assert.equal(word(open['condition']), 'auth-failed');
    assert.doesNotMatch(JSON.stringify(open), /good-token/);
  });

  it('sends the token of a connection to its own code host alone, or on this machine, whatever address is named', async () => {
    bench.server.options = { ...bench.server.options, auth: { tokens: ['good-token'] } };
    const repo = await bench.repository('lure');
    await repo.commit({ '.svc/agents/a.yaml': agentFile('lure-a', 'labels: { from: lure }') });
    await connect('far', { webhookSecret, token: 'good-token' });
    const auth = { kind: 'connection', connection: 'far' };
    // As good as any other machine's: it is none of the addresses of this one.
    const elsewhere = new URL(bench.server.url('lure.git'));
    elsewhere.hostname = '0.0.0.0';
    const run = await bench.watch('lure', { auth, url: elsewhere.href });
    const why = `connection far is not of ${elsewhere.host}: its token goes to its own code host alone`;
    assert.deepEqual(
      [word(run['status']), word(run['condition']), word(run['detail'])],
      ['failed', 'auth-failed', why],
    );
    const probed = await bench.daemon.api('POST', 'P/repositories/probe', { url: elsewhere.href, auth });
    assert.deepEqual([word(probed.body['condition']), word(probed.body['detail'])], ['auth-failed', why]);
    const here = await bench.daemon.api('PATCH', 'P/repositories/lure', { url: bench.server.url('lure.git') });
    assert.equal(here.status, 200, JSON.stringify(here.body));
    assert.equal(word((await syncNow(bench.daemon, 'lure'))['status']), 'applied');
  });
});
