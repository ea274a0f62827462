// The whole way, with a daemon, its database and a git server: a first sync of 1,000 agents, the same commit again, and a
// commit that touches nothing relevant.

import { agentsCount, rowsOf } from './rows.ts';
import { settled, startBench, syncNow, until, word } from '../flows/sync/sync-testkit.ts';
import type { JsonBody } from '../base/testkit/daemon.ts';
import { fleet } from './fleet.ts';
import { type Bench, median, ms } from './harness.ts';

const agentCount = 1_000;
const runs = 5;

/** What the run itself measured, without the wait for somebody to look. */
function tookMs(run: JsonBody): number {
  const stages = run['stages'] as unknown as { readonly ms: number }[];
  return stages.reduce((sum, stage) => sum + stage.ms, 0);
}

function mustBe(run: JsonBody, status: string): JsonBody {
  if (word(run['status']) === status) return run;
  throw new Error(
    `a run ended as ${word(run['status'])}, not ${status}: ${JSON.stringify(run['diagnostics']).slice(0, 500)}`,
  );
}

export const bench: Bench = {
  name: 'sync',
  title: `a daemon syncs ${agentCount} agents from a git server`,
  run: async (bench) => {
    const host = await startBench();
    bench.atEnd(() => host.stop());
    const { daemon, server } = host;
    const repository = await host.repository('fleet');
    await repository.commitMany(fleet(agentCount));
    const first = mustBe(await host.watch('fleet', { intervalSeconds: 1 }), 'applied');
    const agents = await agentsCount(daemon.ctx.db);
    if (agents !== agentCount) throw new Error(`${agents} agents are stored, not ${agentCount}`);

    // What the first sync recorded is routed by itself, a little later.
    await until('the routing of its events', async () => {
      const { rows } = await daemon.ctx.db.query(`select from svc.events where router_status = 'pending'`);
      return rows.length === 0;
    });
    const before = await rowsOf(daemon.ctx.db);
    const again: number[] = [];
    for (let turn = 0; turn < runs; turn += 1) again.push(tookMs(mustBe(await syncNow(daemon, 'fleet'), 'unchanged')));
    bench.ratio('unchanged sync / first sync', ms(median(again)), ms(tookMs(first)), 1 / 14);

    server.options = { ...server.options, keepBodies: true };
    server.log.length = 0;
    const commit = await repository.commit({ 'docs/other.md': 'words\n' });
    const seen = await settled(daemon, 'fleet', (run) => word(run['commit']) === commit);
    const stages = (mustBe(seen, 'unchanged')['stages'] as unknown as { readonly name: string }[]).map(
      ({ name }) => name,
    );
    // Polls go on meanwhile, each of one request for the ref: what is left is the reading of the commit.
    const reads = server.log.filter(
      (request) => request.method === 'POST' && request.body !== '' && !/ls-refs/.test(request.body),
    );
    bench.atMost('irrelevant commit: requests beside the polls', reads.length, 1, 'requests');
    bench.atMost('irrelevant commit: compiles', stages.filter((name) => name === 'compile').length, 0, 'compiles');
    const changed = (await rowsOf(daemon.ctx.db)) === before ? 0 : 1;
    bench.atMost('rows that neither wrote but the run and the commit', changed, 0, 'changes');
  },
};
