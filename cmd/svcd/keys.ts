// A daemon that does not hold the right master keys serves its health, its API and nothing that needs a key; it starts
// no work until the file is put right, which it looks for every two seconds.

import { setTimeout as sleep } from 'node:timers/promises';
import type { KeyRing } from '../../internal/adapters/crypto/crypto.ts';
import { forgetKeys } from '../../internal/adapters/store/secrets/key-holders.ts';
import type { Database } from '../../internal/adapters/store/store.ts';
import type { Runtime } from '../../internal/base/runtime.ts';
import { checkKeys, keyHolder } from '../../internal/flows/secrets/secrets.ts';

const everyMs = 2_000;

export interface KeyGate {
  /** Undefined where the keys were right at once; never settles once it is stopped. */
  readonly waiting: Promise<void> | undefined;
  /** For the readiness: what is wrong with the keys now, or that they were not right when the gate looked last. */
  check(): Promise<string | undefined>;
  /** Notes that this daemon holds no keys any more; the last thing that it does with its database. */
  forget(): Promise<void>;
  stop(): void;
}

/** Checks the keys, and blocks sealing and opening for as long as they are not right. */
export async function openKeyGate(
  db: Database,
  ring: KeyRing,
  log: Runtime['log'],
  daemonId: string,
): Promise<KeyGate> {
  const stopping = new AbortController();
  const by = keyHolder(daemonId);
  const look = async (): Promise<string | undefined> => {
    const reason = await checkKeys(db, ring, by, { anew: true }).catch((error: unknown) =>
      error instanceof Error ? error.message : 'the master keys cannot be checked',
    );
    ring.block(reason);
    return reason;
  };
  let isShut = false;
  const parts = {
    check: async () =>
      (await checkKeys(db.calls, ring, by)) ??
      (isShut ? 'the master keys are right now; work begins within seconds' : undefined),
    // Best effort at the end: where the database is gone, the row is told dead by its daemon's silence.
    forget: () => forgetKeys(db, daemonId).catch(() => undefined),
  };
  const first = await look();
  if (first === undefined) return { ...parts, waiting: undefined, stop: () => undefined };
  log.error({ reason: first }, 'keys.unusable');
  isShut = true;
  const wait = async (): Promise<void> => {
    do {
      // Rejects when the daemon stops, which is seen at the next line.
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return new Promise<never>(() => undefined);
    } while ((await look()) !== undefined);
    isShut = false;
    log.info({}, 'keys.usable');
  };
  return { ...parts, waiting: wait(), stop: () => stopping.abort() };
}
