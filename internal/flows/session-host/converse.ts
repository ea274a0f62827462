// The harness of a session that is being launched: its program, its conversation, and its tools.

import {
  connectHarness,
  type HarnessConnection,
  HarnessFailure,
  type ReadingShare,
} from '../../adapters/harness/harness.ts';
import type { HarnessListener, LaunchPlan } from '../../adapters/harness/types.ts';
import type { Sandbox, SandboxProcess } from '../../adapters/sandbox/sandbox.ts';
import { type ClaimedSession, moveSession } from '../../adapters/store/sessions/hosts.ts';
import type { LaunchFacts } from '../../adapters/store/sessions/launch.ts';
import { failpoint } from '../../base/failpoint.ts';
import { within } from '../../base/waits.ts';
import type { Semaphore } from '../../base/semaphore.ts';
import { Fault } from '../../domain/fault.ts';
import { pathPart } from '../../domain/path-part.ts';
import { mcpServerNames } from '../../domain/tool-names.ts';
import type { FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';
import { sessionAliases } from '../sessions/sessions.ts';
import type { Progress } from './progress.ts';

const listedWithinMs = 30_000;
/** One that does not end within this is in a sandbox that says nothing, and ends with it. */
export const killMs = 3_000;

interface Starting {
  readonly ctx: FlowContext;
  readonly ports: HostPorts;
  readonly session: ClaimedSession;
  readonly listener: HarnessListener;
  /** Told how far its output is taken. */
  readonly progress: Progress;
  /** Through which harnesses start. */
  readonly gate: Semaphore;
  readonly share: ReadingShare;
  readonly signal: AbortSignal;
  readonly stops: (() => Promise<void> | void)[];
}

interface Started {
  readonly connection: HarnessConnection;
  readonly process: SandboxProcess;
}

/** Starts the harness, each time in a new process in place of the one before. */
export function starter(
  of: Starting,
  given: {
    readonly sandbox: Sandbox;
    readonly plan: LaunchPlan;
    readonly argv: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly cwd: string;
    readonly secrets: readonly string[];
    /** It is to go on when this daemon is gone. */
    readonly lasts: boolean;
  },
): () => Promise<Started> {
  const { ctx, session, listener, signal, stops } = of;
  const { sandbox, plan, argv, env, cwd, secrets, lasts } = given;
  let running: (() => Promise<void>) | undefined;
  return async () => {
    await running?.();
    of.progress.begin();
    const child = await sandbox.spawn({ argv, env: { ...env, ...plan.env }, cwd, lasts });
    let connection: HarnessConnection | undefined;
    // The process first: what its last words wait for may be away.
    running = async () => {
      await within(child.kill(), killMs);
      await connection?.close();
    };
    stops.push(running);
    signal.throwIfAborted();
    failpoint('session.spawned');
    const log = ctx.runtime.log.child({ sessionId: session.sessionId });
    connection = await connectHarness({ process: child, plan, listener, log, secrets, share: of.share });
    return { connection, process: child };
  };
}

interface Conversing {
  /** A new process of the harness. */
  readonly start: () => Promise<Started>;
  /** Of requests to its tool servers. */
  readonly authorization: string;
  readonly origin: string;
  readonly cwd: string;
  /** Where the harness is resumed as it was kept: what was said after this message it may not know. */
  readonly knowsUpTo: number | undefined;
}

interface Opened extends Started {
  /** The conversation could not be resumed, and the harness begins anew, or did so once and was told nothing since. */
  readonly isAmnesic: boolean;
  readonly harnessSession: string;
}

/** Opens or resumes the conversation, and waits until every tool server has been listed. */
export async function converse(
  of: Starting,
  facts: LaunchFacts,
  { start, authorization, origin, cwd, knowsUpTo }: Conversing,
): Promise<Opened> {
  const { ctx, ports, session } = of;
  const { sessionId } = session;
  const aliases = sessionAliases(facts.spec, facts.hasChecks);
  const named = mcpServerNames(aliases);
  if (!named.ok) {
    const sharing = named.collisions.map((group) => group.join(' and ')).join('; ');
    throw new Fault('unprocessable', 'tool-names', `Tool aliases look alike to the harness: ${sharing}.`);
  }
  const mcpServers = aliases.map((alias) => ({
    name: named.names.get(alias) ?? alias,
    url: `${origin}/api/v1/sessions/${sessionId}/mcp/${pathPart(alias)}`,
    headers: { authorization },
  }));
  const opened = await of.gate.run(session.projectId, async () => {
    of.signal.throwIfAborted();
    const forget = ports.listings.expect(sessionId);
    try {
      const conversation = await openConversation(session, start, { cwd, mcpServers });
      const { signal } = of;
      const silent = await ports.listings.wait(sessionId, aliases, { timeoutMs: listedWithinMs, signal });
      if (silent.length > 0) throw new Error(`the harness has not listed its tools: ${silent.join(', ')}`);
      return conversation;
    } finally {
      forget();
    }
  });
  of.signal.throwIfAborted();
  failpoint('session.opened');
  const isUp = await moveSession(ctx.db, session, ['starting'], 'idle', {
    reason: null,
    harnessSession: opened.harnessSession,
    // Until a turn has ended well: a next launch finds the same files, and cannot tell.
    recapDue: opened.isAmnesic || knowsUpTo !== undefined,
  });
  if (!isUp) throw new Error('the session is not this host’s any more');
  return opened;
}

/** The conversation that the session had, or where the harness has it no more, one that begins anew in a new process. */
async function openConversation(
  { harnessSession, recapDue }: ClaimedSession,
  start: () => Promise<Started>,
  request: Parameters<HarnessConnection['open']>[0],
): Promise<Opened> {
  if (harnessSession !== null) {
    const started = await start();
    try {
      const { sessionId } = await started.connection.resume(harnessSession, request);
      return { ...started, isAmnesic: recapDue, harnessSession: sessionId };
    } catch (error) {
      // A connection that refused is over.
      if (!(error instanceof HarnessFailure) || error.kind !== 'cannot_resume') throw error;
    }
  }
  const started = await start();
  const { sessionId } = await started.connection.open(request);
  return { ...started, isAmnesic: harnessSession !== null, harnessSession: sessionId };
}
