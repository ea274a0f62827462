// The job that whoever records events leaves behind: a wake-up, and nothing else. It is done at once; a wake-up that is
// lost on the way is made up for by the sweep.

import * as v from 'valibot';
import { routeTask } from '../../adapters/store/events/events.ts';
import { wakeRouting } from '../../flows/routing/routing.ts';
import { defineTask, type Task } from './task.ts';

const ids = v.optional(v.array(v.pipe(v.string(), v.uuid())), []);

export const routingTasks: readonly Task[] = [
  defineTask({
    name: routeTask,
    role: 'route',
    payload: v.object({ projects: ids, ids }),
    async handle(ctx, payload) {
      await wakeRouting(ctx, payload);
      return undefined;
    },
  }),
];
