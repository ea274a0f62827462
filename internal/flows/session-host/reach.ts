// Which of the sessions that other daemons have let go of are in boxes in reach of an engine of this daemon. An engine that
// takes its time is waited for by nobody: what it says is found by a later look.

import type { OfferedSession } from '../../adapters/store/sessions/holds.ts';
import { within } from '../../base/waits.ts';
import type { HostPorts } from '../host-ports.ts';
import type { FlowContext } from '../context.ts';
import { logTurnFailed } from '../turn-failed.ts';
import { isInReach } from './resume-launch.ts';

/** How long a look waits for engines that answer. */
const momentMs = 500;

export class Reach {
  readonly #ctx: FlowContext;
  readonly #ports: HostPorts;
  readonly #signal: AbortSignal;
  readonly #asking = new Map<string, Promise<void>>();
  readonly #found = new Set<string>();

  readonly #onLate: () => void;
  #isLooking = false;

  /** `signal`: from then on nobody wants to know. `onLate` hears of one that is found in reach when no look waits any more. */
  constructor(ctx: FlowContext, ports: HostPorts, signal: AbortSignal, onLate: () => void) {
    this.#onLate = onLate;
    this.#ctx = ctx;
    this.#ports = ports;
    this.#signal = signal;
  }

  /** Those that are known to be in reach, in their order. */
  async among(offered: readonly OfferedSession[]): Promise<string[]> {
    const ids = offered.map(({ sessionId }) => sessionId);
    for (const id of this.#found) if (!ids.includes(id)) this.#found.delete(id);
    for (const one of offered) this.#ask(one);
    const asking = ids.flatMap((id) => this.#asking.get(id) ?? []);
    this.#isLooking = true;
    await within(Promise.all(asking), momentMs);
    this.#isLooking = false;
    return ids.filter((id) => this.#found.has(id));
  }

  #ask(one: OfferedSession): void {
    const { sessionId } = one;
    if (this.#asking.has(sessionId) || this.#found.has(sessionId)) return;
    const asking = isInReach(this.#ctx, this.#ports, one)
      .then(
        (isFound) => {
          if (!isFound) return;
          this.#found.add(sessionId);
          if (!this.#isLooking) this.#onLate();
        },
        (error: unknown) => {
          // What is wrong with one keeps none of the others.
          if (!this.#signal.aborted) logTurnFailed(this.#ctx, 'host.not_in_reach', error);
        },
      )
      .finally(() => this.#asking.delete(sessionId));
    this.#asking.set(sessionId, asking);
  }
}
