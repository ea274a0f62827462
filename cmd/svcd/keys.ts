// A daemon that does not hold the right master keys serves its health, its API and nothing that needs a key; it starts
// no work until the file is put right, which it looks for every two seconds.

import { setTimeout as sleep } from 'node:timers/promises';
import type { KeyRing } from '../../internal/adapters/crypto/crypto.ts';
import type { Database } from '../../internal/adapters/store/store.ts';
import type { Runtime } from '../../internal/base/runtime.ts';
import { checkKeys, keyHolder } from '../../internal/flows/secrets/secrets.ts';

const everyMs = 2_000;

export interface KeyGate {
  /** Undefined where the keys were right at once; never settles once it is stopped. */
  readonly waiting: Promise<void> | undefined;
  /** Whether they are still not right, or were not when they were looked at last. */
  isShut(): boolean;
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
  const first = await look();
  if (first === undefined) return { waiting: undefined, isShut: () => false, stop: () => undefined };
  log.error({ reason: first }, 'keys.unusable');
  let isShut = true;
  const wait = async (): Promise<void> => {
    do {
      // Rejects when the daemon stops, which is seen at the next line.
      await sleep(everyMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return new Promise<never>(() => undefined);
    } while ((await look()) !== undefined);
    isShut = false;
    log.info({}, 'keys.usable');
  };
  return { waiting: wait(), isShut: () => isShut, stop: () => stopping.abort() };
}
