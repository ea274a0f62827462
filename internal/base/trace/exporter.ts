// Sends spans to a collector over OTLP/HTTP. Loaded only where OTEL_EXPORTER_OTLP_ENDPOINT is set: the library reads that, its
// headers, time limit and compression from the environment by itself.

import { ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { type Span, sendSpansTo } from './trace.ts';

/** Spans that are gathered before they are sent. */
const sendAfterMs = 1_000;

/** From now on what is noted is sent; resolves with what sends the rest and ends that. A collector that is away delays nothing. */
export function startExporter(resource: { readonly [name: string]: string }): () => Promise<void> {
  let next: Pick<Span, 'traceId' | 'spanId'> = { traceId: '', spanId: '' };
  const provider = new TracerProvider({
    // What the environment says of the service goes before what it says of itself.
    resource: resourceFromAttributes(resource).merge(
      detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] }),
    ),
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), scheduledDelayMillis: sendAfterMs })],
    // Ids are those of the span that is being started: nothing is started in between.
    idGenerator: { generateTraceId: () => next.traceId, generateSpanId: () => next.spanId },
  });
  const tracer = provider.getTracer('svcd');
  sendSpansTo((span) => {
    next = span;
    const { traceId, parentId } = span;
    const parent =
      parentId === null
        ? ROOT_CONTEXT
        : trace.setSpanContext(ROOT_CONTEXT, {
            traceId,
            spanId: parentId,
            traceFlags: TraceFlags.SAMPLED,
            isRemote: true,
          });
    const kind = span.name === 'delivery' ? SpanKind.SERVER : SpanKind.INTERNAL;
    const links = span.link === undefined ? [] : [{ context: { ...span.link, traceFlags: TraceFlags.SAMPLED } }];
    const { attributes, startMs: startTime } = span;
    const started = tracer.startSpan(span.name, { kind, startTime, attributes, links }, parent);
    if (span.failed) started.setStatus({ code: SpanStatusCode.ERROR });
    started.end(span.endMs);
  });
  return async () => {
    sendSpansTo(undefined);
    await provider.shutdown();
  };
}
