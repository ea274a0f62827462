// Search: one request for each mount that may be read, with that mount's token and its name in the query; rows of other
// repositories are dropped, whatever the provider says.

import { listAt, objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { checkQuery, isSameRepository, type Want } from './confine.ts';
import type { CodehostCall } from './codehost-call.ts';
import { only, shown } from './shape.ts';
import { invalidInput, paging, text } from './tool.ts';

export interface SearchTool {
  readonly about: string;
  readonly wants: readonly Want[];
  readonly path: string;
  /** What it counts against at the host. */
  readonly resource: 'search' | 'code_search';
  /** Narrows to what the tool is about. */
  readonly narrow: string;
}

export const searchTools: { readonly [name: string]: SearchTool } = {
  search_code: {
    about: 'Search the code of the mounted repositories.',
    wants: ['contents:read'],
    path: '/search/code',
    resource: 'code_search',
    narrow: '',
  },
  search_commits: {
    about: 'Search the commits of the mounted repositories.',
    wants: ['contents:read'],
    path: '/search/commits',
    resource: 'search',
    narrow: '',
  },
  search_issues: {
    about: 'Search the issues of the mounted repositories.',
    wants: ['issues:read'],
    path: '/search/issues',
    resource: 'search',
    narrow: ' is:issue',
  },
  search_pull_requests: {
    about: 'Search the pull requests of the mounted repositories.',
    wants: ['pullRequests:read'],
    path: '/search/issues',
    resource: 'search',
    narrow: ' is:pr',
  },
};

const queryMax = 256;

/** Throws Fault `invalid-input`. */
export function checkSearch(input: JsonObject): void {
  if (text(input, 'query').trim() === '') throw invalidInput('query: is empty');
  checkQuery(text(input, 'query'));
  if ((input['owner'] === undefined) !== (input['repo'] === undefined))
    throw invalidInput('owner and repo name a mount together');
}

export interface Rows {
  readonly items: readonly Json[];
  readonly nextPage: number | undefined;
}

/** The rows of one mount. */
export async function searchOne(codehost: CodehostCall, tool: SearchTool, input: JsonObject): Promise<Rows> {
  const { repository } = codehost.options;
  const q = `${text(input, 'query').trim()} repo:${repository}${tool.narrow}`;
  if ([...q].length > queryMax)
    throw invalidInput(`query: with the repository it has more than ${queryMax} characters`);
  const { page, per_page } = paging(input);
  const query = {
    q,
    page,
    per_page,
    ...(input['sort'] !== undefined && { sort: text(input, 'sort') }),
    ...(input['order'] !== undefined && { order: text(input, 'order') }),
  };
  const { json, nextPage } = await codehost.read({ path: tool.path, isRoot: true, query, resource: tool.resource });
  const rows = listAt(objectAt(json)['items']).filter((row) =>
    isSameRepository(repositoryOf(objectAt(row)) ?? '', repository),
  );
  return {
    items: rows.map((row) => only(row === null ? row : { ...objectAt(shown(row)), repository }, input['fields'])),
    nextPage,
  };
}

/** Where a row says that it is from: a repository of its own, or the address of one. */
function repositoryOf(row: JsonObject): string | undefined {
  const own = textAt(objectAt(row['repository'])['full_name']);
  if (own !== undefined) return own;
  return /\/repos\/([^/]+\/[^/]+)$/.exec(textAt(row['repository_url']) ?? '')?.[1];
}
