// A sandbox that has ended under its session (docs/reference/sessions.md#engines): for want of memory, or by its engine, as where
// a node is drained. The session goes on in a new one; what ends it again and again fails it.

import { turnsLostTo } from '../../adapters/store/sessions/turns.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { outOfMemoryText, type TurnEnd } from '../../core/session/session.ts';
import type { Launched } from './launching.ts';

/** So many turns that want of memory, or its engine, ended within ten minutes fail the session. */
const endsMax = 3;
const endedByEngine = 'its engine has ended its sandbox';

interface SandboxEnd {
  readonly reason: string;
  /** How the reasons of all such ends begin. */
  readonly cause: string;
  readonly code: 'out_of_memory' | 'engine';
}

/** What the kernel's ending of a program for want of memory is called, or the engine's of all; undefined: there was none. */
export async function sandboxEnd({ sandbox }: Launched): Promise<SandboxEnd | undefined> {
  const limitMB = await sandbox.outOfMemory();
  if (limitMB !== null) {
    const reason = outOfMemoryText(limitMB);
    return { reason, cause: reason, code: 'out_of_memory' };
  }
  const words = await sandbox.endedBy?.();
  if (words === undefined || words === null) return undefined;
  return { reason: `${endedByEngine}: ${words}`, cause: endedByEngine, code: 'engine' };
}

/** What the end of a sandbox makes of the turn that ran in it. */
export async function lostSandbox(sql: Sql, sessionId: string, { reason, cause, code }: SandboxEnd): Promise<TurnEnd> {
  const before = await turnsLostTo(sql, sessionId, { cause, withinSeconds: 600 });
  if (before < endsMax - 1) return { kind: 'lost', reason };
  return { kind: 'failed', cause: code, retryable: false, reason: `${reason}, ${endsMax} times within ten minutes` };
}
