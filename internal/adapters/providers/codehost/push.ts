// The push event, from the provider's field names to ours, and the one form of a repository address.

import { endlessMs, listAt, objectAt, presentOf, textAt } from '../../../domain/fields.ts';
import type { Json, JsonObject } from '../../../domain/json.ts';
import { withoutEnd } from '../../../domain/text.ts';

/**
 * One form of a repository address: host and path, lower case, without scheme, user, `.git` and trailing slashes.
 * `https://Host/Owner/Repo.git`, `ssh://git@host/owner/repo` and `git@host:owner/repo.git` are one key. A port other
 * than the scheme's own stays. Undefined for what is not an address.
 */
export function addressKey(address: string): string | undefined {
  const scp = /^(?:[^@/\s]+@)?([A-Za-z0-9.-]+):(?!\/\/)(?!\d+\/)([^\s]+)$/.exec(address);
  const url = scp ? URL.parse(`ssh://${scp[1]}/${scp[2]}`) : URL.parse(address);
  if (url === null || url.host === '') return undefined;
  const path = withoutEnd(url.pathname, '/').replace(/\.git$/i, '');
  if (path === '') return undefined;
  return `${url.host}${path}`.toLowerCase();
}

/** Every address under which the body names its repository, as keys. */
function addressKeys(body: JsonObject): string[] {
  const repository = objectAt(body['repository']);
  const keys = ['clone_url', 'html_url', 'ssh_url', 'git_url', 'url']
    .map((field) => textAt(repository[field]))
    .map((address) => (address === undefined ? undefined : addressKey(address)));
  return [...new Set(keys.filter((key) => key !== undefined))];
}

function commitOf(value: Json): JsonObject {
  const commit = objectAt(value);
  const author = objectAt(commit['author']);
  return presentOf({
    id: commit['id'],
    message: commit['message'],
    author: textAt(author['username']) ?? textAt(author['name']),
    added: listAt(commit['added']),
    removed: listAt(commit['removed']),
    modified: listAt(commit['modified']),
  });
}

/** What a push says about who should look: a hint, never the truth (the server's own refs are). */
export interface PushHint {
  /** Normalised addresses of the repository, see `addressKey`. */
  readonly addresses: readonly string[];
  /** `owner/name`, lower case. */
  readonly fullName: string;
  readonly branch: string;
  readonly defaultBranch: string | undefined;
  /** Absent when the push deleted the branch. */
  readonly commit: string | undefined;
}

/** What a pull request's delivery says about whom its plan concerns. */
export interface PullHint {
  /** Normalised addresses of the repository that it is to be merged into, see `addressKey`. */
  readonly addresses: readonly string[];
  /** `owner/name`, as the provider spells it. */
  readonly fullName: string;
  readonly number: number;
  readonly head: string;
  /** The branch that it is to be merged into. */
  readonly base: string;
  readonly defaultBranch: string | undefined;
  /** Its head is of another repository. */
  readonly isFork: boolean;
  readonly isOpen: boolean;
  /** When it was so. */
  readonly at: Date | undefined;
}

/** Actions after which a pull request may change other files, or is over. */
const planned = new Set(['opened', 'reopened', 'synchronize', 'edited', 'ready_for_review', 'closed']);

/** As the database numbers them. */
const numberMax = 2 ** 31 - 1;

const isNumber = (value: Json | undefined): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= numberMax;

/** Undefined for what is no time that a pull request can have. */
function timeOf(value: Json | undefined): Date | undefined {
  const at = new Date(textAt(value) ?? Number.NaN);
  return at.getTime() >= 0 && at.getTime() < endlessMs ? at : undefined;
}

/** Undefined where nothing about its plan can have changed. */
export function pullHintOf(
  body: JsonObject,
  fullName: string,
  defaultBranch: string | undefined,
): PullHint | undefined {
  const pull = objectAt(body['pull_request']);
  const [head, base] = [objectAt(pull['head']), objectAt(pull['base'])];
  const { number } = pull;
  const [sha, ref] = [textAt(head['sha']), textAt(base['ref'])];
  if (!planned.has(textAt(body['action']) ?? '') || !isNumber(number)) return undefined;
  if (sha === undefined || ref === undefined || !/^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(sha)) return undefined;
  const from = textAt(objectAt(head['repo'])['full_name']);
  return {
    addresses: addressKeys(body),
    fullName,
    number,
    head: sha,
    base: ref,
    defaultBranch,
    // A fork that was deleted has no repository.
    isFork: from?.toLowerCase() !== fullName.toLowerCase(),
    isOpen: body['action'] !== 'closed' && pull['state'] !== 'closed',
    at: timeOf(pull['updated_at']),
  };
}

const branchOf = (body: JsonObject): string | undefined => {
  const ref = textAt(body['ref']);
  return ref?.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : undefined;
};

/** The push in the neutral words (docs/reference/connections.md#intakes), or undefined where the body is none. */
export function pushOf(body: JsonObject): JsonObject | undefined {
  const ref = textAt(body['ref']);
  if (ref === undefined) return undefined;
  return presentOf({
    ref,
    branch: branchOf(body),
    before: body['before'],
    after: textAt(body['after']),
    created: body['created'] === true,
    deleted: body['deleted'] === true,
    forced: body['forced'] === true,
    commits: listAt(body['commits']).map(commitOf),
  });
}

/** Whom a push of a branch concerns; undefined for a tag. */
export function pushHintOf(
  body: JsonObject,
  fullName: string,
  defaultBranch: string | undefined,
): PushHint | undefined {
  const branch = branchOf(body);
  if (branch === undefined) return undefined;
  return {
    addresses: addressKeys(body),
    fullName: fullName.toLowerCase(),
    branch,
    defaultBranch,
    commit: body['deleted'] === true ? undefined : textAt(body['after']),
  };
}
