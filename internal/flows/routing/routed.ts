// What is told of events whose routing has ended: metrics, traces and the log.

import type { FlowContext } from '../context.ts';
import { noteRouting, type Routed } from './batch.ts';

/** In seconds: fine where a healthy router is. */
const lagBuckets = [
  0.001, 0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5,
  10, 30,
];

export function countRouted({ metrics }: FlowContext, status: Routed['status'], by: number): void {
  metrics.counter('svc_events_routed_total', 'Events whose routing has ended, by how.', ['status']).inc({ status }, by);
}

/** Of one batch, after its commit. */
export function tellRouted(ctx: FlowContext, projectId: string, routed: readonly Routed[]): void {
  const { metrics, runtime } = ctx;
  const lag = metrics.histogram(
    'svc_event_routing_lag_seconds',
    'Time from the receipt of an event to the commit of its routing.',
    [],
    lagBuckets,
  );
  const now = runtime.now().getTime();
  const counts = { routed: 0, unmatched: 0, failed: 0 };
  for (const one of routed) {
    counts[one.status] += 1;
    lag.observe(Math.max(0, now - one.receivedMs) / 1_000);
    noteRouting(one, now);
  }
  for (const status of ['routed', 'unmatched', 'failed'] as const)
    if (counts[status] > 0) countRouted(ctx, status, counts[status]);
  runtime.log.debug({ projectId, ...counts }, 'event.routed');
}
