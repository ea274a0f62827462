// What jobs name, as one table. A task gets ids, re-reads the world and says how it ended (ARCHITECTURE.md#three-families-of-error:
// level, not edge). Thrown errors are retried with growing delays; a job that can never succeed says `stop`.

import * as v from 'valibot';
import type { Logger } from 'pino';
import { wishSync } from '../../adapters/store/repositories/polls.ts';
import { routeTask } from '../../adapters/store/events/events.ts';
import { wishStatus } from '../../adapters/store/repositories/commit-statuses.ts';
import type { Role } from '../../base/config/config.ts';
import type { FlowContext } from '../../flows/context.ts';
import { wakeRouting } from '../../flows/routing/routing.ts';
import { runRotation } from '../../flows/secrets/secrets.ts';

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

const id = v.pipe(v.string(), v.uuid());
const ids = v.optional(v.array(id), []);
const reason = v.picklist(['push', 'poll', 'manual', 'watch', 'resync']);

/** Every task of the daemon; why none of them is parked, services.test.ts says. */
export const tasks: readonly Task[] = [
  defineTask({
    name: 'repo.sync',
    role: 'sync',
    payload: v.object({ repositoryId: id, reason, hint: v.optional(v.string()) }),
    // A sync is wanted in a row of svc.repository_polls now; daemons of an earlier release ask for it with this job.
    async handle(ctx, { repositoryId, reason: why, hint }) {
      await wishSync(ctx.db, { repositoryId, reason: why, hint });
      return undefined;
    },
  }),
  defineTask({
    name: 'repo.status',
    role: 'sync',
    payload: v.object({ repositoryId: id, commit: v.string() }),
    // As for the sync: what is to be told is a row of svc.commit_statuses now.
    async handle(ctx, { repositoryId, commit }) {
      await wishStatus(ctx.db, repositoryId, commit);
      return undefined;
    },
  }),
  defineTask({
    name: routeTask,
    role: 'route',
    payload: v.object({ projects: ids, ids }),
    // A wake-up that whoever records events leaves behind; one that is lost on the way is made up for by the sweep.
    async handle(ctx, payload) {
      await wakeRouting(ctx, payload);
      return undefined;
    },
  }),
  defineTask({
    name: 'keys.rotate',
    role: 'api',
    payload: v.object({ rotationId: id }),
    // Seals every stored value with the current master key.
    async handle(ctx, { rotationId }, { signal }) {
      const outcome = await runRotation(ctx, { rotationId, signal });
      return outcome === 'later' ? { retryAfterMs: 2_000 } : undefined;
    },
  }),
];
