// A person runs a program in a session's sandbox. The entry of the audit, with what is run, is committed before anything is.

import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { holderOf } from '../../adapters/store/operations/peers.ts';
import { sessionState } from '../../adapters/store/sessions/session-reads.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { Fault } from '../../domain/fault.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import type { ExecLine, ExecRequest, HostPorts, SandboxPlace } from '../host-ports.ts';
import { askPeer, type ForwardedRequest, type Peer } from '../peers.ts';
import { noSession } from './operate.ts';

/** Ends of programs are 0 to 254 and this: the session is not reached. */
const unreachable = 255;

const keyOf = (sessionId: string, program: string): string => `${sessionId}/${program}`;

/**
 * The lines of its output, then one with its exit code, which is 255 with a `message` where the session runs on no daemon
 * that is reached; one of another daemon is handed on to it. With `hasInput` the first line has the `id` that `execInput`
 * takes. Throws Fault `not_found`, and `conflict` where the session has ended.
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
    /** Undefined where it may not be handed on. */
    readonly handOn: ForwardedRequest | undefined;
  },
): Promise<AsyncIterable<ExecLine>> {
  const { sessionId, argv, stdin, hasInput, actor, signal, handOn } = of;
  const peer = ctx.host?.places.has(sessionId) === true ? undefined : await peerFor(ctx, project, sessionId);
  // The other one keeps the entry of the audit: it is committed before anything is run there.
  if (peer !== undefined && handOn !== undefined) {
    const body = {
      argv,
      ...(stdin !== undefined && { stdin: Buffer.from(stdin).toString('base64') }),
      input: hasInput,
    };
    return elsewhere(peer, { path: `${pathOf(project, sessionId)}/exec`, body }, handOn);
  }
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
    yield { exitCode: unreachable, message: error.message };
  } finally {
    inputs.delete(key);
    of.input.destroy();
  }
}

const pathOf = ({ orgSlug, slug }: ProjectRef, sessionId: string): string =>
  `/api/v1/orgs/${orgSlug}/projects/${slug}/sessions/${sessionId}`;

/** The daemon that runs a session of the project. */
async function peerFor(ctx: FlowContext, project: ProjectRef, sessionId: string): Promise<Peer | undefined> {
  if ((await sessionState(ctx.db, project.id, sessionId)) === undefined) throw noSession();
  const peer = await holderOf(ctx.db, sessionId);
  return peer?.id === ctx.daemonId ? undefined : peer;
}

async function* elsewhere(
  peer: Peer,
  { path, body }: { readonly path: string; readonly body: unknown },
  on: ForwardedRequest,
): AsyncGenerator<ExecLine> {
  try {
    const answer = await askPeer(peer, { method: 'POST', path, body }, on);
    for await (const line of createInterface({ input: answer, crlfDelay: Infinity })) {
      if (line !== '') yield JSON.parse(line) as ExecLine;
    }
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    yield { exitCode: unreachable, message: error.message };
  }
}

/** More of a program's standard input; `isLast` ends it. Throws Fault `not_found` where it does not run any more. */
export async function execInput(
  ctx: FlowContext,
  project: ProjectRef,
  of: {
    readonly sessionId: string;
    readonly program: string;
    readonly data: Uint8Array;
    readonly isLast: boolean;
    readonly handOn: ForwardedRequest | undefined;
  },
): Promise<void> {
  const input = ctx.host?.inputs.get(keyOf(of.sessionId, of.program));
  const peer = input === undefined && of.handOn !== undefined ? await peerFor(ctx, project, of.sessionId) : undefined;
  if (peer !== undefined && of.handOn !== undefined) {
    const path = `${pathOf(project, of.sessionId)}/exec/${encodeURIComponent(of.program)}/input`;
    const body = { data: Buffer.from(of.data).toString('base64'), end: of.isLast };
    (await askPeer(peer, { method: 'POST', path, body }, of.handOn)).resume();
    return;
  }
  if (input === undefined) throw new Fault('not_found', 'not-found', 'The program does not run any more.');
  const isTaken = of.data.length === 0 || input.write(of.data);
  if (of.isLast) input.end();
  else if (!isTaken) await Promise.race([once(input, 'drain'), once(input, 'close')]);
}

async function* nowhere(): AsyncGenerator<ExecLine> {
  const message =
    'the session has no sandbox that is reached: it waits, rests unloaded, or runs on a daemon that is not reached from here';
  yield { exitCode: unreachable, message };
}
