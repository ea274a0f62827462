import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { connectionById } from '../../../adapters/store/secrets/credentials.ts';
import { type ApiAnswer, startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';
import { connectionSecrets } from '../../../flows/sealed.ts';

let daemon: TestDaemon;
before(async () => {
  // Without the role sync: the jobs that are asked for stay where a test can count them.
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(() => daemon.stop());

const post = (body: object): Promise<ApiAnswer> => daemon.api('POST', 'P/connections', body);
const status = (answer: ApiAnswer, expected: number): ApiAnswer => {
  assert.equal(answer.status, expected, JSON.stringify(answer.body));
  return answer;
};
const agent = (trigger: string): object => ({
  files: [
    {
      path: '.svc/agents/a.yaml',
      content: `name: a\nharness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\ntriggers:\n  - ${trigger}\n`,
    },
  ],
});
const spawn = 'routing: {kind: spawn}';
async function takeWishes(): Promise<string[]> {
  const { rows } = await daemon.database.db.query<{ reason: string }>(
    `with old as (select repository_id, wanted from svc.repository_polls where wanted is not null for update)
     update svc.repository_polls p set wanted = null from old where old.repository_id = p.repository_id
     returning old.wanted as reason`,
  );
  return rows.map((row) => row.reason);
}

describe('connections over HTTP', () => {
  it('are made with sealed credentials that no answer and no table shows', async () => {
    const bodies = [
      {
        provider: 'codehost',
        name: 'gh',
        config: { apiUrl: 'https://api.test', appId: 5, installationId: '7', botLogin: 'b' },
        credentials: { webhookSecret: 'canary-a', privateKey: 'canary-b' },
      },
      {
        provider: 'tracker',
        name: 'tr',
        config: { botUserId: 'u' },
        credentials: { webhookSecret: 'canary-c', apiKey: 'canary-d' },
      },
      {
        provider: 'chat',
        name: 'ch',
        config: { provider: 'slack', workspaceId: 'w', botUserId: 'u' },
        credentials: { signingSecret: 'canary-e', botToken: 'canary-f' },
      },
      { provider: 'chat', name: 'ch2', credentials: { signingSecret: 'canary-g' } },
    ]; // prettier-ignore
    const answers: unknown[] = [];
    for (const body of bodies) {
      const made = status(await post(body), 201);
      assert.deepEqual(Object.keys(made.body), ['id', 'provider', 'name', 'status', 'intakeUrl']);
      assert.equal(made.body['intakeUrl'], `${daemon.url}/api/v1/intake/${body.provider}/${made.body['id']}`);
      assert.equal(made.body['status'], 'active');
      answers.push(made.body, (await daemon.api('GET', `P/connections/${body.name}`)).body);
    }
    const list = status(await daemon.api('GET', 'P/connections'), 200);
    assert.equal((list.body['items'] as unknown as unknown[]).length, 4);
    const { rows } = await daemon.database.db.query('select t::text as t from svc.connections t');
    assert.doesNotMatch(JSON.stringify([answers, list.body, rows]), /canary/);
    const chat = await daemon.database.db.query(`select product from svc.connections where name = 'ch2'`);
    assert.deepEqual(chat.rows, [{ product: 'slack' }]);
    assert.equal(status(await post(bodies[0] ?? {}), 409).body['code'], 'name-taken');
  });

  it('keep their credentials to the host that they were given for', async () => {
    const elsewhere = { config: { apiUrl: 'https://collector.example/api' } };
    for (const name of ['gh', 'tr', 'ch']) {
      const before = (await daemon.api('GET', `P/connections/${name}`)).body['config'];
      const refused = status(await daemon.api('PATCH', `P/connections/${name}`, elsewhere), 422);
      assert.deepEqual([String(refused.body['code'])], ['credentials-elsewhere'], name);
      assert.deepEqual((await daemon.api('GET', `P/connections/${name}`)).body['config'], before);
    }
    // The provider's own address said in full, or another path there, is no other host; nor is one that is sent nothing.
    const own = { config: { apiUrl: 'https://slack.com/api/' } };
    status(await daemon.api('PATCH', 'P/connections/ch', own), 200);
    status(await daemon.api('PATCH', 'P/connections/ch', { config: { apiUrl: null } }), 200);
    status(await daemon.api('PATCH', 'P/connections/ch2', elsewhere), 200);
    // A provider that is tried out is on this machine.
    const here = { config: { apiUrl: 'http://127.0.0.1:9/' } };
    status(await daemon.api('PATCH', 'P/connections/ch', here), 200);
    status(await daemon.api('PATCH', 'P/connections/ch', { config: { apiUrl: null } }), 422);
  });

  it('refuse every other shape without repeating it', async () => {
    const good = { provider: 'codehost', name: 'x', credentials: { webhookSecret: 'canary' } };
    const bad: object[] = [
      { ...good, provider: 'canary' },
      { ...good, name: 'can ary' },
      { ...good, credentials: {} },
      { ...good, credentials: { webhookSecret: '' } },
      { ...good, credentials: { webhookSecret: 'canary', canary: 1 } },
      { ...good, credentials: { webhookSecret: ['canary'] } },
      { ...good, credentials: 'canary' },
      { ...good, canary: 1 },
      { ...good, config: { canary: 1 } },
      { ...good, config: { apiUrl: 'https://canary:canary@api.test' } },
      { ...good, config: { apiUrl: 'file:///canary' } },
      { ...good, config: { appId: { canary: 1 } } },
      { ...good, config: { workspaceId: 'w' } },
      { provider: 'tracker', name: 'x', credentials: { signingSecret: 'canary' } },
      { provider: 'chat', name: 'x', config: { provider: 'canary' }, credentials: { signingSecret: 's' } },
    ]; // prettier-ignore
    for (const body of bad) {
      const answer = status(await post(body), 400);
      assert.doesNotMatch(JSON.stringify(answer.body), /canary|can ary/);
    }
  });

  it('with credentials of a provider that is called otherwise here are told which providers take some', async () => {
    const { body } = status(
      await post({ provider: 'github', name: 'x', credentials: { webhookSecret: 'canary' } }),
      400,
    );
    assert.match(String(body['detail']), /credentials: .*codehost, tracker, chat and mcp/);
    assert.ok(!JSON.stringify(body).includes('canary'));
  });

  it('take no list where an object is due', async () => {
    const credentials = { webhookSecret: 'x' };
    const { status, body } = await daemon.api('POST', 'P/connections', {
      provider: 'tracker',
      name: 'l',
      config: [],
      credentials,
    });
    assert.deepEqual([status, body['detail']], [400, 'The body is not as expected. config: Expected an object']);
  });

  it('coming and going ask for a sync of every repository that is not suspended, and tell the audit and the events', async () => {
    for (const [name, suspended] of [
      ['r1', false],
      ['r2', true],
    ] as const) {
      status(await daemon.api('POST', 'P/repositories', { name, path: `/nowhere/${name}`, suspended }), 201);
    }
    await takeWishes();
    status(await post({ provider: 'tracker', name: 'tmp', credentials: { webhookSecret: 's' } }), 201);
    assert.deepEqual(await takeWishes(), ['resync']);
    status(await daemon.api('DELETE', 'P/connections/tmp'), 204);
    assert.deepEqual(await takeWishes(), ['resync']);
    status(await daemon.api('DELETE', 'P/connections/tmp'), 404);
    const audit = await daemon.api('GET', 'P/audit?limit=2');
    assert.deepEqual(
      [0, 1].map((n) => audit.body['items']?.[n]?.['action']),
      ['connection.removed', 'connection.established'],
    ); // prettier-ignore
    const events = await daemon.api('GET', 'P/events?key=svc.connection.removed');
    assert.deepEqual(
      { ...events.body['items']?.[0]?.['payload'], projectId: undefined },
      { provider: 'tracker', connection: 'tmp', kind: 'provider', projectId: undefined },
    );
  });

  it('secrets that come or go ask for syncs; a new value only for repositories that read with it', async () => {
    await takeWishes();
    const write = () => daemon.api('PUT', 'P/secrets/TOKEN', { value: 'v' });
    await write();
    assert.deepEqual(await takeWishes(), ['resync']);
    await write();
    assert.deepEqual(await takeWishes(), []);
    const auth = { kind: 'token', secretRef: 'TOKEN' };
    status(await daemon.api('POST', 'P/repositories', { name: 'r3', url: 'https://git.test/r', auth }), 201);
    await takeWishes();
    status(await daemon.api('POST', 'P/secrets/TOKEN/rotate', { value: 'w' }), 200);
    assert.deepEqual(await takeWishes(), ['resync']);
    status(await daemon.api('DELETE', 'P/secrets/TOKEN'), 204);
    assert.deepEqual(await takeWishes(), ['resync', 'resync']);
  });

  it('removal skips optional triggers and is refused by required ones, naming them', async () => {
    status(await daemon.api('POST', 'P/apply', agent(`{event: tracker.issue.created, connection: tr, ${spawn}}`)), 200);
    const refused = status(await daemon.api('DELETE', 'P/connections/tr'), 409);
    assert.match(String(refused.body['detail']), /a \(trigger 0\)/);
    status(
      await daemon.api(
        'POST',
        'P/apply',
        agent(`{event: tracker.issue.created, connection: tr, optional: true, ${spawn}}`),
      ),
      200,
    );
    const of = async () => (await daemon.api('GET', 'P/triggers')).body['items']?.[0]?.['status'];
    assert.equal(await of(), 'active');
    status(await daemon.api('DELETE', 'P/connections/tr'), 204);
    assert.equal(await of(), 'skipped');
    status(await post({ provider: 'tracker', name: 'tr', credentials: { webhookSecret: 's' } }), 201);
    status(
      await daemon.api(
        'POST',
        'P/apply',
        agent(`{event: tracker.issue.created, connection: tr, optional: true, ${spawn}}`),
      ),
      200,
    );
    assert.equal(await of(), 'active');
  });

  it('keep what either of two gives at once of their credentials', async () => {
    status(
      await post({ provider: 'tracker', name: 'two', credentials: { webhookSecret: 'first', apiKey: 'first' } }),
      201,
    );
    const id = String((await daemon.api('GET', 'P/connections/two')).body['id']);
    for (let round = 0; round < 12; round += 1) {
      const given = [{ webhookSecret: `hook-${round}` }, { apiKey: `key-${round}` }];
      const put = (credentials: object) => daemon.api('PUT', 'P/connections/two/credentials', { credentials });
      for (const answer of await Promise.all(given.map(put))) status(answer, 200);
      const connection = await connectionById(daemon.ctx.db, id);
      assert.ok(connection);
      assert.deepEqual(connectionSecrets(daemon.ctx, connection), Object.assign({}, ...given));
    }
  });
});
