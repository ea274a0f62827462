// Sessions that end the process, when their successor is made, in a launch or in a turn: each is given up after the third unclean
// end, and those of other agents go on. What is common to them stands in flows/in-hand.ts.

import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { isLong } from '../../base/testkit/long.ts';
import { ParkingBench } from '../routing/parking-testkit.ts';
import { applyAgents, hook, post } from '../routing/routing-testkit.ts';

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

/** Half a minute of daemons that start and die, with harnesses; `make test-crash` runs them. */
const inLongForm = (name: string, test: () => Promise<void>): void => {
  if (isLong) it(name, test);
};

inLongForm('a launch is parked as a failed session; sessions of other agents are launched', async () => {
  bench.env = {
    SVC_ROLES: 'api,route,session',
    SVC_SANDBOX: 'process',
    SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
  };
  const ids: { [agent: string]: string } = {};
  const stateOf = (agent: string) =>
    bench.value<string>(`select state || ' ' || coalesce(reason, '') as value from svc.sessions where id = $1::uuid`, [
      ids[agent],
    ]);
  const parked = async () => ids['ill'] !== undefined && (await stateOf('ill')) === 'failed ended-the-process';
  const aborts = await bench.abortsUntil('session.launch@ill', parked, async ({ api }) => {
    await applyAgents(api, { ill: {}, fit: {} });
    // Both at once, so that one is in hand beside the other.
    for (const agent of ['fit', 'ill']) {
      const made = await api('POST', `P/agents/${agent}/sessions`, { message: '!say hello' }).catch(() => undefined);
      ids[agent] = made === undefined ? '' : String(made.body['id']);
    }
    ids['ill'] ||= (await bench.value<string>(`select id::text as value from svc.sessions where agent = 'ill'`)) ?? '';
  });
  assert.equal(aborts, 3);
  assert.ok(await bench.reaches(async () => /^idle/.test((await stateOf('fit')) ?? '')));
  assert.ok((await bench.parkedBy()).some((hint) => hint.startsWith('svc agent start ill')));
  assert.ok(await bench.reaches(async () => (await bench.suspects()) === 0));
  bench.env = {};
});

inLongForm('a turn that ends the process is given up with its session; those of other agents go on', async () => {
  bench.env = {
    SVC_ROLES: 'api,route,session',
    SVC_SANDBOX: 'process',
    SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
  };
  const stateOf = (agent: string) =>
    bench.value<string>(
      `select state || ' ' || coalesce(reason, '') as value from svc.sessions where agent = $1 order by id desc limit 1`,
      [agent],
    );
  const isGivenUp = async () => ((await stateOf('worn')) ?? '').startsWith('failed given up');
  const aborts = await bench.abortsUntil('session.turn-in-hand@worn', isGivenUp, async ({ api }) => {
    await applyAgents(api, { worn: {}, well: {} });
    for (const agent of ['well', 'worn']) {
      // The answer may be cut off by the end of who gives it.
      await api('POST', `P/agents/${agent}/sessions`, { message: '!say hello' }).catch(() => undefined);
    }
  });
  assert.equal(aborts, 3);
  assert.equal(await stateOf('worn'), 'failed given up: a message was cut off 3 times');
  assert.ok(await bench.reaches(async () => /^idle/.test((await stateOf('well')) ?? '')));
  const heard = await bench.value<number>(
    `select count(*)::int as value from svc.turns t join svc.sessions s on s.id = t.session_id where s.agent = 'worn'`,
  );
  assert.equal(heard, 3);
  bench.env = {};
});
