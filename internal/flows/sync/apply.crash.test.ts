import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { agentsTree, createBench, hook, joinBench, onCron, type Bench } from './apply-testkit.ts';

// An apply that is killed outright at each of its points: what is stored is the old state or the new one, and the same
// apply again arrives at the new one.

let bench: Bench;
before(async () => {
  bench = await createBench();
});
after(() => bench.close());

const fleet = (prompt: string) =>
  agentsTree(
    Object.fromEntries(
      ['a', 'b', 'c'].map((name) => [
        `${name}-${prompt}`,
        {
          systemPrompt: prompt,
          environment: prompt,
          triggers: [hook(prompt, { auth: { kind: 'none' } }), onCron('0 9 * * *')],
        },
      ]),
    ),
  );

const here = (file: string): string => JSON.stringify(pathToFileURL(join(import.meta.dirname, file)).href);

/** Applies in a process of its own that kills itself at the point; gives the signal that ended it. */
async function applyKilled(point: string, prompt: string): Promise<string | null> {
  const { url, orgId, projectId } = bench;
  const script = `
    import { armFailpoint } from ${here('../../base/failpoint.ts')};
    import { joinBench } from ${here('apply-testkit.ts')};
    const { place, compiled } = JSON.parse(process.argv[1]);
    const bench = joinBench(place);
    armFailpoint(${JSON.stringify(point)});
    await bench.apply(compiled);
    await bench.close();
  `;
  const input = JSON.stringify({ place: { url, orgId, projectId }, compiled: fleet(prompt) });
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, input], { stdio: 'inherit' });
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  return signal;
}

/** Until the server has noticed that a killed process is gone, and let go of what that held. */
async function noticed(): Promise<void> {
  const left = `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
    and backend_type = 'client backend' and state <> 'idle'`;
  for (let tries = 0; tries < 6_000 && (await bench.db.query(left)).rowCount > 0; tries += 1) await sleep(10);
}

/** Names of everything that the apply is about, so that a mixture of two states shows. */
async function names(): Promise<string[]> {
  const { rows } = await bench.db.query<{ name: string }>(
    `select name from svc.agents
     union all select name from svc.generated_resources
     union all select a.name || t.ordinal from svc.triggers t join svc.agents a on a.id = t.agent_id
     union all select a.name || s.cron from svc.schedules s join svc.agents a on a.id = s.agent_id
     union all select a.name || r.revision from svc.agent_revisions r join svc.agents a on a.id = r.agent_id
     order by 1`,
  );
  return rows.map((row) => row.name);
}

const points = [
  { point: 'apply.before-tx', wrote: false },
  { point: 'apply.agents', wrote: false },
  { point: 'apply.triggers', wrote: false },
  { point: 'apply.before-commit', wrote: false },
  { point: 'apply.after-commit', wrote: true },
];

test('killed at any point, an apply has happened wholly or not at all, and the next one arrives', async () => {
  await bench.apply(fleet('start'));
  for (const [index, { point, wrote }] of points.entries()) {
    const old = await names();
    const prompt = `next${index}`;
    assert.equal(await applyKilled(point, prompt), 'SIGKILL', point);
    await noticed();
    if (!wrote) assert.deepEqual(await names(), old, `${point}: the old state`);
    const restarted = joinBench(bench);
    const again = await restarted.apply(fleet(prompt), { verify: true });
    await restarted.close();
    assert.equal(again.status, wrote ? 'unchanged' : 'applied', point);
    const now = await names();
    assert.equal(now.length, old.length);
    assert.ok(
      now.every((name) => name.includes(prompt)),
      `${point}: the new state`,
    );
    const { rows } = await bench.db.query<{ n: number }>(
      `select count(*) as n from svc.events where key = 'svc.project_resource_apply.completed'`,
    );
    assert.equal(rows[0]?.n, index + 2, `${point}: one completed apply is recorded once`);
  }
});
