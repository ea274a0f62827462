// What a session may call (docs/reference/tools.md): one server per alias of its agent's `tools`, told apart by a token that
// opens this session alone. Decides which tools an alias has, refuses those that it does not before anything is looked up for
// them, and says what became of a call. Remote servers are named here and reached elsewhere: a credential never enters a
// sandbox. Never runs a session and never decides where an event goes.

import { sha256Bytes } from '../../base/hash.ts';
import { callerByToken, type ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import { type InputSchema, parseToolInput, toolInputSchema } from '../../../schemas/tool-input.ts';
import { Fault } from '../../domain/fault.ts';
import { messagesTable } from '../../domain/messages.ts';
import type { RemoteAuth, Tool } from '../../domain/spec.ts';
import { type Actor, type FlowContext, catalogOf } from '../context.ts';
import { absentSecret, secretText } from '../sealed.ts';
import { checksAlias } from '../sessions/sessions.ts';
import { oauthProviders } from '../../base/config/oauth-settings.ts';
import { consentedAccess } from '../connections/connections.ts';
import { brokerTools, callCodehost, isBrokered } from '../broker/broker.ts';
import { bindingTools } from './binding-tools.ts';
import { chatTools } from './chat-tools.ts';
import { checkTools, pingTools } from './check-tools.ts';
import { errtrackTools } from './errtrack-tools.ts';
import { billingTools, projectTools } from './project-tools.ts';
import { sessionTools } from './session-tools.ts';
import { trackerTools } from './tracker-tools.ts';
import { notYet, type Outside } from './outside-tools.ts';
import type { Effect, ToolSpec } from './table.ts';

export type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';

export interface ListedTool {
  /** With `_` for `.`. */
  readonly name: string;
  readonly description: string;
  readonly inputSchema: InputSchema;
  readonly effect: Effect;
  /** Whether it reaches beyond the service. */
  readonly isOutside: boolean;
}

export type ToolServer =
  | { readonly kind: 'own'; readonly about: string | undefined; tools(): readonly ListedTool[] }
  /** Reached as it is, with what `authorization` answers, asked for at each call. */
  | {
      readonly kind: 'remote';
      readonly url: string;
      authorization(refused?: boolean): Promise<string | undefined>;
      wantsScopes?(challenge: string | undefined): Promise<Fault | undefined>;
      failed?(fault: Fault): Promise<void>;
    };

/** The live session of that id and token; undefined where there is none. */
export function callerOf(ctx: FlowContext, sessionId: string, token: string): Promise<ToolCaller | undefined> {
  return callerByToken(ctx.db, sessionId, sha256Bytes(token));
}

/** What stands behind an alias of the caller; undefined for one that it does not have. */
export function toolServer(ctx: FlowContext, caller: ToolCaller, alias: string): ToolServer | undefined {
  const declared = declaredTool(caller, alias);
  if (declared === undefined) return undefined;
  const about = declared === 'checks' ? undefined : declared.description;
  if (isOutside(declared)) {
    if (declared.kind === 'mcp_remote' && (declared.auth.kind === 'none' || declared.auth.kind === 'bearer')) {
      const { url, auth } = declared;
      return { kind: 'remote', url, authorization: () => authorize(ctx, caller, alias, auth) };
    }
    if (
      declared.kind === 'mcp_remote' &&
      (declared.auth.kind === 'mcp_oauth' || declared.auth.kind === 'provider_oauth')
    ) {
      const { url, auth } = declared;
      return { kind: 'remote', url, ...consentedAccess(ctx, caller.project.id, auth.connection, url) };
    }
    if (declared.kind === 'connection') {
      // The provider's own tool server, with the token of whoever consented.
      const url = oauthProviders(ctx.config.file).get(declared.provider)?.mcpUrl;
      if (url !== undefined) {
        return { kind: 'remote', url, ...consentedAccess(ctx, caller.project.id, declared.connection, url) };
      }
    }
    if (declared.kind === 'codehost') {
      const tools = (): ListedTool[] =>
        brokerTools(declared, caller.spec.mounts, catalogOf(ctx).catalog.codehostTools).map((one) => ({
          ...one,
          isOutside: true,
        }));
      return { kind: 'own', about, tools };
    }
    return { kind: 'own', about: about ?? notYet(declared).message, tools: () => [] };
  }
  const tools = (): ListedTool[] =>
    specsOf(alias, declared).map(({ name, description, effect }) => ({
      name: mcpName(name),
      description,
      inputSchema: toolInputSchema(name),
      effect,
      isOutside: name.startsWith('chat.') || isOwnConnection(declared),
    }));
  return { kind: 'own', about, tools };
}

const mcpName = (name: string): string => name.replaceAll('.', '_');

type Declared = Tool | 'checks';
type Own = 'checks' | Extract<Tool, { kind: 'local' | 'connection' }>;
const isOutside = (declared: Declared): declared is Outside =>
  declared !== 'checks' && declared.kind !== 'local' && !isOwnConnection(declared);
const isOwnConnection = (declared: Declared): boolean =>
  declared !== 'checks' && declared.kind === 'connection' && ['errtrack', 'tracker'].includes(declared.provider);

function declaredTool(caller: ToolCaller, alias: string): Declared | undefined {
  const declared = Object.hasOwn(caller.spec.tools, alias) ? caller.spec.tools[alias] : undefined;
  if (declared !== undefined) return declared.disabled === true ? undefined : declared;
  return alias === checksAlias && caller.hasChecks ? 'checks' : undefined;
}

function specsOf(alias: string, declared: Own): readonly ToolSpec[] {
  if (declared === 'checks') return checkTools;
  if (declared.kind === 'connection') {
    const { provider, connection, tools } = declared;
    if (provider === 'tracker') return trackerTools(alias, connection);
    return errtrackTools(connection).filter(({ name }) => tools === undefined || tools.includes(name));
  }
  if (declared.implementation === 'ping') return pingTools;
  if (declared.implementation === 'chat') return chatTools(alias, declared.auth);
  const billing = declared.capabilities.billing === 'none' ? [] : billingTools;
  return [...sessionTools, ...bindingTools, ...projectTools, ...billing];
}

/** Every tool of the service's own, by the aliases that have it: for the documentation. */
export const ownTools: readonly { readonly of: string; readonly tools: readonly ToolSpec[] }[] = [
  { of: '`kind: local, implementation: svc`', tools: [...sessionTools, ...bindingTools, ...projectTools] },
  { of: 'also with `capabilities: { billing: read }` or `write`', tools: billingTools },
  { of: '`kind: local, implementation: chat`', tools: chatTools('', { kind: 'connections', connections: [] }) },
  { of: '`kind: local, implementation: ping`', tools: pingTools },
  { of: '`kind: connection, provider: errtrack`', tools: errtrackTools('') },
  { of: '`kind: connection, provider: tracker`', tools: trackerTools('', '') },
  { of: '`checks`, where the trigger that spawned the session declares some', tools: checkTools },
];

export interface ToolRequest {
  readonly alias: string;
  /** As it is listed. */
  readonly name: string;
  readonly input: unknown;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}
export interface ToolAnswer {
  readonly isError: boolean;
  readonly text: string;
}

/**
 * Calls a tool. Everything that goes wrong is an answer that says so, for the model to read; what is not a Fault is our
 * bug, is logged, and says no more than that.
 */
export async function callTool(ctx: FlowContext, caller: ToolCaller, request: ToolRequest): Promise<ToolAnswer> {
  const { alias } = request;
  const name = request.name.slice(0, 100);
  const begun = ctx.runtime.now().getTime();
  let outcome = 'done';
  try {
    const text = JSON.stringify((await run(ctx, caller, request)) ?? null);
    if (text.length > answerCharsMax) throw tooLarge(text.length);
    return { isError: false, text };
  } catch (error) {
    if (error instanceof Fault && error.kind !== 'internal') {
      outcome = error.code;
      const details = error.diagnostics?.map(({ message, file, line }) => `${file}:${line}: ${message}`) ?? [];
      return { isError: true, text: [`${error.code}: ${error.message}`, ...details].join('\n') };
    }
    outcome = 'internal';
    ctx.runtime.log.error({ err: error, sessionId: caller.sessionId, alias, tool: name }, 'tool.failed');
    return { isError: true, text: 'internal: the call failed inside svc; nothing more is known here.' };
  } finally {
    const ms = ctx.runtime.now().getTime() - begun;
    ctx.runtime.log.debug({ sessionId: caller.sessionId, alias, tool: name, outcome, ms }, 'tool.called');
  }
}

/** A model reads all of an answer, and pays for it. */
const answerCharsMax = 400_000;
const tooLarge = (chars: number): Fault =>
  new Fault(
    'too_large',
    'answer-too-large',
    `It was done, and the answer has ${chars} characters, more than can be read; ask for less.`,
  );

const refused = (name: string): Fault =>
  new Fault('not_found', 'no-such-tool', `There is no tool ${JSON.stringify(name.slice(0, 100))} here.`);

/** An allow-list stops before anything is looked up (docs/reference/compile.md#tools). */
async function run(
  ctx: FlowContext,
  caller: ToolCaller,
  { alias, name, input, signal }: ToolRequest,
): Promise<unknown> {
  const declared = declaredTool(caller, alias);
  if (declared === undefined) throw refused(name);
  if (isOutside(declared)) {
    if (declared.kind === 'codehost') {
      const { codehostTools } = catalogOf(ctx).catalog;
      if (!isBrokered(name, declared, caller.spec.mounts, codehostTools)) throw refused(name);
      return callCodehost({ ctx, caller, alias, name, input });
    }
    throw notYet(declared);
  }
  const spec = specsOf(alias, declared).find((one) => mcpName(one.name) === name);
  if (spec === undefined) throw refused(name);
  const parsed = parseToolInput(spec.name, input);
  if (!parsed.ok) throw new Fault('invalid', 'invalid-input', parsed.problems.join('; '));
  // The turn under way goes on to its end, also outside; what lies in the project stays as it is, as for people.
  if (caller.isArchived && spec.effect !== 'none' && spec.name.startsWith('svc.'))
    throw new Fault('conflict', 'project-archived', messagesTable.projectArchived);
  const actor: Actor = { kind: 'session', id: caller.sessionId, name: caller.agent };
  const cancelled = new Fault('unavailable', 'cancelled', 'The call was cancelled.');
  if (signal.aborted) throw cancelled;
  const running = spec.run({ ctx, caller, actor, signal }, parsed.input as never);
  // What changes something goes on to its end, whoever waits for it.
  return spec.effect === 'none' ? Promise.race([running, abortedWith(signal, cancelled)]) : running;
}

const abortedWith = (signal: AbortSignal, error: Error): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(error), { once: true }));

async function authorize(
  ctx: FlowContext,
  caller: ToolCaller,
  alias: string,
  auth: Extract<RemoteAuth, { kind: 'none' | 'bearer' }>,
): Promise<string | undefined> {
  if (auth.kind === 'none') return undefined;
  const name = auth.token.$secret;
  const token = await secretText(ctx, caller.project, name, { kind: 'tool', name: `${caller.agent}/${alias}` });
  if (token === undefined) throw await absentSecret(ctx, caller.project, name);
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new Fault('unprocessable', 'secret-unusable', `Secret ${name} holds what no Authorization header can carry.`);
  }
  return `Bearer ${token}`;
}
