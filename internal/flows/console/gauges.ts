// The metrics that tell how the installation stands (docs/reference/metrics.md#gauges), read from the database when somebody asks
// for the metrics, at most every few seconds. What people have named has no place in them: /metrics asks for no token,
// so a repository is its id, which `svc repo list --json` tells.

import { readFile } from 'node:fs/promises';
import { type Gauges, readGauges } from '../../adapters/store/operations/gauges.ts';
import { roleNames } from '../../base/config/config.ts';
import type { Metrics } from '../../base/metrics/metrics.ts';
import type { FlowContext } from '../context.ts';

const keptMs = 5_000;

interface Reading {
  readonly atMs: number;
  readonly done: Promise<void>;
}
const readings = new WeakMap<Metrics, Reading>();

/** Sets the gauges by the database. Where it cannot be read they are left out, and `svc_gauges_read` is 0. */
export async function refreshGauges(ctx: FlowContext): Promise<void> {
  const nowMs = performance.now();
  const last = readings.get(ctx.metrics);
  if (last !== undefined && nowMs - last.atMs < keptMs) return last.done;
  const done = read(ctx);
  readings.set(ctx.metrics, { atMs: nowMs, done });
  return done;
}

async function read(ctx: FlowContext): Promise<void> {
  const isRead = ctx.metrics.gauge('svc_gauges_read', 'Whether the gauges could be read from the database');
  await build(ctx.metrics);
  try {
    show(ctx.metrics, await readGauges(ctx.db));
    isRead.set(1);
  } catch (error) {
    forget(ctx.metrics);
    isRead.set(0);
    ctx.runtime.log.warn({ err: error }, 'metrics.unreadable');
  }
}

let version: string | undefined;
async function build(metrics: Metrics): Promise<void> {
  version ??= String(
    (JSON.parse(await readFile(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: unknown })
      .version,
  );
  metrics
    .gauge('svc_build_info', 'The program that answers', ['version', 'node'])
    .set({ version, node: process.versions.node }, 1);
}

const names = {
  repositories: 'svc_repositories',
  condition: 'svc_repository_condition',
  conditionSeconds: 'svc_repository_condition_seconds',
  appliedSeconds: 'svc_repository_applied_seconds',
  pending: 'svc_events_pending',
  pendingSeconds: 'svc_events_pending_seconds',
  failed: 'svc_events_failed',
  waiting: 'svc_jobs_waiting',
  jobSeconds: 'svc_jobs_waiting_seconds',
  parked: 'svc_jobs_parked',
  usd: 'svc_spend_usd_today',
  tokens: 'svc_spend_tokens_today',
  calls: 'svc_spend_calls_today',
  secrets: 'svc_secrets_expiring',
  secretSeconds: 'svc_secret_next_expiry_seconds',
  daemons: 'svc_daemons',
} as const;

function gaugesOf(metrics: Metrics) {
  const { gauge } = metrics;
  return {
    repositories: gauge(names.repositories, 'Repositories by what their latest sync came to', ['state']),
    condition: gauge(names.condition, 'The condition of each repository’s source: 1', ['repository', 'condition']),
    conditionSeconds: gauge(names.conditionSeconds, 'How long a source has been in its condition; 0 for ok', [
      'repository',
    ]),
    appliedSeconds: gauge(names.appliedSeconds, 'How long ago what runs was applied', ['repository']),
    pending: gauge(names.pending, 'Events that wait for their routing'),
    pendingSeconds: gauge(names.pendingSeconds, 'How long the oldest of them has waited'),
    failed: gauge(names.failed, 'Kept events whose routing could not be done'),
    waiting: gauge(names.waiting, 'Jobs that could run now', ['task']),
    jobSeconds: gauge(names.jobSeconds, 'How long the oldest of them has waited', ['task']),
    parked: gauge(names.parked, 'Jobs that have used up their attempts', ['task']),
    usd: gauge(names.usd, 'US dollars that model calls have cost since midnight UTC'),
    tokens: gauge(names.tokens, 'Tokens of model calls since midnight UTC', ['kind']),
    calls: gauge(names.calls, 'Model calls since midnight UTC', ['priced']),
    secrets: gauge(names.secrets, 'Secrets that have expired, or will within a week', ['when']),
    secretSeconds: gauge(names.secretSeconds, 'How long until the next secret expires'),
    daemons: gauge(names.daemons, 'Live daemons by role', ['role']),
  };
}

function show(metrics: Metrics, found: Gauges): void {
  const all = gaugesOf(metrics);
  for (const one of Object.values(all)) one.reset();
  for (const state of ['synced', 'failed', 'held', 'quarantined', 'suspended', 'new'])
    all.repositories.set({ state }, 0);
  for (const { state, count } of found.repositories) all.repositories.set({ state }, count);
  for (const { id, condition, conditionSeconds, appliedSeconds } of found.each) {
    all.condition.set({ repository: id, condition }, 1);
    all.conditionSeconds.set({ repository: id }, conditionSeconds);
    if (appliedSeconds !== null) all.appliedSeconds.set({ repository: id }, appliedSeconds);
  }
  all.pending.set(found.pending.count);
  all.pendingSeconds.set(found.pending.seconds);
  all.failed.set(found.failedEvents);
  for (const { task, waiting, parked, seconds } of found.jobs) {
    all.waiting.set({ task }, waiting);
    all.parked.set({ task }, parked);
    all.jobSeconds.set({ task }, waiting > 0 ? seconds : 0);
  }
  all.usd.set(found.spend.usd);
  all.tokens.set({ kind: 'input' }, found.spend.input);
  all.tokens.set({ kind: 'output' }, found.spend.output);
  all.calls.set({ priced: 'yes' }, found.spend.calls - found.spend.unpriced);
  all.calls.set({ priced: 'no' }, found.spend.unpriced);
  all.secrets.set({ when: 'expired' }, found.secrets.expired);
  all.secrets.set({ when: 'week' }, found.secrets.week);
  // Without a label it would be told as 0: one that expires now.
  if (found.secrets.nextSeconds === null) metrics.registry.removeSingleMetric(names.secretSeconds);
  else all.secretSeconds.set(found.secrets.nextSeconds);
  for (const role of roleNames) all.daemons.set({ role }, 0);
  for (const { role, count } of found.daemons) all.daemons.set({ role }, count);
}

/** What was true a while ago is told by nobody. */
function forget({ registry }: Metrics): void {
  for (const name of Object.values(names)) registry.removeSingleMetric(name);
}
