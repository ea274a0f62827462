// `svc __names KIND [WORD]`: names for a shell to complete, one a line. It is asked while somebody types, so it loads no
// table, no client and no grammar that it does not need, waits two seconds at most, and says nothing where it knows nothing.

import { get as getPlain } from 'node:http';
import { contextsFile, findServer } from './settings.ts';
import type { CliIo } from './io.ts';

const waitMs = 2_000;
const most = 200;

/** Where the names of a kind are listed, below the project unless they begin with a slash. */
const lists: { readonly [kind: string]: string } = {
  agent: 'agents',
  repo: 'repositories',
  reconcile: 'reconciles',
  endpoint: 'endpoints',
  secret: 'secrets',
  connection: 'connections',
  event: 'events',
  session: 'sessions?live=true',
  binding: 'bindings',
  project: '/api/v1/orgs/:org/projects',
  org: '/api/v1/orgs',
  account: '/api/v1/orgs/:org/service-accounts',
  token: '/api/v1/tokens',
};

export async function printNames(argv: readonly string[], io: CliIo): Promise<number> {
  const [kind = '', word = ''] = argv;
  const names = await namesOf(kind, word, io).catch(() => []);
  if (names.length > 0) io.stdout.write(`${names.join('\n')}\n`);
  return 0;
}

async function namesOf(kind: string, word: string, io: CliIo): Promise<readonly string[]> {
  if (kind === 'kind') return (await import('./command-get.ts')).kinds.map(({ names }) => names[0] ?? '');
  if (kind === 'field') return (await import('../../../schemas/explain.ts')).fieldPaths();
  if (kind === 'event-key') return [...(await import('../../domain/events.ts')).knownEvents].sort();
  const call = { io, global: () => undefined };
  if (kind === 'context') {
    const { readContexts } = await import('./contexts.ts');
    return ['local', ...Object.keys((await readContexts(await contextsFile(call))).contexts)];
  }
  if (kind === 'name-of-kind') {
    const { kinds } = await import('./command-get.ts');
    const found = kinds.find(({ names }) => names.includes(word));
    return found === undefined ? [] : listed(found.list.split(' ')[0] ?? '', call);
  }
  return listed(kind, call);
}

async function listed(kind: string, call: Parameters<typeof findServer>[0]): Promise<readonly string[]> {
  const list = Object.hasOwn(lists, kind) ? lists[kind] : undefined;
  if (list === undefined) return [];
  const { url, token, org, project } = await findServer(call);
  if (token === undefined) return [];
  const below = list.startsWith('/') ? list : `/api/v1/orgs/:org/projects/:project/${list}`;
  const path = below.replace(':org', encodeURIComponent(org)).replace(':project', encodeURIComponent(project));
  const text = await read(`${url}${path}${path.includes('?') ? '&' : '?'}limit=${most}`, token);
  const { items } = Object(JSON.parse(text)) as { readonly items?: readonly { [member: string]: unknown }[] };
  // A token is revoked by its id alone.
  const isById = kind === 'token';
  return (items ?? [])
    .map(({ slug, name, id }) => (isById ? id : (slug ?? name ?? id)))
    .filter((name) => typeof name === 'string')
    .filter((name) => /^[\w.@:/-]+$/.test(name));
}

/** By the plain client of Node, which takes a third of the time that `fetch` takes to load. */
async function read(url: string, token: string): Promise<string> {
  const get = url.startsWith('https:') ? (await import('node:https')).get : getPlain;
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, accept: 'application/json' };
    const request = get(url, { headers, timeout: waitMs }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      response.on('end', () => (response.statusCode === 200 ? resolve(text) : reject(new Error('refused'))));
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', reject);
  });
}
