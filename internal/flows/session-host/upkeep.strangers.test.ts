// Upkeep over what one project has of the kind that fails, and what another one waits for.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import { blockedSessions } from '../../adapters/store/sessions/hosts.ts';
import { callerByToken } from '../../adapters/store/sessions/tool-callers.ts';
import { replaceableSlots } from '../../adapters/store/sessions/upkeep.ts';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents } from '../routing/routing-testkit.ts';
import { archiveOrphans, endSession } from '../sessions/sessions.ts';
import { upkeepTurn } from './upkeep.ts';

test('sessions of a project that cannot be ended keep none of another project, inactive ones and those without an agent', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const { api, ctx } = daemon;
  try {
    assert.equal((await api('POST', '/api/v1/orgs/default/projects', { slug: 'other' })).status, 201);
    const other: typeof api = (method, path, ...rest) =>
      api(method, path.replace(/^P(?=\/)/, '/api/v1/orgs/default/projects/other'), ...rest);
    const agents = { brief: { session: { archiveAfterInactive: { seconds: 60 } } } };
    await applyAgents(api, agents);
    await applyAgents(other, agents, false);
    // The agent of some is there no more. Those of the first project are the older ones.
    await ctx.db.query(
      `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
       select gen_random_uuid(), a.project_id, case when n = 1 then a.id else gen_random_uuid() end, a.name, a.revision, 'manual',
              'idle', 't', now(), now() - case when p.slug = 'other' then interval '1 hour' else interval '1 day' end
         from svc.agents a join svc.projects p on p.id = a.project_id cross join generate_series(1, 2) n`,
    );
    await ctx.db.query(
      `create function svc.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$`,
    );
    await ctx.db.query(
      `create trigger refuse before update on svc.sessions for each row when (old.active_at < now() - interval '12 hours')
         execute function svc.refuse()`,
    );
    const left = async (): Promise<string[]> =>
      (
        await ctx.db.query<{ slug: string }>(
          'select p.slug from svc.sessions s join svc.projects p on p.id = s.project_id where s.live',
        )
      ).rows.map(({ slug }) => slug);
    await upkeepTurn(ctx);
    await archiveOrphans(ctx, AbortSignal.timeout(60_000));
    assert.deepEqual(await left(), ['default', 'default']);
  } finally {
    await daemon.stop();
  }
});

test('what fails for one slot, or in one step, keeps no other slot from its successor', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api', 'route'] } });
  const { api, ctx } = daemon;
  try {
    await applyAgents(api, { first: { concurrency: 1, replace: 'auto' }, second: { concurrency: 1, replace: 'auto' } });
    const failed = async (agent: string): Promise<string> => {
      const { body } = await api('POST', `P/agents/${agent}/sessions`, { message: 'hello' });
      const id = String(body['id']);
      const { rows } = await ctx.db.query<{ id: string }>('select id from svc.projects');
      await inProject(ctx.db, rows[0]?.id ?? '', (tx) => endSession(ctx, tx, id, 'failed', 'it came to harm'));
      await ctx.db.query(`update svc.sessions set ended_at = now() - interval '1 hour' where id = $1::uuid`, [id]);
      return id;
    };
    const [first, second] = [await failed('first'), await failed('second')];
    // As of another version of the service.
    await ctx.db.query(`update svc.agents set spec = spec || '{"mounts": null}' where name = 'first'`);
    const replaced = async (): Promise<(string | null)[]> => {
      const text = `select parent_id as id from svc.sessions where origin = 'replacement' order by parent_id`;
      return (await ctx.db.query<{ id: string | null }>(text)).rows.map(({ id }) => id);
    };
    await upkeepTurn(ctx);
    assert.deepEqual(await replaced(), [second]);
    await ctx.db.query(`update svc.agents set spec = spec || '{"mounts": []}' where name = 'first'`);
    // Work that was kept cannot be dropped, as where there is more of it than a statement deletes.
    await ctx.db.query('alter table svc.session_snapshots rename to session_snapshots_away');
    await upkeepTurn(ctx);
    await ctx.db.query('alter table svc.session_snapshots_away rename to session_snapshots');
    assert.deepEqual(await replaced(), [first, second].toSorted());
    // Nor is one whose caps cannot be looked at in the way of another.
    const { rows } = await ctx.db.query<{ id: string }>(
      `update svc.sessions set state = 'blocked' where live returning id`,
    );
    const ids = rows.map(({ id }) => id).toSorted();
    const check = async ({ spender }: { spender: { sessionId: string } }): Promise<null> => {
      if (spender.sessionId === ids[0]) throw new Error('no such price');
      return null;
    };
    await upkeepTurn({ ...ctx, models: { check } as never });
    const blocked = await ctx.db.query<{ id: string }>(`select id from svc.sessions where state = 'blocked'`);
    assert.deepEqual([ids.length, blocked.rows.map(({ id }) => id)], [2, ids.slice(0, 1)]);
  } finally {
    await daemon.stop();
  }
});

test('of a spec with long texts that is read every few seconds, or with each call of a tool, no more is read than is used', async () => {
  const daemon = await startTestDaemon({ config: { roles: ['api'] } });
  const { db } = daemon.ctx;
  try {
    const prompt = 'x'.repeat(90_000);
    const onReplace = 'x'.repeat(15_000);
    const writer = {
      systemPrompt: prompt,
      spendCaps: { dailyUsd: '3' },
      manages: ['writer'],
      concurrency: 1,
      replace: 'auto',
    };
    await applyAgents(daemon.api, { writer: { ...writer, onReplace } });
    const token = Buffer.alloc(32, 1);
    const { rows } = await db.query<{ id: string }>(
      `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, token_hash, created_at,
         active_at)
       select gen_random_uuid(), project_id, id, name, revision, 'manual', 'blocked', 't', $1::bytea, now(), now()
         from svc.agents where name = 'writer' returning id`,
      [token],
    );
    const id = rows[0]?.id ?? '';
    const [blocked] = await blockedSessions(db, null, 1);
    assert.deepEqual([blocked?.sessionId, blocked?.spec.spendCaps], [id, { dailyUsd: '3' }]);
    const caller = await callerByToken(db, id, token);
    assert.deepEqual([caller?.agent, caller?.spec.manages, caller?.spec.mounts], ['writer', ['writer'], []]);
    await applyAgents(daemon.api, { writer: { ...writer, systemPrompt: `${prompt}.`, onReplace } });
    const slots = await db.tx(replaceableSlots);
    assert.deepEqual(
      slots.map(({ agent, sessionId, why }) => ({ agent, sessionId, why })),
      [{ agent: 'writer', sessionId: id, why: 'stale' }],
    );
    for (const read of [blocked, caller, slots]) assert.ok(JSON.stringify(read).length < 10_000);
  } finally {
    await daemon.stop();
  }
});
