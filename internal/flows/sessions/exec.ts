// A person runs a program in a session's sandbox. The entry of the audit, with what is run, is committed before anything is.

import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { sessionState } from '../../adapters/store/sessions/session-reads.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { Fault } from '../../domain/fault.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import type { ExecLine, ExecRequest, HostPorts, SandboxPlace } from '../host-ports.ts';
import { noSession } from './operate.ts';

/** Ends of programs are 0 to 254 and this: the session is not reached. */
const UNREACHABLE = 255;

const keyOf = (sessionId: string, program: string): string => `${sessionId}/${program}`;

/**
 * The lines of its output, then one with its exit code, which is 255 with a `message` where the session runs on no daemon
 * that is this one. With `hasInput` the first line has the `id` that `execInput` takes. Throws Fault `not_found`, and
 * `conflict` where the session has ended.
 */
export async function execInSession(
  ctx: FlowContext,
  project: ProjectRef,
  of: {
    readonly sessionId: string;
    readonly argv: readonly string[];
    readonly stdin: Uint8Array | undefined;
    /** More of it comes. */
    readonly hasInput: boolean;
    readonly actor: Actor;
    readonly signal: AbortSignal;
  },
): Promise<AsyncIterable<ExecLine>> {
  const { sessionId, argv, stdin, hasInput, actor, signal } = of;
  await ctx.db.tx(async (tx) => {
    const found = await sessionState(tx, project.id, sessionId);
    if (found === undefined) throw noSession();
    if (!found.live) throw new Fault('conflict', 'session-ended', `The session is ${found.state}.`);
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'session.exec',
      subject: { kind: 'Session', name: sessionId },
      detail: { argv: [...argv] },
    });
  });
  const place = ctx.host?.places.get(sessionId);
  if (ctx.host === undefined || place === undefined) return nowhere();
  const input = new PassThrough();
  if (stdin !== undefined) input.write(stdin);
  if (!hasInput) input.end();
  return run(ctx, ctx.host, { place, sessionId, hasInput, request: { argv, stdin: input, signal }, input });
}

async function* run(
  ctx: FlowContext,
  { inputs }: HostPorts,
  of: {
    readonly place: SandboxPlace;
    readonly sessionId: string;
    readonly hasInput: boolean;
    readonly request: ExecRequest;
    readonly input: PassThrough;
  },
): AsyncGenerator<ExecLine> {
  const id = ctx.runtime.randomBytes(16).toString('hex');
  const key = keyOf(of.sessionId, id);
  if (of.hasInput) {
    inputs.set(key, of.input);
    yield { id };
  }
  try {
    yield* of.place.exec(of.request);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    yield { exitCode: UNREACHABLE, message: error.message };
  } finally {
    inputs.delete(key);
    of.input.destroy();
  }
}

/** More of a program's standard input; `isLast` ends it. Throws Fault `not_found` where it does not run any more. */
export async function execInput(
  ctx: FlowContext,
  of: { readonly sessionId: string; readonly program: string; readonly data: Uint8Array; readonly isLast: boolean },
): Promise<void> {
  const input = ctx.host?.inputs.get(keyOf(of.sessionId, of.program));
  if (input === undefined) throw new Fault('not_found', 'not-found', 'The program does not run any more.');
  const isTaken = of.data.length === 0 || input.write(of.data);
  if (of.isLast) input.end();
  else if (!isTaken) await Promise.race([once(input, 'drain'), once(input, 'close')]);
}

async function* nowhere(): AsyncGenerator<ExecLine> {
  const message = 'the session has no sandbox here: it waits, rests unloaded, or runs on another daemon';
  yield { exitCode: UNREACHABLE, message };
}
