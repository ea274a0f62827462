// Places of a host (docs/reference/sessions.md#places): who gets one, who gives one up, what those that wait are told; and
// turns that are told to end.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { suspendLapsed } from '../../adapters/store/sessions/hosts.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import { eventually, processesOf } from './host-crash-testkit.ts';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';

/** Between two turns with nothing left to hear. */
const rests = ({ state, body }: Pick<SessionView, 'state' | 'body'>): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;
const said = (text: string) => (view: SessionView) => rests(view) && view.said.includes(text);
const runs = (view: SessionView): boolean => view.state === 'running';
const waits = ({ body }: SessionView): unknown[] => [body['state'], body['reason'], body['position'], body['loaded']];

/** Its place is somebody else's before all of it is over. */
const isUnloaded = ({ body }: SessionView): boolean => body['loaded'] === (false as never);

/** Another project, with an agent of its own. */
async function addProject(api: Api, slug: string): Promise<void> {
  const org = '/api/v1/orgs/default/projects';
  assert.equal((await api('POST', org, { slug, name: slug })).status, 201);
  const environment = { name: 'base', image: { kind: 'preset', name: 'base' } };
  const agent = { name: 'plain', harness: 'harness-a', environment };
  const files = [{ path: '.svc/agents/plain.yaml', content: JSON.stringify(agent) }];
  assert.equal((await api('POST', `${org}/${slug}/apply`, { files })).status, 200);
}

describe('two places', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench({ config: { file: { sessions: { max: 2, unloadAfterSeconds: 1 } } } });
    await bench.apply({ plain: {}, other: {} });
  });
  after(() => bench.stop());
  const archive = (session: string) => bench.daemon.api('POST', `P/sessions/${session}/archive`);
  /** As whoever looks finds it whose host was lost. */
  const lapse = (session: string): Promise<void> =>
    bench.daemon.ctx.db.tx(async (tx) => {
      await tx.query(`update svc.session_leases set until = now() - interval '1 hour' where session_id = $1::uuid`, [
        session,
      ]);
      assert.deepEqual(await suspendLapsed(tx), [session]);
    });
  /** The same between two turns. */
  const lose = async (session: string): Promise<void> => {
    await lapse(session);
    await bench.until(session, (view) => view.state === 'idle' && isUnloaded(view));
  };

  it('go to whoever has something to do: one that rests gives its own up, stays idle and goes on at its next message', async () => {
    const first = await bench.start('plain', '!say first');
    await bench.until(first, said('first'));
    const second = await bench.start('plain', '!say second');
    await bench.until(second, said('second'));
    await sleep(2_500);
    for (const session of [first, second]) {
      assert.equal((await bench.view(session)).body['loaded'], true, 'while nobody waits no place is asked back');
    }
    const third = await bench.start('other', '!say third');
    await bench.until(third, said('third'));
    const gone = await bench.until(first, isUnloaded);
    assert.deepEqual(waits(gone), ['idle', undefined, undefined, false], 'the longest at rest');
    assert.deepEqual(processesOf(first, bench.daemon.dataDir), []);
    assert.equal((await bench.view(second)).body['loaded'], true);
    await bench.send(first, '!say back again');
    const back = await bench.until(first, said('back again'));
    assert.ok(back.texts.includes('The session goes on.'), back.texts.join('\n'));
    assert.equal((await bench.heard(first)).length, 2, 'in its own conversation');
    for (const session of [first, second, third]) await archive(session);
  });

  it('are kept by a session in which somebody runs a program, until it has ended', async () => {
    const { url, token } = bench.daemon;
    const first = await bench.start('plain', '!say first');
    await bench.until(first, said('first'));
    const leave = new AbortController();
    const exec = await fetch(`${url}/api/v1/orgs/default/projects/default/sessions/${first}/exec`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ argv: ['sh', '-c', 'echo on; exec sleep 600'] }),
      signal: leave.signal,
    });
    assert.equal((await exec.body?.getReader().read())?.done, false);
    const second = await bench.start('plain', '!say second');
    await bench.until(second, said('second'));
    const third = await bench.start('other', '!say third');
    await bench.until(third, said('third'));
    const gone = await bench.until(second, isUnloaded);
    assert.deepEqual(waits(gone), ['idle', undefined, undefined, false], 'though it rested less');
    assert.equal((await bench.view(first)).body['loaded'], true);
    leave.abort();
    await bench.send(third, '!sleep 600000');
    await bench.until(third, runs);
    const fourth = await bench.start('other', '!say fourth');
    await bench.until(fourth, said('fourth'));
    await bench.until(first, isUnloaded);
    for (const session of [first, second, third, fourth]) await archive(session);
  });

  it('that are taken make others wait, who say so with their number in the queue, projects in turn', async () => {
    const { api } = bench.daemon;
    const org = '/api/v1/orgs/default/projects';
    await addProject(api, 'far');
    const resting = await bench.start('plain', '!say rests');
    await bench.until(resting, said('rests'));
    const busy = [await bench.start('plain', '!sleep 600000'), await bench.start('plain', '!sleep 600000')];
    for (const session of busy) await bench.until(session, runs);
    await bench.until(resting, isUnloaded);
    const queued = [await bench.start('plain', '!say one'), await bench.start('plain', '!say two')];
    await bench.send(resting, '!say woken');
    const far = await api('POST', `${org}/far/agents/plain/sessions`, { message: '!sleep 600000' });
    const farPath = `${org}/far/sessions/${String(far.body['id'])}`;
    const told = async (): Promise<unknown[]> => {
      const rows = await Promise.all([...queued, resting].map(async (session) => waits(await bench.view(session))));
      const { body } = await api('GET', farPath);
      return [...rows, [body['state'], body['reason'], body['position'], body['loaded']]];
    };
    assert.deepEqual(await told(), [
      ['queued', 'capacity', 2, false],
      ['queued', 'capacity', 3, false],
      ['idle', 'capacity', 4, false],
      ['queued', 'capacity', 1, false],
    ]);
    // Its launch failed, and is due again since: what it waits for now is a place.
    await bench.daemon.ctx.db.query(
      `update svc.sessions set waits_for = 'engine', reason = 'engine-unreachable: gone', engine_reason = 'engine-unreachable',
         failures = 1, retry_at = now() - interval '1 minute' where id = $1::uuid`,
      [queued[0]],
    );
    assert.deepEqual((await told())[0], ['queued', 'capacity', 2, false]);
    const due = (await bench.view(queued[0] ?? '')).body;
    assert.deepEqual([due['reasonText'], due['engineReason']], [undefined, undefined]);
    const { body } = await api('GET', 'P/sessions?state=queued');
    const listed = body['items'] as unknown as { id: string; reason: string; position: number }[];
    assert.deepEqual(listed.map(({ id, reason, position }) => [id, reason, position]).toReversed(), [
      [queued[0], 'capacity', 2],
      [queued[1], 'capacity', 3],
    ]);
    // Its host is lost in a turn, and its place goes to the other project: its message waits again, the oldest of its own.
    const [lost = '', lasting = ''] = busy;
    await lapse(lost);
    await eventually(
      'the other has the place',
      async () => (await api('GET', farPath)).body['state'] === ('running' as never),
    );
    assert.deepEqual(waits(await bench.view(lost)), ['suspended', 'capacity', 1, false]);
    assert.deepEqual((await told()).slice(0, 3), [
      ['queued', 'capacity', 2, false],
      ['queued', 'capacity', 3, false],
      ['idle', 'capacity', 4, false],
    ]);
    await archive(lasting);
    assert.equal((await api('POST', `${farPath}/archive`)).status, 200);
    await bench.until(lost, runs);
    await archive(lost);
    for (const [session, text] of [
      [queued[0], 'one'],
      [queued[1], 'two'],
      [resting, 'woken'],
    ] as const) {
      await bench.until(session ?? '', said(text));
    }
    for (const session of [...queued, resting]) await archive(session ?? '');
  });

  it('are not taken by sessions with nothing to do when the daemon comes back, and what waits for nothing rests', async () => {
    const session = await bench.start('plain', '!say hello');
    await bench.until(session, said('hello'));
    await lose(session);
    await bench.send(session, '!say again');
    await bench.until(session, said('again'));
    await archive(session);
  });

  it('are not waited for by one whose host is lost while its turn is being stopped: nothing waits in it', async () => {
    const session = await bench.start('plain', '!hang');
    await bench.until(session, runs);
    assert.equal((await bench.daemon.api('POST', `P/sessions/${session}/interrupt`)).status, 202);
    await bench.until(session, ({ state }) => state === 'interrupting');
    await lose(session);
    const { reason, body } = await bench.view(session);
    assert.deepEqual([reason, body['inbox']?.['done'], body['lastTurn']?.['state']], [null, 1, 'cancelled']);
    await bench.send(session, '!say again');
    await bench.until(session, said('again'));
    await archive(session);
  });

  it('whose environment has another name by now goes on in that one', async () => {
    const moving = (name: string) => ({
      moving: { environment: { name, image: { kind: 'preset', name: 'base' }, env: { OF: name } } },
    });
    await bench.apply(moving('first'));
    const session = await bench.start('moving', '!env OF');
    await bench.until(session, said('OF=first'));
    await bench.apply(moving('second'));
    await lose(session);
    await bench.send(session, '!env OF');
    await bench.until(session, said('OF=second'));
    await archive(session);
  });
});

/** Of the two places of a project, one on each of two daemons, `resting` has the one where there is room for many more. */
async function holdsBack(bench: HostBench, resting: string): Promise<void> {
  const { api } = bench.daemon;
  const held = await bench.start('plain', '!say my turn');
  await addProject(api, 'elsewhere');
  const elsewhere = '/api/v1/orgs/default/projects/elsewhere';
  const { body } = await api('POST', `${elsewhere}/agents/plain/sessions`, { message: '!say elsewhere' });
  const isThere = async (): Promise<boolean> => {
    const now = await api('GET', `${elsewhere}/sessions/${String(body['id'])}`);
    return now.body['loaded'] === (true as never);
  };
  await eventually('the session of another project, which came later, has a place', isThere);
  assert.deepEqual(waits(await bench.view(held)), ['queued', 'capacity', 2, false]);
  await api('POST', `P/sessions/${resting}/archive`);
  await bench.until(held, said('my turn'));
  await api('POST', `P/sessions/${held}/archive`);
}

describe('two daemons, of which one has no program of a harness', () => {
  it('say what is true of both: a full one that has it is waited for, nobody is told to install it, and a project has its places over both', async () => {
    const full = await createHostBench({ config: { file: { sessions: { max: 1, perProject: 2 } } } });
    let other: HostBench | undefined;
    try {
      await full.apply({ plain: {}, rare: { harness: 'harness-b' } });
      const busy = await full.start('rare', '!sleep 600000');
      await full.until(busy, runs);
      const queued = await full.start('rare', '!say at last');
      const { database, token } = full.daemon;
      const { masterKeyFile } = full.daemon.ctx.config;
      const roomy = { masterKeyFile, file: { sessions: { perProject: 2 } } };
      other = await createHostBench({ database, token, config: roomy, lacks: 'harness-b' });
      // It has looked at what it cannot take before it takes what it can.
      const plain = await full.start('plain', '!say here');
      await full.until(plain, said('here'));
      const harnessOf = async (): Promise<unknown[]> => {
        const { body } = await (other ?? full).daemon.api('GET', 'P/doctor');
        const checks = body['checks'] as unknown as { name: string; status: string; message: string }[];
        return checks.filter(({ name }) => name === 'harness').map(({ status }) => status);
      };
      assert.deepEqual(waits(await full.view(queued)), ['queued', 'capacity', 1, false]);
      assert.deepEqual(await harnessOf(), ['warning'], 'it lacks the program, and nobody waits for that');
      // As it would have said a moment before it could know of the other.
      await full.daemon.ctx.db.query(
        `update svc.sessions set waits_for = 'harness', reason = 'gone' where id = $1::uuid`,
        [queued],
      );
      await full.until(queued, ({ reason }) => reason === 'capacity');
      await holdsBack(full, plain);
      await full.daemon.api('POST', `P/sessions/${busy}/archive`);
      await full.until(queued, said('at last'));
    } finally {
      await other?.stop();
      await full.stop();
    }
  });
});

describe('a turn', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench({
      config: {
        file: {
          sessions: {
            turnSeconds: 3,
            perProject: 3,
            unloadAfterSeconds: 0,
            spawn: { depth: 2, live: 2, perMinute: 4 },
          },
        },
      },
    });
    await apply('As ever.');
  });
  after(() => bench.stop());
  const apply = (systemPrompt: string): Promise<void> =>
    bench.apply({
      plain: {},
      keeper: { concurrency: 1, replace: 'auto', onReplace: '!say took over', systemPrompt },
      spawner: { tools: { svc: { kind: 'local', implementation: 'svc' } } },
    });
  const hang = '!exec test -e hung || { touch hung; kill -STOP $PPID; }';

  it('that takes too long ends as turn-timeout, its message is done, and the session goes on', async () => {
    const session = await bench.start('plain', '!sleep 600000');
    // The note of a turn whose harness does not hear in time stands behind the turn's end.
    const isTold = ({ texts }: SessionView): boolean => texts.some((text) => text.startsWith('turn-timeout: '));
    const { body } = await bench.until(session, (view) => rests(view) && isTold(view));
    assert.equal(body['lastTurn']?.['stopReason'], 'turn-timeout');
    assert.equal(body['inbox']?.['done'], 1);
    await bench.send(session, '!say on it goes');
    await bench.until(session, said('on it goes'));
    assert.equal((await bench.heard(session)).length, 2);
  });

  it('that hangs and is told to end never comes back with its message', async () => {
    const session = await bench.start('plain', hang);
    await bench.until(session, runs);
    await bench.send(session, '!say heard');
    const view = await bench.until(session, said('heard'));
    assert.deepEqual((await bench.heard(session)).slice(1), ['!say heard'], 'neither again nor labelled');
    assert.deepEqual(view.body['inbox'], { pending: 0, inFlight: 0, done: 2, failed: 0 });
    assert.deepEqual(
      (await bench.turns(session)).map((turn) => turn.state),
      ['cancelled', 'done'],
    );
  });

  it('that hangs until its time is over leaves a session that rests without its harness, or one that is replaced where it is stale', async () => {
    const stale = await bench.start('keeper', hang);
    await bench.until(stale, runs);
    await apply('Anew.');
    const session = await bench.start('plain', hang);
    const { body } = await bench.until(
      session,
      (view) => rests(view) && view.body['lastTurn']?.['state'] !== ('running' as never),
    );
    assert.equal(body['lastTurn']?.['stopReason'], 'turn-timeout');
    await bench.until(session, (view) => rests(view) && view.body['loaded'] === (false as never));
    await bench.send(session, '!say well again');
    await bench.until(session, said('well again'));
    const replaced = await bench.until(stale, ({ state }) => state === 'replaced');
    assert.equal(replaced.body['lastTurn']?.['stopReason'], 'turn-timeout');
    assert.equal(replaced.reason, 'the agent is at revision 2 now');
    const { rows } = await bench.daemon.ctx.db.query<{ id: string }>(
      'select id from svc.sessions where parent_id = $1::uuid',
      [stale],
    );
    await bench.until(rows[0]?.id ?? '', said('took over'));
  });

  it('is stopped by hand, and the session rests; where none runs nothing happens', async () => {
    const { api } = bench.daemon;
    const session = await bench.start('plain', '!sleep 2900');
    await bench.until(session, runs);
    const stopped = await api('POST', `P/sessions/${session}/interrupt`);
    assert.equal(stopped.status, 202);
    assert.equal(stopped.body['turn'], 1);
    const { body } = await bench.until(session, rests);
    assert.deepEqual([body['lastTurn']?.['state'], body['lastTurn']?.['stopReason']], ['cancelled', 'cancelled']);
    assert.equal(body['inbox']?.['done'], 1);
    assert.equal((await api('POST', `P/sessions/${session}/interrupt`)).body['turn'], null);
    await api('POST', `P/sessions/${session}/archive`);
    assert.equal((await api('POST', `P/sessions/${session}/interrupt`)).status, 409);
  });

  it('spawns so many within a minute, and more when that is over', async () => {
    const call = '!call svc svc_sessions_spawn {"agent":"plain","message":"!say child"}';
    const { db } = bench.daemon.ctx;
    const session = await bench.start('spawner', `${call}\n${call}\n!say over-1`);
    const childrenOnceDone = async (turn: number): Promise<readonly string[]> => {
      await bench.until(session, (view) => rests(view) && view.said.includes(`over-${turn}`));
      const own = await db.query<{ id: string }>('select id from svc.sessions where parent_id = $1::uuid', [session]);
      for (const { id } of own.rows) await bench.daemon.api('POST', `P/sessions/${id}/archive`);
      return own.rows.map(({ id }) => id);
    };
    assert.equal((await childrenOnceDone(1)).length, 2);
    await bench.send(session, `${call}\n${call}\n!say over-2`);
    assert.equal((await childrenOnceDone(2)).length, 4);
    await bench.send(session, `${call}\n!say over-3`);
    assert.equal((await childrenOnceDone(3)).length, 4);
    const { said: told } = await bench.view(session);
    assert.match(
      told,
      /spawn-limit: No session was spawned: this session spawned 4 within a minute, and 4 are allowed/,
    );
    const past = `update svc.sessions set created_at = created_at - interval '1 minute' where parent_id = $1::uuid`;
    await db.query(past, [session]);
    await bench.send(session, `${call}\n!say over-4`);
    assert.equal((await childrenOnceDone(4)).length, 5);
  });

  it('spawns as much as is allowed and no more', async () => {
    const call = '!call svc svc_sessions_spawn {"agent":"plain","message":"!say child"}';
    const session = await bench.start('spawner', [call, call, call].join('\n'));
    await bench.until(session, (seen) => rests(seen) && seen.said.includes('spawn-limit: '));
    const { body } = await bench.daemon.api('GET', 'P/sessions?limit=200');
    const all = body['items'] as unknown as { id: string; parentId?: string }[];
    const children = all.filter((one) => one.parentId === session);
    assert.equal(children.length, 2, 'two may live');
    for (const { id } of children) await bench.daemon.api('POST', `P/sessions/${id}/archive`);
    const deep = `!call svc svc_sessions_spawn ${JSON.stringify({ agent: 'spawner', message: `${call}\n!say deepest` })}`;
    const third = `!call svc svc_sessions_spawn ${JSON.stringify({ agent: 'spawner', message: deep })}`;
    await bench.send(session, third);
    for (let waited = 0; ; waited += 100) {
      const { rows } = await bench.daemon.ctx.db.query<{ text: string }>(
        `select m.text from svc.messages m where m.text like '%spawn-limit: %deep at most%'`,
      );
      if (rows.length > 0) break;
      assert.ok(waited < 60_000, 'the third below the first is refused');
      await sleep(100);
    }
  });
});
