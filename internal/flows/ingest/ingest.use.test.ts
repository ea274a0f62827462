import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { agentWithEndpoint, deliver, putSecret } from './ingest-testkit.ts';

const dayMs = 86_400_000;

describe('the secret of a webhook endpoint', () => {
  let nowMs = Date.parse('2030-01-01T00:00:00Z');
  let daemon: TestDaemon;
  let path: string;
  before(async () => {
    daemon = await startTestDaemon({ runtime: { now: () => new Date(nowMs) } });
    await putSecret(daemon, 'HOOK', 'first value');
    path = await agentWithEndpoint(daemon, 'hook', { kind: 'bearer_token', secretRef: 'HOOK' });
  });
  after(() => daemon.stop());

  const send = async (token: string): Promise<number> =>
    (await deliver(daemon, path, '{}', { authorization: `Bearer ${token}` })).status;
  const uses = async () =>
    (
      await daemon.ctx.db.query<{ at: Date; name: string; who: string; detail: { reader: object; secret: string } }>(
        `select at, subject_name as name, principal_name as who, detail from svc.audit where action = 'secret.use' order by id`,
      )
    ).rows;

  it('leaves one entry a day, whoever knocks and however often', async () => {
    for (let n = 0; n < 5; n += 1) assert.equal(await send('wrong'), 401);
    for (let n = 0; n < 5; n += 1) assert.equal(await send('first value'), 202);
    const [first, ...others] = await uses();
    assert.deepEqual(others, []);
    assert.deepEqual([first?.name, first?.who, first?.at.getTime()], ['HOOK', 'secret-resolver', nowMs]);
    assert.deepEqual(first?.detail, {
      secret: 'HOOK',
      scope: 'project',
      reader: { kind: 'endpoint', name: 'hook' },
    });
    nowMs += dayMs - 1_000;
    assert.equal(await send('first value'), 202);
    assert.equal((await uses()).length, 1);
    nowMs += 2_000;
    assert.equal(await send('first value'), 202);
    assert.equal(await send('first value'), 202);
    assert.equal((await uses()).length, 2);
  });

  it('leaves one for a new value, and none a second time where another daemon reads it', async () => {
    const sofar = (await uses()).length;
    assert.equal((await daemon.api('POST', 'P/secrets/HOOK/rotate', { value: 'second value' })).status, 200);
    nowMs += 1_000;
    assert.equal(await send('second value'), 202);
    assert.equal((await uses()).length, sofar + 1);
    const other = await startTestDaemon({
      database: daemon.database,
      token: daemon.token,
      config: { masterKeyFile: daemon.ctx.config.masterKeyFile },
      runtime: { now: () => new Date(nowMs) },
    });
    try {
      const { status } = await deliver(other, path, '{}', { authorization: 'Bearer second value' });
      assert.equal(status, 202);
      assert.equal((await uses()).length, sofar + 1);
    } finally {
      await other.stop();
    }
  });

  it('opens nothing while the entry cannot be written', async () => {
    nowMs += 2 * dayMs;
    const { db } = daemon.ctx;
    await db.query(
      `alter table svc.audit add constraint no_room check (action <> 'secret.use' or at < '2030-01-03T00:00:00Z') not valid`,
    );
    try {
      assert.equal(await send('second value'), 500);
    } finally {
      await db.query('alter table svc.audit drop constraint no_room');
    }
    assert.equal(await send('second value'), 202);
  });
});
