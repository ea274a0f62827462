// Whoever records takes a number before anybody can see the event. Here every kind of them is held up between the two,
// while a webhook's event with a later number arrives and wants to be routed.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { fireDue } from '../../internal/flows/heartbeat/heartbeat.ts';
import { applyAgents, hook, post, sessionsOf, settled } from '../../internal/flows/routing/routing-testkit.ts';

const minuteMs = 60_000;

describe('what is recorded in a longer transaction', () => {
  let daemon: TestDaemon;
  let path = '';
  let skewMs = 0;
  const now = (): Date => new Date(performance.timeOrigin + performance.now() + skewMs);
  const on = (event: string): object => ({ event, routing: { kind: 'spawn' }, message: event });
  before(async () => {
    daemon = await startTestDaemon({ runtime: { now }, config: { roles: ['api', 'route'] } });
    const triggers = [
      hook('in', { kind: 'spawn' }, { message: '{{ n }}' }),
      on('svc.connection.established'),
      on('svc.project_resource_apply.completed'),
      { kind: 'heartbeat', cron: '* * * * *', routing: { kind: 'spawn' } },
    ];
    const paths = await applyAgents(daemon.api, { hears: { concurrency: 1, triggers } });
    path = paths['in'] ?? '';
    await settled(daemon.ctx.db);
  });
  after(() => daemon.stop());

  const count = async (sql: string): Promise<number> =>
    (await daemon.database.db.query<{ n: number }>(sql)).rows[0]?.n ?? -1;
  const waiting = `select count(*)::int as n from pg_locks l join pg_database d on d.oid = l.database
    where not l.granted and d.datname = current_database()`;
  async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
    for (let tries = 0; !(await holds()); tries += 1) {
      assert.ok(tries < 6_000, `never: ${what}`);
      await sleep(10);
    }
  }

  const kinds: { readonly [what: string]: () => Promise<unknown> } = {
    'the event of a new connection': () =>
      daemon.api('POST', 'P/connections', { provider: 'tracker', name: 't', credentials: { webhookSecret: 's' } }),
    'the events of an apply': () => applyAgents(daemon.api, { more: { triggers: [] } }),
    'a repeated event': async () => {
      const { rows } = await daemon.database.db.query<{ id: string }>(
        `select id from svc.events where key = 'webhook.received' order by seq limit 1`,
      );
      return daemon.api('POST', `P/events/${rows[0]?.id}/replay`);
    },
    'a tick': () => {
      skewMs += minuteMs;
      return fireDue(daemon.ctx, new AbortController().signal);
    },
  };
  for (const [what, record] of Object.entries(kinds)) {
    it(`${what} is not overtaken by an event of a later number`, async () => {
      let recording: Promise<unknown> | undefined;
      let id = '';
      // All of them ask for routing after they recorded, and none gets past this.
      await daemon.database.db.tx(async (tx) => {
        await tx.query('lock table graphile_worker._private_jobs in share mode');
        recording = record();
        await until('the recorder is held up', async () => (await count(waiting)) > 0);
        id = await post(daemon.url, path, { n: what });
        const routed = `select count(*)::int as n from svc.events where id = '${id}' and router_status <> 'pending'`;
        await until(
          'the later event is routed, or waits',
          async () => (await count(routed)) > 0 || (await count(waiting)) > 1,
        );
      });
      await recording;
      await settled(daemon.ctx.db);
      const [session] = await sessionsOf(daemon.ctx.db, 'hears');
      const { rows } = await daemon.database.db.query<{ id: string }>(
        `select id from svc.events where router_status = 'routed' order by seq`,
      );
      assert.deepEqual(
        session?.messages.map((message) => message.event),
        rows.map((row) => row.id),
      );
      assert.ok(rows.some((row) => row.id === id));
    });
  }
});
