// The part of the command table that compiles a tree here, with or without a server behind it.

import type { CommandSpec } from './types.ts';

export const offlineCommands: readonly CommandSpec[] = [];
