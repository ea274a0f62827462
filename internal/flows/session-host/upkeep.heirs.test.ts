import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inProject } from '../../adapters/store/routing/project-lock.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import {
  applyAgents,
  bindingsOf,
  chatDoor,
  codehostDoor,
  emittedBy,
  routesOf,
  settled,
} from '../routing/routing-testkit.ts';
import { endSession } from '../sessions/sessions.ts';
import { eventually } from './host-crash-testkit.ts';

let daemon: TestDaemon;
let arrive: Awaited<ReturnType<typeof codehostDoor>>;
before(async () => {
  daemon = await startTestDaemon();
  arrive = await codehostDoor(daemon);
});
after(() => daemon.stop());

/** What happens to a pull request, from its delivery to the end of its routing: what was decided, and for whom. */
async function pull(action: string, number: number): Promise<string[][]> {
  const event = await arrive('pull_request', {
    action,
    number,
    repository: { id: 1, full_name: 'o/r', name: 'r', owner: { login: 'o' } },
    sender: { login: 'ann', id: 1, type: 'User' },
    pull_request: { number, head: { sha: `sha-${number}` } },
  });
  return (await routesOf(daemon.ctx.db, event)).map(({ decision, sessions }) => [decision, ...sessions]);
}

/** Ends a session as its host does where it cannot go on; the platform fills its slot again, but not now. */
async function fail(id: string): Promise<void> {
  const { db } = daemon.ctx;
  const text = 'select project_id as id from svc.sessions where id = $1::uuid';
  const { rows } = await db.query<{ id: string }>(text, [id]);
  await inProject(db, rows[0]?.id ?? '', (tx) => endSession(daemon.ctx, tx, id, 'failed', 'it came to harm'));
  await db.query(`update svc.sessions set ended_at = now() + interval '1 hour' where id = $1::uuid`, [id]);
  await settled(db);
}

test('what a session held when it failed passes to whoever takes its slot first', async () => {
  const { db } = daemon.ctx;
  const on = (action: string, more: object): object => ({
    event: `codehost.pull_request.${action}`,
    routing: { kind: 'bind', target: 'codehost.pull_request', ...more },
  });
  await applyAgents(daemon.api, {
    guard: {
      concurrency: 1,
      replace: 'auto',
      bindings: { 'codehost.pull_request': { lifecycle: 'held', eventContext: { updated: { phase: 'on' } } } },
      triggers: [on('opened', { onUnmatched: 'spawn' }), on('edited', {}), on('closed', { release: true })],
    },
  });
  const held = async () =>
    (await bindingsOf(db, 'guard')).map(({ target, session, state }) => [target.split('#')[1], session, state]);
  const [[, first = ''] = []] = await pull('opened', 1);
  assert.deepEqual(await pull('opened', 2), [['converted', first]]);
  await fail(first);
  // An event about something else fills the slot.
  const [[word, second = ''] = []] = await pull('opened', 3);
  assert.equal(word, 'unmatched-spawn');
  assert.deepEqual(await held(), [
    ['1', second, 'active'],
    ['2', second, 'active'],
    ['3', second, 'active'],
  ]);
  assert.deepEqual(await pull('edited', 1), [['deliver', second]]);
  assert.deepEqual(await pull('closed', 2), [['released', second]]);
  await fail(second);
  // One of those that wait: it is taken over once.
  const [[, third = ''] = []] = await pull('opened', 1);
  assert.deepEqual(await pull('edited', 3), [['deliver', third]]);
  await fail(third);
  const { status, body } = await daemon.api('POST', 'P/agents/guard/sessions', { message: 'by hand' });
  assert.equal(status, 201, JSON.stringify(body));
  const fourth = String(body['id']);
  await settled(db);
  assert.deepEqual(await held(), [
    ['1', fourth, 'active'],
    ['2', second, 'released'],
    ['3', fourth, 'active'],
  ]);
  assert.deepEqual(
    (await emittedBy(db, 'guard')).map(({ key, target, binding: { eventContext } }) => [
      key.slice('svc.session.binding.'.length),
      target,
      eventContext,
    ]),
    [
      ['bound', first, null],
      ['bound', first, null],
      ['bound', second, null],
      ['updated', second, { phase: 'on' }],
      ['updated', second, { phase: 'on' }],
      ['unbound', second, null],
      ['updated', third, { phase: 'on' }],
      ['updated', third, { phase: 'on' }],
      ['updated', fourth, { phase: 'on' }],
      ['updated', fourth, { phase: 'on' }],
    ],
  );
});

test('what waits for the one that replaces a failed session is released once nobody does', async () => {
  const { db } = daemon.ctx;
  const on = (action: string, more: object): object => ({
    event: `codehost.pull_request.${action}`,
    routing: { kind: 'bind', target: 'codehost.pull_request', ...more },
  });
  const warden = (more: object): object => ({
    concurrency: 1,
    bindings: { 'codehost.pull_request': { lifecycle: 'held', eventContext: { unbound: { phase: 'off' } } } },
    triggers: [on('opened', { onUnmatched: 'spawn' }), on('closed', { release: true })],
    ...more,
  });
  await applyAgents(daemon.api, { warden: warden({ replace: 'auto' }) });
  const held = async () => (await bindingsOf(db, 'warden')).map(({ session, state }) => [session, state]);
  await pull('opened', 11);
  await fail((await held())[0]?.[0] ?? '');
  assert.deepEqual(await held(), [[null, 'active']]);
  await applyAgents(daemon.api, { warden: warden({}) });
  await eventually('it is released', async () => (await held())[0]?.[1] === 'released');
  await settled(db);
  assert.deepEqual(
    (await emittedBy(db, 'warden')).map(({ key, binding: { eventContext } }) => [key.split('.').at(-1), eventContext]),
    [
      ['bound', null],
      ['unbound', { phase: 'off' }],
    ],
  );
});

test('the threads of sessions that failed in a slot go on with whoever takes it first', async () => {
  const { db } = daemon.ctx;
  const said = await chatDoor(daemon);
  const follow = {
    event: 'chat.message.subscribed',
    where: { '$.svc.authored': false },
    routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
  };
  const triggers = [{ event: 'chat.message.mentioned', routing: { kind: 'spawn' } }, follow];
  await applyAgents(daemon.api, { talker: { concurrency: 1, replace: 'auto', triggers } });
  const decided = async (event: object): Promise<string[][]> => {
    const id = await said(event);
    return (await routesOf(db, id)).map(({ decision, sessions }) => [decision, ...sessions]);
  };
  const mention = (ts: number) =>
    decided({ type: 'app_mention', text: '<@UBOT> help', ts: `${ts}.1`, thread_ts: `${ts}` });
  const reply = (ts: number) =>
    decided({ type: 'message', text: 'and?', ts: `${ts}.${Date.now()}`, thread_ts: `${ts}` });
  const [[, first = ''] = []] = await mention(100);
  await fail(first);
  // What is said in another thread fills the slot.
  const [[word, second = ''] = []] = await mention(200);
  assert.equal(word, 'spawn');
  assert.deepEqual([await reply(100), await reply(200)], [[['deliver', second]], [['deliver', second]]]);
  await fail(second);
  const made = await daemon.api('POST', 'P/agents/talker/sessions', { message: 'by hand' });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const third = String(made.body['id']);
  assert.deepEqual([await reply(100), await reply(200)], [[['deliver', third]], [['deliver', third]]]);
  await fail(third);
  await db.query(`update svc.sessions set ended_at = now() - interval '1 hour' where id = $1::uuid`, [third]);
  let fourth = '';
  await eventually('the platform fills it', async () => {
    const { rows } = await db.query<{ id: string }>(`select id from svc.sessions where parent_id = $1::uuid`, [third]);
    fourth = rows[0]?.id ?? '';
    return fourth !== '';
  });
  assert.deepEqual([await reply(100), await reply(200)], [[['deliver', fourth]], [['deliver', fourth]]]);
});
