// Goes on with a session that an earlier life of this daemon has left running in its box (docs/reference/sessions.md#taking-over),
// under the epoch that it was claimed with: the same process of the harness, the same ways in and out, and the turn in
// flight. Where any of that is not as it was noted, nothing is taken: the session is suspended and launched as ever.

import { EngineError } from '../../adapters/engine/engine.ts';
import { connectHarness } from '../../adapters/harness/harness.ts';
import { readLaunchFacts } from '../../adapters/store/sessions/launch.ts';
import {
  type OfferedSession,
  type RunningTurn,
  runningTurn,
  type TakenSession,
} from '../../adapters/store/sessions/holds.ts';
import { unlessAborted, within } from '../../base/waits.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';
import { killMs } from './converse.ts';
import { keepHeld, openHold } from './hold.ts';
import {
  awaitEnd,
  givenUpMs,
  leftToOthersMs,
  untilStop,
  type Launched,
  type Launching,
  type LaunchRequest,
  launchOrStop,
} from './launching.ts';
import { ResultCollector } from './result-collector.ts';
import { modelOf } from './model.ts';
import { networkOf } from './network.ts';
import { placeOf } from './place.ts';
import { keptAtEnd } from './snapshots.ts';
import { openSecrets, wireSession, type SessionWiring } from './wiring.ts';
import { watchWire } from './wire.ts';

/** It cannot be gone on with; the message says why. */
export class TakeOverRefused extends Error {}

/** Whether the box of a session that its daemon has let go of runs on an engine of this daemon. */
export async function isInReach(
  ctx: FlowContext,
  ports: HostPorts,
  { sessionId, hold }: OfferedSession,
): Promise<boolean> {
  const facts = await readLaunchFacts(ctx.db, sessionId);
  if (facts === undefined || facts.environment === null) return false;
  const preset = await ports.preset(facts.environment.image.name);
  try {
    const { provider } = await ports.sandboxes(preset.provider);
    const held = openHold(ctx, facts.project, { sessionId, hold });
    if (provider.name !== hold.provider || held === undefined) return false;
    return (await provider.holds?.(sessionId, held.box)) === true;
  } catch (error) {
    if (error instanceof EngineError || error instanceof Fault) return false;
    throw error;
  }
}

export interface ResumedLaunch extends Launched {
  /** The turn that goes on. */
  readonly turn: RunningTurn | undefined;
}

/** Throws TakeOverRefused, or what else keeps a session from being launched. */
export async function resumeLaunch(
  ctx: FlowContext,
  ports: HostPorts,
  request: LaunchRequest,
  taken: TakenSession,
): Promise<ResumedLaunch> {
  let turn: RunningTurn | undefined;
  const launched = await launchOrStop(ctx, ports, request, async (of) => {
    turn = await turnOf(ctx, taken);
    return bringBack(of, taken);
  });
  return { ...launched, turn };
}

async function turnOf(ctx: FlowContext, { sessionId, state, hold }: TakenSession): Promise<RunningTurn | undefined> {
  const { unclean, turn, prompt } = hold.cursor;
  if (unclean) throw new TakeOverRefused('what its harness has said cannot be told apart from what it will say');
  if (state === 'idle') return undefined;
  const found = turn === null || prompt === null ? undefined : await runningTurn(ctx.db, sessionId, turn);
  if (found === undefined) throw new TakeOverRefused('its turn was not prompted yet');
  return found;
}

async function bringBack(of: Launching, taken: TakenSession): Promise<Omit<Launched, 'down'>> {
  const { ctx, ports, session, mask, stops, progress, transcript, signal } = of;
  const { hold, state } = taken;
  const facts = await readLaunchFacts(ctx.db, session.sessionId);
  if (facts?.environment === null || facts === undefined) throw new TakeOverRefused('its environment is gone');
  const preset = await ports.preset(facts.environment.image.name);
  const { provider } = await unlessAborted(ports.sandboxes(preset.provider), signal);
  if (provider.name !== hold.provider || provider.takeOver === undefined)
    throw new TakeOverRefused('its provider is another');
  const held = openHold(ctx, facts.project, taken);
  if (held === undefined) throw new TakeOverRefused('it was left by another version');
  mask.hide(held.hidden);
  const network = networkOf(ctx, ports, facts, provider);
  const secrets = await openSecrets(ctx, of, facts, network);
  progress.adopt(hold.cursor, hold.commits);
  transcript.skip(hold.cursor.skip);
  let ways: SessionWiring | undefined;
  const found = await provider.takeOver(session.sessionId, held.box, {
    ...{ id: held.program, outBytes: hold.cursor.out, inBytes: hold.cursor.in, signal },
    prepare: async (sandbox) => {
      stops.push(() => awaitEnd(sandbox.stop(), signal, givenUpMs.stop));
      const model = modelOf(ctx, facts.spec);
      const known = { token: held.token, authority: held.authority ?? undefined };
      ways = await wireSession(ctx, ports, { ...of, facts, model, sandbox, network, secrets }, known);
    },
  });
  if (found === null || ways === undefined) throw new TakeOverRefused('its box or its harness has ended');
  const { sandbox, process } = found;
  const live = ctx.metrics.gauge('svc_sandbox_live', 'Sandboxes of this daemon that sessions run in', ['provider']);
  live.inc({ provider: sandbox.provider });
  stops.push(() => live.dec({ provider: sandbox.provider }));
  await watchWire(ctx, session, sandbox);
  const results = new ResultCollector(ctx, { session, sandbox, mounts: facts.spec.mounts, mask });
  const keepWork = keptAtEnd(of, { project: facts.project, sandbox });
  stops.push(() => (progress.isStopped ? undefined : untilStop(results.now(), signal, leftToOthersMs.leavings)));
  ports.places.set(session.sessionId, placeOf({ ...ways, sandbox, cwd: held.cwd, mask }));
  stops.push(() => void ports.places.delete(session.sessionId));
  const leave = keepHeld(of, { project: facts.project, sandbox, process, results });
  const { prompt, next, active } = hold.cursor;
  const connection = await connectHarness({
    ...{ process, plan: held.plan, listener: of.listener, share: of.share, secrets: secrets.values },
    log: ctx.runtime.log.child({ sessionId: session.sessionId }),
    adopted: {
      sessionId: session.harnessSession ?? '',
      nextId: next,
      promptId: state === 'running' ? (prompt ?? undefined) : undefined,
      isActive: active,
    },
  });
  stops.push(async () => {
    await within(process.kill(), killMs);
    await connection.close();
  });
  return {
    connection,
    isAmnesic: session.recapDue,
    money: ways.money,
    sandbox,
    results,
    keepWork,
    ...leave,
  };
}
