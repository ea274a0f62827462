// A repository that the installation of its connection reaches later than it is followed.

import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { until, word } from '../sync/sync-testkit.ts';
import { delivery, type PlanBench, startPlanBench } from './plans-testkit.ts';

let bench: PlanBench;
before(async () => {
  bench = await startPlanBench();
});
after(() => bench.stop());

it('what could not be read is read as soon as its installation reaches it', async () => {
  const { api } = bench.daemon;
  bench.sim.fault = ({ path }) => (path.startsWith('/acme/reached.git') ? { kind: 'status', status: 404 } : null);
  await bench.follow('reached');
  const repository = async () => (await api('GET', 'P/repositories/reached')).body;
  assert.equal(word((await repository())['condition']), 'not-found');
  bench.sim.fault = () => null;
  const added = { repository_selection: 'selected', repositories_added: [{ id: 1, full_name: 'acme/reached' }] };
  const { headers, text } = delivery('installation_repositories', {
    action: 'added',
    installation: { id: 1 },
    ...added,
  });
  const { body } = await api('GET', 'P/connections/hub');
  const told = await api('POST', new URL(String(body['intakeUrl'])).pathname, text, { token: null, headers });
  assert.equal(told.status, 202);
  await until('its first apply', async () => (await repository())['appliedCommit'] !== null, 20_000);
});
