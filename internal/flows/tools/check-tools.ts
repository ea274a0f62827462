// Tools of a session whose trigger declared checks (docs/reference/checks.md#states), and the one that only answers.

import { type CheckRow, listChecks } from '../../adapters/store/sessions/checks.ts';
import { beginCheck, concludeCheck } from '../checks/checks.ts';
import { tool, type ToolSpec } from './table.ts';

const shown = (row: CheckRow) => ({
  name: row.name,
  displayName: row.spec.displayName,
  description: row.spec.description,
  ...(row.spec.instructions !== undefined && { instructions: row.spec.instructions }),
  pullRequest: row.targetKey,
  headSha: row.headSha,
  cycle: row.cycle,
  state: row.state,
  conclusion: row.conclusion,
  title: row.title,
  deadlineAt: row.deadlineAt,
});

export const checkTools: readonly ToolSpec[] = [
  tool({
    name: 'checks.list',
    description:
      'List the pull-request checks that this session has to begin and conclude, with instructions, state and deadline.',
    effect: 'none',
    run: async ({ ctx, caller }) => ({ checks: (await listChecks(ctx.db, caller.sessionId)).map(shown) }),
  }),
  tool({
    name: 'checks.begin',
    description: 'Begin a queued check. Do this before you work on it.',
    effect: 'adds',
    run: async ({ ctx, caller }, { name }) => shown(await beginCheck(ctx, caller.sessionId, name)),
  }),
  ...(['success', 'failure'] as const).map((conclusion) =>
    tool({
      name: `checks.${conclusion}`,
      description: `Conclude a check that has begun as a ${conclusion}.`,
      effect: 'adds',
      run: async ({ ctx, caller }, { name, title, summary }) =>
        shown(await concludeCheck(ctx, caller.sessionId, name, { conclusion, title, summary })),
    }),
  ),
];

export const pingTools: readonly ToolSpec[] = [
  tool({
    name: 'ping',
    description: 'Answer pong. Shows that tools can be reached.',
    effect: 'none',
    run: async ({ ctx, caller }) => ({ pong: true, sessionId: caller.sessionId, at: ctx.runtime.now() }),
  }),
];
