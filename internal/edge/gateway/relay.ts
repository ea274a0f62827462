// Passing one call on to its provider, to the next of its models where the provider has none of the first, and the answer
// back, chunk by chunk.

import { once } from 'node:events';
import {
  createMeter,
  type Endpoint,
  mayPass,
  type Metered,
  opensWithFailure,
  type PreparedCall,
  type UpstreamAnswer,
  UpstreamFailure,
} from '../../adapters/providers/model/model.ts';
import { yieldToEventLoop } from '../../base/concurrency.ts';
import type { ModelCallEnd } from '../../flows/ports.ts';
import type { CallOutcome } from '../../flows/sessions/sessions.ts';
import { Refusal, sendRefusal } from './refusal.ts';
import type { Call, Deps, SessionRoute } from './route.ts';

export interface Relayed {
  readonly status: number;
  readonly end: 'done' | 'failed' | 'aborted';
  /** Null: it cost nothing. */
  readonly outcome: CallOutcome | null;
}

const errorMaxBytes = 65_536;
const peekMaxBytes = 65_536;
const messageMax = 500;
/** Of an answer, between two turns of the event loop. */
const sliceBytes = 8_192;
const isRetryable = (status: number): boolean => status === 408 || status === 429 || status >= 500;

/** One attempt: the answer, what was read of it already, and the rest. */
interface Attempt {
  readonly model: string;
  readonly answer: UpstreamAnswer;
  readonly read: readonly Buffer[];
  readonly rest: AsyncIterator<Buffer>;
}

/**
 * Passes a call on. Throws Refusal where nothing could be passed back and nothing was spent; what may have been spent is
 * answered, as an estimate where it was not told.
 */
export async function relay(
  deps: Deps,
  route: SessionRoute,
  call: Call,
  endpoint: Endpoint,
  prepared: PreparedCall | null,
): Promise<Relayed> {
  const estimate = (model: string): CallOutcome => ({
    model,
    usage: {
      inputTokens: prepared?.inputTokens ?? 0,
      outputTokens: 0,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      estimated: true,
    },
  });
  if (call.signal.aborted) return { status: 499, end: 'aborted', outcome: null };
  let attempt: Attempt;
  try {
    attempt = await reach(deps, route, call, endpoint, prepared);
  } catch (error) {
    const first = prepared?.models[0] ?? route.request.model.id;
    // Sent, and not answered before the harness went away: nobody tells what it cost.
    if (call.signal.aborted) {
      call.response.destroy();
      return { status: 499, end: 'aborted', outcome: estimate(first) };
    }
    if (!(error instanceof UpstreamFailure)) throw error;
    const refusal = new Refusal('upstream', error.outcome, error.message);
    if (error.outcome === 'not-sent') throw refusal;
    sendRefusal(call.response, call.provider, refusal);
    report(deps, route, call, endpoint, {
      status: 502,
      ok: false,
      retryable: true,
      model: first,
      message: error.message,
    });
    return { status: 502, end: 'failed', outcome: estimate(first) };
  }
  call.answered?.();
  const { answer, model } = attempt;
  if (answer.status < 200 || answer.status > 299) return passError(deps, route, call, endpoint, attempt);
  const sse = answer.mediaType === 'text/event-stream';
  if ((!sse && !/^application\/(.+\+)?json$/.test(answer.mediaType)) || isEncoded(answer)) {
    answer.body.destroy();
    const message = `${call.provider} answered in a form that is not its own (${answer.mediaType.slice(0, 64) || 'no type'}).`;
    sendRefusal(call.response, call.provider, new Refusal('upstream', 'bad-answer', message));
    report(deps, route, call, endpoint, { status: 502, ok: false, retryable: true, model, message });
    return { status: 502, end: 'failed', outcome: estimate(model) };
  }
  return passAnswer(deps, route, call, endpoint, { attempt, sse, inputTokens: prepared?.inputTokens ?? 0 });
}

const isEncoded = ({ encoding }: UpstreamAnswer): boolean => encoding !== undefined && encoding !== 'identity';

/** The first answer that is to be passed back: of the models in order, the next one after a failure of the provider. */
async function reach(
  deps: Deps,
  route: SessionRoute,
  call: Call,
  endpoint: Endpoint,
  prepared: PreparedCall | null,
): Promise<Attempt> {
  const models = prepared?.models ?? [route.request.model.id];
  const { provider, spender } = { provider: route.request.model.provider, spender: route.request.spender };
  for (const [index, model] of models.entries()) {
    const answer = await deps.upstream.send({
      provider,
      projectId: spender.projectId,
      method: endpoint.hasBody ? 'POST' : 'GET',
      path: `${call.path}${call.query}`,
      headers: call.request.headers,
      body: prepared?.bodyFor(model) ?? null,
      signal: call.signal,
    });
    const isLast = index === models.length - 1 || endpoint.kind === 'free';
    const rest = (answer.body as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    if (isLast) return { model, answer, read: [], rest };
    if (!isRetryable(answer.status)) {
      const read = answer.mediaType === 'text/event-stream' ? await peek(rest) : [];
      if (!opensWithFailure(endpoint.wire, Buffer.concat(read).toString('utf8'))) return { model, answer, read, rest };
    }
    answer.body.destroy();
    const next = models[index + 1];
    const { sessionId } = spender;
    deps.runtime.log.info({ session: sessionId, provider, model, next, status: answer.status }, 'model.fallback');
  }
  throw new Error('a call has no model');
}

/** The chunks up to the end of the first event. */
async function peek(rest: AsyncIterator<Buffer>): Promise<Buffer[]> {
  const read: Buffer[] = [];
  let bytes = 0;
  // The end of an event has up to four bytes: only those before a chunk are looked at again, or very many small ones take the square.
  let seen = '';
  while (bytes < peekMaxBytes && !/\r?\n\r?\n/.test(seen)) {
    const next = await rest.next().catch(() => {
      throw new UpstreamFailure('unknown', 'The model provider broke off its answer.');
    });
    if (next.done === true) break;
    read.push(next.value);
    bytes += next.value.length;
    seen = seen.slice(-3) + next.value.toString('latin1');
  }
  return read;
}

async function* chunksOf({ read, rest }: Attempt): AsyncGenerator<Buffer> {
  yield* read;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
}

async function passAnswer(
  deps: Deps,
  route: SessionRoute,
  call: Call,
  endpoint: Endpoint,
  given: { readonly attempt: Attempt; readonly sse: boolean; readonly inputTokens: number },
): Promise<Relayed> {
  const { attempt, sse, inputTokens } = given;
  const { answer } = attempt;
  const { response } = call;
  const meter = endpoint.kind === 'metered' ? createMeter(endpoint.wire, { sse, inputTokens }) : undefined;
  response.writeHead(answer.status, answer.headers);
  if (sse) response.flushHeaders();
  let bytes = 0;
  let unyielded = 0;
  let broken: string | undefined;
  try {
    for await (const chunk of chunksOf(attempt)) {
      call.signal.throwIfAborted();
      bytes += chunk.length;
      if (bytes > deps.limits.answerMaxBytes) throw new Error('too large');
      response.write(chunk);
      for (let at = 0; at < chunk.length; at += sliceBytes) {
        const slice = chunk.subarray(at, at + sliceBytes);
        meter?.push(slice);
        unyielded += slice.length;
        if (unyielded < sliceBytes) continue;
        // What is buffered comes without a turn of the event loop, and short lines cost many times their bytes.
        unyielded = 0;
        await yieldToEventLoop();
      }
      if (response.writableNeedDrain) await once(response, 'drain', { signal: call.signal });
    }
  } catch {
    answer.body.destroy();
    // The harness must not take a part for the whole.
    response.destroy();
    broken = call.signal.aborted ? 'aborted' : 'failed';
  }
  const metered = meter?.end();
  const failure = broken === 'failed' ? 'the answer broke off' : metered?.failure;
  if (broken !== 'aborted' && meter !== undefined) {
    const message = failure === undefined ? null : `The model provider failed: ${failure}.`;
    const { status } = answer;
    report(deps, route, call, endpoint, {
      status,
      ok: failure === undefined,
      retryable: failure !== undefined && mayPass(failure),
      model: attempt.model,
      message,
    });
  }
  if (broken === undefined) response.end();
  return {
    status: answer.status,
    end: broken === 'aborted' ? 'aborted' : failure === undefined ? 'done' : 'failed',
    outcome: outcomeOf(route, attempt.model, metered),
  };
}

/** The ledger names the id that was asked for; what a router chose only where the agent declares it. */
function outcomeOf(route: SessionRoute, asked: string, metered: Metered | undefined): CallOutcome | null {
  if (metered === undefined || metered.usage === null) return null;
  const { model, usage } = metered;
  const isDeclared = model !== undefined && (route.request.model.gateway?.models ?? []).includes(model);
  return { model: isDeclared ? model : asked, usage };
}

/** An error of the provider costs nothing. Its text is passed on without what must not be seen. */
async function passError(
  deps: Deps,
  route: SessionRoute,
  call: Call,
  endpoint: Endpoint,
  attempt: Attempt,
): Promise<Relayed> {
  const { answer, model } = attempt;
  const text = answer.scrub(await readSome(attempt));
  answer.body.destroy();
  const isJson = /^application\/(.+\+)?json$/.test(answer.mediaType);
  const said = isJson ? messageIn(text) : undefined;
  const { status } = answer;
  let shown = status;
  if (status < 400 || status === 401 || status === 403 || said === undefined || isEncoded(answer)) {
    // Not the harness's to act on: its own credentials are no part of this.
    const isKey = status === 401 || status === 403;
    const what = isKey ? "refuses the service's key, or what is asked with it" : 'answered';
    const message = `${call.provider} ${what} (${status})${said === undefined ? '' : `: ${said}`}`;
    sendRefusal(call.response, call.provider, new Refusal('upstream', 'upstream-refused', message), isKey);
    shown = 502;
  } else {
    call.response.writeHead(status, { ...answer.headers, 'content-length': Buffer.byteLength(text) });
    call.response.end(text);
  }
  const message = said ?? `the model provider answered ${status}`;
  report(deps, route, call, endpoint, { status: shown, ok: false, retryable: isRetryable(status), model, message });
  return { status: shown, end: 'failed', outcome: null };
}

async function readSome(attempt: Attempt): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of chunksOf(attempt)) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > errorMaxBytes) break;
    }
  } catch {
    // An error that breaks off is an error all the same.
    return '';
  }
  return bytes > errorMaxBytes ? '' : Buffer.concat(chunks).toString('utf8');
}

function messageIn(text: string): string | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } | string };
    const message = typeof error === 'string' ? error : error?.message;
    return typeof message === 'string' ? message.slice(0, messageMax) : undefined;
  } catch {
    return undefined;
  }
}

function report(deps: Deps, route: SessionRoute, call: Call, endpoint: Endpoint, end: Omit<ModelCallEnd, 'at'>): void {
  if (endpoint.kind === 'free') return;
  route.ended(call, { at: deps.runtime.now(), ...end });
}
