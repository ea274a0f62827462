// A repository on a git server, read without a checkout and without a git directory: the tip, the top tree, the tree
// of `.svc/`, and whatever lies outside that is asked for. What an earlier read had is not fetched again.

import { hostFault } from '../../base/net/net.ts';
import {
  defaultCaps,
  type NetworkSettings,
  type OpenOptions,
  RepoCondition,
  type RepoSource,
  type RepoTarget,
  type Snapshot,
  type SnapshotOptions,
  type Tip,
  type Traffic,
} from './types.ts';
import { GitHttp, GitWire, OddStatus } from './http.ts';
import { type CommitObjects, FetchStrategies, gone, refusalCondition } from './fetch-strategy.ts';
import { normalRoot, refMissing, wantedRef } from './tree-walk.ts';
import { type Capabilities, GitServerError, type RemoteRef, sha256Repository } from './protocol.ts';
import { CommitRead } from './commit-read.ts';
import { createHostCache } from './repo.ts';
import { withoutEnd } from '../../domain/text.ts';

const defaultNetwork: NetworkSettings = {};
const defaultHosts = createHostCache();

export class RemoteSource implements RepoSource {
  readonly wire: GitWire;
  readonly ladder: FetchStrategies;
  readonly #target: Extract<RepoTarget, { kind: 'remote' }>;
  readonly #options: OpenOptions;
  readonly #reads = new WeakMap<Snapshot, CommitRead>();
  /** Of the last commit that was read, for reading more of it. */
  #open: { readonly oid: string; readonly objects: CommitObjects } | null = null;

  constructor(target: Extract<RepoTarget, { kind: 'remote' }>, options: OpenOptions) {
    const network = options.network ?? defaultNetwork;
    const allowHttp = network.allowHttp === true || network.allowPrivate === true;
    this.#target = { ...target, root: normalRoot(target.root) };
    this.#options = options;
    const caps = { ...defaultCaps, ...options.caps };
    const http = new GitHttp(parseRepoUrl(target.url, allowHttp), network, options.credentials);
    this.wire = new GitWire(http, { ...caps, taking: options.taking });
    this.ladder = new FetchStrategies({
      wire: this.wire,
      caps,
      hosts: options.hostCache ?? defaultHosts,
      spoolDir: options.spoolDir,
      taking: options.taking,
      now: options.now,
    });
  }

  async resolve(signal?: AbortSignal): Promise<Tip> {
    return this.within(signal, async (deadline) => {
      const wanted = wantedRef(this.#target.branch);
      const refs = await this.#refs(wanted, deadline);
      const ref = refs.find(({ name }) => name === wanted);
      if (ref === undefined) throw refMissing(this.#target.branch);
      const { movedTo } = this.wire.http;
      return {
        commit: ref.peeled ?? ref.oid,
        ref: ref.symrefTarget ?? ref.name,
        ...(movedTo === undefined ? {} : { movedTo }),
      };
    });
  }

  async snapshot(tip: Tip, options: SnapshotOptions = {}): Promise<Snapshot> {
    return this.within(options.signal, async (deadline) => {
      if (this.#open?.oid !== tip.commit) await this.#dropObjects();
      const before = this.traffic();
      const read = new CommitRead(
        tip.commit,
        this.#target.root,
        this.#options,
        options,
        this.wire,
        (oid, signal, heldTree) => this.#openCommit(oid, signal, heldTree),
      );
      const snapshot = await read.run(deadline, () => difference(before, this.traffic()));
      this.#reads.set(snapshot, read);
      return snapshot;
    });
  }

  async more(snapshot: Snapshot, paths: readonly string[], signal?: AbortSignal): Promise<Snapshot> {
    const read = this.#reads.get(snapshot);
    if (read === undefined) throw new TypeError('more() takes a snapshot of the same source');
    return this.within(signal, async (deadline) => {
      const before = this.traffic();
      const grown = await read.more(snapshot, paths, deadline, () => difference(before, this.traffic()));
      this.#reads.set(grown, read);
      return grown;
    });
  }

  async close(): Promise<void> {
    await this.#dropObjects();
  }

  traffic(): Traffic {
    return { requests: this.wire.http.requests, bytesDown: this.wire.http.bytesDown };
  }

  /** Runs a call under its deadline; what a server says in its own words leaves as a condition. */
  async within<T>(signal: AbortSignal | undefined, run: (deadline: AbortSignal) => Promise<T>): Promise<T> {
    const limitMs = this.#options.network?.totalTimeoutMs ?? 60_000;
    // Ended with the call: a signal of the runtime's own for a time limit lives until that is over, thousands at a time.
    const ending = new AbortController();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      ending.abort(new Error('late'));
    }, limitMs);
    const forward = (): void => ending.abort(signal?.reason);
    if (signal?.aborted === true) forward();
    signal?.addEventListener('abort', forward, { once: true });
    try {
      return await run(ending.signal);
    } catch (error) {
      if (signal?.aborted === true) throw signal.reason;
      if (isLate) throw new RepoCondition('unreachable', `reading the repository took longer than ${limitMs / 1000} s`);
      if (error instanceof GitServerError) throw refusalCondition(error);
      throw error;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', forward);
    }
  }

  async #openCommit(oid: string, signal: AbortSignal, heldTree: string | null): Promise<CommitObjects> {
    if (!/^[0-9a-f]{40}$/.test(oid)) {
      throw /^[0-9a-f]{64}$/.test(oid) ? sha256Repository() : gone(oid, undefined);
    }
    if (this.#open?.oid === oid) return this.#open.objects;
    const objects = await this.ladder.open(oid, signal, heldTree);
    this.#open = { oid, objects };
    return objects;
  }

  async #dropObjects(): Promise<void> {
    await this.#open?.objects.close();
    this.#open = null;
  }

  async #refs(wanted: string, signal: AbortSignal): Promise<readonly RemoteRef[]> {
    const known = this.ladder.facts();
    if (known === undefined || known.protocol === 2) {
      try {
        return await this.wire.lsRefs(wanted, signal);
      } catch (error) {
        const odd =
          error instanceof GitServerError ||
          error instanceof OddStatus ||
          (error instanceof RepoCondition && error.condition === 'corrupt');
        if (!odd) throw error;
        const said = await this.wire.capabilities(2, signal, wanted);
        if (said.objectFormat !== 'sha1') throw sha256Repository();
        if (said.protocol === 2) throw refusalCondition(error);
        return this.#oldRefs(said);
      }
    }
    // Asked as a new one each time: it may have learned, or be old for another repository only.
    const said = await this.wire.capabilities(2, signal, wanted);
    if (said.protocol < 2) return this.#oldRefs(said);
    this.ladder.forget();
    return this.#refs(wanted, signal);
  }

  #oldRefs(said: Capabilities): readonly RemoteRef[] {
    this.ladder.learn(said.protocol, 'spool');
    const peeled = new Map(
      said.refs.filter(({ name }) => name.endsWith('^{}')).map(({ name, oid }) => [name.slice(0, -3), oid]),
    );
    return said.refs.map((ref) => {
      const oid = peeled.get(ref.name);
      return oid === undefined ? ref : { ...ref, peeled: oid };
    });
  }
}

function difference(before: Traffic, after: Traffic): Traffic {
  return { requests: after.requests - before.requests, bytesDown: after.bytesDown - before.bytesDown };
}

// What a repository's address may look like. Pure. The scp form (`git@host:owner/repo.git`) and ssh:// become https;
// credentials, queries and fragments are refused, and so is every scheme but https (http where it is allowed).

/**
 * The base URL, without a trailing slash, to which `/info/refs` is added. Throws `not-found` with what to write instead,
 * or `unreachable` for plain http on a private host.
 */
export function parseRepoUrl(text: string, allowHttp: boolean): URL {
  const url = URL.parse(rewriteSsh(text.trim()));
  const form = 'write https://host/owner/repository.git';
  if (url === null) throw refused(`the repository address is not a URL: ${form}`);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw refused(`repositories are read over https, not ${url.protocol.slice(0, 20)} ${form}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw refused('the repository address holds credentials: give them as auth, with the token in a secret');
  }
  if (url.protocol === 'http:' && !allowHttp) throw httpRefused(url);
  if (url.search !== '' || url.hash !== '') throw refused('the repository address holds a query or fragment');
  url.pathname = withoutEnd(url.pathname, '/');
  return url;
}

function rewriteSsh(text: string): string {
  const scp = /^(?:[A-Za-z0-9_.-]+@)?([A-Za-z0-9.-]+):(?!\/\/)\/?([^\s]+)$/.exec(text);
  if (scp !== null && !/^\d+(?:\/|$)/.test(scp[2] as string)) return `https://${scp[1]}/${scp[2]}`;
  const ssh = /^(?:git\+)?ssh:\/\/(?:[A-Za-z0-9_.-]+@)?([A-Za-z0-9.-]+)(?::\d+)?\/([^\s]+)$/.exec(text);
  return ssh === null ? text : `https://${ssh[1]}/${ssh[2]}`;
}

/** On a private host the network rule is what stands in the way: https there would be refused as well. */
function httpRefused(url: URL): RepoCondition {
  const fault = hostFault(url.hostname);
  if (fault === null) return refused('plain http is refused: use https');
  const setting = 'private networks and plain http there need SVC_ALLOW_PRIVATE_NETWORK=true';
  return new RepoCondition('unreachable', `${url.host} is refused: ${fault}, and ${setting}`);
}

function refused(why: string): RepoCondition {
  return new RepoCondition('not-found', why);
}
