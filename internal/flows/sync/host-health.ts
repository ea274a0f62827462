// Which git servers are left alone for a while: those that several of their repositories in a row could not reach, and
// those that asked for it. One repository of many says nothing of its server. Kept in the database, so that a restart does
// not knock at every door again; whoever asks for a sync by hand knocks all the same.

import type { RepoCondition } from '../../adapters/repo/repo.ts';
import { pausedHosts, pauseHost, resumeHost } from '../../adapters/store/repositories/polls.ts';
import type { FlowContext } from '../context.ts';
import { hostPauseMs } from './decide.ts';

/** Thrown before a read of a server that is left alone: the repository is looked at after the pause. */
export class HostPaused extends Error {
  constructor() {
    super('its server is left alone for a while');
    this.name = 'HostPaused';
  }
}

interface Failing {
  failures: number;
  /** The repository that failed last: once more of the same counts for nothing. */
  last: string;
  /** By the monotonic clock, in milliseconds. */
  until: number;
}

export class HostHealth {
  readonly #ctx: FlowContext;
  readonly #failing = new Map<string, Failing>();

  constructor(ctx: FlowContext) {
    this.#ctx = ctx;
  }

  /** Knows again what was known before a restart. */
  async load(): Promise<void> {
    for (const { host, failures, leftMs } of await pausedHosts(this.#ctx.db)) {
      this.#failing.set(host, { failures, last: '', until: performance.now() + leftMs });
    }
  }

  /** Throws HostPaused where a server is left alone. */
  check(host: string): void {
    const failing = this.#failing.get(host);
    if (failing !== undefined && failing.until > performance.now()) throw new HostPaused();
  }

  /** A server answered, whatever it said of the repository. */
  async reached(host: string): Promise<void> {
    if (this.#failing.delete(host)) await resumeHost(this.#ctx.db, host);
  }

  /** A read failed; resolves to how long its server is left alone, in milliseconds. */
  async failed(host: string, repositoryId: string, failure: RepoCondition): Promise<number> {
    const { condition, retryAfterSeconds } = failure;
    if (condition !== 'unreachable' && condition !== 'rate-limited') {
      await this.reached(host);
      return 0;
    }
    const known = this.#failing.get(host) ?? { failures: 0, last: '', until: 0 };
    const failures = known.last === repositoryId ? known.failures : known.failures + 1;
    const askedMs = condition === 'rate-limited' && retryAfterSeconds !== undefined ? retryAfterSeconds * 1000 : 0;
    const ms = hostPauseMs({ failures, askedMs, random: this.#ctx.runtime.randomBytes(2).readUInt16BE() / 0x1_0000 });
    const until = Math.max(known.until, performance.now() + ms);
    this.#failing.set(host, { failures, last: repositoryId, until: ms === 0 ? known.until : until });
    if (ms > 0) await pauseHost(this.#ctx.db, host, failures, ms);
    return ms;
  }
}
