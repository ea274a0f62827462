// The job that seals every stored value with the current master key.

import * as v from 'valibot';
import { runRotation } from '../../flows/secrets/secrets.ts';
import { defineTask, type Task } from './task.ts';

export const keyTasks: readonly Task[] = [
  defineTask({
    name: 'keys.rotate',
    role: 'api',
    payload: v.object({ rotationId: v.pipe(v.string(), v.uuid()) }),
    async handle(ctx, { rotationId }, { signal }) {
      const outcome = await runRotation(ctx, { rotationId, signal });
      return outcome === 'later' ? { retryAfterMs: 2_000 } : undefined;
    },
  }),
];
