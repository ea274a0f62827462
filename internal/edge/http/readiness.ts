// What the daemon waits for before it is ready, asked of by `/readyz` and, every few seconds, by the daemon itself: each change is
// told in the log once, when it is seen, whether or not anybody asks.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';

/** Something readiness waits for. `check` answers with the reason why not, or undefined. */
export interface Readiness {
  readonly name: string;
  check(): Promise<string | undefined>;
}

export interface ReadinessCheck {
  readonly name: string;
  readonly ok: boolean;
  readonly reason?: string;
}

/** The part that says no because somebody wants the daemon to stop. */
const stoppingText = 'draining';

/** How often the daemon looks by itself. */
const everyMs = 5_000;

export interface ReadinessWatch {
  /** Asks all parts, and tells a change in the log. */
  look(log: Logger): Promise<readonly ReadinessCheck[]>;
  /** Looks by itself from now on, the last time when the daemon begins to stop. `log` is asked for at each look. */
  start(log: () => Logger): void;
}

/** `draining` says that the daemon has begun to stop, after which it is not ready. */
export function watchReadiness(
  given: readonly Readiness[],
  draining: AbortSignal = new AbortController().signal,
): ReadinessWatch {
  const stopping = async (): Promise<string | undefined> =>
    draining.aborted ? 'the daemon is shutting down' : undefined;
  const parts = [...given, { name: stoppingText, check: stopping }];
  // What kept it from being ready when it was asked last.
  let unready = '';
  // Of two looks at a time, the one that began first may end last: it says nothing then.
  let begun = 0;
  let told = 0;
  const look = async (log: Logger, asking = askTogether): Promise<readonly ReadinessCheck[]> => {
    const turn = ++begun;
    const checks = await asking(parts);
    const reasons = checks.flatMap((one) => (one.ok ? [] : [`${one.name}: ${one.reason}`])).join('; ');
    if (turn > told) {
      told = turn;
      if (reasons !== unready) {
        unready = reasons;
        const isWrong = checks.some((one) => !one.ok && one.name !== stoppingText);
        const said = reasons === '' ? { ready: true } : { ready: false, reasons };
        log[isWrong ? 'warn' : 'info'](said, 'readiness.changed');
      }
    }
    return checks;
  };
  const start = async (log: () => Logger): Promise<void> => {
    while (!draining.aborted) {
      // Rejects when the daemon stops, which is seen at the next line; does not keep a process alive.
      await sleep(everyMs, undefined, { signal: draining, ref: false }).catch(() => undefined);
      await look(log(), askInTurn);
    }
  };
  return { look, start: (log) => void start(log) };
}

type Asking = (parts: readonly Readiness[]) => Promise<readonly ReadinessCheck[]>;

/** For who waits for the answer. */
const askTogether: Asking = (parts) => Promise.all(parts.map(ask));

/** For who does not: an idle daemon holds no connection to its database for each part. */
const askInTurn: Asking = async (parts) => {
  const checks: ReadinessCheck[] = [];
  for (const part of parts) checks.push(await ask(part));
  return checks;
};

async function ask(part: Readiness): Promise<ReadinessCheck> {
  const reason = await part.check().catch((error: unknown) => (error instanceof Error ? error.message : 'failed'));
  return { name: part.name, ok: reason === undefined, ...(reason !== undefined && { reason }) };
}
