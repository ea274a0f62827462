// The push event, from the provider's field names to ours, and the one form of a repository address.

import type { Json, JsonObject } from '../../../words/json.ts';

const object = (value: Json | undefined): JsonObject =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as JsonObject) : {};
const text = (value: Json | undefined): string | undefined => (typeof value === 'string' ? value : undefined);
const list = (value: Json | undefined): readonly Json[] => (Array.isArray(value) ? (value as readonly Json[]) : []);

/** Leaves out what is undefined, so that a field that does not apply is absent. */
function present(entries: { readonly [key: string]: Json | undefined }): JsonObject {
  return Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined));
}

/**
 * One form of a repository address: host and path, lower case, without scheme, user, `.git` and trailing slashes.
 * `https://Host/Owner/Repo.git`, `ssh://git@host/owner/repo` and `git@host:owner/repo.git` are one key. A port other
 * than the scheme's own stays. Undefined for what is not an address.
 */
export function addressKey(address: string): string | undefined {
  const scp = /^(?:[^@/\s]+@)?([A-Za-z0-9.-]+):(?!\/\/)(?!\d+\/)([^\s]+)$/.exec(address);
  const url = scp ? URL.parse(`ssh://${scp[1]}/${scp[2]}`) : URL.parse(address);
  if (url === null || url.host === '') return undefined;
  const path = url.pathname.replace(/\/+$/, '').replace(/\.git$/i, '');
  if (path === '') return undefined;
  return `${url.host}${path}`.toLowerCase();
}

/** Every address under which the body names its repository, as keys. */
export function addressKeys(body: JsonObject): string[] {
  const repository = object(body['repository']);
  const keys = ['clone_url', 'html_url', 'ssh_url', 'git_url', 'url']
    .map((field) => text(repository[field]))
    .map((address) => (address === undefined ? undefined : addressKey(address)));
  return [...new Set(keys.filter((key) => key !== undefined))];
}

function commitOf(value: Json): JsonObject {
  const commit = object(value);
  const author = object(commit['author']);
  return present({
    id: commit['id'],
    message: commit['message'],
    author: text(author['username']) ?? text(author['name']),
    added: list(commit['added']),
    removed: list(commit['removed']),
    modified: list(commit['modified']),
  });
}

function repositoryOf(value: Json | undefined): JsonObject {
  const repository = object(value);
  const fullName = text(repository['full_name']) ?? '';
  const owner = object(repository['owner']);
  return present({
    id: repository['id'],
    fullName,
    owner: text(owner['login']) ?? text(owner['name']) ?? fullName.split('/')[0],
    name: repository['name'] ?? fullName.split('/').at(-1),
    private: repository['private'],
    defaultBranch: repository['default_branch'] ?? repository['master_branch'],
    htmlUrl: repository['html_url'],
  });
}

export interface Push {
  readonly payload: JsonObject;
  readonly fullName: string;
  /** Absent when the ref is a tag. */
  readonly branch: string | undefined;
  readonly defaultBranch: string | undefined;
  readonly after: string | undefined;
  readonly deleted: boolean;
}

/** The normalized payload of a push (contract, section 4), or undefined where the body is not one. */
export function pushPayload(deliveryId: string, body: JsonObject): Push | undefined {
  const ref = text(body['ref']);
  const repository = repositoryOf(body['repository']);
  const fullName = text(repository['fullName']);
  if (ref === undefined || fullName === undefined || fullName === '') return undefined;
  const branch = ref.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : undefined;
  const deleted = body['deleted'] === true;
  const sender = object(body['sender']);
  const after = text(body['after']);
  const svc = { authored: false, externalBot: sender['type'] === 'Bot', mentioned: false };
  const payload: JsonObject = {
    codehost: present({
      event: 'push',
      deliveryId,
      installationId: object(body['installation'])['id'],
      repository,
      sender: present({ id: sender['id'], login: sender['login'], type: sender['type'] }),
      push: present({
        ref,
        branch,
        before: body['before'],
        after,
        created: body['created'] === true,
        deleted,
        forced: body['forced'] === true,
        commits: list(body['commits']).map(commitOf),
      }),
      svc,
    }),
    svc: { authored: false },
    raw: body,
  };
  return { payload, fullName, branch, defaultBranch: text(repository['defaultBranch']), after, deleted };
}
