// Sessions that end the process, when their successor is made, in a launch or in a turn: each is given up after the third unclean
// end, and those of other agents go on. What is common to them stands in flows/in-hand.ts.

import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { ParkingBench } from '../routing/parking-testkit.ts';
import { applyAgents, hook, post, runnable } from '../routing/routing-testkit.ts';

let bench: ParkingBench;
before(async () => {
  bench = await ParkingBench.create({ SVC_ROLES: 'api,route' });
});
after(() => bench.remove());

const stateOf = (agent: string): Promise<string | undefined> =>
  bench.value<string>(
    `select state || ' ' || coalesce(reason, '') as value from svc.sessions where agent = $1::text order by id desc limit 1`,
    [agent],
  );
const successors = (agent: string): Promise<number | undefined> =>
  bench.value<number>(
    `select count(*)::int as value from svc.sessions where agent = $1::text and origin = 'replacement'`,
    [agent],
  );
/** The slot of an agent whose second session reads its event again for where its mount is at. */
const slot = (name: string, ref: string): object => ({
  concurrency: 1,
  replace: 'auto',
  mounts: [{ kind: 'git', repository: 'o/r', mountPath: '/work', ref, auth: { kind: 'none' } }],
  triggers: [hook(name, { kind: 'spawn' })],
});

it('the making of a successor is given up after three ends, and those of other agents are made', async () => {
  // All of it is there before a daemon takes any. No harness is: nothing is launched beside.
  const { url, api } = (await bench.start()) ?? assert.fail(bench.log());
  const slots = (ref: string) => ({ stuck: slot('stuck', ref), spare: slot('spare', ref) });
  const paths = await applyAgents(api, slots('refs/pull/{{ payload.n }}/head'));
  for (const name of ['stuck', 'spare']) {
    await post(url, paths[name] ?? '', { n: 7 });
    assert.ok(await bench.reaches(async () => (await stateOf(name)) === 'queued '));
  }
  await applyAgents(api, slots('refs/pull/{{ payload.n }}/merge'));
  bench.env = { SVC_ROLES: 'api,route,session', SVC_SANDBOX: 'process' };
  const isParked = async (): Promise<boolean> =>
    (await bench.value<number>(`select ends as value from svc.suspects where id like 'successor:%' and ends > 3`)) ===
    4;
  const aborts = await bench.abortsUntil('session.replace@stuck', isParked);
  assert.equal(aborts, 3);
  assert.ok(await bench.reaches(async () => (await successors('spare')) === 1));
  assert.equal(await successors('stuck'), 0);
  assert.match(
    JSON.stringify(await bench.doctor()),
    /successor of session [^"]* of stuck ended the daemon three times/,
  );
  const left = await bench.value<string>(`select id::text as value from svc.sessions where agent = 'stuck'`);
  assert.deepEqual(await bench.parkedBy(), [`svc session archive ${left}, then svc agent start stuck`]);

  // Another revision is another successor, which is tried beside others.
  await applyAgents((await bench.running()).api, { stuck: slot('stuck', 'main') });
  assert.equal(await bench.reaches(async () => false), false);
  const calm = (await bench.start()) ?? assert.fail(bench.log());
  assert.ok(await bench.reaches(async () => (await successors('stuck')) === 1));
  assert.deepEqual(await bench.parkedBy(), []);
  const { body } = await calm.api('GET', 'P/sessions?live=true');
  for (const { id } of body['items'] as unknown as { id: string }[])
    assert.equal((await calm.api('POST', `P/sessions/${id}/archive`)).status, 200);
});

it('a launch and a turn are each parked with their session; those of other agents are launched, and go on', async () => {
  // All of it is there before a daemon takes any.
  bench.env = { SVC_ROLES: 'api,route' };
  const { api } = (await bench.start()) ?? assert.fail(bench.log());
  // In this order they are taken.
  const messages = { worn: '!say hello', ill: '!say hello', long: '!sleep 600000', fit: '!say hello' };
  // Its launch takes so long that the turn of another would end the process meanwhile.
  const slow = {
    environment: { ...runnable.environment, name: 'slow', setup: [{ name: 'slow', commands: ['sleep 3'] }] },
  };
  await applyAgents(api, { fit: slow, ill: {}, long: {}, worn: {} });
  for (const [name, message] of Object.entries(messages))
    assert.equal((await api('POST', `P/agents/${name}/sessions`, { message })).status, 201);
  bench.env = {
    SVC_ROLES: 'api,route,session',
    SVC_SANDBOX: 'process',
    SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
  };
  const isParked = async (agent: string): Promise<boolean> => (await stateOf(agent)) === 'failed ended-the-process';
  const points = ['session.launch@ill', 'session.turn-in-hand@worn'];
  const aborts = await bench.abortsUntil(
    points.join(),
    async () => (await isParked('ill')) && (await isParked('worn')),
  );
  // Of each the third end is one that it came to alone; what was in hand beside the other was found out in fewer of its own.
  assert.ok(aborts >= 2 + points.length && aborts <= 3 * points.length, `${aborts}`);
  const others = async (): Promise<boolean> =>
    (await stateOf('fit')) === 'idle ' && (await stateOf('long')) === 'running ' && (await bench.suspects()) === 0;
  assert.ok(await bench.reaches(others), `${await stateOf('fit')}, ${await stateOf('long')}`);
  for (const name of ['ill', 'worn'])
    assert.ok((await bench.parkedBy()).some((hint) => hint.startsWith(`svc agent start ${name}`)));
  const heard = await bench.value<number>(
    `select count(*)::int as value from svc.turns t join svc.sessions s on s.id = t.session_id where s.agent = 'worn'`,
  );
  assert.ok(heard !== undefined && heard <= 3, `${heard}`);
});
