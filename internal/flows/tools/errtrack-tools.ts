// The read-only surface of an error-tracking connection: four tools, by exact name. What they may see is decided for each
// call by the connection of the session's project; nothing else of the provider's catalog can be reached.

import { issueDetails, latestEvent, listAllowed, search } from '../connections/connections.ts';
import { tool, type ToolSpec } from './table.ts';

/** The tools of an alias that names this connection. */
export function errtrackTools(connection: string): readonly ToolSpec[] {
  return [
    tool({
      name: 'list_projects',
      description: 'List the projects of the error tracker that this project may investigate. Changes nothing.',
      effect: 'none',
      run: ({ ctx, caller }) => listAllowed(ctx, { projectId: caller.project.id, connection }),
    }),
    tool({
      name: 'search_issues',
      description: 'Search issues of one project of the error tracker. Changes nothing.',
      effect: 'none',
      run: ({ ctx, caller }, input) => search(ctx, { projectId: caller.project.id, connection }, input),
    }),
    tool({
      name: 'get_issue_details',
      description: 'Show one issue of the error tracker: what it is, how often and when it happened. Changes nothing.',
      effect: 'none',
      run: ({ ctx, caller }, { issue }) => issueDetails(ctx, { projectId: caller.project.id, connection }, issue),
    }),
    tool({
      name: 'get_latest_event',
      description:
        'Show the latest event of an issue: exception, stack trace, threads, message, request and breadcrumbs; event: null where it has none. Changes nothing.',
      effect: 'none',
      run: ({ ctx, caller }, { issue }) => latestEvent(ctx, { projectId: caller.project.id, connection }, issue),
    }),
  ];
}
