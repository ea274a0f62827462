// One folder that several repositories read, each under a context of its own.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentFile, type Bench, runsOf, settled, startBench, until, word } from './sync-testkit.ts';

describe('a folder that two repositories read', () => {
  let bench: Bench;
  let path: string;
  before(async () => {
    path = await mkdtemp(join(tmpdir(), 'svc-shared-'));
    bench = await startBench();
  });
  after(async () => {
    await bench.stop();
    await rm(path, { recursive: true, force: true });
  });

  it('leaves no runs of the one for what only the other has read outside of .svc/', async () => {
    const { api, ctx } = bench.daemon;
    for (const directory of ['.svc/agents', '.svc/fragments', 'shared'])
      await mkdir(join(path, directory), { recursive: true });
    await writeFile(join(path, '.svc/agents/a.yaml'), agentFile('a', 'imports: ../fragments/f.yaml'));
    await writeFile(join(path, '.svc/fragments/f.yaml'), 'imports: ../../shared/{{ $team }}.yaml\n');
    const second = await api('POST', '/api/v1/orgs/default/projects', { slug: 'second' });
    assert.equal(second.status, 201, JSON.stringify(second.body));
    for (const team of ['one', 'two'])
      await writeFile(join(path, `shared/${team}.yaml`), `labels: { team: ${team} }\n`);
    const at = { one: 'P', two: '/api/v1/orgs/default/projects/second' };
    for (const [team, project] of Object.entries(at)) {
      const body = { name: team, path, intervalSeconds: 1, context: { team } };
      assert.equal((await api('POST', `${project}/repositories`, body)).status, 201);
    }
    const last = async (): Promise<readonly { readonly status: string; readonly n: number }[]> => {
      const { rows } = await ctx.db.query<{ status: string; n: number }>(
        `select (array_agg(status order by seq desc))[1] as status, count(*)::int as n from svc.reconciles
          group by repository_id`,
      );
      return rows;
    };
    await until('both to be applied', async () => {
      const rows = await last();
      return rows.length === 2 && rows.every(({ status }) => ['applied', 'unchanged'].includes(status));
    });
    assert.equal(word((await settled(bench.daemon, 'one'))['status']), 'applied');
    const before = await last();
    const looks = async (): Promise<number> => {
      const text = await (
        await fetch(`${bench.daemon.url}/metrics`, { headers: { authorization: `Bearer ${bench.daemon.token}` } })
      ).text();
      return [...text.matchAll(/^svc_repo_polls_total\{[^}]*\} (\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
    };
    const begun = await looks();
    await until('some more looks', async () => (await looks()) >= begun + 6);
    assert.deepEqual(await last(), before);
    assert.equal((await runsOf(bench.daemon, 'one')).length, 1);
  });
});
