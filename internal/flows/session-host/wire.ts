// What a session shows of the way into its sandbox (docs/reference/sessions.md#engines), where that can be cut and mended.

import type { Sandbox } from '../../adapters/sandbox/sandbox.ts';
import { type Lease, noteWire } from '../../adapters/store/sessions/hosts.ts';
import type { FlowContext } from '../context.ts';

/** Tells the session from now on. What cannot be written is told with the next change. */
export async function watchWire(ctx: FlowContext, lease: Lease, sandbox: Sandbox): Promise<void> {
  if (sandbox.onWire === undefined) return;
  const cuts = ctx.metrics.counter('svc_wire_cuts_total', 'Streams into boxes of engines that were cut');
  let told = noteWire(ctx.db, lease, 'ok');
  sandbox.onWire((state) => {
    if (state === 'lost') cuts.inc();
    // In the order in which it happened.
    told = told
      .catch(() => undefined)
      .then(() => noteWire(ctx.db, lease, state))
      .catch((error: unknown) => {
        ctx.runtime.log.warn({ err: error, sessionId: lease.sessionId, wire: state }, 'session.wire_not_noted');
      });
  });
  await told;
}
