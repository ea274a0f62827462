// What a call of the code host may touch, decided before anything is asked of anybody: the repository has to be a mount's,
// and the mount has to have the capability. Names match in any case and are used as the mount spells them.

import type { AgentSpec, Mount } from '../../domain/spec.ts';
import { outsideFault } from '../../domain/outside.ts';
import type { Permissions } from '../installation-token.ts';

type App = Extract<Mount['auth'], { kind: 'codehostApp' }>;
export type AppMount = Mount & { readonly auth: App };
type Capability = keyof App['capabilities'];
type Level = 'read' | 'write';

/**
 * `contents:read`; `merge:write` is a capability without a permission of its own; `statuses:read` and
 * `environments:write` are permissions of the capabilities checks and secrets; `talk:write` is issues where the mount has
 * them, else pull requests; one with `?` is asked for where the mount has it.
 */
export type Want =
  | `${'contents' | 'pullRequests' | 'issues' | 'checks' | 'actions' | 'workflows' | 'secrets' | 'merge' | 'statuses' | 'environments' | 'talk'}:${Level}`
  | `workflows:write?`;

const permissionsTable: { readonly [want: string]: { readonly capability: Capability; readonly permission?: string } } =
  {
    contents: { capability: 'contents', permission: 'contents' },
    pullRequests: { capability: 'pullRequests', permission: 'pull_requests' },
    issues: { capability: 'issues', permission: 'issues' },
    checks: { capability: 'checks', permission: 'checks' },
    statuses: { capability: 'checks', permission: 'statuses' },
    actions: { capability: 'actions', permission: 'actions' },
    workflows: { capability: 'workflows', permission: 'workflows' },
    secrets: { capability: 'secrets', permission: 'secrets' },
    environments: { capability: 'secrets', permission: 'environments' },
    merge: { capability: 'merge' },
  };

const isApp = (mount: Mount): mount is AppMount => mount.auth.kind === 'codehostApp';
/** Only ASCII: other letters that fold to one of it are other names. */
const folded = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
export const isSameRepository = (one: string, other: string): boolean => folded(one) === folded(other);

export const hasCapability = ({ auth }: AppMount, capability: string, level: string): boolean => {
  const has = auth.capabilities[capability as Capability];
  return has === 'write' || (has === 'read' && level === 'read');
};

/** The mounts that name a repository; those of no application serve no call. */
export const mountsOf = (spec: Pick<AgentSpec, 'mounts'>, owner: string, repo: string): AppMount[] =>
  spec.mounts.filter(isApp).filter((mount) => isSameRepository(mount.repository, `${owner}/${repo}`));

/** Every repository once, with the mount of it that may do this. */
export function mountsWith(spec: Pick<AgentSpec, 'mounts'>, wants: readonly Want[]): AppMount[] {
  const found = new Map<string, AppMount>();
  for (const mount of spec.mounts.filter(isApp)) {
    const key = folded(mount.repository);
    if (!found.has(key) && permissionsFor(mount, wants) !== undefined) found.set(key, mount);
  }
  return [...found.values()];
}

/** The permissions that a mount gives for these wants; undefined where it lacks one. */
export function permissionsFor(mount: AppMount, wants: readonly Want[]): Permissions | undefined {
  const given: { [permission: string]: Level } = {};
  for (const want of wants) {
    const [name = '', level = ''] = want.replace('?', '').split(':');
    const chosen = name === 'talk' ? (hasCapability(mount, 'issues', level) ? 'issues' : 'pullRequests') : name;
    const { capability, permission } = permissionsTable[chosen] ?? { capability: 'contents' };
    if (!hasCapability(mount, capability, level)) {
      if (want.endsWith('?')) continue;
      return undefined;
    }
    if (permission !== undefined && given[permission] !== 'write') given[permission] = level as Level;
  }
  return given;
}

/** The mount that may do this to a repository. Throws Fault `repository-not-mounted` or `capability-missing`. */
export function confine(
  spec: Pick<AgentSpec, 'mounts'>,
  { owner, repo }: { readonly owner: string; readonly repo: string },
  wants: readonly Want[],
): { readonly mount: AppMount; readonly permissions: Permissions } {
  const mounts = mountsOf(spec, owner, repo);
  if (mounts.length === 0) {
    throw outsideFault('repository-not-mounted', 'no mount of this session is that repository');
  }
  for (const mount of mounts) {
    const permissions = permissionsFor(mount, wants);
    if (permissions !== undefined) return { mount, permissions };
  }
  throw missing(wants);
}

/** The Fault `capability-missing`, naming each capability that is wanted; those with `?` are no condition. */
export function missing(wants: readonly Want[]) {
  const named = wants
    .filter((want) => !want.endsWith('?'))
    .map((want) =>
      want.replace('statuses', 'checks').replace('environments', 'secrets').replace('talk', 'issues or pullRequests'),
    )
    .map((want) => want.replace(':', ': '));
  return outsideFault('capability-missing', `the mount does not have ${[...new Set(named)].join(', ')}`);
}

/**
 * Throws Fault `invalid-input` for an address with a step of dots: whatever name it was made of, it would be read as one
 * of elsewhere, beyond the repository too.
 */
export function checkSteps(path: string): void {
  if (path.split('/').some((step) => /^(?:\.|%2e){1,2}$/i.test(step))) {
    throw outsideFault('invalid-input', 'a name may not be . or .., nor hold one between slashes; nothing was sent');
  }
}

const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;

/** Throws Fault `invalid-input` for a query that says where to search; quoted, the words are words. */
export function checkQuery(query: string): void {
  if (control.test(query)) throw outsideFault('invalid-input', 'query: holds control characters');
  const quotes = query.split('"').length - 1;
  if (quotes % 2 === 1 || query.includes('\\"'))
    throw outsideFault('invalid-input', 'query: a quote is not closed, or is escaped');
  const bare = query.replace(/"[^"]*"/g, ' "" ');
  if (
    /(?:^|\W)(?:repo|org|user|owner)\s*:/i.test(bare) ||
    /(?:^|\W)(?:OR|NOT)(?=\W|$)/.test(bare) ||
    /[()]/.test(bare)
  ) {
    throw outsideFault(
      'invalid-input',
      'query: repo:, org:, user:, owner:, OR, NOT and parentheses are not taken; quote words',
    );
  }
}
