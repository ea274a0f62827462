// Permission requests under `approvals: prompt`: written down, shown to people, waited for. A turn that is cancelled takes
// its requests with it.

import { defaultLimits, nameBytesMax } from '../../adapters/harness/harness.ts';
import type { PermissionDecision, PermissionRequest } from '../../adapters/harness/types.ts';
import type { ClaimedSession } from '../../adapters/store/sessions/hosts.ts';
import { askPermission, closePermission, permissionState } from '../../adapters/store/sessions/permissions.ts';
import type { JsonObject } from '../../domain/json.ts';
import type { FlowContext } from '../context.ts';
import { givenSecrets } from './given-secret.ts';
import type { Mask } from './mask.ts';
import type { Signal } from './signal.ts';
import { withRetry } from '../with-retry.ts';
import type { Transcript } from './transcript.ts';

const lookMs = 5_000;

export class Permissions {
  readonly #ctx: FlowContext;
  readonly #session: ClaimedSession;
  readonly #transcript: Transcript;
  readonly #wake: Signal;
  readonly #mask: Mask;
  /** How many requests wait for a person, since when at least one does, and for how long one did before. */
  #open = 0;
  #since = 0;
  #waitedMs = 0;

  constructor(ctx: FlowContext, session: ClaimedSession, transcript: Transcript, wake: Signal, mask: Mask) {
    this.#mask = mask;
    this.#ctx = ctx;
    this.#session = session;
    this.#transcript = transcript;
    this.#wake = wake;
  }

  /** Time of this launch in which somebody was asked, by however many requests at once. */
  waitedMs(): number {
    return this.#waitedMs + (this.#open > 0 ? performance.now() - this.#since : 0);
  }

  /** Asks a person and waits for the answer; `cancelled` when the turn ends first. */
  decide = async (request: PermissionRequest, signal: AbortSignal): Promise<PermissionDecision> => {
    const { db, runtime } = this.#ctx;
    const id = runtime.uuid();
    const now = runtime.now();
    this.#mask.hideGiven(givenSecrets(request));
    const title = this.#mask.applyWithin(request.title, nameBytesMax);
    const input =
      request.input === undefined ? undefined : this.#mask.applyWithin(request.input, defaultLimits.maxTextBytes);
    const asked: JsonObject = this.#mask.applyToJson({
      callId: request.callId,
      category: request.category,
      ...(input !== undefined && { input }),
      options: request.options.map((one) => ({ ...one })),
    });
    const isAsked = await withRetry(() => askPermission(db, this.#session, { id, title, request: asked, now }));
    if (!isAsked) return 'cancelled';
    await this.#transcript.note({
      role: 'system',
      kind: 'permission',
      text: title,
      detail: { permissionId: id, ...asked },
    });
    const ring = (): void => this.#wake.fire();
    signal.addEventListener('abort', ring, { once: true });
    if (this.#open === 0) this.#since = performance.now();
    this.#open += 1;
    try {
      for (;;) {
        const seen = this.#wake.mark();
        if (signal.aborted) return 'cancelled';
        const state = await withRetry(() => permissionState(db, id));
        if (state !== 'open') return state ?? 'cancelled';
        await this.#wake.after(seen, lookMs);
      }
    } finally {
      this.#open -= 1;
      if (this.#open === 0) this.#waitedMs += performance.now() - this.#since;
      signal.removeEventListener('abort', ring);
      await withRetry(() => db.tx((tx) => closePermission(tx, this.#session, id, runtime.now())));
    }
  };
}
