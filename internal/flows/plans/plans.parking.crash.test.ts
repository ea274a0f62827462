// Tellings that end the process: each is parked after the third unclean end, the others are told, and a person has it told
// after all. What is common to them stands in flows/in-hand.ts.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { beginChecks } from '../../adapters/store/sessions/checks.ts';
import type { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import type { SimRepository } from '../../base/testkit/codehost-state.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import { ParkingBench } from '../routing/parking-testkit.ts';
import { agentFile } from '../sync/sync-testkit.ts';
import { appKey, branchOff, delivery, hookSecret, newSimulator, openPull } from './plans-testkit.ts';

let sim: CodehostSimulator;
let bench: ParkingBench;
const repos: { [name: string]: SimRepository } = {};
let [intake, sick] = ['', ''];
before(async () => {
  sim = await newSimulator();
  bench = await ParkingBench.create();
  const config = join(bench.dataDir, 'config.json');
  await writeFile(config, '{"providers":{"codehost":{"writeSpacingMs":0}}}');
  bench.env = { SVC_CONFIG: config, SVC_ALLOW_PRIVATE_NETWORK: '1' };
  const { api } = (await bench.start()) ?? assert.fail(bench.log());
  const hub = await api('POST', 'P/connections', {
    provider: 'codehost',
    name: 'hub',
    config: { apiUrl: sim.origin, appId: '1', installationId: '1', botLogin: sim.bot.login },
    credentials: { webhookSecret: hookSecret, privateKey: appKey },
  });
  intake = new URL(String(hub.body['intakeUrl'])).pathname;
  for (const name of ['well', 'sick']) {
    const repo = await sim.repository(`acme/${name}`, { '.svc/agents/first.yaml': agentFile(`${name}-first`) });
    const auth = { kind: 'connection', connection: 'hub' };
    const body = { name, url: `${sim.origin}/acme/${name}.git`, intervalSeconds: 3_600, auth };
    const { status, body: made } = await api('POST', 'P/repositories', body);
    assert.equal(status, 201);
    if (name === 'sick') sick = String(made['id']);
    repos[name] = repo;
  }
  const isTold = async (): Promise<boolean> => stateAt('well') === 'success' && stateAt('sick') === 'success';
  assert.ok(await bench.reaches(async () => (await isTold()) && (await isQuiet())));
  await bench.stop();
});
after(async () => {
  await bench.remove();
  await sim.stop();
});

/** The status that the host shows last. */
const stateAt = (name: string): unknown => repos[name]?.statuses.at(-1)?.fields['state'];
/** Nothing is to be told, or looked for. */
const isQuiet = async (): Promise<boolean> =>
  (await bench.value<boolean>(
    `select not exists (select from svc.pull_plans where due_at is not null or claimed_by is not null)
        and not exists (select from svc.commit_statuses where due_at is not null or claimed_by is not null)
        and not exists (select from svc.pull_polls p join svc.repository_states s using (repository_id)
          where p.claimed_by is not null or s.applied_commit is distinct from p.looked_commit) as value`,
  )) === true;
const kinds = ['plan', 'look', 'status'] as const;
const isParked = async (kind: (typeof kinds)[number]): Promise<boolean> =>
  (await bench.value<boolean>('select exists (select from svc.suspects where kind = $1::text and ends = 4) as value', [
    kind,
  ])) === true;
const all = async (found: readonly Promise<boolean>[]): Promise<boolean> => (await Promise.all(found)).every(Boolean);

/** Opens a pull request with an agent of its name; `api` where its delivery arrives. */
async function open(name: string, branch: string, api?: Api): Promise<number> {
  const repo = repos[name] ?? assert.fail(name);
  await branchOff(repo, branch);
  const files = { [`.svc/agents/${branch}.yaml`]: agentFile(`${name}-${branch}`) };
  const pull = await openPull(sim, repo, { branch, files });
  const { headers, text } = delivery('pull_request', pull.body);
  if (api !== undefined) assert.ok((await api('POST', intake, text, { token: null, headers })).status < 300);
  return pull.number;
}
const comments = (name: string, number: number): number =>
  (repos[name]?.comments ?? []).filter((one) => one.number === number).length;

/** Two checks of the commit that is applied, which the code host has not been told of. */
async function beginTwoChecks(): Promise<void> {
  const head = (await repos['well']?.branch('main')) ?? '';
  const projectId = (await bench.value<string>(`select id::text as value from svc.projects`)) ?? '';
  const connectionId = (await bench.value<string>(`select id::text as value from svc.connections`)) ?? null;
  const spec = (name: string) => ({ name, displayName: name, description: 'Reads' }) as const;
  await bench.database.db.tx((tx) =>
    beginChecks(tx, new Date(), [
      {
        ...{ projectId, connectionId, agentId: randomUUID(), agent: 'reviewer', ordinal: 0, eventId: randomUUID() },
        ...{ targetKey: 'acme/well#1', headSha: head, sessionId: null },
        checks: [spec('fine-check'), spec('sick-check')],
      },
    ]),
  );
}
const errorOf = (name: string): Promise<string | null | undefined> =>
  bench.value<string | null>('select report_error as value from svc.checks where name = $1::text', [name]);
const checksTold = (): string[] => (repos['well']?.checks ?? []).map((one) => String(one.fields['name']));

it('a plan, a look, a status and a check that end the process are each parked until a sync by hand; their like is told', async () => {
  // All of it is there before a daemon takes any.
  const env = bench.env;
  bench.env = { ...env, SVC_ROLES: 'api,route' };
  const { api } = (await bench.start()) ?? assert.fail(bench.log());
  for (const name of ['well', 'sick']) assert.equal(await open(name, 'topic', api), 1);
  const planned = `select count(*)::int as value from svc.pull_plans where due_at is not null`;
  assert.ok(await bench.reaches(async () => (await bench.value<number>(planned)) === 2));
  // Found by a look alone.
  for (const name of ['well', 'sick']) assert.equal(await open(name, 'found'), 2);
  await bench.stop();
  await bench.database.db.query(`update svc.pull_polls set looked_commit = ''`);
  const commit = await repos['sick']?.branch('main');
  for (const repo of Object.values(repos)) repo.statuses.length = 0;
  await bench.database.db.query(
    `update svc.commit_statuses set due_at = now(), version = version + 1, run_id = null, state = null, description = null`,
  );
  // What was sent under a key is not sent again under it: of these nothing was.
  await bench.database.db.query(`delete from svc.calls where alias = 'status'`);
  await beginTwoChecks();
  bench.env = env;
  const points = ['plan.tell@acme/sick#1', `look.tell@${sick}`, `status.tell@${commit}`, 'check.tell@sick-check'];
  const aborts = await bench.abortsUntil(points.join(), async () =>
    all([...kinds.map(isParked), errorOf('sick-check').then((error) => error === 'ended-the-process')]),
  );
  // Of each the third end is one that it came to alone; what was in hand beside another was found out in fewer of its own.
  assert.ok(aborts >= 2 + points.length && aborts <= 3 * points.length, `${aborts}`);
  const others = async (): Promise<boolean> =>
    comments('well', 1) === 1 &&
    comments('well', 2) === 1 &&
    stateAt('well') === 'success' &&
    checksTold().some((name) => name.includes('fine-check'));
  assert.ok(
    await bench.reaches(others),
    JSON.stringify([repos['well']?.comments, repos['well']?.statuses, checksTold()]),
  );
  assert.deepEqual([comments('sick', 1), comments('sick', 2), stateAt('sick')], [0, 0, undefined]);
  assert.ok(!checksTold().some((name) => name.includes('sick-check')));
  assert.equal(await errorOf('fine-check'), null);
  assert.equal((await bench.parkedBy()).length, kinds.length);

  const calm = (await bench.start()) ?? assert.fail(bench.log());
  assert.equal((await calm.api('POST', 'P/repositories/sick/sync')).status, 202);
  const isTold = async (): Promise<boolean> =>
    comments('sick', 1) === 1 && comments('sick', 2) === 1 && stateAt('sick') === 'success' && isQuiet();
  assert.ok(await bench.reaches(isTold), JSON.stringify([repos['sick']?.comments, repos['sick']?.statuses]));
  assert.ok(await bench.reaches(async () => !(await Promise.all(kinds.map(isParked))).some(Boolean)));
});
