// One turn of the scripted agent: plays the script's directives in order and says what came of each. Every wait ends at
// once when the turn is cancelled.

import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { AgentContext } from '@agentclientprotocol/sdk';
import { callModel, type ModelSettings } from './model.ts';
import { type Directive, echoOf, parseScript } from './script.ts';
import * as store from './store.ts';
import type { Tools } from './tools.ts';

export type RunEnd =
  | {
      readonly kind: 'stop';
      readonly stopReason: 'end_turn' | 'cancelled' | 'refusal' | 'max_tokens' | 'max_turn_requests';
    }
  | { readonly kind: 'silent' }
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly errorKind: string }
  | {
      readonly kind: 'failure';
      readonly category: string;
      readonly message: string;
      readonly actions: readonly string[];
    };

interface Scene {
  readonly sessionId: string;
  readonly cwd: string;
  readonly blocks: readonly string[];
  readonly client: AgentContext;
  readonly tools: Tools;
  readonly model: ModelSettings | undefined;
  readonly mode: string;
  readonly signal: AbortSignal;
  readonly orphan: () => number;
  readonly forget: () => Promise<undefined>;
}

const MAX_SHOWN_CHARS = 20_000;
const DONE = undefined;

export class Run {
  readonly sessionId: string;
  said = '';
  #calls = 0;
  #input = 0;
  #output = 0;
  readonly #scene: Scene;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.sessionId = scene.sessionId;
  }

  /** Tokens: those of its model calls, else one for every four characters. */
  usage(): { inputTokens: number; outputTokens: number; totalTokens: number } {
    const inputTokens = this.#input || Math.ceil(this.#scene.blocks.join('\n').length / 4);
    const outputTokens = this.#output || Math.ceil(this.said.length / 4);
    return { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens };
  }

  async play(): Promise<RunEnd> {
    const script = parseScript(this.#scene.blocks);
    if (script.length === 0) await this.#say(echoOf(this.#scene.blocks));
    for (const directive of script) {
      this.#scene.signal.throwIfAborted();
      const end = await this.#do(directive);
      if (end !== DONE) return end;
    }
    this.#scene.signal.throwIfAborted();
    await this.#update({ sessionUpdate: 'usage_update', used: this.usage().totalTokens, size: 200_000 });
    return { kind: 'stop', stopReason: 'end_turn' };
  }

  async #do(directive: Directive): Promise<RunEnd | undefined> {
    switch (directive.kind) {
      case 'say':
        return this.#say(directive.text);
      case 'think':
        return this.#update({ sessionUpdate: 'agent_thought_chunk', content: { type: 'text', text: directive.text } });
      case 'plan':
        return this.#plan(directive.text);
      case 'sleep':
        return this.#sleep(directive.count);
      case 'stream':
        return this.#stream(directive.count, directive.everyMs);
      case 'flood':
        return this.#stream(directive.count, 0);
      case 'big':
        return this.#say('x'.repeat(directive.count));
      case 'call':
        return this.#call(directive.alias, directive.tool, directive.input);
      case 'ask':
        return this.#ask(directive.text || 'do something');
      case 'model':
        return this.#model(directive.text || this.#scene.blocks.join('\n'));
      case 'fail':
        return failure(directive.text);
      default:
        return this.#show(directive);
    }
  }

  /** The directives that look at the surroundings or break them. */
  async #show(directive: Directive): Promise<RunEnd | undefined> {
    switch (directive.kind) {
      case 'env': {
        const value = process.env[directive.text];
        return this.#say(value === undefined ? `${directive.text} is not set` : `${directive.text}=${value}`);
      }
      case 'read':
        return this.#say(attempt(() => readFileSync(resolve(this.#scene.cwd, directive.text), 'utf8')));
      case 'write':
        return this.#say(
          attempt(() => {
            writeFileSync(resolve(this.#scene.cwd, directive.file), `${directive.text}\n`);
            return `wrote ${directive.file}`;
          }),
        );
      case 'exec':
        return this.#exec(directive.text);
      case 'tools':
        return this.#say(this.#scene.tools.list());
      case 'history':
        return this.#say(JSON.stringify((store.history(this.sessionId) ?? []).slice(0, -1)));
      case 'system':
        return this.#say(this.#scene.model?.system ?? 'no system prompt');
      case 'config': {
        const { model, effort, wire } = this.#scene.model ?? {};
        return this.#say(JSON.stringify({ model, effort, wire, mode: this.#scene.mode, cwd: this.#scene.cwd }));
      }
      case 'orphan':
        return this.#say(`orphan ${this.#scene.orphan()}`);
      case 'unknown':
        return this.#unknown();
      case 'crash':
        process.kill(process.pid, 'SIGKILL');
        return this.#sleep(60_000);
      case 'exit':
        process.exit(Number.parseInt(directive.text, 10) || 0);
        break;
      case 'forget':
        return this.#scene.forget();
      case 'garbage':
        process.stdout.write('this is not a message\n');
        return this.#sleep(60_000);
      case 'half':
        await new Promise((done) => process.stdout.write('{"jsonrpc":"2.0","method":"session/upd', done));
        process.exit(3);
        break;
      case 'hang':
        // Not even a cancel is heard.
        await new Promise(() => undefined);
        break;
      default:
        return DONE;
    }
    return DONE;
  }

  async #update(update: object): Promise<undefined> {
    await this.#scene.client.notify('session/update', { sessionId: this.sessionId, update } as never);
  }

  async #say(text: string): Promise<undefined> {
    this.said += text;
    return this.#update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text } });
  }

  async #sleep(ms: number): Promise<undefined> {
    await wait(ms, undefined, { signal: this.#scene.signal });
  }

  async #stream(count: number, everyMs: number): Promise<undefined> {
    for (let index = 1; index <= count; index += 1) {
      this.#scene.signal.throwIfAborted();
      await this.#say(`chunk ${index} `);
      if (everyMs > 0) await this.#sleep(everyMs);
    }
  }

  async #plan(text: string): Promise<undefined> {
    const entries = text.split(';').map((entry) => ({ content: entry.trim(), priority: 'medium', status: 'pending' }));
    return this.#update({ sessionUpdate: 'plan', entries });
  }

  async #call(alias: string, tool: string, input: string): Promise<undefined> {
    this.#calls += 1;
    const toolCallId = `call-${this.#calls}`;
    const call = { toolCallId, title: `${alias} ${tool}`, kind: 'other', status: 'in_progress' };
    const rawInput = JSON.parse(input) as { [key: string]: unknown };
    await this.#update({ sessionUpdate: 'tool_call', ...call, rawInput });
    const { ok, text } = await this.#scene.tools.call(alias, tool, rawInput, this.#scene.signal);
    const content = [{ type: 'content', content: { type: 'text', text: text.slice(0, MAX_SHOWN_CHARS) } }];
    const status = ok ? 'completed' : 'failed';
    await this.#update({ sessionUpdate: 'tool_call_update', toolCallId, status, content });
    return this.#say(text.slice(0, MAX_SHOWN_CHARS));
  }

  async #ask(title: string): Promise<RunEnd | undefined> {
    this.#calls += 1;
    const toolCall = { toolCallId: `call-${this.#calls}`, title, kind: 'execute', rawInput: { command: title } };
    const { outcome } = await this.#scene.client.request('session/request_permission', {
      sessionId: this.sessionId,
      toolCall: toolCall as never,
      options: [
        { optionId: 'once', name: 'Allow', kind: 'allow_once' },
        { optionId: 'always', name: 'Always allow', kind: 'allow_always' },
        { optionId: 'no', name: 'Reject', kind: 'reject_once' },
      ],
    });
    this.#scene.signal.throwIfAborted();
    const chosen = outcome.outcome === 'selected' ? outcome.optionId : 'cancelled';
    await this.#say(`permission ${chosen}`);
    // As one of the real harnesses does: a rejection ends the turn.
    return chosen === 'once' || chosen === 'always' ? DONE : { kind: 'stop', stopReason: 'cancelled' };
  }

  async #model(text: string): Promise<RunEnd | undefined> {
    if (this.#scene.model === undefined) return this.#say('no model is configured');
    const unreachable = {
      kind: 'failure',
      category: 'connection',
      message: 'no model answers',
      actions: ['retry'],
    } as const;
    const answer = await callModel(this.#scene.model, text, this.#scene.signal, (chunk) => this.#say(chunk)).catch(
      () => {
        this.#scene.signal.throwIfAborted();
        return undefined;
      },
    );
    if (answer === undefined) return unreachable;
    this.#input += answer.inputTokens;
    this.#output += answer.outputTokens;
    if (answer.error === undefined) return DONE;
    const message = `model answered ${answer.status}: ${answer.error}`;
    const retry = answer.status === 429 || answer.status >= 500;
    return { kind: 'failure', category: retry ? 'service' : 'request', message, actions: retry ? ['retry'] : [] };
  }

  async #exec(command: string): Promise<undefined> {
    const output = await new Promise<string>((done) => {
      const { signal, cwd } = this.#scene;
      execFile('/bin/sh', ['-c', command], { cwd, signal, timeout: 60_000 }, (error, stdout, stderr) => {
        done(`${stdout}${stderr}exit ${error === null ? 0 : (error.code ?? error.signal)}`);
      });
    });
    this.#scene.signal.throwIfAborted();
    return this.#say(output.slice(0, MAX_SHOWN_CHARS));
  }

  async #unknown(): Promise<undefined> {
    await this.#scene.client.notify('_scripted/note', { hello: true });
    const answer = await this.#scene.client
      .request('fs/read_text_file', { sessionId: this.sessionId, path: '/etc/hostname' })
      .then(
        () => 'answered',
        (error: { code?: number }) => `refused ${error.code}`,
      );
    return this.#say(answer);
  }
}

function attempt(work: () => string): string {
  try {
    return work().slice(0, MAX_SHOWN_CHARS);
  } catch (error) {
    return `cannot: ${(error as NodeJS.ErrnoException).code ?? String(error)}`;
  }
}

/** `!fail KIND`: a stop reason, `silent`, `end_turn` (the failure that looks like an end), else a JSON-RPC error. */
function failure(kind: string): RunEnd {
  switch (kind) {
    case 'refusal':
    case 'max_tokens':
    case 'max_turn_requests':
    case 'cancelled':
      return { kind: 'stop', stopReason: kind };
    case 'silent':
      return { kind: 'silent' };
    case 'end_turn':
      return { kind: 'failure', category: 'service', message: 'scripted failure', actions: ['retry'] };
    case 'auth':
      return { kind: 'error', code: -32000, message: 'Authentication required', errorKind: 'authentication_failed' };
    default:
      return { kind: 'error', code: -32603, message: `scripted failure ${kind}`, errorKind: kind || 'unknown' };
  }
}
