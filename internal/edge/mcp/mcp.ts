// The tool servers of sessions (docs/reference/sessions.md#launch): MCP over streamable HTTP, stateless, one server per session and
// alias behind the session's own token. Decides who is let in (host, origin, token) and speaks the protocol; which tools
// there are and what they do is in flows/tools. Remote servers are passed through with the credential put on here, so
// that none ever enters a sandbox. Keeps nothing between requests but what is in flight: a daemon may restart under a
// running session.

import type { Dispatcher } from 'undici';
import type { FlowContext } from '../../flows/context.ts';
import { nameOfPart } from '../../domain/path-part.ts';
import { callerOf, callTool, type ListedTool, type ToolCaller, toolServer } from '../../flows/tools/tools.ts';
import { exceedsValues } from '../../domain/depth.ts';
import { Fault } from '../../domain/fault.ts';
import { parseJson } from '../../domain/json-text.ts';
import { messagesTable } from '../../domain/messages.ts';
import { type Calls, createCalls } from './calls.ts';
import { answerPlainly, type CallResult, type PlainCall, plainCall } from './plain.ts';
import { createRemote, type Remote } from './remote.ts';
import type { McpHead, McpRequest } from './request.ts';
import { answer, refuse } from './refuse.ts';
import { createStreams, type Streams } from './streams.ts';

/** Batches are of an older protocol; one counts as one request. */
const batchMax = 32;
/** Of a message, or of all of a batch: the SDK's schemas take some microseconds for each member, more than once. */
const valuesMax = 20_000;

export interface McpEndpoint {
  /** Where it stands on the daemon's HTTP server. */
  readonly path: string;
  /** Looks at whoever asks before any of the body is read: strangers could fill the daemon. False: has answered. */
  admit(head: McpHead): Promise<boolean>;
  /** Answers what was admitted. */
  handle(request: McpRequest): Promise<void>;
  stop(): Promise<void>;
}

interface ToolServerContext {
  readonly ctx: FlowContext;
  readonly remote: Remote;
  readonly calls: Calls;
  readonly streams: Streams;
}

/** Who asks, let in until `leave`. */
interface Admitted {
  readonly caller: ToolCaller;
  readonly token: string;
  leave(): void;
}

/** `ctx` is asked for at each request. `dispatcher`: how remote servers are reached, for tests. */
export function createMcpEndpoint(ctx: () => FlowContext, dispatcher?: Dispatcher): McpEndpoint {
  const remote = createRemote(() => ctx().config.allowPrivateNetwork, dispatcher);
  const calls = createCalls();
  const streams = createStreams(ctx);
  const admitted = new WeakMap<McpHead['request'], Admitted>();
  const guarded = async <T>(at: McpHead, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      fail(ctx(), at, error);
      return undefined;
    }
  };
  const admit = async (at: McpHead): Promise<boolean> => {
    const { request, response } = at;
    const entry = await guarded(at, () => enter({ ctx: ctx(), calls }, at));
    if (entry === undefined) return false;
    admitted.set(request, entry);
    // Whoever goes away before the body is there is handled no more.
    const giveUp = (): void => {
      if (admitted.delete(request)) entry.leave();
    };
    if (response.closed || response.destroyed) giveUp();
    else response.once('close', giveUp);
    return admitted.has(request);
  };
  return {
    path: '/api/v1/sessions/:session/mcp/:alias',
    admit,
    async handle(at) {
      const entry = admitted.get(at.request);
      if (entry === undefined) return;
      admitted.delete(at.request);
      const own = ctx();
      const asked = { ...own, db: own.db.ownedBy(entry.caller.project.id) };
      await guarded(at, () => serve({ ctx: asked, remote, calls, streams }, at, entry)).finally(entry.leave);
    },
    async stop() {
      await Promise.all([streams.stop(), remote.close()]);
    },
  };
}

function fail(ctx: FlowContext, { response, params }: McpHead, error: unknown): void {
  if (error instanceof Fault && error.kind === 'unavailable' && !response.headersSent) {
    if (error.retryAfterSeconds !== undefined) response.setHeader('retry-after', String(error.retryAfterSeconds));
    return answer(response, 503, error.message);
  }
  ctx.runtime.log.error({ err: error, sessionId: params['session'], alias: params['alias'] }, 'mcp.failed');
  if (response.headersSent) response.destroy();
  else answer(response, 500, 'internal error');
}

async function enter(
  { ctx, calls }: Pick<ToolServerContext, 'ctx' | 'calls'>,
  { request, response, params }: McpHead,
): Promise<Admitted | undefined> {
  const session = params['session'] ?? '';
  const no = (status: number, why: string): undefined => {
    answer(response, status, why);
    return undefined;
  };
  const refused = refuse(ctx, request);
  if (refused !== undefined) return no(403, refused);
  const token = /^Bearer ([A-Za-z0-9_-]{20,200})$/i.exec(request.headers.authorization ?? '')?.[1];
  const asked = { ...ctx, db: ctx.db.ownedBy(token ?? '') };
  if (asked.db.isCrowded()) {
    response.setHeader('retry-after', '1');
    return no(503, messagesTable.overloaded);
  }
  const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(session);
  const caller = token === undefined || !isId ? undefined : await callerOf(asked, session, token);
  if (caller === undefined || token === undefined) {
    // What does not exist, has ended, or is somebody else's answers alike.
    response.setHeader('www-authenticate', 'Bearer');
    return no(401, 'This token opens no live session.');
  }
  const leave = calls.enter(caller.sessionId);
  if (leave !== undefined) return { caller, token, leave };
  response.setHeader('retry-after', '1');
  return no(429, 'This session has too many calls in flight; wait for some of them.');
}

async function serve(context: ToolServerContext, at: McpRequest, { caller, token }: Admitted): Promise<void> {
  const alias = nameOfPart(at.params['alias'] ?? '');
  const isOpen = async (): Promise<boolean> => (await callerOf(context.ctx, caller.sessionId, token)) !== undefined;
  await serveCaller(context, at, { caller, token, alias, isOpen });
}

interface Serving {
  readonly caller: ToolCaller;
  readonly token: string;
  readonly alias: string;
  /** Whether the caller's token still opens its session. */
  isOpen(): Promise<boolean>;
}

async function serveCaller(
  context: ToolServerContext,
  at: McpRequest,
  { caller, token, alias, isOpen }: Serving,
): Promise<void> {
  const { ctx, remote, calls, streams } = context;
  const { request, response } = at;
  const server = toolServer(ctx, caller, alias);
  if (server === undefined) return answer(response, 404, 'This session has no tool of that name.');
  const { sessionId } = caller;
  const listed = (): void => ctx.host?.listings.listed(sessionId, alias);
  if (server.kind === 'remote') {
    const hearing = {
      listed,
      failed(fault: Fault) {
        ctx.host?.listings.refused(sessionId, alias, fault);
        ctx.runtime.log.warn({ sessionId, alias, reason: fault.message }, 'mcp.remote_failed');
      },
    };
    const leave = await streams.watch({ sessionId, token, isOpen, breakOff: () => response.destroy() });
    return remote.pass(at, server, hearing).finally(leave);
  }
  if (request.method !== 'POST') {
    response.setHeader('allow', 'POST');
    return answer(response, 405, 'This server keeps no stream: it takes POST.');
  }
  await speak(ctx, at, { ...server, caller, alias, calls, listed });
}

interface Speaking {
  readonly caller: ToolCaller;
  readonly alias: string;
  readonly about: string | undefined;
  tools(): readonly ListedTool[];
  readonly calls: Calls;
  listed(): void;
}

const shown = ({ name, description, inputSchema, effect, isOutside }: ListedTool) => ({
  name,
  description,
  inputSchema: { ...inputSchema },
  annotations: { readOnlyHint: effect === 'none', destructiveHint: effect === 'takes', openWorldHint: isOutside },
});

async function speak(ctx: FlowContext, at: McpRequest, speaking: Speaking): Promise<void> {
  const { caller, alias, about, calls } = speaking;
  const { request, response, body } = at;
  const bytes = body ?? Buffer.alloc(0);
  if (exceedsValues(bytes, valuesMax)) {
    return answer(response, 400, `A body has at most ${valuesMax} values.`, -32_600);
  }
  let message: unknown;
  try {
    message = parseJson(bytes.toString('utf8'));
  } catch {
    return answer(response, 400, 'The body is not JSON.', -32_700);
  }
  if (Array.isArray(message) && message.length > batchMax) {
    return answer(response, 400, `A batch has at most ${batchMax} messages.`, -32_600);
  }
  const { sessionId } = caller;
  const run = async ({ id: requestId, name, input }: PlainCall, gone: AbortSignal): Promise<CallResult> => {
    const { text, isError } = await calls.run({ sessionId, alias, requestId }, gone, (signal) =>
      callTool(ctx, caller, { alias, name, input, signal }),
    );
    return { content: [{ type: 'text', text }], isError };
  };
  const plain = plainCall(request, message);
  if (plain !== undefined) return answerPlainly(response, plain.id, (gone) => run(plain, gone));
  for (const requestId of cancelledIn(message)) calls.cancel({ sessionId, alias, requestId });
  // The SDK is loaded by the first request that is in another form than a plain call.
  const { answerBySdk } = await import('./sdk.ts');
  const tools = (): ReturnType<typeof shown>[] => {
    speaking.listed();
    return speaking.tools().map(shown);
  };
  await answerBySdk({ request, response, message }, { name: `svc/${alias}`, about, tools, run });
}

/** Ids of the calls that a message, or one of a batch, takes back. */
function cancelledIn(message: unknown): (string | number)[] {
  return [message].flat().flatMap((one) => {
    const { method, params } = Object(one) as { method?: unknown; params?: unknown };
    const { requestId } = Object(params) as { requestId?: unknown };
    const isId = typeof requestId === 'string' || typeof requestId === 'number';
    return method === 'notifications/cancelled' && isId ? [requestId] : [];
  });
}
