// Conversation with one git server: which refs, which objects. Joins the HTTP side with the protocol's pure half and
// holds what a version-2 server is asked in a single request each.

import type { GitObject } from './objects.ts';
import { type GitHttp, MovedOnPost } from './http.ts';
import { type BaseLookup, readPack } from './pack-reader.ts';
import {
  type Capabilities,
  fetchedPack,
  type FetchRequest,
  fetchRequest,
  lsRefsRequest,
  oldFetchedPack,
  oldFetchRequest,
  parseAdvertisement,
  parseLsRefs,
  readPkts,
  type RemoteRef,
} from './protocol.ts';
import { RepoCondition, type RepoCaps, tooLarge } from './types.ts';

export class GitWire {
  readonly http: GitHttp;
  readonly #caps: RepoCaps;
  #discovered: 1 | 2 | null = null;

  constructor(http: GitHttp, caps: RepoCaps) {
    this.http = http;
    this.#caps = caps;
  }

  /** What the server says of itself; versions 0 and 1 list all refs with it. */
  async capabilities(protocol: 1 | 2, signal: AbortSignal): Promise<Capabilities> {
    const answer = await this.http.discover(protocol, signal);
    this.#discovered = protocol;
    return parseAdvertisement(readPkts(bounded(answer.body, this.#caps.packBytes, 'the list of refs')));
  }

  /** Refs whose names begin with one of the prefixes: one request. */
  async lsRefs(prefixes: readonly string[], signal: AbortSignal): Promise<RemoteRef[]> {
    const body = await this.#post(lsRefsRequest(prefixes), 2, signal);
    return parseLsRefs(readPkts(bounded(body, this.#caps.packBytes, 'the list of refs')));
  }

  /** Objects of a small pack by id. `lookup` supplies the bases of a thin one. */
  async fetch(
    request: FetchRequest,
    signal: AbortSignal,
    more: { readonly packBytes?: number; readonly lookup?: BaseLookup } = {},
  ): Promise<Map<string, GitObject>> {
    const limit = more.packBytes ?? this.#caps.packBytes;
    const chunks: Buffer[] = [];
    for await (const chunk of this.pack(request, signal, limit)) chunks.push(chunk);
    return readPack(Buffer.concat(chunks), this.#caps, more.lookup);
  }

  /** The bytes of a pack as they come, at most `limit` of them. */
  async *pack(request: FetchRequest, signal: AbortSignal, limit: number): AsyncGenerator<Buffer> {
    const body = await this.#post(fetchRequest(request), 2, signal);
    // Frames add five bytes to at most 65 kB, other frames are few: the same bound twice holds both in check.
    yield* bounded(
      fetchedPack(readPkts(bounded(body, limit + limit / 8 + 1_000_000, 'the answer'))),
      limit,
      'the pack',
    );
  }

  /** The whole tree of one commit from a server of version 0 or 1. */
  async *oldPack(oid: string, offered: Capabilities, signal: AbortSignal, limit: number): AsyncGenerator<Buffer> {
    if (!offered.capabilities.includes('side-band-64k')) {
      throw new RepoCondition(
        'server-lacks-filter',
        'the git server is too old: it has neither protocol version 2 nor side bands',
      );
    }
    const body = await this.#post(oldFetchRequest(oid, offered.capabilities), 0, signal);
    yield* bounded(
      oldFetchedPack(readPkts(bounded(body, limit + limit / 8 + 1_000_000, 'the answer'))),
      limit,
      'the pack',
    );
  }

  async #post(body: Buffer, protocol: 0 | 2, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    try {
      return (await this.http.post(body, protocol, signal)).body;
    } catch (error) {
      // Some hosts redirect only the discovery request of a renamed repository, and know nothing of the rest.
      const elsewhere =
        error instanceof MovedOnPost || (error instanceof RepoCondition && error.condition === 'not-found');
      if (!elsewhere || this.#discovered !== null) {
        throw error instanceof MovedOnPost ? new RepoCondition('moved', 'the git server redirects in circles') : error;
      }
    }
    await this.capabilities(protocol === 2 ? 2 : 1, signal);
    try {
      return (await this.http.post(body, protocol, signal)).body;
    } catch (error) {
      throw error instanceof MovedOnPost ? new RepoCondition('moved', 'the git server redirects in circles') : error;
    }
  }
}

async function* bounded<T extends Uint8Array>(
  chunks: AsyncIterable<T>,
  limit: number,
  what: string,
): AsyncGenerator<T> {
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > limit) throw tooLarge(`${what} of the git server has more bytes than allowed`, limit);
    yield chunk;
  }
}
