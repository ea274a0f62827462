// The job that a push, a change of settings, a person or a look asks for, and the one that tells the code host.

import * as v from 'valibot';
import { syncRepository, tellStatus } from '../../flows/sync/sync.ts';
import { defineTask, type Task } from './task.ts';

const reason = v.picklist(['push', 'poll', 'manual', 'watch', 'resync']);

export const syncTasks: readonly Task[] = [
  defineTask({
    name: 'repo.sync',
    role: 'sync',
    payload: v.object({ repositoryId: v.pipe(v.string(), v.uuid()), reason, hint: v.optional(v.string()) }),
    async handle(ctx, payload, job) {
      const { signal, log } = job;
      const outcome = await syncRepository(ctx, { ...payload, signal, log });
      return outcome.kind === 'wait' ? { retryAfterMs: 1_000 } : undefined;
    },
  }),
  defineTask({
    name: 'repo.status',
    role: 'sync',
    payload: v.object({ repositoryId: v.pipe(v.string(), v.uuid()), commit: v.string() }),
    async handle(ctx, payload, { attempt, log }) {
      await tellStatus(ctx, { ...payload, attempt, log });
      return undefined;
    },
  }),
];
