import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import {
  applyAgents,
  archive,
  eventState,
  hook,
  post,
  routesOf,
  type SessionState,
  sessionsOf,
  settled,
} from './routing-testkit.ts';

const spawn = { kind: 'spawn' };

describe('webhooks become sessions', () => {
  let daemon: TestDaemon;
  before(async () => {
    daemon = await startTestDaemon();
  });
  after(() => daemon.stop());
  const send = async (path: string | undefined, body: object): Promise<string> => {
    const id = await post(daemon.url, path ?? '', body);
    await settled(daemon.ctx.db);
    return id;
  };
  const decided = async (event: string): Promise<string[]> =>
    (await routesOf(daemon.ctx.db, event)).map((one) => `${one.agent}#${one.ordinal} ${one.decision}`);
  const heard = (session: SessionState | undefined): string[] => session?.messages.map(({ text }) => text) ?? [];

  it('one event, one session, told in the words of the trigger, however often it arrives', async () => {
    const { db } = daemon.ctx;
    const paths = await applyAgents(daemon.api, {
      one: { displayTitle: 'About {{ n }}', triggers: [hook('one', spawn, { message: 'Number {{ n }}' })] },
    });
    const id = await send(paths['one'], { n: 7, dedupKey: 'a' });
    const [session, ...others] = await sessionsOf(db, 'one');
    assert.equal(others.length, 0);
    assert.equal(session?.title, 'About 7');
    assert.deepEqual(
      session.messages.map(({ text, mode, event, state }) => [text, mode, event, state]),
      [['Number 7', 'interrupt', id, 'pending']],
    );
    assert.deepEqual(await routesOf(db, id), [
      { event: id, agent: 'one', ordinal: 0, decision: 'spawn', sessions: [session.id], because: null, severity: null },
    ]);
    assert.equal((await eventState(db, id)).status, 'routed');
    assert.equal(await send(paths['one'], { n: 7, dedupKey: 'a' }), id);
    assert.equal((await sessionsOf(db, 'one')).length, 1);
  });

  it('every trigger that matches has its own session, and a fallback none beside them', async () => {
    const paths = await applyAgents(daemon.api, {
      'many-a': { triggers: [hook('many', spawn, { where: { kind: 'x' } }), hook('many', spawn)] },
      'many-b': {
        triggers: [
          hook('many', spawn, { where: { kind: 'x' } }),
          hook('many', spawn, { fallback: true, where: { odd: true } }),
        ],
      },
      'many-c': { triggers: [hook('elsewhere', spawn, { fallback: true })] },
    });
    const both = await send(paths['many'], { kind: 'x', odd: true });
    assert.deepEqual(await decided(both), ['many-a#0 spawn', 'many-a#1 spawn', 'many-b#0 spawn']);
    assert.equal(new Set((await routesOf(daemon.ctx.db, both)).flatMap((one) => one.sessions)).size, 3);
    await applyAgents(daemon.api, { 'many-a': { triggers: [hook('many', spawn, { where: { kind: 'x' } })] } });
    assert.deepEqual(await decided(await send(paths['many'], { kind: 'y', odd: true })), ['many-b#1 spawn']);
    const nobody = await send(paths['many'], { kind: 'y' });
    assert.deepEqual(await decided(nobody), [], 'a fallback is of its own endpoint, and its where still applies');
    assert.equal((await eventState(daemon.ctx.db, nobody)).status, 'unmatched');
    assert.deepEqual(await decided(await send(paths['elsewhere'], { kind: 'y' })), ['many-c#0 spawn']);
  });

  it('a number that no double can hold is matched and told by its digits', async () => {
    const where = { big: { notIn: [9_007_199_254_740_992] } };
    const paths = await applyAgents(daemon.api, {
      exact: { triggers: [hook('exact', spawn, { where, message: 'It is {{ big }}' })] },
    });
    const response = await fetch(`${daemon.url}${paths['exact']}`, {
      method: 'POST',
      body: '{"big":9007199254740993}',
    });
    assert.equal(response.status, 202);
    await settled(daemon.ctx.db);
    const [session] = await sessionsOf(daemon.ctx.db, 'exact');
    assert.deepEqual(heard(session), ['It is 9007199254740993']);
  });

  it('text that the database cannot hold is told with the replacement character', async () => {
    const paths = await applyAgents(daemon.api, {
      odd: { triggers: [hook('odd', spawn, { message: 'So: {{ s }}' })] },
    });
    const id = await send(paths['odd'], { s: 'a\0b\ud800c' });
    assert.equal((await eventState(daemon.ctx.db, id)).status, 'routed');
    assert.deepEqual(heard((await sessionsOf(daemon.ctx.db, 'odd'))[0]), ['So: a\uFFFDb\uFFFDc']);
  });

  it('without a slot member every policy does as it says; the spawn takes the slot', async () => {
    const to = (onUnmatched: string): object => hook('slot', { kind: 'deliver', onUnmatched }, { message: '{{ n }}' });
    const paths = await applyAgents(daemon.api, {
      'slot-drop': { concurrency: 1, triggers: [to('drop')] },
      'slot-error': { concurrency: 1, triggers: [to('error')] },
      'slot-spawn': { triggers: [to('spawn')] },
      'slot-warn': { concurrency: 1, triggers: [to('warn')] },
    });
    const first = await send(paths['slot'], { n: 1 });
    assert.deepEqual(await decided(first), [
      'slot-drop#0 unmatched-drop',
      'slot-error#0 unmatched-error',
      'slot-spawn#0 unmatched-spawn',
      'slot-warn#0 unmatched-warn',
    ]);
    const { status, severity } = await eventState(daemon.ctx.db, first);
    assert.deepEqual([status, severity], ['routed', 'error']);
    await send(paths['slot'], { n: 2 });
    const [member, ...others] = await sessionsOf(daemon.ctx.db, 'slot-spawn');
    assert.equal(others.length, 0);
    assert.deepEqual(heard(member), ['1', '2']);
    await archive(daemon, member?.id ?? '');
    await send(paths['slot'], { n: 3 });
    assert.deepEqual((await sessionsOf(daemon.ctx.db, 'slot-spawn')).map(heard), [['1', '2'], ['3']]);
  });

  it('a spawn of a capped agent is a delivery to its live session, with all that it would have started with', async () => {
    const more = { attachedUserPrompt: 'Do {{ this }}.', message: 'n={{ n }}' };
    const paths = await applyAgents(daemon.api, {
      capped: { concurrency: 1, triggers: [hook('capped', spawn, more)] },
    });
    await send(paths['capped'], { n: 1 });
    const second = await send(paths['capped'], { n: 2 });
    const [session, ...others] = await sessionsOf(daemon.ctx.db, 'capped');
    assert.equal(others.length, 0);
    assert.equal(session?.hidden, 'n=1');
    assert.equal(session.title, 'Do {{ this }}.');
    assert.deepEqual(heard(session), ['Do {{ this }}.', 'Do {{ this }}.\n\nn=2']);
    const [route] = await routesOf(daemon.ctx.db, second);
    assert.deepEqual([route?.decision, route?.because, route?.sessions], ['converted', 'slot', [session.id]]);
  });

  it('an unmatched spawn that finds the slot taken tells the message of its route, and no initial prompt', async () => {
    const routes = [
      { kind: 'bind', target: 'chat.thread', onUnmatched: 'spawn' },
      { kind: 'deliver', routeBy: { kind: 'attributedSessions' }, onUnmatched: 'spawn' },
    ];
    for (const [index, routing] of routes.entries()) {
      const name = `late-${index}`;
      const triggers = [hook(name, routing, { message: 'n={{ n }}' }), hook(name, routing, { where: { both: true } })];
      const paths = await applyAgents(daemon.api, {
        [name]: { concurrency: 1, initialPrompt: 'Begin with {{ n }}.', triggers },
      });
      await send(paths[name], { n: 1 });
      const second = await send(paths[name], { n: 2, both: true });
      assert.deepEqual(await decided(second), [`${name}#0 converted`, `${name}#1 converted`]);
      const [session, ...others] = await sessionsOf(daemon.ctx.db, name);
      assert.equal(others.length, 0);
      const generic = 'The event webhook.received arrived. Review it and act as your instructions say.';
      assert.deepEqual(heard(session), [index === 0 ? 'Begin with 1.' : 'n=1', 'n=2', generic]);
    }
  });

  it('all live sessions hear in the order in which they were made, and the ended ones do not', async () => {
    const all = { kind: 'deliver', routeBy: { kind: 'allLiveSessions' } };
    const paths = await applyAgents(daemon.api, {
      choir: { triggers: [hook('new', spawn, { message: 'new {{ n }}' }), hook('all', all, { message: 'all' })] },
    });
    for (const n of [1, 2, 3]) await send(paths['new'], { n });
    const made = (await sessionsOf(daemon.ctx.db, 'choir')).map((one) => one.id);
    await archive(daemon, made[1] ?? '');
    const id = await send(paths['all'], {});
    assert.deepEqual((await routesOf(daemon.ctx.db, id))[0]?.sessions, [made[0], made[2]]);
    assert.deepEqual((await sessionsOf(daemon.ctx.db, 'choir')).map(heard), [
      ['new 1', 'all'],
      ['new 2'],
      ['new 3', 'all'],
    ]);
  });

  it('a session whose mount ref cannot be rendered is refused, the others are made', async () => {
    const mounts = [{ kind: 'git', repository: 'o/r', mountPath: '/w', ref: 'refs/{{ payload.branch }}' }];
    const paths = await applyAgents(daemon.api, {
      'ref-a': { mounts, triggers: [hook('ref', spawn)] },
      'ref-b': { initialPrompt: 'Look at {{ n }}.', triggers: [hook('ref', spawn)] },
    });
    const id = await send(paths['ref'], { n: 1 });
    const [refused, made] = await routesOf(daemon.ctx.db, id);
    assert.deepEqual([refused?.decision, refused?.severity, refused?.sessions], ['unmatched-error', 'error', []]);
    assert.match(refused?.because ?? '', /mount \/w.*payload\.branch/);
    const asked = { event: 'webhook.received', endpoint: 'ref', payload: { n: 1 } };
    const would = (await daemon.api('POST', 'P/triggers/explain', asked)).body['triggers'] as unknown as object[];
    const [told, other] = would.map((one) => ({ decision: 'none', because: 'nothing', ...one }));
    assert.deepEqual([told?.decision, told?.because], ['unmatched-error', refused?.because]);
    assert.deepEqual([other?.decision, other?.because], ['spawn', 'nothing']);
    assert.equal(made?.decision, 'spawn');
    assert.deepEqual(heard((await sessionsOf(daemon.ctx.db, 'ref-b'))[0]), ['Look at 1.']);
    const { status, severity } = await eventState(daemon.ctx.db, id);
    assert.deepEqual([status, severity], ['routed', 'error']);
    await send(paths['ref'], { branch: 'main' });
    const [session] = await sessionsOf(daemon.ctx.db, 'ref-a');
    assert.deepEqual(session?.refs, { '/w': 'refs/main' });
    assert.match(heard(session)[0] ?? '', /^The event webhook\.received arrived/);
  });

  it('triggers count as they stand when the event is routed', async () => {
    const paths = await applyAgents(daemon.api, { swap: { triggers: [hook('swap', spawn, { message: 'old' })] } });
    await send(paths['swap'], {});
    await applyAgents(daemon.api, { swap: { triggers: [hook('swap', spawn, { message: 'new' })] } });
    await send(paths['swap'], {});
    await applyAgents(daemon.api, { swap: {} });
    const id = await send(paths['swap'], {});
    assert.equal((await eventState(daemon.ctx.db, id)).status, 'unmatched');
    assert.deepEqual((await sessionsOf(daemon.ctx.db, 'swap')).map(heard), [['old'], ['new']]);
    const { rows } = await daemon.ctx.db.query<{ revision: number }>(
      `select revision from svc.sessions where agent = 'swap' order by id`,
    );
    assert.deepEqual(rows, [{ revision: 1 }, { revision: 2 }]);
  });
});
