import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, test } from 'node:test';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import { replaceableSlots } from '../../adapters/store/sessions/upkeep.ts';
import { openDatabase } from '../../adapters/store/store.ts';
import { createLog } from '../../base/log/log.ts';
import { createMetrics } from '../../base/metrics/metrics.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import {
  applyAgents,
  bindingsOf,
  chatDoor,
  codehostDoor,
  hook,
  post,
  routesOf,
  settled,
} from '../routing/routing-testkit.ts';
import { endSession } from '../sessions/sessions.ts';
import { upkeepTurn } from './upkeep.ts';

let daemon: TestDaemon;
let arrive: Awaited<ReturnType<typeof codehostDoor>>;
before(async () => {
  daemon = await startTestDaemon();
  arrive = await codehostDoor(daemon);
});
after(() => daemon.stop());

test('slots that want a successor are found without a look at what others of the project have done', async () => {
  const { db } = daemon.ctx;
  await applyAgents(daemon.api, { slot: { concurrency: 1, replace: 'auto' } });
  await db.query(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at, ended_at)
     select gen_random_uuid(), project_id, id, 'busy', 1, 'manual', 'archived', 't', now(), now(), now()
       from svc.agents cross join generate_series(1, 3000)`,
  );
  // From then on the planner takes every session for one of the busy agent, and any index of the project for as good.
  await db.query('analyze svc.sessions');
  const seen = await db.tx(async (tx) => {
    assert.deepEqual(await replaceableSlots(tx), []);
    const { rows } = await tx.query<{ seen: number }>(
      `select (seq_tup_read + idx_tup_fetch)::int as seen from pg_stat_xact_user_tables where relid = 'svc.sessions'::regclass`,
    );
    return rows[0]?.seen;
  });
  await db.query('delete from svc.sessions');
  assert.ok(seen !== undefined && seen < 100, `${seen} sessions were looked at`);
});

test('the mounts of a successor are at what the latest spec makes of the event that the work began with', async () => {
  const { db } = daemon.ctx;
  const mount = (mountPath: string, ref: string): object => ({
    kind: 'git',
    repository: 'o/r',
    mountPath,
    ref,
    auth: { kind: 'none' },
  });
  const keeper = (...mounts: object[]): object => ({
    concurrency: 1,
    replace: 'auto',
    mounts,
    triggers: [hook('keeper', { kind: 'spawn' })],
  });
  const paths = await applyAgents(daemon.api, {
    keeper: keeper(mount('/work', 'refs/pull/{{ payload.n }}/head'), mount('/gone', 'main')),
  });
  const event = await post(daemon.url, paths['keeper'] ?? '', { n: 12, padding: 'x'.repeat(20_000) });
  await settled(db);
  await applyAgents(daemon.api, {
    keeper: keeper(mount('/work', 'refs/pull/{{ payload.n }}/merge'), mount('/new', 'refs/pull/{{ payload.n }}/head')),
  });
  const replacements = async (): Promise<{ refs: unknown }[]> =>
    (
      await db.query<{ refs: unknown }>(
        `select mount_refs as refs from svc.sessions where origin = 'replacement' order by id`,
      )
    ).rows;
  const replaced = async (times: number): Promise<void> => {
    // A project whose lock somebody has is left to the next turn.
    for (let turn = 0; turn < 100 && (await replacements()).length < times; turn += 1) {
      await upkeepTurn(daemon.ctx);
      await sleep(50);
    }
  };
  await replaced(1);
  const first = { refs: { '/work': 'refs/pull/12/merge', '/new': 'refs/pull/12/head' } };
  assert.deepEqual(await replacements(), [first]);
  await applyAgents(daemon.api, { keeper: keeper(mount('/work', 'refs/pull/{{ payload.n }}/tip')) });
  await replaced(2);
  assert.deepEqual(await replacements(), [first, { refs: { '/work': 'refs/pull/12/tip' } }]);
  const { body } = await daemon.api('GET', 'P/sessions?agent=keeper');
  const began = (body['items'] as unknown as { eventId?: string }[]).map(({ eventId }) => eventId);
  assert.deepEqual(began, [event, event, event], 'each says what the work began with');
});

/** What was said to a session, in order. */
const toldTo = async (sessionId: string): Promise<string[]> =>
  (
    await daemon.ctx.db.query<{ text: string }>(
      `select m.text from svc.inbox i join svc.messages m on m.session_id = i.session_id and m.seq = i.seq
        where i.session_id = $1::uuid order by i.seq`,
      [sessionId],
    )
  ).rows.map((row) => row.text);

/** Ends a session as its host does where it cannot go on. */
async function failed(id: string): Promise<void> {
  const { db } = daemon.ctx;
  const text = 'select project_id as id from svc.sessions where id = $1::uuid';
  const { rows } = await db.query<{ id: string }>(text, [id]);
  await inProject(db, rows[0]?.id ?? '', (tx) => endSession(daemon.ctx, tx, id, 'failed', 'it came to harm'));
}

/** The session that the platform puts in the place of another. */
async function successorTo(id: string): Promise<string> {
  const text = `select id from svc.sessions where parent_id = $1::uuid and origin = 'replacement'`;
  for (;;) {
    const { rows } = await daemon.ctx.db.query<{ id: string }>(text, [id]);
    if (rows[0] !== undefined) return rows[0].id;
    await upkeepTurn(daemon.ctx);
  }
}

test('whoever takes the slot of a failed session first has what it left, before what is new', async () => {
  const { db } = daemon.ctx;
  const message = '{{ n }}';
  const triggers = [hook('desk', { kind: 'deliver', onUnmatched: 'spawn' }, { message })];
  const paths = await applyAgents(daemon.api, { desk: { concurrency: 1, replace: 'auto', triggers } });
  const sent = async (n: string): Promise<string> => {
    const id = await post(daemon.url, paths['desk'] ?? '', { n });
    await settled(db);
    return (await routesOf(db, id))[0]?.sessions[0] ?? '';
  };
  const fail = async (id: string): Promise<void> => {
    await failed(id);
    // The platform fills the slot again, but not now.
    await db.query(`update svc.sessions set ended_at = now() + interval '1 hour' where id = $1::uuid`, [id]);
  };
  const first = await sent('one');
  assert.equal(await sent('two'), first);
  await fail(first);
  const second = await sent('three');
  assert.notEqual(second, first);
  assert.deepEqual(await toldTo(second), ['one', 'two', 'three']);
  assert.equal(await sent('four'), second);
  await fail(second);
  const third = await daemon.api('POST', 'P/agents/desk/sessions', { message: 'by hand' });
  assert.equal(third.status, 201, JSON.stringify(third.body));
  assert.deepEqual(await toldTo(String(third.body['id'])), ['one', 'two', 'three', 'four', 'by hand']);
  // What somebody has ended leaves nothing.
  await daemon.api('POST', `P/sessions/${String(third.body['id'])}/archive`, {});
  assert.deepEqual(await toldTo(await sent('five')), ['five']);
});

/** What happens to a pull request, from its delivery to the end of its routing; the id of its event. */
const pull = (action: string, number: number): Promise<string> =>
  arrive('pull_request', {
    action,
    number,
    repository: { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } },
    sender: { login: 'ann', id: 1, type: 'User' },
    pull_request: { number, head: { sha: `sha-${number}` } },
  });

test('what a session held when it failed waits for the one that replaces it, unless its release comes first', async () => {
  const { db } = daemon.ctx;
  const on = (action: string, more: object): object => ({
    event: `codehost.pull_request.${action}`,
    routing: { kind: 'bind', target: 'codehost.pull_request', ...more },
  });
  await applyAgents(daemon.api, {
    guard: {
      concurrency: 1,
      replace: 'auto',
      bindings: { 'codehost.pull_request': { lifecycle: 'held' } },
      triggers: [on('opened', { onUnmatched: 'spawn' }), on('edited', {}), on('closed', { release: true })],
    },
  });
  const decided = async (event: string) =>
    (await routesOf(db, event)).map(({ decision, sessions }) => [decision, ...sessions]);
  const held = async () =>
    (await bindingsOf(db, 'guard')).map(({ target, session, state }) => [target.split('#')[1], session, state]);
  const [[, first = ''] = []] = await decided(await pull('opened', 1));
  assert.deepEqual(await decided(await pull('opened', 2)), [['converted', first]]);
  await failed(first);
  await settled(db);
  // Nobody is there to hear them; the release holds all the same.
  assert.deepEqual(await decided(await pull('edited', 1)), [['unmatched-drop']]);
  assert.deepEqual(await decided(await pull('closed', 2)), [['released']]);
  await db.query(`update svc.sessions set ended_at = now() - interval '1 hour' where id = $1::uuid`, [first]);
  const second = await successorTo(first);
  assert.deepEqual(await held(), [
    ['1', second, 'active'],
    ['2', null, 'released'],
  ]);
  assert.deepEqual(await decided(await pull('edited', 1)), [['deliver', second]]);
  assert.deepEqual(await decided(await pull('closed', 1)), [['released', second]]);
  await daemon.api('POST', `P/sessions/${second}/archive`, {});
});

test('what stood beside an attached prompt that nobody heard goes on with it', async () => {
  const { db } = daemon.ctx;
  const triggers = [hook('beside', { kind: 'spawn' }, { attachedUserPrompt: 'Look.', message: 'It is {{ n }}.' })];
  const desk = (more: object = {}) => ({ beside: { concurrency: 1, replace: 'auto', triggers, ...more } });
  const paths = await applyAgents(daemon.api, desk(), true);
  const event = await post(daemon.url, paths['beside'] ?? '', { n: 'one' });
  await settled(db);
  const first = (await routesOf(db, event))[0]?.sessions[0] ?? '';
  await applyAgents(daemon.api, desk({ onReplace: 'Go on.' }), true);
  const second = await successorTo(first);
  assert.deepEqual(await toldTo(second), ['Go on.', 'Look.\n\nIt is one.']);
  await failed(second);
  await db.query(`update svc.sessions set ended_at = now() + interval '1 hour' where id = $1::uuid`, [second]);
  const third = await daemon.api('POST', 'P/agents/beside/sessions', { message: 'by hand' });
  assert.deepEqual(await toldTo(String(third.body['id'])), ['Go on.', 'Look.\n\nIt is one.', 'by hand']);
  await daemon.api('POST', `P/sessions/${String(third.body['id'])}/archive`, {});
});

test('the checks of a session are those of whoever takes its place', async () => {
  const { db } = daemon.ctx;
  const checks = [{ name: 'lint', displayName: 'Lint', description: 'Reads' }];
  const events = ['codehost.pull_request.opened', 'codehost.pull_request.synchronize'];
  const triggers = [{ events, routing: { kind: 'deliver', onUnmatched: 'spawn' }, checks }];
  const desk = (more: object = {}) => ({ desk: { concurrency: 1, replace: 'auto', triggers, ...more } });
  await applyAgents(daemon.api, desk(), true);
  const toldOf = async (event: string): Promise<string> => (await routesOf(db, event))[0]?.sessions[0] ?? '';
  const checksOf = async (id: string): Promise<string[]> => {
    const { body } = await daemon.api('GET', `P/sessions/${id}`);
    const shown = body['checks'] as unknown as { target: { key: string }; cycle: number; state: string }[];
    return shown.map(({ target, cycle, state }) => `${target.key} ${cycle} ${state}`);
  };
  const fail = async (id: string): Promise<void> => {
    await failed(id);
    // The platform fills the slot again, but not now.
    await db.query(`update svc.sessions set ended_at = now() + interval '1 hour' where id = $1::uuid`, [id]);
  };
  const first = await toldOf(await pull('opened', 31));
  assert.deepEqual(await checksOf(first), ['o/r#31 1 queued']);
  await applyAgents(daemon.api, desk({ onReplace: 'Go on.' }), true);
  const second = await successorTo(first);
  assert.deepEqual([await checksOf(first), await checksOf(second)], [[], ['o/r#31 1 queued']]);
  await fail(second);
  const byHand = await daemon.api('POST', 'P/agents/desk/sessions', { message: 'by hand' });
  const third = String(byHand.body['id']);
  const conclude = `update svc.checks set state = 'concluded', conclusion = 'success' where session_id = $1::uuid`;
  assert.equal((await db.query(conclude, [third])).rowCount, 1);
  await fail(third);
  const fourth = await toldOf(await pull('opened', 32));
  assert.deepEqual(await checksOf(fourth), ['o/r#31 1 concluded', 'o/r#32 1 queued']);
  assert.equal(await toldOf(await pull('synchronize', 31)), fourth);
  assert.deepEqual(await checksOf(fourth), ['o/r#31 2 queued', 'o/r#32 1 queued']);
  await daemon.api('POST', `P/sessions/${fourth}/archive`, {});
});

test('a thread whose session failed goes on with the one that replaces it', async () => {
  const { db } = daemon.ctx;
  const say = await chatDoor(daemon);
  const follow = {
    event: 'chat.message.subscribed',
    where: { '$.svc.authored': false },
    routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
  };
  const triggers = [{ event: 'chat.message.mentioned', routing: { kind: 'spawn' } }, follow];
  await applyAgents(daemon.api, { talker: { concurrency: 1, replace: 'auto', triggers } });
  const thread = { ts: '100.1', thread_ts: '100' };
  const decided = async (event: string) =>
    (await routesOf(db, event)).map(({ decision, sessions }) => [decision, ...sessions]);
  const [[, first = ''] = []] = await decided(await say({ type: 'app_mention', text: '<@UBOT> help', ...thread }));
  const reply = async (text: string) => decided(await say({ type: 'message', text, ...thread }));
  assert.deepEqual(await reply('and then'), [['deliver', first]]);
  await failed(first);
  await db.query(`update svc.sessions set ended_at = now() - interval '1 hour' where id = $1::uuid`, [first]);
  const second = await successorTo(first);
  assert.deepEqual(await reply('still there?'), [['deliver', second]]);
  await daemon.api('POST', `P/sessions/${second}/archive`, {});
});

test('of an agent that is capped while several of its sessions live, no other begins before they have ended', async () => {
  const { db } = daemon.ctx;
  const crew = (more: object, ...routings: object[]) => ({
    crew: { ...more, triggers: routings.map((routing) => hook('crew', routing, { message: '{{ n }}' })) },
  });
  const paths = await applyAgents(daemon.api, crew({}, { kind: 'spawn' }));
  const sent = async (n: string) => {
    const id = await post(daemon.url, paths['crew'] ?? '', { n });
    await settled(db);
    return (await routesOf(db, id)).map(({ decision, sessions }) => ({ decision, to: sessions[0] ?? '' }));
  };
  const older = (await sent('one'))[0]?.to ?? '';
  const newer = (await sent('two'))[0]?.to ?? '';
  await applyAgents(daemon.api, crew({ concurrency: 1 }, { kind: 'spawn' }, { kind: 'deliver' }));
  assert.deepEqual(await sent('three'), [
    { decision: 'converted', to: newer },
    { decision: 'deliver', to: newer },
  ]);
  const byHand = await daemon.api('POST', 'P/agents/crew/sessions', { message: 'by hand' });
  assert.deepEqual([byHand.status, byHand.body['code']], [409, 'slot-taken']);
  await daemon.api('POST', `P/sessions/${newer}/archive`, {});
  assert.deepEqual((await sent('four'))[0], { decision: 'converted', to: older });
  // With `replace: auto` it is the slot's session that is stale.
  await applyAgents(daemon.api, crew({ concurrency: 1, replace: 'auto' }, { kind: 'spawn' }));
  const successor = async (): Promise<string | undefined> =>
    (await db.query<{ id: string }>('select id from svc.sessions where parent_id = $1::uuid', [older])).rows[0]?.id;
  while ((await successor()) === undefined) await upkeepTurn(daemon.ctx);
  assert.deepEqual((await sent('five'))[0], { decision: 'converted', to: await successor() });
  await daemon.api('POST', `P/sessions/${await successor()}/archive`, {});
  assert.equal((await sent('six'))[0]?.decision, 'spawn');
});

test('a session that may go on is let go however many are held back before it', async () => {
  const { db } = daemon.ctx;
  // Of one that has a slot, the platform would replace a session.
  await applyAgents(daemon.api, { capped: {} });
  const { rows: agents } = await db.query<{ id: string; projectId: string }>(
    `select id, project_id as "projectId" from svc.agents where name = 'capped'`,
  );
  const { rows } = await db.query<{ id: string }>(
    `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
     select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, $2::uuid, $1::uuid, 'keeper', 1, 'manual', 'blocked', 't',
            now(), now() from generate_series(1, 450) as n returning id`,
    [agents[0]?.id, agents[0]?.projectId],
  );
  const free = rows.at(-1)?.id;
  const ctx: typeof daemon.ctx = {
    ...daemon.ctx,
    // Of a daemon of its own: this one looks on behind where it looked last, every three seconds.
    metrics: createMetrics(),
    models: {
      check: async ({ spender }: { spender: { sessionId: string } }) =>
        spender.sessionId === free ? null : ({ code: 'capped' } as never),
    } as never,
  };
  const blocked = async (): Promise<number> =>
    (await db.query(`select from svc.sessions where state = 'blocked' and agent = 'keeper'`)).rowCount;
  for (let turn = 0; turn < 2; turn += 1) await upkeepTurn(ctx);
  assert.equal(await blocked(), 450);
  await upkeepTurn(ctx);
  assert.equal(await blocked(), 449);
  await upkeepTurn(ctx);
  assert.equal(await blocked(), 449);
});

test('inactive sessions of a project that somebody holds are left to a later turn, and those of others are archived', async () => {
  const { db } = daemon.ctx;
  const made = await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'other' });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const other: typeof daemon.api = (method, path, ...rest) =>
    daemon.api(method, path.replace(/^P(?=\/)/, '/api/v1/orgs/default/projects/other'), ...rest);
  const agents = { brief: { session: { archiveAfterInactive: { seconds: 60 } } } };
  await applyAgents(daemon.api, agents, false);
  await applyAgents(other, agents, false);
  const projectOf = async (slug: string): Promise<string> =>
    (await db.query<{ id: string }>('select id from svc.projects where slug = $1::text', [slug])).rows[0]?.id ?? '';
  const [held, free] = [await projectOf('default'), await projectOf('other')];
  const left = async (projectId: string): Promise<number> =>
    (await db.query(`select from svc.sessions where project_id = $1::uuid and agent = 'brief' and live`, [projectId]))
      .rowCount;
  const holder = openDatabase({ url: daemon.database.url, log: createLog('silent') });
  try {
    await holder.tx(async (tx) => {
      await lockRouting(tx, held);
      // More than a turn takes, and all of them older than the other project's.
      await db.query(
        `insert into svc.sessions (id, project_id, agent_id, agent, revision, origin, state, display_title, created_at, active_at)
         select gen_random_uuid(), a.project_id, a.id, a.name, a.revision, 'manual', 'idle', 't', now(),
                now() - case when a.project_id = $1::uuid then interval '1 day' else interval '1 hour' end
           from svc.agents a cross join generate_series(1, case when a.project_id = $1::uuid then 210 else 3 end)
          where a.name = 'brief'`,
        [held],
      );
      await upkeepTurn(daemon.ctx);
      assert.deepEqual([await left(held), await left(free)], [210, 0]);
    });
  } finally {
    await holder.close();
  }
  // A turn has only so long for it, and on a slow machine gets so far.
  const begun = performance.now();
  while ((await left(held)) > 0 && performance.now() - begun < 60_000) await upkeepTurn(daemon.ctx);
  assert.equal(await left(held), 0);
});
