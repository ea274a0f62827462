// What every call has, and those that change nothing: they leave a row when they have ended.

import { noteCall } from '../../adapters/store/outbox/calls.ts';
import { orderedIds } from '../../base/ids.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext, ProjectRef } from '../context.ts';

export interface Call {
  readonly project: Pick<ProjectRef, 'id' | 'orgId'>;
  /** Null: the service itself calls. */
  readonly sessionId: string | null;
  /** Key of `ctx.outbox.readers`. */
  readonly provider: string;
  readonly connectionId: string | null;
  /** Of the session's tools; for the service what it does, such as `plan`. */
  readonly alias: string;
  readonly tool: string;
}

const makers = new WeakMap<object, () => string>();
/** Ids of calls: each sorts after the one before. */
export function callIds({ runtime }: FlowContext): () => string {
  const made = makers.get(runtime) ?? orderedIds(runtime);
  makers.set(runtime, made);
  return made;
}

/** Runs what changes nothing outside; its row says `done`, or `refused` and why. */
export async function performRead<T>(ctx: FlowContext, call: Call, read: () => Promise<T>): Promise<T> {
  let code: string | null = null;
  try {
    return await read();
  } catch (error) {
    code = error instanceof Fault ? error.code : 'internal';
    throw error;
  } finally {
    await note(ctx, call, { write: false, code });
  }
}

/** Leaves the row of a call that was refused before anything was asked of the provider. */
export function refusedBefore(ctx: FlowContext, call: Call, of: { readonly write: boolean; readonly code: string }) {
  return note(ctx, call, of);
}

async function note(
  ctx: FlowContext,
  { project, sessionId, provider, connectionId, alias, tool }: Call,
  { write, code }: { readonly write: boolean; readonly code: string | null },
): Promise<void> {
  await noteCall(ctx.db, {
    id: callIds(ctx)(),
    projectId: project.id,
    sessionId,
    provider,
    connectionId,
    alias,
    tool,
    now: ctx.runtime.now(),
    write,
    status: code === null ? 'done' : 'refused',
    code,
  });
}
