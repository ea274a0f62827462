// A task is what a job names: it gets ids, re-reads the world and says how it ended (ARCHITECTURE.md#three-families-of-error:
// level, not edge). Thrown errors are retried with growing delays; a job that can never succeed says `stop`.

import type { Logger } from 'pino';
import type * as v from 'valibot';
import type { Role } from '../../base/config/config.ts';
import type { FlowContext } from '../../flows/context.ts';

/** Nothing: done. `retryAfterMs`: run again then, no failure. `stop`: parked with this reason until a person acts. */
export type Outcome = undefined | { readonly retryAfterMs: number } | { readonly stop: string };

export interface Job {
  readonly id: string;
  readonly attempt: number;
  readonly log: Logger;
  /** Aborted when the daemon drains: stop early, leave the rest to the retry. */
  readonly signal: AbortSignal;
}

export interface TaskSpec<P extends v.GenericSchema> {
  /** `repo.sync` */
  readonly name: string;
  /** Runs only where the daemon has this role. */
  readonly role: Role;
  readonly payload: P;
  handle(ctx: FlowContext, payload: v.InferOutput<P>, job: Job): Promise<Outcome>;
}

export type Task = Omit<TaskSpec<v.GenericSchema>, 'handle'> & {
  handle(ctx: FlowContext, payload: unknown, job: Job): Promise<Outcome>;
};

/** Declares a task; inside `handle`, the payload has the type of its schema. */
export function defineTask<const P extends v.GenericSchema>(spec: TaskSpec<P>): Task {
  // The runner calls handle only with what the same record's schema has produced.
  return spec as unknown as Task;
}
