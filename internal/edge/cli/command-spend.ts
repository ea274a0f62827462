// `svc spend`: what agents have cost, by agent, by day or by session, as the page of that name says it.

import * as usage from '../../../schemas/api/usage.ts';
import { type Client, connect } from './client.ts';
import { UsageError } from './failure.ts';
import { wholeNumber } from './input.ts';
import { showList } from './lists.ts';
import { clean, relativeTime, table } from './text.ts';
import type { Call, Handler } from './types.ts';

export const spendCommand: Handler = async (call) => {
  const isBySession = call.text('by') === 'session';
  for (const option of isBySession ? ['days'] : ['agent', 'limit'])
    if (call.text(option) !== undefined)
      throw new UsageError(`--${option} is ${isBySession ? 'not for' : 'only for'} --by session`);
  return isBySession ? bySession(call) : byDays(call, await connect(call));
};

const unpriced = (calls: number): string => (calls === 0 ? '' : ` + ${calls} unpriced`);
const ofCap = (capUsd: string | undefined): string => (capUsd === undefined ? '' : ` of $${capUsd}`);

async function bySession(call: Call): Promise<number> {
  const client = await connect(call);
  const now = call.screen.now();
  return showList(call, client, {
    operation: usage.listUsageSessions,
    input: { query: { agent: call.text('agent') } },
    limit: 50,
    empty: 'no session has called a model',
    head: ['cost', 'agent', 'state', 'calls', 'active', 'title', 'id'],
    row: (session) => {
      const { capUsd, usage: used } = session.value;
      return [
        `$${used.costUsd}${ofCap(capUsd)}${unpriced(used.unpricedCalls)}`,
        session.text('agent'),
        session.text('state').replaceAll('_', ' '),
        session.text('usage.calls'),
        relativeTime(session.at('lastActiveAt'), now),
        session.text('displayTitle'),
        session.text('id'),
      ];
    },
    agentOf: (session) => session.text('agent'),
    ofAgent: call.text('agent'),
  });
}

async function byDays(call: Call, client: Client): Promise<number> {
  const days = wholeNumber(call, 'days', 1, 366) ?? 30;
  const by = call.text('by') === 'day' ? 'day' : 'agent';
  const series = await client.call(usage.getUsageSeries, { query: { days: String(days), by } });
  call.screen.emit(series, () => {
    if (series.items.length === 0) return `no model has been called in the last ${days} days`;
    const agents = series.agents.map(({ agent, usage: used, sessions: count, dearest, capUsd }) => [
      clean(agent, true),
      `$${used.costUsd}${unpriced(used.unpricedCalls)}`,
      String(count),
      dearest === null ? '-' : `$${dearest.costUsd}${ofCap(capUsd)}`,
      String(used.calls),
      String(used.inputTokens),
      String(used.outputTokens),
    ]);
    const items = series.items
      .toReversed()
      .map(({ day, agent, usage: used }) => [
        day,
        ...(by === 'day' ? [] : [clean(agent ?? '-', true)]),
        `$${used.costUsd}${unpriced(used.unpricedCalls)}`,
        String(used.calls),
      ]);
    const head = ['agent', 'cost', 'sessions', 'dearest', 'calls', 'tokens in', 'tokens out'];
    const capped = `held by a cap: ${series.capHits} (svc session list --state blocked)`;
    return [
      ...(by === 'day' ? [] : [table(head, agents, call.screen), '']),
      table(['day', ...(by === 'day' ? [] : ['agent']), 'cost', 'calls'], items, call.screen),
      ...(series.capHits === 0 ? [] : ['', capped]),
    ].join('\n');
  });
  return 0;
}
