// What a session in a box that outlives its daemon is taken over with (docs/reference/sessions.md#taking-over): written, sealed,
// when its harness is up, and deleted with its epoch. A daemon that stops in good order leaves such a session running.

import type { LaunchPlan } from '../../adapters/harness/types.ts';
import type { HeldSandbox, Sandbox, SandboxProcess } from '../../adapters/sandbox/sandbox.ts';
import { countWraps } from '../../adapters/store/secrets/keys.ts';
import { endHold, type OfferedSession, putHold } from '../../adapters/store/sessions/holds.ts';
import { within } from '../../base/waits.ts';
import { type FlowContext, type ProjectRef, sealingOf } from '../context.ts';
import type { EdgeAuthority } from '../ports.ts';
import { type Launched, type Launching, leftToOthersMs, untilStop } from './launching.ts';
import { answers, keepWork } from './snapshots.ts';

/** Sealed: nearly all of it is secret. */
export interface HoldRecord {
  /** Of this shape: another one is not taken over. */
  readonly version: 1;
  readonly box: HeldSandbox;
  /** The harness, by the number that its box knows it by. */
  readonly program: number;
  /** Of the way to the model. */
  readonly token: string;
  readonly authority: EdgeAuthority | null;
  /** What must not show of what was said before and is not in the transcript yet. */
  readonly hidden: readonly string[];
  readonly plan: LaunchPlan;
  readonly cwd: string;
}

const bindingOf = (project: Pick<ProjectRef, 'id' | 'orgId'>, sessionId: string) =>
  ({ orgId: project.orgId, projectId: project.id, name: sessionId, use: 'session-hold' }) as const;

/** Undefined where it is of another version of the service. */
export function openHold(
  ctx: FlowContext,
  project: ProjectRef,
  { sessionId, hold }: OfferedSession,
): HoldRecord | undefined {
  const plain = sealingOf(ctx).sealer.open(hold, bindingOf(project, sessionId));
  try {
    const held = JSON.parse(plain.toString('utf8')) as HoldRecord;
    return held.version === 1 ? held : undefined;
  } finally {
    plain.fill(0);
  }
}

interface HoldOf {
  readonly project: ProjectRef;
  readonly sandbox: Sandbox;
  readonly process: SandboxProcess;
  readonly results: Launched['results'];
}

/** Writes what a session that has just come up is taken over with; nothing where its sandbox does not outlive the daemon. */
export async function holdSession(
  of: Launching,
  given: HoldOf &
    Pick<HoldRecord, 'plan' | 'cwd'> & {
      readonly money: Launched['money'];
      readonly authority: EdgeAuthority | undefined;
      readonly provider: string;
    },
): Promise<Pick<Launched, 'leave'>> {
  const { ctx, session, mask, progress } = of;
  const { sandbox, process, plan, cwd, money, project, provider } = given;
  const box = sandbox.held?.() ?? null;
  if (box === null || process.lasting === undefined) return {};
  const token = money.keyed.key;
  const held: HoldRecord = {
    ...{ version: 1, box, program: process.lasting.id, token, plan, cwd },
    authority: given.authority ?? null,
    hidden: mask.hidden,
  };
  const { sealer } = sealingOf(ctx);
  const plain = Buffer.from(JSON.stringify(held));
  const sealed = sealer.seal(plain, bindingOf(project, session.sessionId));
  plain.fill(0);
  const fingerprint = sealer.fingerprint(sealed.keyVersion);
  const isPut = await ctx.db.tx(async (tx) => {
    if (fingerprint !== undefined) await countWraps(tx, { version: sealed.keyVersion, fingerprint, count: 1 });
    return putHold(tx, session, { id: ctx.runtime.uuid(), provider, ...sealed, cursor: progress.cursor() });
  });
  if (!isPut) throw new Error('the session is not this host’s any more');
  return keepHeld(of, given);
}

/** So long a daemon that stops waits for what a session leaves, and for its work to be kept. */
const leavingsMs = 15_000;

/** From here on the position of the transcript is written with it. */
export function keepHeld(
  { ctx, session, progress, transcript, stops, signal }: Launching,
  { process, sandbox, results, project }: HoldOf,
): Pick<Launched, 'leave'> {
  progress.keep((out) => process.lasting?.release(out));
  stops.push(() => (progress.isStopped ? undefined : endHold(ctx.db, session)));
  const keepLeavings = async (): Promise<void> => {
    await results.now();
    // Should nobody come back for it.
    await keepWork(ctx, { session, project, sandbox });
  };
  const leave = async (): Promise<boolean> => {
    if (sandbox.leave === undefined) return false;
    const isHeard = await answers(sandbox);
    const { sessionId } = session;
    if (!isHeard) ctx.runtime.log.warn({ sessionId, reason: 'its sandbox says nothing' }, 'session.leavings_not_kept');
    else if (progress.cursor().unclean) return false;
    else await within(untilStop(keepLeavings(), signal, leftToOthersMs.work), leavingsMs);
    await transcript.flush();
    const isClean = !progress.cursor().unclean;
    if (isHeard && !isClean) return false;
    if (isClean) progress.stop();
    // What nobody can go on with is not ended by words that do not reach it: its box ends by itself.
    await sandbox.leave();
    return isClean;
  };
  return { leave };
}
