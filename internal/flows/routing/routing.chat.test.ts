import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { bindSession } from '../sessions/sessions.ts';
import { lockRouting } from '../../adapters/store/routing/routing-lock.ts';
import {
  applyAgents,
  archive,
  bindingsOf,
  chatDoor,
  emittedBy,
  eventState,
  hook,
  post,
  routesOf,
  type SessionState,
  sessionsOf,
  settled,
} from './routing-testkit.ts';

const mention = (thread: string, text = 'help', more: object = {}) => ({
  type: 'app_mention',
  text: `<@UBOT> ${text}`,
  ts: `${thread}.1`,
  thread_ts: thread,
  ...more,
});
const reply = (thread: string, text: string, more: object = {}) => ({
  type: 'message',
  text,
  ts: `${thread}.2`,
  thread_ts: thread,
  ...more,
});

describe('threads, observers and the loops they could make', () => {
  let daemon: TestDaemon;
  let say: (event: object) => Promise<string>;
  before(async () => {
    daemon = await startTestDaemon();
    say = await chatDoor(daemon);
  });
  after(() => daemon.stop());
  const only = async (agents: { readonly [name: string]: object }) => applyAgents(daemon.api, agents, true);
  const decided = async (event: string): Promise<string[]> =>
    (await routesOf(daemon.ctx.db, event)).map((one) => `${one.agent}#${one.ordinal} ${one.decision}`);
  const heard = (session: SessionState | undefined): string[] => session?.messages.map(({ text }) => text) ?? [];

  it('a thread has one session per agent, told what was said, with the ids of where', async () => {
    const { db } = daemon.ctx;
    const follow = {
      event: 'chat.message.subscribed',
      where: { '$.svc.authored': false },
      routing: { kind: 'deliver', routeBy: { kind: 'attributedSessions' } },
    };
    await only({
      helper: { triggers: [{ event: 'chat.message.mentioned', routing: { kind: 'spawn' } }, follow] },
      second: { triggers: [{ event: 'chat.message.mentioned', routing: { kind: 'spawn' }, message: 'Called' }] },
    });
    await say(mention('100'));
    const again = await say(mention('100', 'more'));
    const [route] = await routesOf(db, again);
    assert.deepEqual([route?.decision, route?.because], ['converted', 'thread']);
    const next = await say(reply('100', 'and then', { user: 'U2' }));
    assert.deepEqual(await decided(next), ['helper#1 deliver']);
    const elsewhere = await say(reply('101', 'unrelated'));
    assert.deepEqual(await decided(elsewhere), ['helper#1 unmatched-drop']);
    const own = await say(reply('100', 'my own words', { user: 'UBOT' }));
    assert.deepEqual(await decided(own), [], 'what the service says itself comes back to nobody');
    const [session, ...others] = await sessionsOf(db, 'helper');
    assert.equal(others.length, 0);
    const place = (message: string) => `\n\nChannel: C1\nThread: 100\nMessage: ${message}`;
    assert.deepEqual(heard(session), [
      `U1: <@UBOT> help${place('100.1')}`,
      `U1: <@UBOT> more${place('100.1')}`,
      `U2: and then${place('100.2')}`,
    ]);
    assert.deepEqual((await sessionsOf(db, 'second')).map(heard), [
      [`Called${place('100.1')}`, `Called${place('100.1')}`],
    ]);
    assert.deepEqual(
      (await eventState(db, next)).attributions?.map((one) => one.relation),
      ['thread', 'thread'],
    );
    await archive(daemon, session?.id ?? '');
    assert.deepEqual(await decided(await say(reply('100', 'too late'))), ['helper#1 unmatched-drop']);
    assert.deepEqual(await decided(await say(mention('100', 'anew'))), ['helper#0 spawn', 'second#0 converted']);
  });

  it('a mention binds the thread to the session that it was delivered to', async () => {
    const { db } = daemon.ctx;
    const paths = await only({
      clerk: {
        concurrency: 1,
        triggers: [
          hook('begin', { kind: 'spawn' }),
          {
            event: 'chat.message.mentioned',
            routing: { kind: 'deliver', bind: { target: 'chat.thread', continuity: 'agent' } },
            message: 'mentioned',
          },
          {
            event: 'chat.reaction.added',
            routing: { kind: 'bind', target: 'chat.thread', onUnmatched: 'warn' },
          },
        ],
      },
    });
    await post(daemon.url, paths['begin'] ?? '', {});
    await settled(db);
    const reaction = { type: 'reaction_added', reaction: 'eyes', item: { type: 'message', channel: 'C1', ts: '200' } };
    assert.deepEqual(await decided(await say(reaction)), ['clerk#2 unmatched-warn']);
    await say(mention('200'));
    await say(mention('200'));
    const bindings = await bindingsOf(db, 'clerk');
    const [session] = await sessionsOf(db, 'clerk');
    assert.deepEqual(
      bindings.map((one) => [one.session, one.target, one.state, one.continuity]),
      [[session?.id, 'chat.thread:slack:T1:C1:200', 'active', 'agent']],
    );
    await say(reaction);
    assert.match(heard(session === undefined ? undefined : (await sessionsOf(db, 'clerk'))[0]).at(-1) ?? '', /eyes/);
  });

  it('a reaction to what the service said is told from one to what others said', async () => {
    await only({
      critic: {
        triggers: [
          {
            events: ['chat.reaction.added', 'chat.reaction.removed'],
            where: { '$.message.author.isMe': true, '$.reaction.user.isMe': false },
            routing: { kind: 'bind', target: 'chat.thread', onUnmatched: 'warn' },
          },
        ],
      },
    });
    const on = (type: string, more: object) =>
      say({ type, reaction: 'eyes', item: { type: 'message', channel: 'C1', ts: '700' }, ...more });
    assert.deepEqual(await decided(await on('reaction_added', { item_user: 'UBOT' })), ['critic#0 unmatched-warn']);
    assert.deepEqual(await decided(await on('reaction_removed', { item_user: 'UBOT' })), ['critic#1 unmatched-warn']);
    for (const others of [{ item_user: 'U2' }, { item_user: 'UBOT', user: 'UBOT' }, {}])
      assert.deepEqual(await decided(await on('reaction_added', others)), []);
  });

  it('an observer follows what it observes, onto a target and off again', async () => {
    const { db } = daemon.ctx;
    const on = (kind: string, observedTarget: object): object => ({
      event: `svc.session.binding.${kind}`,
      routing: { kind: 'bind', target: 'svc.session', observedTarget },
      message: `${kind} {{ binding.target.key }}`,
    });
    const paths = await only({
      worker: { triggers: [hook('work', { kind: 'spawn' })] },
      watcher: {
        triggers: [
          hook('watch', { kind: 'spawn' }),
          on('bound', { action: 'bind', context: { why: 'observed' }, eventContext: { unbound: { seen: true } } }),
          on('unbound', { action: 'unbind' }),
        ],
      },
    });
    for (const path of ['work', 'watch']) await post(daemon.url, paths[path] ?? '', {});
    await settled(db);
    const worker = (await sessionsOf(db, 'worker'))[0]?.id ?? '';
    const watcher = (await sessionsOf(db, 'watcher'))[0]?.id ?? '';
    const { rows } = await db.query<{ id: string }>(`select id from svc.projects where slug = 'default'`);
    const locked = <T>(fn: (tx: Awaited<ReturnType<typeof lockRouting>>) => Promise<T>): Promise<T> =>
      db.tx(async (tx) => fn(await lockRouting(tx, rows[0]?.id ?? '')));
    const free = { lifecycle: 'manual', continuity: 'session', context: null, eventContext: null } as const;
    const bind = (sessionId: string, target: { type: 'svc.session' | 'tracker.issue'; key: string }) =>
      locked((tx) => bindSession(daemon.ctx, tx, { sessionId, target, ...free }));
    await bind(watcher, { type: 'svc.session', key: worker });
    await bind(worker, { type: 'tracker.issue', key: 'i-1' });
    await settled(db);
    const targets = async () =>
      (await bindingsOf(db, 'watcher')).filter((one) => one.state === 'active').map((one) => [one.target, one.context]);
    assert.deepEqual(await targets(), [
      [`svc.session:${worker}`, null],
      ['tracker.issue:i-1', { why: 'observed' }],
    ]);
    await archive(daemon, worker);
    assert.deepEqual(await targets(), [[`svc.session:${worker}`, null]]);
    assert.deepEqual(heard((await sessionsOf(db, 'watcher'))[0]).slice(1), ['bound i-1', 'unbound i-1']);
    const unbound = (await emittedBy(db, 'watcher')).find((one) => one.key.endsWith('unbound'));
    assert.deepEqual(unbound?.binding.eventContext, { seen: true });
  });

  it('agents that answer every binding with a binding are stopped with an error', async () => {
    const { db } = daemon.ctx;
    const echo = {
      triggers: [
        hook('first', { kind: 'bind', target: 'svc.session', onUnmatched: 'spawn' }),
        {
          events: ['svc.session.binding.bound', 'svc.session.binding.updated'],
          routing: { kind: 'spawn', bind: { target: 'svc.session' } },
        },
      ],
    };
    const paths = await only({
      echo,
      start: {
        triggers: [
          hook('go', { kind: 'spawn' }),
          { event: 'chat.message.mentioned', routing: { kind: 'spawn', bind: { target: 'chat.thread' } } },
        ],
      },
    });
    assert.ok(paths['go']);
    await say(mention('300'));
    const { rows } = await db.query<{ depth: number; status: string; severity: string | null; because: string | null }>(
      `select e.depth, e.router_status as status, e.severity, r.because
         from svc.events e left join svc.event_routes r on r.event_id = e.id and r.agent = 'echo'
        where e.key = 'svc.session.binding.bound' and e.depth > 2 order by e.seq`,
    );
    assert.deepEqual(rows, [
      { depth: 3, status: 'routed', severity: null, because: null },
      { depth: 4, status: 'routed', severity: null, because: null },
      { depth: 5, status: 'unmatched', severity: 'error', because: 'loop' },
    ]);
  });
});
