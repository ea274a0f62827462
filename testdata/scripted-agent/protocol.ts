// A real peer of the Agent Client Protocol with nothing behind it: it does what the prompt's `!` lines say (script.ts),
// and echoes a prompt without any. For tests and demonstrations; its name says so wherever it is shown. It is a real MCP
// client, keeps its sessions under HOME, honours cancel at once, and imitates by SCRIPTED_AGENT_TRAPS (a comma list) what
// real harnesses do to their clients: lose-queued, failure-as-end, ignore-sigterm, orphan, orphan-stdout,
// never-initialize, never-open, load-only, no-resume, no-http, old-protocol.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { Readable, Writable } from 'node:stream';
import { agent, type AgentContext, ndJsonStream, PROTOCOL_VERSION, RequestError } from '@agentclientprotocol/sdk';
import { type ModelSettings, modelSettings } from './model.ts';
import { Run, type RunEnd } from './run.ts';
import * as store from './store.ts';
import { type ServerConfig, Tools } from './tools.ts';

const traps = new Set((process.env['SCRIPTED_AGENT_TRAPS'] ?? '').split(','));

interface Session {
  readonly id: string;
  readonly cwd: string;
  readonly tools: Tools;
  readonly model: ModelSettings | undefined;
  mode: string;
  title: string | undefined;
  running: AbortController | undefined;
  /** Only with the trap `lose-queued`: prompts behind the running one. */
  queued: (() => void)[];
}

const sessions = new Map<string, Session>();
let declaresFailures = false;

if (traps.has('ignore-sigterm')) process.on('SIGTERM', () => process.stderr.write('scripted agent: SIGTERM ignored\n'));
else process.on('SIGTERM', () => process.exit(0));
if (traps.has('orphan')) orphan('ignore');
if (traps.has('orphan-stdout')) orphan('inherit');

function orphan(stdout: 'ignore' | 'inherit'): number {
  const child = spawn('sleep', ['600'], { detached: true, stdio: ['ignore', stdout, 'ignore'] });
  child.unref();
  store.noteOrphan(child.pid ?? 0);
  return child.pid ?? 0;
}

const never = (): Promise<never> => new Promise(() => undefined);

async function open(id: string, params: { cwd: string; mcpServers?: unknown; _meta?: unknown }): Promise<Session> {
  if (traps.has('never-open')) await never();
  const tools = new Tools();
  await tools.connect((params.mcpServers ?? []) as ServerConfig[]);
  const session: Session = {
    id,
    cwd: params.cwd,
    tools,
    model: modelSettings(process.env, params._meta),
    mode: process.env['INITIAL_AGENT_MODE'] ?? 'default',
    title: undefined,
    running: undefined,
    queued: [],
  };
  sessions.set(id, session);
  return session;
}

const found = (id: string): Session => {
  const session = sessions.get(id);
  if (session === undefined) throw RequestError.sessionNotFound(id);
  return session;
};

/** A session of an earlier process. */
async function reopen(params: { sessionId: string; cwd: string; mcpServers?: unknown; _meta?: unknown }) {
  const messages = store.history(params.sessionId);
  if (messages === undefined) throw RequestError.sessionNotFound(params.sessionId);
  await open(params.sessionId, params);
  return messages;
}

const textBlocks = (prompt: readonly { type: string }[]): string[] =>
  prompt.map((block) => ('text' in block ? String(block.text) : `[${block.type}]`));

/** One turn. The prompt is on disk before anything is done about it. */
async function prompt(session: Session, blocks: string[], client: AgentContext): Promise<object> {
  if (session.running !== undefined) {
    if (!traps.has('lose-queued')) throw RequestError.invalidRequest(undefined, 'a prompt is in flight');
    const lost = await new Promise<boolean>((resolve) => session.queued.push(() => resolve(true)));
    if (lost) return { stopReason: 'cancelled', usage: null };
  }
  const running = new AbortController();
  session.running = running;
  store.append(session.id, { role: 'user', text: blocks.join('\n') });
  const run = new Run({
    sessionId: session.id,
    cwd: session.cwd,
    blocks,
    client,
    tools: session.tools,
    model: session.model,
    mode: session.mode,
    signal: running.signal,
    orphan: () => orphan('ignore'),
    // As one of the real harnesses does when the program behind it ends.
    forget: async () => {
      sessions.delete(session.id);
      return undefined;
    },
  });
  try {
    const end = await run.play();
    store.append(session.id, { role: 'agent', text: run.said });
    return await answerOf(end, run, client);
  } catch (error) {
    store.append(session.id, { role: 'agent', text: run.said });
    if (running.signal.aborted) return { stopReason: 'cancelled', usage: null };
    throw error;
  } finally {
    session.running = undefined;
  }
}

/** The turn's answer on the wire; failures in the form of the real harnesses. */
async function answerOf(end: RunEnd, run: Run, client: AgentContext): Promise<object> {
  const usage = run.usage();
  if (end.kind === 'stop') return { stopReason: end.stopReason, usage: end.stopReason === 'cancelled' ? null : usage };
  if (end.kind === 'silent') return { stopReason: 'end_turn', usage: null };
  if (end.kind === 'error') throw new RequestError(end.code, end.message, { errorKind: end.errorKind });
  if (declaresFailures && !traps.has('failure-as-end')) {
    const failure = {
      id: '1',
      revision: 1,
      category: end.category,
      severity: 'error',
      title: end.message,
      actions: end.actions,
    };
    return {
      stopReason: 'end_turn',
      usage: null,
      _meta: { jetbrains: { air: { version: 1, sessionFailure: failure } } },
    };
  }
  await client.notify('session/update', {
    sessionId: run.sessionId,
    update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `Error: ${end.message}` } },
  });
  return { stopReason: 'end_turn', usage: null };
}

function capabilities(): object {
  const resume = !traps.has('load-only') && !traps.has('no-resume');
  return {
    loadSession: !traps.has('no-resume'),
    mcpCapabilities: { http: !traps.has('no-http') },
    promptCapabilities: { image: false, audio: false, embeddedContext: false },
    sessionCapabilities: { list: {}, title: {}, ...(resume && { resume: {} }) },
  };
}

const raw = (value: unknown): { [key: string]: unknown } => value as { [key: string]: unknown };

const wire = agent({ name: 'scripted-agent' })
  .onRequest('initialize', async ({ params }) => {
    if (traps.has('never-initialize')) await never();
    declaresFailures = JSON.stringify(params.clientCapabilities ?? {}).includes('sessionFailure');
    return {
      protocolVersion: traps.has('old-protocol') ? 0 : PROTOCOL_VERSION,
      agentInfo: {
        name: 'scripted-agent',
        title: 'scripted agent, for tests and demonstrations',
        version: '1.0.0-scripted',
      },
      agentCapabilities: capabilities(),
      authMethods: [],
    };
  })
  .onRequest('session/new', async ({ params }) => {
    const id = randomUUID();
    store.create(id);
    await open(id, params);
    return { sessionId: id, modes: { currentModeId: 'default', availableModes: [{ id: 'default', name: 'Default' }] } };
  })
  .onRequest('session/resume', async ({ params }) => {
    await reopen(params);
    return {};
  })
  .onRequest('session/load', async ({ params, client }) => {
    for (const { role, text } of await reopen(params)) {
      const sessionUpdate = role === 'user' ? 'user_message_chunk' : 'agent_message_chunk';
      await client.notify('session/update', {
        sessionId: params.sessionId,
        update: { sessionUpdate, content: { type: 'text', text } },
      });
    }
    return {};
  })
  .onRequest('session/list', () => ({ sessions: store.sessionIds().map((sessionId) => ({ sessionId, cwd: '/' })) }))
  .onRequest('session/set_mode', ({ params }) => {
    found(params.sessionId).mode = params.modeId;
  })
  .onRequest('session/set_title', raw, ({ params }) => {
    found(String(params['sessionId'])).title = String(params['title']);
    return {};
  })
  .onRequest('session/prompt', ({ params, client }) =>
    prompt(found(params.sessionId), textBlocks(params.prompt), client).then(
      (answer) => answer as { stopReason: 'end_turn' },
    ),
  )
  .onNotification('session/cancel', ({ params }) => {
    const session = sessions.get(params.sessionId);
    session?.running?.abort();
    for (const lose of session?.queued.splice(0) ?? []) lose();
  })
  .connect(
    ndJsonStream(
      Writable.toWeb(process.stdout) as WritableStream<Uint8Array>,
      Readable.toWeb(process.stdin) as unknown as ReadableStream<Uint8Array>,
    ),
  );

await wire.closed;
await Promise.all([...sessions.values()].map((session) => session.tools.close()));
if (!traps.has('ignore-sigterm')) process.exit(0);
