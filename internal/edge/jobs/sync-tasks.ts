// The job that tells the code host what became of a commit, and the one by which earlier releases asked for a sync.

import * as v from 'valibot';
import { enqueueSync } from '../../flows/enqueue.ts';
import { tellStatus } from '../../flows/sync/sync.ts';
import { defineTask, type Task } from './task.ts';

const reason = v.picklist(['push', 'poll', 'manual', 'watch', 'resync']);

export const syncTasks: readonly Task[] = [
  defineTask({
    name: 'repo.sync',
    role: 'sync',
    payload: v.object({ repositoryId: v.pipe(v.string(), v.uuid()), reason, hint: v.optional(v.string()) }),
    // A sync is wanted in a row of svc.repository_polls now; daemons of an earlier release ask for it with this job.
    async handle(ctx, { repositoryId, reason: why, hint }) {
      await enqueueSync(ctx.db, repositoryId, why, hint);
      return undefined;
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
