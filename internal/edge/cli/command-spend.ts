// `svc spend`: what agents have cost by day, as the page of that name says it.

import * as sessions from '../../../schemas/api/sessions.ts';
import { connect } from './client.ts';
import { wholeNumber } from './input.ts';
import { clean, table } from './text.ts';
import type { Handler } from './types.ts';

export const spendCommand: Handler = async (call) => {
  const days = wholeNumber(call, 'days', 1, 366) ?? 30;
  const client = await connect(call);
  const series = await client.call(sessions.getUsageSeries, { query: { days: String(days), by: 'agent' } });
  call.screen.emit(series, () => {
    if (series.items.length === 0) return `no model has been called in the last ${days} days`;
    const agents = series.agents.map(({ agent, usage, sessions: count, dearest, capUsd }) => [
      clean(agent, true),
      `$${usage.costUsd}${usage.unpricedCalls === 0 ? '' : ` + ${usage.unpricedCalls} unpriced`}`,
      String(count),
      dearest === null ? '-' : `$${dearest.costUsd}${capUsd === undefined ? '' : ` of $${capUsd}`}`,
      String(usage.calls),
      String(usage.inputTokens),
      String(usage.outputTokens),
    ]);
    const items = series.items
      .toReversed()
      .map(({ day, agent, usage }) => [day, clean(agent ?? '-', true), `$${usage.costUsd}`, String(usage.calls)]);
    return [
      table(['agent', 'cost', 'sessions', 'dearest', 'calls', 'tokens in', 'tokens out'], agents, call.screen),
      '',
      table(['day', 'agent', 'cost', 'calls'], items, call.screen),
      ...(series.capHits === 0 ? [] : ['', `held by a cap: ${series.capHits} (svc session list --state blocked)`]),
    ].join('\n');
  });
  return 0;
};
