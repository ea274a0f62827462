// Tools of an issue tracker's connection: reading issues, and the few things that a session changes on them.

import { issueComment, issueGet, issueSearch, issueUpdate } from '../tracker/tracker.ts';
import { tool, type ToolSpec } from './table.ts';

/** The tools of an alias that names this connection. */
export function trackerTools(alias: string, connection: string): readonly ToolSpec[] {
  return [
    tool({
      name: 'issue_get',
      description: 'Show one issue of the tracker with its newest comments. Changes nothing.',
      effect: 'none',
      run: ({ ctx, caller }, input) => issueGet({ ctx, caller, alias, connection }, input),
    }),
    tool({
      name: 'issue_search',
      description: 'Search issues of the tracker by words. Changes nothing.',
      effect: 'none',
      run: ({ ctx, caller }, input) => issueSearch({ ctx, caller, alias, connection }, input),
    }),
    tool({
      name: 'issue_comment',
      description: 'Comment on an issue of the tracker. What follows there is attributed to this session.',
      effect: 'adds',
      run: ({ ctx, caller }, input) => issueComment({ ctx, caller, alias, connection }, input),
    }),
    tool({
      name: 'issue_update',
      description:
        'Change state, labels, assignee or priority of an issue of the tracker. Names are those of the issue’s team; one ' +
        'that several have is refused.',
      effect: 'takes',
      run: ({ ctx, caller }, input) => issueUpdate({ ctx, caller, alias, connection }, input),
    }),
  ];
}
