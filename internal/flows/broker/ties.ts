// What a session makes and says at the code host is tied to it with the write (docs/reference/routing.md#attributions), so that
// what follows there is attributed to it, also where no delivery brings the text with its mark.

import { insertTies } from '../../adapters/store/sessions/sessions.ts';
import type { FlowContext } from '../context.ts';

const said: readonly string[] = [
  'add_issue_comment',
  'add_pull_request_review_comment',
  'add_reply_to_pull_request_comment',
  'pull_request_review_write',
];
const made: readonly string[] = ['create_pull_request', 'issue_write'];

/** Of a page: `/owner/name/pull/7`, in the host's own spelling. */
const pagePattern = /\/([^/]+\/[^/]+)\/(pull|issues)\/(\d+)$/;

export interface WrittenThere {
  readonly projectId: string;
  readonly sessionId: string;
  readonly tool: string;
  /** What it wrote about was there before, and is only another than it was. */
  readonly isChange: boolean;
  /** Where people see it. */
  readonly url: string | undefined;
}

/** Notes that the session posted on, or made, the pull request or issue that `url` is a page of; anything else is passed over. */
export async function tieWritten(ctx: FlowContext, of: WrittenThere): Promise<void> {
  const { projectId, sessionId, tool, isChange, url } = of;
  const isSaid = said.includes(tool);
  const page = pagePattern.exec(URL.parse(url ?? '')?.pathname ?? '');
  if (page === null || (!isSaid && (isChange || !made.includes(tool)))) return;
  const [, repository, kind, number] = page;
  const tie = {
    targetKey: `${repository}#${number}`,
    sessionId,
    agent: '',
    relation: isSaid ? ('posted' as const) : ('created' as const),
  };
  // A comment on a pull request may be shown as one on an issue; of the two, there is one of a number.
  const isPull = kind === 'pull' || isSaid;
  const isIssue = kind === 'issues';
  const ties = [
    ...(isPull ? [{ ...tie, targetType: 'codehost.pull_request' }] : []),
    ...(isIssue ? [{ ...tie, targetType: 'codehost.issue' }] : []),
  ];
  await insertTies(ctx.db, projectId, ties, ctx.runtime.now());
}
