// One connection to a harness program: JSON-RPC through the protocol's own library over our bounded frames, one session,
// at most one prompt in flight. Everything that can end the wire ends here as one HarnessFailure, which every waiting
// call then gets.

import { type ClientConnection, client, RequestError } from '@agentclientprotocol/sdk';
import { settlesWithin, unlessAborted } from '../../base/waits.ts';
import { type FrameEvents, frameStream, type Read } from './frames.ts';
import { agentOf, initializeParams } from './handshake.ts';
import { classifyTurn, errorOf, errorText, isForgotten, type TurnAnswer, type TurnFacts } from './outcome.ts';
import { CallCategories, mapPermission, permissionAnswer } from './permission.ts';
import { StderrTail } from './stderr-tail.ts';
import {
  type AgentInfo,
  type ConnectOptions,
  HarnessFailure,
  type HarnessFailureKind,
  type HarnessUpdate,
  type OpenedSession,
  type OpenRequest,
  type PermissionDecision,
  type PermissionRequest,
  type ProcessExit,
  type PromptOptions,
  type SetupCall,
  type TurnOutcome,
} from './types.ts';
import { cut, fieldsOf, mapUpdate, nameOf, type SessionFailure, sessionFailureOf } from './updates.ts';

interface Turn {
  active: boolean;
  cancelRequested: boolean;
  told: SessionFailure | undefined;
  readonly permissions: AbortController;
  readonly ended: Promise<void>;
}

/** A live connection; `initialize` has succeeded when `connectHarness` gives it. */
export class HarnessConnection {
  /** Settles once, when the wire has ended for whatever reason; never rejects. */
  readonly ended: Promise<HarnessFailure>;
  #info: AgentInfo = { name: 'unknown', version: 'unknown', resume: 'none' };
  #capabilities: ReadonlySet<string> = new Set();
  #sessionId: string | undefined;
  #turn: Turn | undefined;
  #failure: HarnessFailure | undefined;
  #replaying = false;
  #pendingUpdates = 0;
  #updates: Promise<void> = Promise.resolve();
  #settleEnded: (failure: HarnessFailure) => void = () => undefined;
  readonly #categories = new CallCategories();
  readonly #options: ConnectOptions;
  readonly #stderr: StderrTail;
  readonly #wire: ClientConnection;
  /** Of the prompt in flight, as it goes out. */
  #promptId: number | undefined;
  readonly #adoptedAnswer = Promise.withResolvers<TurnAnswer>();

  constructor(options: ConnectOptions) {
    this.#options = options;
    this.ended = new Promise((resolve) => (this.#settleEnded = resolve));
    const { process, limits } = options;
    this.#stderr = new StderrTail(process.stderr, limits.maxStderrTailBytes);
    this.#stderr.hide([...options.plan.secrets, ...(options.secrets ?? [])]);
    // A write to a program that is gone; its exit says more.
    process.stdin.on('error', () => undefined);
    const { adopted } = options;
    [this.#sessionId, this.#promptId] = [adopted?.sessionId, adopted?.promptId];
    const from = process.lasting?.from ?? 0;
    const start = { from, nextId: adopted?.nextId ?? 0, asked: adopted?.promptId, share: options.share };
    const events: FrameEvents = {
      gate: () => (this.#pendingUpdates < limits.maxPendingUpdates ? undefined : this.#updates),
      onUpdate: (params, end) => this.#onUpdate(params, end),
      onOther: (read) => this.#onOther(read),
      onWrite: async (message) => {
        if (message.method === 'session/prompt') this.#promptId = message.id;
        await options.listener.follower?.writing(message);
      },
      onGarbage: (line) => this.#fail('garbage', `the harness wrote something else than messages on stdout: ${line}`),
      onTooLarge: (size) => this.#fail('frame_too_large', `the harness wrote a message of more than ${size}`),
      onSlow: () => this.#fail('timeout', 'the harness took too long to write a large message, and others waited'),
      onEnd: (partial) => void this.#onOutputEnd(partial),
      onStray: (id) => options.log.debug({ id }, 'harness.stray_answer'),
    };
    const stream = frameStream(process.stdin, process.stdout, limits, events, start);
    this.#wire = client({ name: 'svc' })
      // Extensions of a harness that are nothing to us.
      .onNotification('*', () => undefined)
      .onRequest('*', ({ method, params, signal }) => this.#onRequest(method, params, signal))
      .connect(stream);
    // The library ends the wire by itself when a write fails.
    void this.#wire.closed.then(() => this.#onOutputEnd(undefined));
    void process.exited.then((exit) => this.#onExit(exit));
  }

  get agent(): AgentInfo {
    return this.#info;
  }

  /** True while a prompt waits for its end. */
  get busy(): boolean {
    return this.#turn !== undefined;
  }

  /** The first call of a connection. Throws HarnessFailure: timeout, exited, garbage, refused, incompatible. */
  async initialize(): Promise<AgentInfo> {
    const { plan, limits } = this.#options;
    const agent = agentOf(await this.#call('initialize', initializeParams(plan), limits.initializeMs), plan);
    if (typeof agent === 'string') throw this.#fail('incompatible', agent);
    this.#capabilities = agent.capabilities;
    return (this.#info = agent.info);
  }

  /** A new session. Throws HarnessFailure; after `refused` the connection is ended too. */
  async open(request: OpenRequest): Promise<OpenedSession> {
    const answer = fieldsOf(await this.#call('session/new', this.#sessionParams(request), this.#options.limits.openMs));
    const sessionId = (this.#sessionId = nameOf(answer['sessionId']));
    if (sessionId === undefined || sessionId !== answer['sessionId'])
      throw this.#fail('refused', 'the harness opened a session without an id of at most 1,024 bytes');
    return { sessionId, how: 'opened', refusedCalls: await this.#setUp(sessionId, true) };
  }

  /**
   * A session of an earlier process, by `session/resume` where the agent has it, else by `session/load`, whose replay
   * of old updates is not passed on. Throws HarnessFailure `cannot_resume` where the agent no longer has the session.
   */
  async resume(sessionId: string, request: OpenRequest): Promise<OpenedSession> {
    const how = this.#info.resume;
    if (how === 'none') throw this.#fail('cannot_resume', 'the harness has no way to resume a session');
    this.#sessionId = sessionId;
    this.#replaying = true;
    try {
      const params = { sessionId, ...this.#sessionParams(request) };
      await this.#call(`session/${how}`, params, this.#options.limits.openMs, 'cannot_resume');
    } finally {
      this.#replaying = false;
    }
    const refusedCalls = await this.#setUp(sessionId, false);
    return { sessionId, how: how === 'resume' ? 'resumed' : 'loaded', refusedCalls };
  }

  /**
   * One turn: each text a block of the prompt, in order. Resolves with how it ended and never rejects for what the
   * harness does; a second call while one is in flight is our bug. Every update of the turn has been taken by the
   * listener before this resolves.
   */
  async prompt(texts: readonly string[], options: PromptOptions = {}): Promise<TurnOutcome> {
    const sessionId = this.#sessionId;
    if (sessionId === undefined) throw new Error('prompt before a session is open');
    if (texts.length === 0) throw new Error('a prompt without a text');
    return this.#through(() => this.#promptAnswer(sessionId, texts), options, false);
  }

  /** The turn that another process has prompted; ends as `prompt` does. */
  async goOn(options: PromptOptions = {}): Promise<TurnOutcome> {
    const { adopted } = this.#options;
    if (adopted?.promptId === undefined) throw new Error('no prompt was adopted');
    const lost = this.ended.then((failure): never => {
      throw failure;
    });
    return this.#through(() => Promise.race([this.#adoptedAnswer.promise, lost]), options, adopted.isActive);
  }

  async #through(answering: () => Promise<TurnAnswer>, options: PromptOptions, active: boolean): Promise<TurnOutcome> {
    if (this.#turn !== undefined) throw new Error('a prompt is in flight already');
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const turn: Turn = { active, cancelRequested: false, told: undefined, permissions: new AbortController(), ended };
    this.#turn = turn;
    try {
      const answer = await answering();
      await this.#updates;
      // It has ended, also where its wire has since; but for what cannot be kept of it.
      if (this.#failure?.kind === 'listener_failed') return this.#lost(this.#failure);
      if (isForgotten(answer, this.#sessionId))
        return this.#lost(this.#fail('forgotten', 'the harness knows its session no more'));
      const evidence = await options.evidence?.();
      const facts: TurnFacts = {
        active: turn.active,
        cancelRequested: turn.cancelRequested,
        ...(turn.told !== undefined && { told: turn.told }),
        ...(evidence !== undefined && { evidence }),
      };
      return this.#redacted(classifyTurn(answer, facts));
    } catch (error) {
      if (error instanceof HarnessFailure) return this.#lost(error);
      throw error;
    } finally {
      this.#turn = undefined;
      turn.permissions.abort();
      end();
    }
  }

  /**
   * Cancels the turn in flight: open permission requests are answered as cancelled, then `session/cancel`, then the
   * turn's end is awaited. `idle`: there was none. `overdue`: no end within the grace; the caller ends the process.
   */
  async cancel(): Promise<'idle' | 'ended' | 'overdue'> {
    const turn = this.#turn;
    if (turn === undefined) return 'idle';
    if (!turn.cancelRequested) {
      turn.cancelRequested = true;
      turn.permissions.abort();
      // A wire that ends meanwhile ends the turn.
      void this.#wire.agent.notify('session/cancel', { sessionId: this.#sessionId ?? '' }).catch(() => undefined);
    }
    const isInTime = await settlesWithin(turn.ended, this.#options.limits.cancelGraceMs);
    return isInTime ? 'ended' : 'overdue';
  }

  /** Ends the wire and the program's input; ending the program is its owner's. Safe to call twice. */
  async close(): Promise<void> {
    this.#fail('closed', 'the connection was closed');
    this.#options.process.stdin.end();
    await this.#updates;
  }

  #sessionParams(request: OpenRequest): { [key: string]: unknown } {
    for (const { headers } of request.mcpServers) {
      // Of `Bearer x` both the whole and the token.
      this.#stderr.hide(Object.values(headers).flatMap((value) => [value, ...value.split(' ').slice(1)]));
    }
    const mcpServers = request.mcpServers.map(({ name, url, headers }) => ({
      type: 'http',
      name,
      url,
      headers: Object.entries(headers).map(([header, value]) => ({ name: header, value })),
    }));
    return { cwd: request.cwd, mcpServers, _meta: this.#options.plan.sessionMeta };
  }

  async #setUp(sessionId: string, isNew: boolean): Promise<string[]> {
    const applies = ({ newOnly, capability }: SetupCall): boolean =>
      (isNew || newOnly !== true) && (capability === undefined || this.#capabilities.has(capability));
    const refused: string[] = [];
    for (const call of this.#options.plan.afterOpen.filter(applies)) {
      const params = { sessionId, ...call.params };
      if (call.required) await this.#call(call.method, params, this.#options.limits.openMs);
      else {
        const answer = await this.#attempt(call.method, params, this.#options.limits.openMs);
        if ('error' in answer) refused.push(`${call.method}: ${this.#stderr.redact(answer.error.message)}`);
      }
    }
    return refused;
  }

  /** A call whose refusal ends the connection. */
  async #call(
    method: string,
    params: unknown,
    limitMs: number,
    refusal: HarnessFailureKind = 'refused',
  ): Promise<unknown> {
    const answer = await this.#attempt(method, params, limitMs);
    if ('response' in answer) return answer.response;
    throw this.#fail(refusal, `the harness refused ${method}: ${answer.error.message} (${answer.error.code})`);
  }

  async #attempt(method: string, params: unknown, limitMs: number): Promise<TurnAnswer> {
    const answer = this.#request(method, params);
    if (!(await settlesWithin(answer, limitMs)))
      this.#fail('timeout', `the harness did not answer ${method} within ${limitMs} ms`);
    return answer;
  }

  #promptAnswer(sessionId: string, texts: readonly string[]): Promise<TurnAnswer> {
    return this.#request('session/prompt', { sessionId, prompt: texts.map((text) => ({ type: 'text', text })) });
  }

  async #request(method: string, params: unknown): Promise<TurnAnswer> {
    if (this.#failure !== undefined) throw this.#failure;
    try {
      return { response: await this.#wire.agent.request<unknown>(method, params) };
    } catch (error) {
      if (error instanceof RequestError) {
        const { code, message, data } = error;
        return { error: { code, message: errorText(message, data), data } };
      }
      // The wire ended: for a reason that is known by now, or that the program's exit will tell.
      throw this.#failure ?? (await this.ended);
    }
  }

  /** Everything but updates. */
  #onOther({ kind, end, message }: Read): void {
    const isAnswer = !('method' in message) && message.id === this.#promptId;
    if (kind === 'request' || isAnswer) {
      this.#options.listener.follower?.waits(end, isAnswer ? 'answer' : 'question');
    } else this.#passed(end);
    if (kind !== 'answer' || 'method' in message) return;
    this.#adoptedAnswer.resolve('error' in message ? { error: errorOf(message.error) } : { response: message.result });
  }

  /** Behind the updates that came before it. */
  #passed(end: number): void {
    const { follower } = this.#options.listener;
    if (follower !== undefined) this.#updates = this.#updates.then(() => follower.passed(end));
  }

  #onUpdate(params: unknown, end: number): void {
    const mapped = this.#noted(params, end);
    if (mapped === undefined) return this.#passed(end);
    this.#categories.note(mapped);
    this.#pendingUpdates += 1;
    this.#updates = this.#updates.then(async () => {
      try {
        if (this.#failure?.kind !== 'listener_failed') await this.#options.listener.onUpdate(mapped, end);
      } catch (error) {
        this.#fail('listener_failed', 'an update could not be kept', { cause: error });
      } finally {
        this.#pendingUpdates -= 1;
      }
    });
  }

  /** What an update means for the turn, and for the listener; undefined where it is nothing to that. */
  #noted(params: unknown, end: number): HarnessUpdate | undefined {
    const { sessionId, update } = fieldsOf(params);
    if (this.#replaying) return undefined;
    if (this.#sessionId !== undefined && sessionId !== this.#sessionId) return undefined;
    const told = sessionFailureOf(fieldsOf(update)['_meta']);
    const mapped = mapUpdate(update, this.#options.limits.maxTextBytes);
    if (this.#turn !== undefined) {
      if (told !== undefined) {
        this.#turn.told = told;
        // Another process would not know of it.
        this.#options.listener.follower?.waits(end, 'answer');
      } else if (mapped !== undefined && mapped.kind !== 'usage' && mapped.kind !== 'notice') {
        [this.#turn.active, this.#turn.told] = [true, undefined];
      }
    }
    return mapped;
  }

  async #onRequest(method: string, params: unknown, signal: AbortSignal): Promise<unknown> {
    if (method !== 'session/request_permission') throw RequestError.methodNotFound(method);
    // What it was given leave for it does, whether it tells of that or not.
    if (this.#turn !== undefined) this.#turn.active = true;
    const request = mapPermission(params, this.#options.limits.maxTextBytes, this.#categories);
    // What was told before the question is known before it.
    await this.#updates;
    return permissionAnswer(request, await this.#decide(request, signal));
  }

  async #decide(request: PermissionRequest, signal: AbortSignal): Promise<PermissionDecision> {
    const turn = this.#turn;
    if (turn?.cancelRequested) return 'cancelled';
    if (this.#options.plan.autoApprove) return 'allow';
    const over = turn?.permissions.signal ?? new AbortController().signal;
    try {
      // One that is taken back is answered once it is closed: who asks and takes back without end is held back by that.
      return await unlessAborted(this.#options.listener.onPermission(request, AbortSignal.any([signal, over])), over);
    } catch (error) {
      if (over.aborted) return 'cancelled';
      this.#fail('listener_failed', 'a permission request could not be put to anyone', { cause: error });
      return 'cancelled';
    }
  }

  async #onExit(exit: ProcessExit): Promise<void> {
    // Its last words may still be in the pipe, and a child of it may hold the pipe open for ever.
    const { stdout } = this.#options.process;
    const closed = new Promise<void>((resolve) => {
      if (stdout.readableEnded || stdout.destroyed) resolve();
      else stdout.once('close', resolve).once('end', resolve);
    });
    await settlesWithin(Promise.race([closed, this.ended]), this.#options.limits.drainMs);
    const how = exit.signal === null ? `with status ${exit.code}` : `by ${exit.signal}`;
    this.#fail('exited', `the harness ended ${how}`, { exit });
  }

  async #onOutputEnd(partial: string | undefined): Promise<void> {
    const waited = this.#options.process.exited.then((exit) => this.#onExit(exit));
    await settlesWithin(Promise.race([waited, this.ended]), this.#options.limits.drainMs * 2);
    const where = partial === undefined ? '' : ` in the middle of a message: ${partial}`;
    this.#fail('exited', `the harness closed its output${where}`);
  }

  #fail(kind: HarnessFailureKind, message: string, more: { exit?: ProcessExit; cause?: unknown } = {}): HarnessFailure {
    if (this.#failure !== undefined) return this.#failure;
    const [stderrTail, said] = [this.#stderr.read(), cut(this.#stderr.redact(message), 2_000).text];
    const failure = new HarnessFailure(kind, said, { ...more, stderrTail });
    this.#failure = failure;
    this.#turn?.permissions.abort();
    this.#wire.close(failure);
    this.#options.process.stdout.destroy();
    this.#settleEnded(failure);
    return failure;
  }

  #lost(failure: HarnessFailure): TurnOutcome {
    return { kind: 'lost', message: failure.message, failure };
  }

  #redacted(outcome: TurnOutcome): TurnOutcome {
    return outcome.kind === 'failed' ? { ...outcome, message: this.#stderr.redact(outcome.message) } : outcome;
  }
}
