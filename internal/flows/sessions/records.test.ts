import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { lockRouting, type RoutingTx } from '../../adapters/store/routing/routing-lock.ts';
import { timeOrderedId } from '../../base/runtime.ts';
import { Fault } from '../../domain/fault.ts';
import { type Bench, createBench } from './sessions-testkit.ts';
import { bindSession, createSessions, deliver, endSession, takeOver, unbindSession } from './sessions.ts';

const pull = (key: string) => ({ type: 'codehost.pull_request', key }) as const;
const free = { lifecycle: 'manual', continuity: 'session', context: null, eventContext: null } as const;

describe('session records', () => {
  let bench: Bench;
  const agentId = randomUUID();
  before(async () => {
    bench = await createBench();
  });
  after(() => bench.close());

  const locked = <T>(fn: (tx: RoutingTx) => Promise<T>): Promise<T> =>
    bench.db.tx(async (tx) => fn(await lockRouting(tx, bench.projectId)));
  const fresh = (more: { slot?: boolean; thread?: string } = {}) => ({
    id: timeOrderedId(bench.ctx.runtime),
    agentId,
    agent: 'a',
    revision: 1,
    origin: 'manual' as const,
    displayTitle: 'Title',
    hiddenContext: null,
    mountRefs: {},
    slot: more.slot === true,
    threads: more.thread === undefined ? [] : [more.thread],
    start: { text: 'Begin\0', sender: 'operator' as const },
  });
  const make = async (more?: Parameters<typeof fresh>[0]): Promise<string> => {
    const session = fresh(more);
    await locked((tx) => createSessions(bench.ctx, tx, [session]));
    return session.id;
  };
  const inbox = async (id: string) =>
    (
      await bench.db.query<{ text: string; state: string }>(
        `select m.text, i.state from svc.inbox i join svc.messages m using (session_id, seq)
          where session_id = $1::uuid order by seq`,
        [id],
      )
    ).rows;
  const told = async () =>
    (
      await bench.db.query<{ key: string; target: string }>(
        `select key, target_key as target from svc.events where router_status = 'pending' order by seq`,
      )
    ).rows;
  const active = async () =>
    (
      await bench.db.query<{ target: string; session: string | null }>(
        `select target_key as target, session_id as session from svc.bindings where state = 'active' order by target_key`,
      )
    ).rows;

  it('a new session has its claims, its first message and what it is told next, in order', async () => {
    const id = await make({ slot: true, thread: 't1' });
    await locked((tx) =>
      deliver(bench.ctx, tx, [
        { sessionId: id, text: 'one', sender: 'operator', mode: 'interrupt' },
        { sessionId: id, text: 'two', sender: 'operator', mode: 'defer' },
      ]),
    );
    assert.deepEqual(
      (await inbox(id)).map((row) => row.text),
      ['Begin\uFFFD', 'one', 'two'],
    );
    await assert.rejects(make({ slot: true }), { code: '23505' });
    await assert.rejects(make({ thread: 't1' }), { code: '23505' });
    assert.equal(await locked((tx) => endSession(bench.ctx, tx, id, 'archived', 'done')), true);
    assert.equal(await locked((tx) => endSession(bench.ctx, tx, id, 'archived', 'done')), false);
    assert.ok((await inbox(id)).every((row) => row.state === 'failed'));
    await locked((tx) => endSession(bench.ctx, tx, fresh().id, 'archived', 'unknown'));
    const next = await make({ slot: true, thread: 't1' });
    await locked((tx) => endSession(bench.ctx, tx, next, 'failed', 'over'));
  });

  it('an end releases what is bound to the session and leaves what is bound to its agent', async () => {
    const id = await make();
    const bind = (key: string, more: object) =>
      locked((tx) => bindSession(bench.ctx, tx, { sessionId: id, target: pull(key), ...free, ...more }));
    await bind('r#1', { eventContext: { bound: { a: 1 }, unbound: { b: 2 } } });
    await bind('r#2', { continuity: 'agent' });
    await locked((tx) => endSession(bench.ctx, tx, id, 'archived', 'done'));
    assert.deepEqual(await active(), [{ target: 'r#2', session: null }]);
    assert.deepEqual(
      (await told()).map((row) => row.key),
      ['bound', 'bound', 'unbound'].map((kind) => `svc.session.binding.${kind}`),
    );
    const { rows } = await bench.db.query<{ payload: Buffer }>(
      `select payload from svc.events e join svc.event_bodies b on b.event_id = e.id order by seq desc limit 1`,
    );
    const payload = JSON.parse(String(rows[0]?.payload)) as { binding: { sessionId: string; eventContext: unknown } };
    assert.equal(payload.binding.sessionId, id);
    assert.deepEqual(payload.binding.eventContext, { b: 2 });
    const heir = await make();
    await locked((tx) => bindSession(bench.ctx, tx, { sessionId: heir, target: pull('r#2'), ...free }));
    assert.deepEqual(await active(), [{ target: 'r#2', session: heir }]);
    assert.equal((await told()).at(-1)?.key, 'svc.session.binding.updated');
    await locked((tx) => endSession(bench.ctx, tx, heir, 'archived', 'done'));
    assert.deepEqual(await active(), []);
  });

  it('a held binding is released by an operator and not by its holder; no other live session gets it', async () => {
    const [id, other] = [await make(), await make()];
    const target = pull('r#3');
    const request = { sessionId: id, target, ...free, lifecycle: 'held' as const };
    await locked((tx) => bindSession(bench.ctx, tx, request));
    const before = (await told()).length;
    await locked((tx) => bindSession(bench.ctx, tx, request));
    assert.equal((await told()).length, before, 'binding the same again tells nothing');
    const refused = (code: string) => (error: unknown) => error instanceof Fault && error.code === code;
    await assert.rejects(
      locked((tx) => bindSession(bench.ctx, tx, { ...request, sessionId: other })),
      refused('target-bound'),
    );
    const by = { sessionId: id, target };
    await assert.rejects(
      locked((tx) => unbindSession(bench.ctx, tx, { by, authority: 'session' })),
      refused('binding-held'),
    );
    const released = await locked((tx) => unbindSession(bench.ctx, tx, { by, authority: 'operator' }));
    assert.equal(released?.state, 'released');
    assert.equal(await locked((tx) => unbindSession(bench.ctx, tx, { by, authority: 'operator' })), undefined);
    await locked((tx) => endSession(bench.ctx, tx, id, 'archived', 'done'));
    await assert.rejects(
      locked((tx) => bindSession(bench.ctx, tx, request)),
      refused('session-ended'),
    );
    await locked((tx) => endSession(bench.ctx, tx, other, 'archived', 'done'));
  });

  it('a successor gets the slot, held bindings, claims of the agent and what was not heard', async () => {
    const id = await make({ slot: true });
    const bind = (key: string, more: object) =>
      locked((tx) => bindSession(bench.ctx, tx, { sessionId: id, target: pull(key), ...free, ...more }));
    await bind('s#1', {});
    await bind('s#2', { lifecycle: 'held' });
    await bind('s#3', { continuity: 'agent' });
    const successor = { ...fresh({ slot: true }), origin: 'replacement' as const, parentId: id };
    await locked((tx) => takeOver(bench.ctx, tx, id, successor, 'stale'));
    assert.deepEqual(await active(), [
      { target: 's#2', session: successor.id },
      { target: 's#3', session: successor.id },
    ]);
    assert.deepEqual(
      (await inbox(successor.id)).map((row) => row.text),
      ['Begin\uFFFD', 'Begin\uFFFD'],
    );
    const { rows } = await bench.db.query<{ state: string; live: boolean }>(
      'select state, live from svc.sessions where id = $1::uuid',
      [id],
    );
    assert.deepEqual(rows, [{ state: 'replaced', live: false }]);
  });

  it('a session belongs to a project that is there, and all of it goes with the project', async () => {
    const id = await make({ thread: 'last' });
    const nowhere = randomUUID();
    await assert.rejects(
      bench.db.tx(async (tx) => createSessions(bench.ctx, await lockRouting(tx, nowhere), [fresh()])),
      { code: '23503' },
    );
    await bench.db.query('delete from svc.projects where id = $1::uuid', [bench.projectId]);
    for (const table of ['messages', 'inbox', 'session_claims']) {
      const { rows } = await bench.db.query(`select 1 from svc.${table} where session_id = $1::uuid`, [id]);
      assert.equal(rows.length, 0, table);
    }
    assert.equal((await bench.db.query('select 1 from svc.sessions where id = $1::uuid', [id])).rows.length, 0);
  });
});
