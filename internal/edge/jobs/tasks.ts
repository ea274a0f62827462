// Every task of the daemon, one line each.

import { routingTasks } from './routing-tasks.ts';
import { keyTasks } from './key-tasks.ts';
import { syncTasks } from './sync-tasks.ts';
import type { Task } from './task.ts';

export const tasks: readonly Task[] = [...syncTasks, ...routingTasks, ...keyTasks];
