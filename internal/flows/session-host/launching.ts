// What a launch of a session is asked with and gives, whether it is brought up or gone on with; what it has opened is closed
// where it fails, and when it is over.

import type { HarnessConnection, ReadingShare } from '../../adapters/harness/harness.ts';
import type { HarnessListener } from '../../adapters/harness/types.ts';
import type { Sandbox } from '../../adapters/sandbox/sandbox.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import type { Semaphore } from '../../base/semaphore.ts';
import { unlessAborted, within } from '../../base/waits.ts';
import type { FlowContext } from '../context.ts';
import type { HostPorts } from '../host-ports.ts';
import type { ModelBudget } from './channels.ts';
import type { ResultCollector } from './result-collector.ts';
import type { Mask } from './mask.ts';
import type { Progress } from './progress.ts';
import type { Transcript } from './transcript.ts';

export interface Launched {
  readonly connection: HarnessConnection;
  readonly money: ModelBudget;
  readonly sandbox: Sandbox;
  readonly results: ResultCollector;
  /** What it holds is kept for another daemon, once its harness has ended. */
  keepWork(): void;
  /** True where the conversation could not be resumed and the harness begins anew. */
  readonly isAmnesic: boolean;
  /** Where the harness has resumed what was kept of it: messages after this one it does not know. */
  readonly knowsUpTo?: number | undefined;
  /**
   * Lets go of it for the next life of this daemon, with what it is at: `down` then ends nothing. False where that life
   * could not go on from here.
   */
  leave?(): Promise<boolean>;
  /** Ends the process and what was opened for it; the sandbox's files stay. Safe again. */
  down(): Promise<void>;
}

type Stop = () => Promise<void> | void;

export interface LaunchRequest {
  readonly session: ClaimedSession;
  readonly listener: HarnessListener;
  readonly transcript: Transcript;
  readonly progress: Progress;
  /** Told what must not be repeated. */
  readonly mask: Mask;
  /** Hears when a spend cap is reached. */
  readonly onCapped: () => void;
  /** Through which harnesses start. */
  readonly gate: Semaphore;
  /** What its harness has of the reading of all of them. */
  readonly share: ReadingShare;
  /** Ends the launch early: what it has started is taken down at once. */
  readonly signal: AbortSignal;
}

/** How long the end of a sandbox is waited for, and its removal, once the signal says that its session is not wanted here any more. */
export const givenUpMs = { stop: 5_000, destroy: 2_000 } as const;

/**
 * Waits for what an engine is asked to end. Who gave it up, or stops, waits for none that says nothing, nor for one that fell
 * silent over it: the reaper finds what is left.
 */
export async function awaitEnd(ending: Promise<void>, signal: AbortSignal, ms: number): Promise<void> {
  await unlessAborted(ending, signal).catch(async (error: unknown) => {
    if (!signal.aborted) throw error;
    await within(ending, ms);
  });
}

/** Why what runs here ends where the daemon stops: by when all of it is to be over, by the steady clock. */
export class DaemonStops extends Error {
  readonly until: number;

  constructor(until: number) {
    super('the daemon stops');
    this.until = until;
  }
}

/** Of the time of a stop, what is left to others: by what a session leaves, and by its work. */
export const leftToOthersMs = { leavings: 8_000, work: 1_000 } as const;

/** Waits for what is kept of a session; where its daemon stops, until so much of that time is left, and it goes on by itself. */
export async function untilStop(keeping: Promise<void>, signal: AbortSignal, leftMs: number): Promise<void> {
  await unlessAborted(keeping, signal).catch(async (error: unknown) => {
    if (!signal.aborted) throw error;
    const { reason } = signal;
    if (!(reason instanceof DaemonStops)) return keeping;
    await within(keeping, Math.max(0, reason.until - leftMs - performance.now()));
  });
}

/** What `bring` gives; all that it has opened is closed where it throws, and by `down`. */
export async function launchOrStop(
  ctx: FlowContext,
  ports: HostPorts,
  request: LaunchRequest,
  bring: (of: Launching) => Promise<Omit<Launched, 'down'>>,
): Promise<Launched> {
  const { session, signal } = request;
  const stops: Stop[] = [];
  const takeDown = async (): Promise<void> => {
    for (let stop = stops.pop(); stop !== undefined; stop = stops.pop()) {
      try {
        await stop();
      } catch (error) {
        ctx.runtime.log.warn({ err: error, sessionId: session.sessionId }, 'session.teardown_failed');
      }
    }
  };
  // One at a time, and again for what was opened meanwhile.
  let downing: Promise<void> = Promise.resolve();
  const down = (): Promise<void> => (downing = downing.then(takeDown));
  const onAbort = (): void => void down();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    signal.throwIfAborted();
    return { ...(await bring({ ...request, ctx, ports, stops })), down };
  } catch (error) {
    await down();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

export interface Launching extends LaunchRequest {
  readonly ctx: FlowContext;
  readonly ports: HostPorts;
  readonly stops: Stop[];
}
