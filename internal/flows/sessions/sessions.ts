// Sessions as records (docs/reference/sessions.md#states and #slot, docs/reference/routing.md#bindings): how one is made,
// told, replaced and ended, and how its bindings move, each with its event. Which session gets an event is decided elsewhere;
// what runs a session is elsewhere too. All of it happens under the project's routing lock, but for money
// (docs/reference/sessions.md#spending): what model calls may cost and have cost.

import { readFile } from 'node:fs/promises';
import {
  agentSessions,
  cappedSessions,
  type SeriesRow,
  usageSeries,
} from '../../adapters/store/sessions/usage-series.ts';
import { parseUsd, printUsd, type Usd } from '../../core/money/money.ts';
import type { AgentSpec, ModelProvider } from '../../domain/spec.ts';
import { errorCode } from '../../adapters/store/store.ts';
import { getProject } from '../../adapters/store/tenancy/tenancy.ts';
import type { ModelSettings } from '../../base/config/model-settings.ts';
import type { FlowContext } from '../context.ts';
import { secretText } from '../sealed.ts';
import { noUsage } from './money.ts';

export { execInput, execInSession } from './exec.ts';
export {
  type Authorization,
  type CallIntent,
  type CallOutcome,
  checkMoney,
  type MoneyPorts,
  moneyPorts,
  usageOfMany,
  spendingOf,
  usageSummary,
} from './money.ts';
export {
  answerPermission,
  archiveSession,
  interruptSession,
  noSession,
  releaseBinding,
  sendMessage,
  startSession,
} from './operate.ts';
export { archiveOrphans } from './orphans.ts';
export {
  bindSession,
  type ClaimHeir,
  createSessions,
  deliver,
  endSession,
  type NewSession,
  passWaiting,
  requireLive,
  takeOver,
  unbindSession,
} from './records.ts';
export { renderRefs } from './refs.ts';
export { messageFrom, spawnFromSession } from './spawn.ts';
export { type SessionEvent, watchSession } from './stream.ts';
export { recordTransitions, type Transition } from './transitions.ts';

// Where the key of a model provider is, looked up at the moment of a call, so that a rotated one is used at once.

/** The key of a provider for a project's sessions; undefined where there is none. Never log what it answers. */
export async function modelKey(
  ctx: FlowContext,
  keys: ModelSettings['keys'],
  provider: ModelProvider,
  projectId: string,
): Promise<string | undefined> {
  const place = keys[provider];
  if (place.kind === 'env') return ctx.config.secretEnv?.(place.name);
  if (place.kind === 'file') {
    try {
      return await readFile(place.path, 'utf8');
    } catch (error) {
      ctx.runtime.log.error({ provider, path: place.path, code: errorCode(error) }, 'model.key_unreadable');
      return undefined;
    }
  }
  const project = await getProject(ctx.db, projectId);
  if (project === undefined) return undefined;
  return secretText(ctx, project, place.name, { kind: 'model', name: provider });
}

// Which tool servers a session has: one per alias that is not disabled, and one for its checks where it has any.

/** Of the checks, unless the agent has a tool of that name itself. */
export const checksAlias = 'checks';

/** Aliases of a session's tool servers, sorted. */
export function sessionAliases(spec: Pick<AgentSpec, 'tools'>, hasChecks: boolean): string[] {
  const declared = Object.entries(spec.tools).filter(([, tool]) => tool.disabled !== true);
  const aliases = new Set(declared.map(([alias]) => alias));
  if (hasChecks && !Object.hasOwn(spec.tools, checksAlias)) aliases.add(checksAlias);
  return [...aliases].toSorted();
}

// Spending over days, for people: by day and agent, with what each agent's sessions came to.

const dayMs = 86_400_000;

type Usage = Omit<SeriesRow, 'day' | 'agent'>;
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
  const sums = new Map<string, Usage>(sessions.map(({ agent }) => [agent, noUsage]));
  for (const row of byAgent) {
    const agent = row.agent ?? '';
    sums.set(agent, plus(sums.get(agent) ?? noUsage, usageOf(row)));
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
