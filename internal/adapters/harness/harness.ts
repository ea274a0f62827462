// The door to harnesses: speaks the Agent Client Protocol (stable v1) to a program that somebody else runs, and says how
// each turn really ended. It decides what to send for a harness, model, effort, prompt and approvals (`planLaunch`),
// where a harness's program is found, and which end of a turn is a good one. It never starts or ends a harness, never
// keeps a queue of prompts, never holds a provider's key, and never records anything. Implements docs/reference/sessions.md#states
// and #harnesses.

import type { HarnessConnection } from './connection.ts';
import { type ConnectOptions, defaultLimits, type Limits } from './types.ts';

export type { HarnessConnection } from './connection.ts';
export {
  HarnessInstallError,
  harnessPackage,
  installHarness,
  type ResolvedHarness,
  resolveHarness,
  variableOf,
} from './install.ts';
export { type ReadingShare, SharedReading } from './shared-reading.ts';
export { planLaunch } from './profiles.ts';
export { defaultLimits, failureCharsMax, HarnessFailure, nameBytesMax, planPart } from './types.ts';
export { cut } from './updates.ts';

/**
 * Connects to a running program and initializes it. Throws HarnessFailure when the program exits, answers nothing in
 * time, writes something else than messages, or speaks another protocol; the program is then the caller's to end. One
 * whose conversation is `adopted` is initialized already.
 */
export async function connectHarness(
  options: Omit<ConnectOptions, 'limits'> & { readonly limits?: Partial<Limits> },
): Promise<HarnessConnection> {
  // The protocol's library builds its schemas when it is loaded: a third of a second and tens of megabytes that only a
  // process with sessions needs.
  const { HarnessConnection: Connection } = await import('./connection.ts');
  const connection = new Connection({ ...options, limits: { ...defaultLimits, ...options.limits } });
  if (options.adopted === undefined) await connection.initialize();
  return connection;
}
