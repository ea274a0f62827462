// Search over the provider's hosted tool server, at the path of one organization and project. Its answer is a text for a
// model, with advice in it: the fields of its list are read out of it, and nothing else is passed on.

import { AnswerTooLarge, rpcReply } from '../../../base/net/answer.ts';
import { listAt, objectAt, textAt } from '../../../domain/fields.ts';
import type { JsonObject } from '../../../domain/json.ts';
import {
  type ErrtrackAnswer,
  call,
  type ErrtrackSettings,
  limitSecondsOf,
  ProviderFailure,
  without,
} from './request.ts';

export interface FoundIssue {
  readonly shortId: string;
  readonly url: string;
  readonly title: string;
  readonly [field: string]: string;
}

/** Searches issues of one project. Throws ProviderFailure. */
export async function searchIssues(
  settings: ErrtrackSettings,
  at: { readonly organization: string; readonly project: string; readonly token: string },
  input: { readonly query: string; readonly sort: string; readonly limit: number; readonly period: string },
): Promise<FoundIssue[]> {
  const path = `${new URL(settings.mcpUrl).pathname.replace(/\/$/, '')}/${at.organization}/${at.project}`;
  const url = new URL(path, settings.mcpUrl);
  url.searchParams.set('skills', 'inspect');
  let answer: ErrtrackAnswer;
  try {
    answer = await call(settings, url.href, {
      method: 'POST',
      headers: { accept: 'application/json, text/event-stream', authorization: `Sentry-Bearer ${at.token}` },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'search_issues', arguments: input } },
    });
  } catch (error) {
    throw error instanceof ProviderFailure ? error : new ProviderFailure('unreachable');
  }
  if (answer.status === 429) throw new ProviderFailure('rate-limited', '', limitSecondsOf(answer));
  if (answer.status === 401) throw new ProviderFailure('unauthorized');
  if (answer.status !== 200) throw new ProviderFailure('unreachable');
  const result = objectAt(replyIn(answer, at.token)['result']);
  const [first] = listAt(result['content']);
  const text = textAt(objectAt(first)['text']);
  // A token or project that the provider does not take is told in the text of an error.
  if (result['isError'] === true || text === undefined) throw new ProviderFailure('forbidden');
  return issuesIn(text);
}

function replyIn({ headers, text }: ErrtrackAnswer, token: string): JsonObject {
  try {
    return objectAt(without(token, rpcReply(text, String(headers['content-type']), 1) ?? {}));
  } catch (error) {
    throw error instanceof AnswerTooLarge ? new ProviderFailure('unreadable') : error;
  }
}

const headingPattern = /^#{2,3} \d+\. \[([A-Z0-9][A-Z0-9_-]*-[A-Z0-9]+)\]\((https?:\/\/[^\s)]+)\)\s*$/i;
const fieldPattern = /^- \*\*(Status|Users|Events|First seen|Last seen|Culprit|Level|Project)\*\*: (.+)$/i;
const keys: { readonly [label: string]: string } = {
  status: 'status',
  users: 'userCount',
  events: 'count',
  'first seen': 'firstSeen',
  'last seen': 'lastSeen',
  culprit: 'culprit',
  level: 'level',
  project: 'project',
};
const fieldMax = 500;

function issuesIn(text: string): FoundIssue[] {
  const found: { [field: string]: string }[] = [];
  for (const line of text.split('\n')) {
    const heading = headingPattern.exec(line);
    const current = found.at(-1);
    if (heading !== null) {
      found.push({ shortId: heading[1] ?? '', url: heading[2] ?? '', title: '' });
    } else if (/^#{1,2} (?!#)/.test(line) && current !== undefined) {
      // What follows the list is addressed to a model.
      break;
    } else if (current !== undefined) {
      const title = /^\*\*(.+)\*\*\s*$/.exec(line)?.[1];
      const field = fieldPattern.exec(line);
      if (title !== undefined && current['title'] === '') current['title'] = title.slice(0, fieldMax).toWellFormed();
      else if (field !== null)
        current[keys[(field[1] ?? '').toLowerCase()] ?? ''] = (field[2] ?? '').slice(0, fieldMax).toWellFormed();
    }
  }
  return found as unknown as FoundIssue[];
}
