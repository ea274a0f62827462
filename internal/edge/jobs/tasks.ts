// Every task of the daemon, one line each.

import { dispatchTasks } from './dispatch-tasks.ts';
import { keyTasks } from './key-tasks.ts';
import { syncTasks } from './sync-tasks.ts';
import type { Task } from './task.ts';

export const tasks: readonly Task[] = [...syncTasks, ...dispatchTasks, ...keyTasks];
