// One request of a harness: whose it is, what it asks for, whether it may, and its end.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import {
  BodyProblem,
  type Endpoint,
  endpointOf,
  errorBody,
  type PreparedCall,
  prepareBody,
  shorten,
} from '../../adapters/providers/model/model.ts';
import { failpoint } from '../../base/failpoint.ts';
import type { CallIntent } from '../../flows/sessions/sessions.ts';
import { lookedAt } from '../../domain/depth.ts';
import { Fault } from '../../domain/fault.ts';
import { type ModelProvider, providers } from '../../domain/spec.ts';
import type { HeldBody } from './body-room.ts';
import { Refusal, sendRefusal } from './refusal.ts';
import { relay, type Relayed } from './relay.ts';
import { type Call, type Deps, routeId, type SessionRoute } from './route.ts';

/** The token, or a dash where it is sent as a key. */
const addressPattern = /^\/s\/([A-Za-z0-9_-]{43}|-)\/([^/?]+)(\/[^?]*)?(\?.*)?$/;
const bearer = /^Bearer ([A-Za-z0-9_-]{43})$/;
const queryMax = 1_024;

/** Answers one request; never rejects. */
export async function answerCall(
  deps: Deps,
  routes: ReadonlyMap<string, SessionRoute>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [, address = '', name, path = '', query = ''] = addressPattern.exec(request.url ?? '') ?? [];
  const token = address === '-' ? (bearer.exec(request.headers.authorization ?? '')?.[1] ?? '') : address;
  const provider = providers.find((one) => one === name);
  // A harness that goes away while it is being answered is no error of ours.
  response.on('error', () => undefined);
  const route = routes.get(routeId(token));
  if (route === undefined) {
    sendRefusal(response, provider, new Refusal('unauthenticated', 'bad-token', 'Unknown or revoked session token.'));
    return;
  }
  const { controller, done } = route.begin();
  response.on('close', () => {
    if (!response.writableEnded) controller.abort();
  });
  const late = setTimeout(() => controller.abort(), deps.limits.callMaxMs);
  const call: Call = { request, response, provider, path, query, offersTools: false, signal: controller.signal };
  const work = serveCall(deps, route, call)
    .catch((error: unknown) => fail(deps, route, call, error))
    .finally(() => {
      clearTimeout(late);
      done();
    });
  route.track(work);
  await work;
}

async function serveCall(deps: Deps, route: SessionRoute, call: Call): Promise<void> {
  const { request, provider, path, query } = call;
  const { model } = route.request;
  const endpoint = provider === undefined ? undefined : endpointOf(provider, request.method ?? '', path);
  if (provider !== model.provider || endpoint === undefined || query.length > queryMax) {
    throw new Refusal('not-found', 'no-such-call', 'The model gateway has no such call for this session.');
  }
  if (route.inFlight > deps.limits.callsMax) {
    throw new Refusal('busy', 'too-many-calls', `At most ${deps.limits.callsMax} calls of a session run at a time.`);
  }
  const held = deps.bodies.of(route.request.spender.projectId);
  try {
    const prepared = endpoint.hasBody ? await readPrepared(deps, route, call, endpoint, held) : null;
    const answered = (): void => {
      prepared?.forget();
      held.give();
    };
    if (endpoint.kind === 'free' || prepared === null)
      return void (await relay(deps, route, { ...call, answered }, endpoint, prepared));
    const metered = { ...call, answered, offersTools: prepared.offersTools };
    route.begun(metered);
    try {
      await serveMetered(deps, route, metered, endpoint, prepared);
    } catch (error) {
      reportRefusal(deps, route, metered, error);
      throw error;
    }
  } finally {
    held.give();
  }
}

/** The body as it is to be sent; nothing else holds what it was made of. */
async function readPrepared(
  deps: Deps,
  route: SessionRoute,
  { request }: Call,
  endpoint: Endpoint,
  held: HeldBody,
): Promise<PreparedCall> {
  const raw = await readBody(request, deps.limits.bodyMaxBytes, held);
  return prepareBody(endpoint, route.request.model, await shorten(raw));
}

/** Asks, passes on, and tells: what was let go is settled, whatever happens to it. */
async function serveMetered(
  deps: Deps,
  route: SessionRoute,
  call: Call,
  endpoint: Endpoint,
  prepared: PreparedCall,
): Promise<void> {
  const { spender, model, caps } = route.request;
  const intent: CallIntent = {
    requestId: deps.runtime.uuid(),
    spender,
    model,
    models: prepared.models,
    caps,
    inputTokens: prepared.inputTokens,
    maxOutputTokens: prepared.maxOutputTokens,
  };
  await route.entered();
  const verdict = await deps.money.authorize(intent, call.signal);
  if (!verdict.allowed) {
    if (verdict.refusal !== undefined) route.emit({ kind: 'capped', refused: true, refusal: verdict.refusal });
    throw new Refusal(verdict.kind, verdict.code, verdict.message);
  }
  failpoint('model.before-call');
  const startedAt = performance.now();
  let relayed: Relayed | undefined;
  try {
    relayed = await relay(deps, route, call, endpoint, prepared);
  } finally {
    await settle(deps, route, intent, relayed, Math.round(performance.now() - startedAt));
  }
}

async function settle(
  deps: Deps,
  route: SessionRoute,
  intent: CallIntent,
  relayed: Relayed | undefined,
  durationMs: number,
): Promise<void> {
  const { sessionId, agentName } = intent.spender;
  const { provider } = intent.model;
  const outcome = relayed?.outcome ?? null;
  const about = { session: sessionId, agent: agentName, provider, requestId: intent.requestId };
  try {
    failpoint('model.before-record');
    const refusal = await route.enter(deps.money.settle(intent, outcome));
    failpoint('model.after-record');
    if (refusal !== null) route.emit({ kind: 'capped', refused: false, refusal });
  } catch (error) {
    // The call stays noted as in flight, and is entered as an estimate by whoever opens the session next.
    deps.runtime.log.error({ err: error, ...about, usage: outcome?.usage }, 'model.not_recorded');
  }
  if (relayed === undefined) return;
  count(deps, provider, relayed);
  const { usage } = outcome ?? {};
  const { status, end } = relayed;
  deps.runtime.log.debug({ ...about, model: outcome?.model, status, outcome: end, durationMs, usage }, 'model.called');
}

function count({ metrics }: Deps, provider: ModelProvider, { end, outcome }: Relayed): void {
  const calls = metrics.counter('svc_model_calls_total', 'Calls of sessions to their models.', ['provider', 'outcome']);
  calls.inc({ provider, outcome: end });
  if (outcome === null) return;
  const tokens = metrics.counter('svc_model_tokens_total', 'Tokens of model calls.', ['provider', 'kind']);
  const { usage } = outcome;
  tokens.inc({ provider, kind: 'input' }, usage.inputTokens);
  tokens.inc({ provider, kind: 'output' }, usage.outputTokens);
  tokens.inc({ provider, kind: 'cache_read' }, usage.cacheReadTokens);
  tokens.inc({ provider, kind: 'cache_write' }, usage.cacheWriteTokens);
}

async function readBody(request: IncomingMessage, bytesMax: number, held: HeldBody): Promise<Buffer> {
  const tooLarge = new Refusal('too-large', 'body-too-large', `The body is larger than ${bytesMax} bytes.`);
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    throw new Refusal('invalid', 'body-encoded', 'The body must not be compressed.');
  }
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) throw tooLarge;
  // In one piece where its length is known: parts that are joined take as much again.
  const said = Number(request.headers['content-length'] ?? 0);
  const first = said > 0 ? said : 65_536;
  held.add(first);
  let whole = Buffer.allocUnsafeSlow(first);
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    if (bytes + chunk.length > bytesMax) throw tooLarge;
    if (bytes + chunk.length > whole.length) {
      const size = Math.min(bytesMax, Math.max(2 * whole.length, bytes + chunk.length));
      held.add(size - whole.length);
      const larger = Buffer.allocUnsafeSlow(size);
      whole.copy(larger, 0, 0, bytes);
      whole = larger;
    }
    bytes += chunk.copy(whole, bytes);
  }
  whole = whole.subarray(0, bytes);
  for (const looking = lookedAt(whole, valueBounds); ; await yieldToEventLoop()) {
    const { done, value } = looking.next();
    if (value === 'many')
      throw new Refusal('invalid', 'body-too-many', `The body holds over ${valueBounds.values} values.`);
    if (done === true) return whole;
  }
}

/** What a body costs to parse grows with its values; how deep it nests, whoever reads it tells. */
const valueBounds = { levels: Number.POSITIVE_INFINITY, values: 500_000 } as const;

/** What went wrong before a byte of an answer was passed on becomes an error in the provider's shape. */
function fail(deps: Deps, route: SessionRoute, call: Call, error: unknown): void {
  const { response, provider, signal } = call;
  if (response.headersSent || response.destroyed || signal.aborted) {
    response.destroy();
    return;
  }
  const refusal = refusalOf(error);
  if (refusal === undefined) {
    deps.runtime.log.error({ err: error, session: route.request.spender.sessionId }, 'model.call_failed');
  }
  sendRefusal(response, provider, refusal ?? new Refusal('unavailable', 'internal', 'The model gateway failed.'));
}

/** A metered call that was turned away or could not be sent is the session's last one all the same. */
function reportRefusal(deps: Deps, route: SessionRoute, call: Call, error: unknown): void {
  const refusal = refusalOf(error);
  if (refusal === undefined) return;
  const { kind, message } = refusal;
  const { status } = errorBody(route.request.model.provider, kind, refusal.code, message);
  const help = 'Calls of sessions that were turned away or could not be sent, by what they were answered.';
  const { provider } = route.request.model;
  deps.metrics.counter('svc_model_refusals_total', help, ['provider', 'status']).inc({ provider, status });
  const retryable = kind === 'busy' || kind === 'upstream' || kind === 'unavailable';
  const at = deps.runtime.now();
  route.ended(call, { at, status, ok: false, retryable, model: route.request.model.id, message });
}

function refusalOf(error: unknown): Refusal | undefined {
  if (error instanceof Refusal) return error;
  if (error instanceof BodyProblem) return new Refusal('invalid', 'bad-body', error.message);
  if (error instanceof Fault) return new Refusal('unavailable', error.code, error.message);
  return undefined;
}
