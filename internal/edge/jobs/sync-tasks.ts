// The jobs by which earlier releases asked for a sync and for the status of a commit.

import * as v from 'valibot';
import { enqueueSync } from '../../flows/enqueue.ts';
import { wishStatus } from '../../adapters/store/repositories/commit-statuses.ts';
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
    // As for the sync: what is to be told is a row of svc.commit_statuses now.
    async handle(ctx, { repositoryId, commit }) {
      await wishStatus(ctx.db, repositoryId, commit);
      return undefined;
    },
  }),
];
