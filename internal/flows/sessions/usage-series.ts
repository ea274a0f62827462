// Spending over days, for people: by day and agent, with what each agent's sessions came to.

import {
  agentSessions,
  cappedSessions,
  type SeriesRow,
  usageSeries,
} from '../../adapters/store/sessions/usage-series.ts';
import { parseUsd, printUsd, type Usd } from '../../core/money/money.ts';
import type { FlowContext } from '../context.ts';

const dayMs = 86_400_000;

type Usage = Omit<SeriesRow, 'day' | 'agent'>;
const nothing: Usage = {
  calls: 0,
  unpricedCalls: 0,
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUsd: '0',
};
const amountOf = ({ costUsd }: Usage): Usd => parseUsd(costUsd) ?? 0n;
const plus = (a: Usage, b: Usage): Usage => ({
  calls: a.calls + b.calls,
  unpricedCalls: a.unpricedCalls + b.unpricedCalls,
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
  cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
  costUsd: printUsd(amountOf(a) + amountOf(b)),
});
const usageOf = ({ day: _day, agent: _agent, ...usage }: SeriesRow): Usage => usage;

/** The last `days` UTC days, today included. */
export async function usageSeriesOf(
  ctx: Pick<FlowContext, 'db' | 'runtime'>,
  projectId: string,
  { days, by }: { readonly days: number; readonly by: 'agent' | 'day' },
) {
  const now = ctx.runtime.now().getTime();
  const to = new Date(now).toISOString().slice(0, 10);
  const from = new Date(now - (days - 1) * dayMs).toISOString().slice(0, 10);
  const byAgent = await usageSeries(ctx.db, projectId, { from, to, by: 'agent' });
  const rows = by === 'agent' ? byAgent : await usageSeries(ctx.db, projectId, { from, to, by });
  const sessions = await agentSessions(ctx.db, projectId, from);
  const sums = new Map<string, Usage>(sessions.map(({ agent }) => [agent, nothing]));
  for (const row of byAgent) {
    const agent = row.agent ?? '';
    sums.set(agent, plus(sums.get(agent) ?? nothing, usageOf(row)));
  }
  const agents = [...sums].map(([agent, usage]) => {
    const of = sessions.find((one) => one.agent === agent);
    const dearest =
      of?.dearestId == null || of.dearestUsd === null ? null : { id: of.dearestId, costUsd: of.dearestUsd };
    const cap = of?.capUsd == null ? {} : { capUsd: of.capUsd };
    return { agent, sessions: of?.sessions ?? 0, usage, dearest, ...cap };
  });
  agents.sort((a, b) => {
    const [left, right] = [amountOf(a.usage), amountOf(b.usage)];
    return left === right ? (a.agent < b.agent ? -1 : 1) : left < right ? 1 : -1;
  });
  const items = rows.map((row) => ({ day: row.day, agent: row.agent, usage: usageOf(row) }));
  return { from, to, by, items, agents, capHits: await cappedSessions(ctx.db, projectId) };
}
