// Tellings that end the process: each is parked after the third unclean end, the others are told, and a person has it told
// after all. What is common to them stands in flows/in-hand.ts.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { beginChecks } from '../../adapters/store/sessions/checks.ts';
import type { CodehostSimulator } from '../../base/testkit/codehost-simulator.ts';
import type { SimRepository } from '../../base/testkit/codehost-state.ts';
import type { Api } from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
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
const isParked = async (kind: string): Promise<boolean> =>
  (await bench.value<number>('select ends as value from svc.suspects where kind = $1::text', [kind])) === 4;

/** A person asks for a sync, and nothing ends the process any more. */
async function release(): Promise<void> {
  const { api } = (await bench.start()) ?? assert.fail(bench.log());
  assert.equal((await api('POST', 'P/repositories/sick/sync')).status, 202);
}
async function open(api: Api, name: string, branch: string, isTold = true): Promise<number> {
  const repo = repos[name] ?? assert.fail(name);
  await branchOff(repo, branch);
  const files = { [`.svc/agents/${branch}.yaml`]: agentFile(`${name}-${branch}`) };
  const pull = await openPull(sim, repo, { branch, files });
  const { headers, text } = delivery('pull_request', pull.body);
  if (isTold) assert.ok((await api('POST', intake, text, { token: null, headers })).status < 300);
  return pull.number;
}
const comments = (name: string, number: number): number =>
  (repos[name]?.comments ?? []).filter((one) => one.number === number).length;

/** Half a minute of daemons that start and die; `make test-crash` runs them. */
const inLongForm = (name: string, test: () => Promise<void>): void => {
  if (isLong) it(name, test);
};

describe('a publication that ends the process', () => {
  it('of a plan is parked until a sync by hand; the plan of another pull request is told', async () => {
    const numbers: { [name: string]: number } = {};
    const aborts = await bench.abortsUntil(
      'plan.tell@acme/sick#1',
      () => isParked('plan'),
      async ({ api }) => {
        for (const name of ['well', 'sick']) numbers[name] = await open(api, name, 'topic').catch(() => 1);
      },
    );
    assert.equal(aborts, 3);
    if (comments('well', 1) === 0) {
      // Its delivery may have met the end of the process.
      const { api } = (await bench.start('plan.tell@acme/sick#1')) ?? assert.fail(bench.log());
      await open(api, 'well', 'topic');
    }
    assert.ok(await bench.reaches(async () => comments('well', 1) === 1));
    assert.equal(comments('sick', 1), 0);
    assert.ok((await bench.parkedBy()).length > 0);
    await release();
    assert.ok(await bench.reaches(async () => comments('sick', 1) === 1 && (await isQuiet())));
    assert.equal(await isParked('plan'), false);
  });

  inLongForm('of a status is parked until a sync by hand; that of another commit is told', async () => {
    await bench.stop();
    const commit = await repos['sick']?.branch('main');
    for (const repo of Object.values(repos)) repo.statuses.length = 0;
    await bench.database.db.query(
      `update svc.commit_statuses set due_at = now(), version = version + 1, run_id = null, state = null, description = null`,
    );
    // What was sent under a key is not sent again under it: of these nothing was.
    await bench.database.db.query(`delete from svc.calls where alias = 'status'`);
    const aborts = await bench.abortsUntil(`status.tell@${commit}`, () => isParked('status'));
    assert.equal(aborts, 3);
    assert.ok(await bench.reaches(async () => stateAt('well') === 'success'));
    assert.equal(stateAt('sick'), undefined);
    await release();
    assert.ok(await bench.reaches(async () => stateAt('sick') === 'success'));
  });

  inLongForm('of none, a look for pull requests, is parked until a sync by hand; others are looked for', async () => {
    await bench.stop();
    const at = { api: async () => assert.fail('nobody is told') };
    const numbers = {
      well: await open(at.api, 'well', 'found', false),
      sick: await open(at.api, 'sick', 'found', false),
    };
    await bench.database.db.query(`update svc.pull_polls set looked_commit = ''`);
    const aborts = await bench.abortsUntil(`look.tell@${sick}`, () => isParked('look'));
    assert.equal(aborts, 3);
    assert.ok(await bench.reaches(async () => comments('well', numbers.well) === 1));
    assert.equal(comments('sick', numbers.sick), 0);
    await release();
    assert.ok(await bench.reaches(async () => comments('sick', numbers.sick) === 1));
  });

  inLongForm('of a check is parked as not reported; another check of the same commit is told', async () => {
    await bench.stop();
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
    const errorOf = (name: string) =>
      bench.value<string>('select report_error as value from svc.checks where name = $1::text', [name]);
    const aborts = await bench.abortsUntil(
      'check.tell@sick-check',
      async () => (await errorOf('sick-check')) === 'ended-the-process',
    );
    assert.equal(aborts, 3);
    const told = () => (repos['well']?.checks ?? []).map((one) => String(one.fields['name']));
    assert.ok(await bench.reaches(async () => told().some((name) => name.includes('fine-check'))));
    assert.ok(!told().some((name) => name.includes('sick-check')));
    assert.equal(await errorOf('fine-check'), null);
  });
});
