import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';

const later = (ms: number): string => new Date(Date.now() + ms).toISOString();
const hourMs = 3_600_000;

describe('tokens', () => {
  let first: TestDaemon;
  let second: TestDaemon;
  before(async () => {
    first = await startTestDaemon();
    const { masterKeyFile } = first.ctx.config;
    second = await startTestDaemon({ database: first.database, token: first.token, config: { masterKeyFile } });
  });
  after(async () => {
    await second.stop();
    await first.stop();
  });

  const status = async (daemon: TestDaemon, token: string): Promise<number> =>
    (await daemon.api('GET', '/api/v1/me', undefined, { token })).status;

  it('are worthless in every daemon from the answer to their revocation on', async () => {
    for (let round = 0; round < 20; round += 1) {
      const [makes, revokes] = round % 2 === 0 ? [first, second] : [second, first];
      const { body } = await makes.api('POST', '/api/v1/tokens', { name: `round ${round}` });
      const token = String(body['token']);
      assert.deepEqual([await status(first, token), await status(second, token)], [200, 200]);
      assert.equal((await revokes.api('DELETE', `/api/v1/tokens/${body['id']}`)).status, 204);
      assert.deepEqual([await status(first, token), await status(second, token)], [401, 401]);
    }
  });

  it('of a member that was removed, or of an account that was disabled, end with it in every daemon', async () => {
    const org = '/api/v1/orgs/default';
    await first.api('POST', `${org}/service-accounts`, { name: 'worker', role: 'admin' });
    const made = await first.api('POST', `${org}/tokens`, { serviceAccount: 'worker', name: 'w' });
    const token = String(made.body['token']);
    const sees = async (): Promise<number> => (await second.api('GET', 'P/secrets', undefined, { token })).status;
    const named = await first.api('GET', `${org}/service-accounts/worker`);
    await first.api('POST', `${org}/members`, { serviceAccount: 'worker', role: 'admin' });
    assert.equal(await sees(), 200);
    assert.equal((await first.api('DELETE', `${org}/members/${named.body['id']}`)).status, 204);
    assert.equal(await sees(), 404);
    assert.equal(await status(second, token), 200);
    await first.api('PATCH', `${org}/service-accounts/worker`, { disabled: true });
    assert.equal(await status(second, token), 401);
  });

  it('end at a time that exists, and their refusal repeats nothing', async () => {
    for (const expiresAt of [
      '2999-02-30T00:00:00Z',
      '2999-01-01T00:00:00',
      '2999-01-01',
      '9999-12-31T23:59:59-12:00',
      'c4nary',
      5,
    ]) {
      const { status: code, body } = await first.api('POST', '/api/v1/tokens', { name: 'x', expiresAt });
      assert.equal(code, 400, String(expiresAt));
      assert.doesNotMatch(JSON.stringify(body), /c4nary|2999/);
    }
    const { body } = await first.api('POST', '/api/v1/tokens', { name: 'x', expiresAt: '2999-01-01T01:00:00+01:00' });
    assert.equal(body['expiresAt'], '2999-01-01T00:00:00.000Z');
    assert.equal((await first.api('POST', '/api/v1/tokens', { name: 'x', expiresAt: null })).status, 201);
    const odd = await first.api('POST', '/api/v1/orgs/default/members', { email: 'c4nary', role: 'member' });
    assert.deepEqual([odd.status, /c4nary/.test(JSON.stringify(odd.body))], [400, false]);
  });

  it('that expire make none that outlives them, for whomever', async () => {
    const made = await first.api('POST', '/api/v1/tokens', { name: 'parent', expiresAt: later(hourMs) });
    const { expiresAt } = made.body;
    const token = String(made.body['token']);
    await first.api('POST', '/api/v1/orgs/default/service-accounts', { name: 'robot' });
    for (const [path, who] of [
      ['/api/v1/tokens', {}],
      ['/api/v1/orgs/default/tokens', { serviceAccount: 'robot' }],
    ] as const) {
      const make = (more: object) => first.api('POST', path, { name: 'child', ...who, ...more }, { token });
      const longer = await make({ expiresAt: later(2 * hourMs) });
      assert.deepEqual([longer.status, longer.body['code']], [403, 'outlives-token']);
      assert.equal((await make({})).body['expiresAt'], expiresAt, 'the same end where none is named');
      const sooner = later(hourMs / 2);
      assert.equal((await make({ expiresAt: sooner })).body['expiresAt'], sooner);
    }
    assert.equal((await first.api('POST', '/api/v1/tokens', { name: 'free' })).body['expiresAt'], null);
  });
});
