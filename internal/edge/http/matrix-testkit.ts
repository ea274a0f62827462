// The world of the authorisation matrix: three organizations with two projects each, one principal of every kind, and
// things in every project whose names say where they lie. Also the oracle: what the table and the roles say that a
// principal is answered, written a second time and without the code under test. Only tests import this.

import { createHash } from 'node:crypto';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import type { TestDaemon } from '../../base/testkit/daemon.ts';
import {
  orgRoles,
  type OrgRole,
  type Permission,
  type ProjectRole,
  projectRoles,
  selfPermissions,
} from '../../domain/permission.ts';
import type { Route } from './route.ts';

export const orgs = ['alpha', 'beta', 'gamma'] as const;
export const projects = ['one', 'two'] as const;
export type Org = (typeof orgs)[number];
export type Where = `${Org}/${(typeof projects)[number]}`;

export interface Who {
  readonly name: string;
  /** Undefined: sends none. */
  readonly token: string | undefined;
  readonly live: boolean;
  readonly kind: 'user' | 'service_account';
  /** The organization that a service account is of. */
  readonly home?: Org;
  readonly inOrg: { readonly [org in Org]?: OrgRole };
  readonly inProject: { readonly [where in Where]?: ProjectRole };
  /** The one organization that the token opens. */
  readonly only?: Org;
  /** Administers the organization that the installation began with, which is none of the three. */
  readonly isFirst?: true;
}

const token = (name: string): string => `svc_${createHash('sha256').update(name).digest('base64url').slice(0, 43)}`;
const person = (name: string, inOrg: Who['inOrg'], inProject: Who['inProject'] = {}): Who => ({
  name,
  token: token(name),
  live: true,
  kind: 'user',
  inOrg,
  inProject,
});
const robot = (name: string, home: Org, inProject: Who['inProject'] = {}): Who => ({
  ...person(name, {}, inProject),
  kind: 'service_account',
  home,
});
const admin = { alpha: 'admin' } as const;

/** Seen from alpha/one; everybody else is far from it in one way or another. */
export const everybody: readonly Who[] = [
  person('org-admin', admin),
  person('org-member', { alpha: 'member' }),
  person('viewer', { alpha: 'member' }, { 'alpha/one': 'viewer' }),
  person('operator', { alpha: 'member' }, { 'alpha/one': 'operator' }),
  person('project-admin', { alpha: 'member' }, { 'alpha/one': 'admin' }),
  person('of-two-orgs', { alpha: 'member', beta: 'admin' }, { 'alpha/two': 'viewer' }),
  person('outsider', { beta: 'admin' }),
  person('nobody', {}),
  { ...person('installer', {}), isFirst: true },
  robot('robot', 'alpha'),
  robot('robot-operator', 'alpha', { 'alpha/one': 'operator' }),
  { ...person('limited', { alpha: 'admin', beta: 'admin' }), only: 'beta' },
  { ...person('expired', admin), live: false },
  { ...person('revoked', admin), live: false },
  { ...person('disabled', admin), live: false },
  { ...person('unknown', {}), live: false },
  { ...person('no-token', {}), token: undefined, live: false },
];

export interface World {
  readonly ids: ReadonlyMap<Org | Where, string>;
  /** Names and ids of what lies in beta, none of which exists for anybody outside. */
  readonly foreign: readonly string[];
}

const strangers = new Set(['unknown', 'no-token']);

/** Fills the database of a daemon. What the world's things are made of is made by the API. */
export async function createWorld(daemon: TestDaemon, table: readonly Route[]): Promise<World> {
  const { db } = daemon.database;
  const ids = new Map<Org | Where, string>();
  for (const org of orgs) {
    const { body } = await daemon.api('POST', '/api/v1/orgs', { slug: org, name: `Org ${org}` });
    ids.set(org, String(body['id']));
    for (const slug of projects) {
      const made = await daemon.api('POST', `/api/v1/orgs/${org}/projects`, { slug, name: `Mark-${org}-${slug}` });
      ids.set(`${org}/${slug}`, String(made.body['id']));
    }
  }
  for (const who of everybody.filter((one) => !strangers.has(one.name))) {
    const { rows } = await db.query<{ id: string }>(
      `insert into svc.principals (kind, org_id, name, disabled_at)
       values ($1::text, $2::uuid, $3::text, case when $3::text = 'disabled' then now() end) returning id`,
      [who.kind, who.home === undefined ? null : (ids.get(who.home) ?? null), who.name],
    );
    const id = rows[0]?.id ?? '';
    for (const [org, role] of Object.entries(who.inOrg))
      await db.query(`insert into svc.org_members values ($1::uuid, $2::uuid, $3::text)`, [
        ids.get(org as Org),
        id,
        role,
      ]);
    if (who.isFirst)
      await db.query(`insert into svc.org_members select id, $1::uuid, 'admin' from svc.orgs where slug = 'default'`, [
        id,
      ]);
    for (const [where, role] of Object.entries(who.inProject))
      await db.query(`insert into svc.project_members values ($1::uuid, $2::uuid, $3::text)`, [
        ids.get(where as Where),
        id,
        role,
      ]);
    await db.query(
      `insert into svc.api_tokens (principal_id, token_sha256, name, org_id, expires_at, revoked_at)
       values ($1::uuid, $2::bytea, $3::text, $4::uuid, case when $3::text = 'expired' then now() end,
         case when $3::text = 'revoked' then now() end)`,
      [
        id,
        createHash('sha256')
          .update(who.token ?? '')
          .digest(),
        who.name,
        who.only === undefined ? null : ids.get(who.only),
      ],
    );
  }
  const foreign: string[] = [];
  for (const org of orgs) foreign.push(...(await fill(daemon, table, org)));
  return { ids, foreign };
}

const agentFile = (name: string): string =>
  JSON.stringify({
    name,
    harness: 'harness-a',
    environment: { name: `${name}-env`, image: { kind: 'preset', name: 'base' } },
    triggers: [
      { kind: 'heartbeat', cron: '0 7 * * *', timezone: 'UTC', message: 'm', routing: { kind: 'spawn' } },
      { event: 'webhook.received', endpoint: `${name}-hook`, auth: { kind: 'none' }, routing: { kind: 'spawn' } },
    ],
  });

/** Things in both projects of an organization; answers with beta's names and ids. */
async function fill(daemon: TestDaemon, table: readonly Route[], org: Org): Promise<string[]> {
  const found: string[] = [];
  const make = async (method: string, path: string, body: unknown): Promise<void> => {
    const pattern = path
      .replace(/^\/api\/v1\/orgs\/[^/]+/, '/api/v1/orgs/:org')
      .replace(/projects\/[^/]+/, 'projects/:project');
    const known = table.some((route) => {
      const shape = new RegExp(`^${route.path.replaceAll(/:(?!org|project)\w+/g, '[^/]+')}$`);
      return route.method === method && shape.test(pattern);
    });
    if (!known) return;
    const answer = await daemon.api(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    for (const key of ['id', 'name', 'resourceId', 'slug', 'principalId', 'applyId'])
      if (typeof answer.body?.[key] === 'string') found.push(String(answer.body[key]));
  };
  const at = `/api/v1/orgs/${org}`;
  await make('POST', `${at}/service-accounts`, { name: `Mark-${org}-robot` });
  await make('POST', `${at}/tokens`, { serviceAccount: `Mark-${org}-robot`, name: `Mark-${org}-token` });
  await make('POST', `${at}/members`, { email: `mark-${org}@example.com`, name: `Mark-${org}-person` });
  await make('PUT', `${at}/secrets/Mark-${org}-secret`, { value: 'hush' });
  for (const project of projects) {
    const mark = `Mark-${org}-${project}`;
    const P = `${at}/projects/${project}`;
    await make('POST', `${P}/members`, { email: `mark-${org}@example.com`, role: 'viewer' });
    await make('POST', `${P}/apply`, { files: [{ path: '.svc/agents/a.json', content: agentFile(`${mark}-agent`) }] });
    await make('POST', `${P}/endpoints`, { name: `${mark}-endpoint` });
    await make('POST', `${P}/repositories`, { name: `${mark}-repository`, path: `/nowhere/${mark}`, suspended: true });
    await make('PUT', `${P}/secrets/${mark}-secret`, { value: 'hush', protected: false });
    const credentials = { webhookSecret: 'hush-hush-hush-hush' };
    await make('POST', `${P}/connections`, { provider: 'codehost', name: `${mark}-connection`, credentials });
    const url = 'https://receiver.example/hook';
    await make('POST', `${P}/receivers`, { name: `${mark}-receiver`, kind: 'webhook', url, secret: 'hush' });
    const hook = await daemon.api('GET', `${P}/endpoints/${mark}-agent-hook`);
    const sent = await daemon.api('POST', `/api/v1/webhook-endpoints/${String(hook.body['slug'])}/events`, {});
    found.push(String(sent.body['eventRecordId']));
    await make('POST', `${P}/agents/${mark}-agent/sessions`, { message: 'Mark' });
    const runs = await daemon.api('GET', `${P}/reconciles`);
    found.push(`${mark}-agent`, ...(runs.body['items'] as unknown as { id: string }[]).map((run) => run.id));
  }
  return org === 'beta' ? [...new Set(found)] : [];
}

/** What the caller is told: `pass` for whoever may. */
export type Verdict = 401 | 404 | 403 | 'pass';

/** What a route's entry says for a principal at a place; undefined for what does not exist. */
export function verdict(route: Route, who: Who, org: Org | undefined, where: Where | undefined): Verdict {
  if (route.scope === 'public') return 'pass';
  if (!who.live) return 401;
  const held = new Set<Permission>(selfPermissions.filter((one) => mayAnywhere(who, one)));
  if (route.scope !== 'self') {
    const isOpen = org !== undefined && (who.only === undefined || who.only === org);
    const inSome = Object.keys(who.inProject).some((one) => one.startsWith(`${org}/`));
    const isSeen = isOpen && (who.inOrg[org] !== undefined || who.home === org || inSome);
    if (!isSeen) return 404;
    const role = who.inOrg[org] ?? 'member';
    const inProject = where === undefined ? undefined : role === 'admin' ? 'admin' : who.inProject[where];
    if (route.scope === 'project' && inProject === undefined) return 404;
    const granted = route.scope === 'org' ? orgRoles[role] : projectRoles[inProject ?? 'viewer'];
    for (const permission of granted) held.add(permission);
  }
  return route.permission !== null && held.has(route.permission) ? 'pass' : 403;
}

function mayAnywhere(who: Who, permission: Permission): boolean {
  if (['keys:rotate', 'jobs:retry', 'folders:add'].includes(permission)) return who.isFirst === true;
  const isAdmin = who.isFirst === true || Object.values(who.inOrg).includes('admin');
  return permission !== 'orgs:create' || (who.kind === 'user' && who.only === undefined && isAdmin);
}

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}
export type Send = (
  method: string,
  path: string,
  who: Who,
  extra?: { readonly headers?: { readonly [name: string]: string }; readonly body?: string },
) => Promise<Reply>;

/** A client that sends a path as it is written, over connections that it keeps. */
export function createSender(url: string): { readonly send: Send; close(): void } {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const { hostname, port } = new URL(url);
  const send: Send = (method, path, who, extra = {}) =>
    new Promise((resolve, reject) => {
      const headers = {
        // The same in every request, so that answers can be compared byte by byte.
        'x-request-id': 'matrix',
        ...(who.token !== undefined && { authorization: `Bearer ${who.token}` }),
        ...(extra.body !== undefined && {
          'content-type': 'application/json',
          'content-length': String(Buffer.byteLength(extra.body)),
        }),
        ...extra.headers,
      };
      const outgoing = request({ agent, hostname, port, method, path, headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString() }),
        );
      });
      outgoing.on('error', reject);
      outgoing.end(extra.body);
    });
  return { send, close: () => agent.destroy() };
}

/** Runs `work` on every item, 16 at a time. */
export async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  const lanes = Array.from({ length: 16 }, async () => {
    for (const item of rest) await work(item);
  });
  await Promise.all(lanes);
}
