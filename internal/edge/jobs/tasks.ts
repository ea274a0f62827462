// Every task of the daemon, one line each.

import type { Task } from './task.ts';

export const tasks: readonly Task[] = [];
