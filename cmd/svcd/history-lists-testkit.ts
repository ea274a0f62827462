// Every list of the table of routes as callers have it: with each of its filters, its second page, below a thing, by the
// line and as a stream. For the test that nothing costs more because much has happened before. Only tests import this.

import assert from 'node:assert/strict';
import type { ApiAnswer, TestDaemon } from '../../internal/base/testkit/daemon.ts';
import type { Route } from '../../internal/edge/http/route.ts';

/** What a path names, by the word before it. */
export interface Things {
  readonly [word: string]: string;
}
export interface Lists {
  /** Of lists: what their path names has a long history of its own. */
  readonly long: Things;
  /** Of all else. */
  readonly common: Things;
  /** Projects: the second has next to nothing, whatever the others have. */
  readonly projects: readonly [string, string];
}

const days = (count: number): string => new Date(Date.now() - count * 86_400_000).toISOString();
/** A value for each name that a query or a path may have; a list with another one needs one here. */
const samples: { readonly [name: string]: readonly string[] } = {
  action: ['rare.action', 'secret.read'],
  after: ['0', '200'],
  counts: ['true'],
  view: ['row'],
  origins: ['true'],
  order: ['asc', 'desc'],
  matches: ['true'],
  agent: ['rare', 'agent-0'],
  endpoint: ['rare', 'often', 'gone'],
  key: ['webhook.rare', 'never.seen'],
  live: ['true', 'false'],
  all: ['true'],
  by: ['agent', 'day'],
  days: ['1', '366'],
  from: [days(1)],
  to: [days(-1)],
  principal: ['rare'],
  repository: ['site', 'gone'],
  session: ['00000000-0000-4000-8000-000000000000'],
  since: [days(20), days(1)],
  until: [days(14), days(25)],
  subject: ['rare'],
  severity: ['warning', 'error'],
  state: ['queued', 'idle', 'running', 'suspended', 'blocked', 'archived', 'replaced', 'failed'],
  status: [
    'pending',
    'routed',
    'unmatched',
    'failed',
    'running',
    'applied',
    'unchanged',
    'held',
    'superseded',
    'quarantined',
  ],
  topics: ['events,sessions'],
};
/** Lists that answer for nothing less than this. */
const queriesNeeded: { readonly [path: string]: string } = {
  '/api/v1/connections/errtrack/projects': '?organizationId=default&projectId=default',
};
/** Of what is there for a moment, and of what no session has left: no lists. */
const passedOver = /\/attempts\/:attempt$|\/installations\/:attempt$|\/files\/:path$/;
/** How much of an answer that goes on is read: some pages. */
const answersRead = { line: 1_200, event: 150 } as const;

const isList = ({ query }: Route): boolean => namesOf(query).includes('cursor');
const namesOf = (query: Route['query']): string[] =>
  Object.keys((query as { entries?: object } | undefined)?.entries ?? {});

/** The path with what it names. */
function pathOf(route: Route, things: Things): string {
  const words = route.path.split('/');
  return words
    .map((word, at) => {
      if (!word.startsWith(':')) return word;
      const thing = things[words[at - 1] ?? ''];
      assert.ok(thing !== undefined, `${route.path}: no thing for ${word}`);
      return thing;
    })
    .join('/');
}

function queriesOf(route: Route): string[] {
  const needed = queriesNeeded[route.path];
  if (needed !== undefined) return [needed];
  const names = namesOf(route.query).filter((name) => name !== 'limit' && name !== 'cursor');
  return ['', ...names.flatMap((name) => filtersOf(route, name))];
}

function filtersOf(route: Route, name: string): string[] {
  const all = samples[name];
  assert.ok(all !== undefined, `${route.path}: no sample for the filter ${name}`);
  // A stream of what is not there tells nothing.
  const values = route.stream === true ? all.filter((value) => value !== 'gone') : all;
  return values.map((value) => `?${name}=${encodeURIComponent(value)}`);
}

/** What was called, by how: of a list below a thing, and of one that goes on, it says how much it told. */
export interface Called {
  readonly lists: string[];
  readonly below: string[];
  readonly secondPages: string[];
  readonly flowing: string[];
}

/** Calls everything that is read: as it is, with each filter, and where an answer has more the page after it. */
export async function callLists(
  daemon: Pick<TestDaemon, 'api' | 'url' | 'token'>,
  routes: readonly Route[],
  of: Lists,
): Promise<Called> {
  const called: Called = { lists: [], below: [], secondPages: [], flowing: [] };
  const wanted = routes.filter(
    (route) => route.method === 'GET' && route.scope !== 'public' && !passedOver.test(route.path),
  );
  const left = [...wanted];
  const work = async (): Promise<void> => {
    for (let route = left.shift(); route !== undefined; route = left.shift())
      await callRoute(daemon, route, of, called);
  };
  // Some at a time: each waits for the database for most of its time.
  await Promise.all([work(), work(), work()]);
  return called;
}

async function callRoute(
  daemon: Pick<TestDaemon, 'api' | 'url' | 'token'>,
  route: Route,
  { long, common, projects }: Lists,
  called: Called,
): Promise<void> {
  const isLong = isList(route) || route.stream === true || route.lines === true;
  const isBelow = /:(?!org\b|project\b)/.test(route.path);
  for (const project of projects) {
    const path = pathOf(route, { ...(isLong ? long : common), projects: project });
    // What is below a thing is that thing's, which is in one project; where nothing happens a stream tells nothing.
    const isOfOne = isBelow || route.stream === true || !route.path.includes(':project');
    if (project !== projects[0] && isOfOne) continue;
    let answered = 0;
    for (const query of queriesOf(route)) {
      if (route.stream === true || route.lines === true) answered += await readSome(daemon, `${path}${query}`, route);
      else answered += await readPages(daemon, path, query, called);
    }
    assert.ok(answered > 0 || route.lines === true, `${path} answers nothing`);
    if (route.stream === true || route.lines === true) called.flowing.push(`${path} ${answered}`);
    else called.lists.push(path);
    if (isBelow && isList(route)) called.below.push(path);
  }
}

/** Again where a busy machine did not answer within a call's time: what is asked is what it looks at. */
async function read(api: TestDaemon['api'], path: string): Promise<ApiAnswer> {
  let answer = await api('GET', path);
  for (let tries = 0; answer.status === 503 && tries < 10; tries += 1) answer = await api('GET', path);
  return answer;
}

/** How many of the pages were answered. */
async function readPages(
  { api }: Pick<TestDaemon, 'api'>,
  path: string,
  query: string,
  called: Called,
): Promise<number> {
  const { status, body } = await read(api, `${path}${query}`);
  assert.ok(status < 500, `${path}${query}: ${status}`);
  if (status !== 200) return 0;
  const next = (body as { readonly nextCursor?: unknown } | undefined)?.nextCursor;
  if (typeof next !== 'string') return 1;
  const more = `${path}${query}${query === '' ? '?' : '&'}cursor=${encodeURIComponent(next)}`;
  const second = await read(api, more);
  assert.equal(second.status, 200, `${more}: ${JSON.stringify(second.body)}`);
  called.secondPages.push(`${path}${query}`);
  return 2;
}

/** Reads an answer that goes on: the first few pages of it, or the first that there is. How many it told. */
async function readSome(
  { url, token }: Pick<TestDaemon, 'url' | 'token'>,
  path: string,
  route: Route,
): Promise<number> {
  const stop = new AbortController();
  // From the first on, or from a time: who says neither is told of nothing that has been.
  const resumes = route.stream === true && !path.includes('since=');
  const headers = { authorization: `Bearer ${token}`, ...(resumes && { 'last-event-id': '0' }) };
  const open = (): Promise<Response> => fetch(`${url}${path}`, { headers, signal: stop.signal });
  let response = await open();
  for (let tries = 0; response.status === 503 && tries < 10; tries += 1) {
    await response.body?.cancel();
    response = await open();
  }
  assert.equal(response.status, 200, path);
  const [mark, most] = route.stream === true ? [/^data: /gm, answersRead.event] : [/\n/g, answersRead.line];
  let told = 0;
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    told += piece.match(mark)?.length ?? 0;
    const isOver = told >= most || (told > 0 && route.stream === true && !route.path.includes('/sessions/'));
    if (isOver) break;
  }
  stop.abort();
  return told;
}
