// What the simulated code host holds: repositories as bare git repositories on disk, and beside them issues, pull requests,
// comments, reviews, checks, runs and secrets, in memory. Ids are one number for everything.

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { type GitFixture, runGit } from './git-fixture.ts';

export interface Actor {
  readonly login: string;
  readonly id: number;
  readonly type: 'User' | 'Bot';
}
export interface Comment {
  readonly id: number;
  readonly number: number;
  readonly user: Actor;
  readonly created: string;
  readonly path?: string;
  readonly line?: number | null;
  readonly reviewId?: number;
  readonly inReplyTo?: number;
  readonly threadId?: number;
  readonly reactions: { id: number; content: string; user: Actor }[];
  body: string;
}
export interface Thread {
  readonly id: number;
  readonly number: number;
  readonly path: string;
  resolved: boolean;
}
export interface Review {
  readonly id: number;
  readonly number: number;
  readonly user: Actor;
  readonly body: string;
  readonly state: string;
  readonly commitId: string;
  readonly at: string;
}
export interface Issue {
  readonly id: number;
  readonly number: number;
  readonly user: Actor;
  readonly created: string;
  readonly reactions: { id: number; content: string; user: Actor }[];
  readonly subIssues: number[];
  readonly blockedBy: number[];
  updated: string;
  title: string;
  body: string;
  state: 'open' | 'closed';
  stateReason: string | null;
  labels: string[];
  assignees: string[];
  milestone: number | null;
  type: string | null;
  parent?: number;
  pull?: Pull;
}
export interface Pull {
  readonly head: string;
  base: string;
  draft: boolean;
  merged: boolean;
  mergeSha?: string;
  autoMerge: string | null;
  reviewers: string[];
  mergeable: boolean | null;
  /** Its head is in another repository. */
  fork?: boolean;
  /** Of a pull request that is over: what it was when it ended. */
  headSha?: string;
}
export interface CheckRun {
  readonly id: number;
  readonly annotations: unknown[];
  fields: { [key: string]: unknown };
}
export interface Run {
  readonly id: number;
  readonly workflowId: number;
  name: string;
  status: string;
  conclusion: string | null;
  headSha: string;
  headBranch: string;
  attempt: number;
  jobs: { id: number; name: string; status: string; conclusion: string | null; log: string }[];
}

export class SimRepository {
  readonly id: number;
  readonly owner: string;
  name: string;
  readonly git: GitFixture;
  private = true;
  /** A repository that was renamed answers 301. */
  movedTo: string | undefined;
  readonly issues = new Map<number, Issue>();
  readonly comments: Comment[] = [];
  readonly reviewComments: Comment[] = [];
  readonly threads: Thread[] = [];
  readonly reviews: Review[] = [];
  readonly labels = new Map<string, { name: string; color: string; description: string | null }>();
  /** Logins as their accounts spell them. */
  readonly people: string[] = [];
  readonly checks: CheckRun[] = [];
  readonly statuses: { sha: string; id: number; fields: { [key: string]: unknown }; user: Actor }[] = [];
  readonly runs: Run[] = [];
  readonly workflows: { id: number; name: string; path: string; state: string }[] = [];
  readonly releases: { id: number; tag_name: string; name: string; body: string; draft: boolean }[] = [];
  /** By environment, the empty name being the repository itself: name → sealed value. */
  readonly secrets = new Map<string, Map<string, { sealed: string; created: string; updated: string }>>();
  readonly secretKey = { id: randomBytes(8).toString('hex'), publicKey: '', privateKey: '' };
  #last = 0;

  constructor(of: { readonly id: number; readonly owner: string; readonly name: string; readonly git: GitFixture }) {
    this.id = of.id;
    this.owner = of.owner;
    this.name = of.name;
    this.git = of.git;
    // X25519, as raw bytes: the last 32 of the encodings.
    const pair = generateKeyPairSync('x25519');
    const tail = (bytes: Buffer): string => bytes.subarray(-32).toString('base64');
    this.secretKey.publicKey = tail(pair.publicKey.export({ type: 'spki', format: 'der' }));
    this.secretKey.privateKey = tail(pair.privateKey.export({ type: 'pkcs8', format: 'der' }));
  }

  get fullName(): string {
    return `${this.owner}/${this.name}`;
  }

  nextNumber(): number {
    this.#last += 1;
    return this.#last;
  }

  /** The commit of a branch, tag or id; undefined where there is none. */
  async sha(ref: string): Promise<string | undefined> {
    const found = await runGit(['rev-parse', '--verify', '--quiet', `${ref}^{commit}`], { cwd: this.git.dir }).catch(
      () => undefined,
    );
    return found?.toString('utf8').trim();
  }

  branch(name: string): Promise<string | undefined> {
    return this.sha(`refs/heads/${name}`);
  }

  async branches(): Promise<{ name: string; sha: string }[]> {
    const text = await this.git.git(['for-each-ref', '--format=%(refname:short) %(objectname)', 'refs/heads']);
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => ({ name: line.slice(0, line.lastIndexOf(' ')), sha: line.slice(line.lastIndexOf(' ') + 1) }));
  }

  async log(ref: string, paths: readonly string[] = [], count = 250): Promise<CommitFacts[]> {
    const format = '%H%x00%P%x00%an%x00%ae%x00%aI%x00%B%x01';
    const args = ['log', `--max-count=${count}`, `--format=${format}`, ref, '--', ...paths];
    const text = (await runGit(args, { cwd: this.git.dir }).catch(() => Buffer.alloc(0))).toString('utf8');
    return text
      .split('\x01')
      .map((one) => one.replace(/^\n/, '').split('\0'))
      .filter((fields) => fields.length === 6)
      .map(([sha = '', parents = '', name = '', email = '', date = '', message = '']) => ({
        sha,
        parents: parents.split(' ').filter((one) => one !== ''),
        author: { name, email, date },
        message: message.trimEnd(),
      }));
  }

  /** Head commit of a pull request. */
  async headOf({ pull }: Issue): Promise<string> {
    if (pull?.headSha !== undefined) return pull.headSha;
    return (await this.branch(pull?.head ?? '')) ?? '0'.repeat(40);
  }
}

export interface CommitFacts {
  readonly sha: string;
  readonly parents: readonly string[];
  readonly author: { readonly name: string; readonly email: string; readonly date: string };
  readonly message: string;
}

/** An answer that is no success. */
export class ApiRefusal extends Error {
  readonly status: number;
  readonly body: object;

  constructor(status: number, message: string, more: object = {}) {
    super(message);
    this.status = status;
    this.body = { message, documentation_url: 'https://docs.example/rest', status: String(status), ...more };
  }
}
export const notFound = (): ApiRefusal => new ApiRefusal(404, 'Not Found');
export const invalid = (message: string): ApiRefusal =>
  new ApiRefusal(422, 'Validation Failed', { errors: [{ resource: 'Issue', code: 'custom', message }] });

/** JSON, or the text where it is none; undefined where there is nothing. */
export function parsed(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
