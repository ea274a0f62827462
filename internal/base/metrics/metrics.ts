// Prometheus metrics: one registry per daemon, so that several can run in one process.
// Names start with `svc_`;
// label values come from closed lists, never from what a user wrote.

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

export interface Metrics {
  readonly registry: Registry;
  /** The counter of that name, made on first use; `labels` lists the label names. */
  counter<L extends string>(name: string, help: string, labels?: readonly L[]): Counter<L>;
  gauge<L extends string>(name: string, help: string, labels?: readonly L[]): Gauge<L>;
  /** `buckets` are upper bounds in the metric's unit, which its name ends with (`_seconds`). */
  histogram<L extends string>(
    name: string,
    help: string,
    labels?: readonly L[],
    buckets?: readonly number[],
  ): Histogram<L>;
}

const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** How often the event loop's lag is sampled: each time wakes the process, and ten times as often was half of what it does idle. */
const loopLagMs = 100;

/** `processMetrics` adds CPU, memory and event-loop figures; left out in tests, where many registries share a process. */
export function createMetrics(options: { processMetrics?: boolean } = {}): Metrics {
  const registry = new Registry();
  if (options.processMetrics) {
    collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: loopLagMs });
    // Gauges under the name of counters, which Prometheus warns of; the same by type stays.
    for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);
  }
  const found = <T>(name: string): T | undefined => registry.getSingleMetric(name) as T | undefined;
  return {
    registry,
    counter: <L extends string>(name: string, help: string, labels: readonly L[] = []) =>
      found<Counter<L>>(name) ?? new Counter<L>({ name, help, labelNames: [...labels], registers: [registry] }),
    gauge: <L extends string>(name: string, help: string, labels: readonly L[] = []) =>
      found<Gauge<L>>(name) ?? new Gauge<L>({ name, help, labelNames: [...labels], registers: [registry] }),
    histogram: <L extends string>(name: string, help: string, labels: readonly L[] = [], buckets = secondsBuckets) =>
      found<Histogram<L>>(name) ??
      new Histogram<L>({ name, help, labelNames: [...labels], buckets: [...buckets], registers: [registry] }),
  };
}
