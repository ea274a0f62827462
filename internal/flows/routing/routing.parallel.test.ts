import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents, chatDoor, hook, post, sessionsOf, settled } from './routing-testkit.ts';

describe('two daemons that route side by side', () => {
  let one: TestDaemon;
  let other: TestDaemon;
  before(async () => {
    one = await startTestDaemon();
    other = await startTestDaemon({
      database: one.database,
      token: one.token,
      config: { masterKeyFile: one.ctx.config.masterKeyFile },
    });
  });
  after(async () => {
    await other.stop();
    await one.stop();
  });
  const recordedOrder = async (key: string): Promise<string[]> => {
    const { rows } = await one.ctx.db.query<{ id: string }>(
      'select id from svc.events where key = $1::text order by seq',
      [key],
    );
    return rows.map((row) => row.id);
  };

  it('200 events at once to a capped agent are one session and 199 deliveries, in the order of recording', async () => {
    const paths = await applyAgents(one.api, {
      capped: {
        concurrency: 1,
        triggers: [hook('burst', { kind: 'spawn' }, { event: 'webhook.burst', message: '{{ n }}' })],
      },
    });
    const url = (n: number): string => (n % 2 === 0 ? one.url : other.url);
    await Promise.all(
      Array.from({ length: 200 }, (_, n) =>
        post(url(n), paths['burst'] ?? '', { event: 'burst', n, dedupKey: `${n}` }),
      ),
    );
    await settled(one.ctx.db);
    const [session, ...others] = await sessionsOf(one.ctx.db, 'capped');
    assert.equal(others.length, 0);
    assert.deepEqual(
      session?.messages.map((message) => message.event),
      await recordedOrder('webhook.burst'),
    );
    assert.equal(session?.messages.length, 200);
    const { rows } = await one.ctx.db.query<object>(
      `select decision, count(*) as n from svc.event_routes where agent = 'capped' group by 1 order by 1`,
    );
    assert.deepEqual(rows, [
      { decision: 'converted', n: 199 },
      { decision: 'spawn', n: 1 },
    ]);
  });

  it('a thread that is mentioned by many at once has one session per agent, also over both', async () => {
    const say = await chatDoor(one);
    const trigger = { event: 'chat.message.mentioned', routing: { kind: 'spawn', bind: { target: 'chat.thread' } } };
    await applyAgents(one.api, { a: { triggers: [trigger] }, b: { triggers: [trigger] } });
    const threads = 12;
    const each = 5;
    const mentions = Array.from({ length: threads * each }, (_, n) => ({
      type: 'app_mention',
      text: `<@UBOT> ${n}`,
      ts: `9.${n}`,
      thread_ts: `${100 + (n % threads)}.0`,
    }));
    // Waited for once: that each of so many looks again and again takes the connections from those who deliver.
    await Promise.all(mentions.map((one) => say(one, false)));
    await settled(one.ctx.db);
    const order = await recordedOrder('chat.message.mentioned');
    for (const agent of ['a', 'b']) {
      const sessions = await sessionsOf(one.ctx.db, agent);
      assert.equal(sessions.length, threads);
      for (const session of sessions) {
        const heard = session.messages.map((message) => message.event ?? '');
        assert.equal(heard.length, each);
        assert.deepEqual(
          heard,
          [...heard].sort((x, y) => order.indexOf(x) - order.indexOf(y)),
        );
      }
    }
    const { rows } = await one.ctx.db.query<object>(
      `select state, count(*) as n, count(distinct (agent, target_key)) as distinct from svc.bindings group by 1`,
    );
    assert.deepEqual(rows, [{ state: 'active', n: 2 * threads, distinct: 2 * threads }]);
  });
});
