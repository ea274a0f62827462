// One git server over HTTP, the only user of undici here: where to connect (private-network rule, proxy, own certificates),
// as whom (Basic, one refresh), how long (headers, idle, whole), and where to when it has moved (redirects of the discovery
// request alone, without credentials elsewhere). Statuses become conditions. Above that: which refs, which objects.

import { rootCertificates } from 'node:tls';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { guardedLookup, hostFault, PrivateAddressError } from '../../base/net/net.ts';
import { retryAfterOf } from '../../base/net/retry-after.ts';
import { beginningOf, chunksOf } from './answer-body.ts';
import { type Credentials, type NetworkSettings, type RepoCaps, RepoCondition, tooLarge } from './types.ts';
import type { GitObject } from './objects.ts';
import { inPieces, PackBytes } from './pack-bytes.ts';
import { type BaseLookup, type PackLimits, readPack } from './pack-reader.ts';
import { whyUnreachable } from './why-unreachable.ts';
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
  type RemoteRef,
} from './protocol.ts';
import { readPkts } from './pkt-stream.ts';

const maxRedirects = 3;
const discovery = '/info/refs?service=git-upload-pack';

interface GitAnswer {
  readonly contentType: string;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Thrown by `post` when the server has moved: the discovery request finds out where, unless it has said so already. */
class MovedOnPost extends RepoCondition {}

/** A status that says nothing of the repository: an old server may so answer what it does not understand. */
export class OddStatus extends RepoCondition {}

/** Built once for each settings object, so that sources share connections. */
const dispatchers = new WeakMap<NetworkSettings, { direct: Dispatcher; http: Dispatcher; https: Dispatcher }>();

export class GitHttp {
  requests = 0;
  bytesDown = 0;
  /** Where the repository answers now, once a redirect was followed. */
  movedTo: string | undefined;
  #base: URL;
  #authorization: string | null | undefined;
  readonly #home: string;
  readonly #network: NetworkSettings;
  readonly #credentials: Credentials | undefined;

  constructor(base: URL, network: NetworkSettings, credentials: Credentials | undefined) {
    this.#base = base;
    this.#home = base.origin;
    this.#network = network;
    this.#credentials = credentials;
  }

  get origin(): string {
    return this.#base.origin;
  }

  /** `GET info/refs`, following redirects by the rules and remembering the new base. */
  async discover(protocol: 1 | 2, signal: AbortSignal): Promise<GitAnswer> {
    let target = new URL(`${this.#base.href}${discovery}`);
    const headers = protocol === 2 ? { 'git-protocol': 'version=2' } : {};
    for (let followed = 0; ; followed += 1) {
      const response = await this.#send('GET', target, headers, null, signal);
      if (!isRedirect(response.statusCode)) {
        return this.#answer(response, 'application/x-git-upload-pack-advertisement', signal);
      }
      await response.body.dump();
      const next = redirectTarget(target, response.headers['location']);
      if (followed === maxRedirects) throw moved(next, `the repository redirects more than ${maxRedirects} times`);
      target = next;
      const base = new URL(target.href.slice(0, -discovery.length));
      this.#base = base;
      this.movedTo = base.href;
    }
  }

  /** `POST git-upload-pack` in protocol 2 (or older). Throws MovedOnPost at a redirect. */
  async post(body: Buffer, protocol: 0 | 1 | 2, signal: AbortSignal): Promise<GitAnswer> {
    const headers = {
      'content-type': 'application/x-git-upload-pack-request',
      accept: 'application/x-git-upload-pack-result',
      ...(protocol === 2 ? { 'git-protocol': 'version=2' } : {}),
    };
    const response = await this.#send('POST', new URL(`${this.#base.href}/git-upload-pack`), headers, body, signal);
    if (isRedirect(response.statusCode)) {
      await response.body.dump();
      throw new MovedOnPost('moved', 'the git server redirects in circles');
    }
    return this.#answer(response, 'application/x-git-upload-pack-result', signal);
  }

  async #send(
    method: 'GET' | 'POST',
    url: URL,
    headers: Record<string, string>,
    body: Buffer | null,
    signal: AbortSignal,
  ): Promise<Dispatcher.ResponseData> {
    const first = await this.#sendOnce(method, url, headers, body, signal, false).catch((error: unknown) => {
      // A kept connection that the server closes just now says nothing of the server, and every request here only reads.
      const code = (rootCause((error as Error).cause) as { code?: unknown }).code;
      if (signal.aborted || !['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'].includes(String(code))) throw error;
      return this.#sendOnce(method, url, headers, body, signal, false);
    });
    if (first.statusCode !== 401 || this.#credentials === undefined || url.origin !== this.#home) return first;
    await first.body.dump();
    return this.#sendOnce(method, url, headers, body, signal, true);
  }

  async #sendOnce(
    method: 'GET' | 'POST',
    url: URL,
    headers: Record<string, string>,
    body: Buffer | null,
    signal: AbortSignal,
    refresh: boolean,
  ): Promise<Dispatcher.ResponseData> {
    const fault = this.#network.allowPrivate === true ? null : hostFault(url.hostname);
    if (fault !== null)
      throw unreachable(`${url.host} is refused: ${fault}, and private networks need SVC_ALLOW_PRIVATE_NETWORK=true`);
    const authorization = url.origin === this.#home ? await this.#authorize(refresh) : null;
    this.requests += 1;
    try {
      return await dispatcherFor(this.#network, url).request({
        origin: url.origin,
        path: url.pathname + url.search,
        method,
        headers: {
          'user-agent': this.#network.userAgent ?? 'git/svc',
          ...headers,
          ...(authorization === null ? {} : { authorization }),
        },
        body,
        signal,
        headersTimeout: this.#network.headersTimeoutMs ?? 10_000,
        bodyTimeout: this.#network.idleTimeoutMs ?? 15_000,
      });
    } catch (error) {
      throw this.#networkFault(error, url, signal);
    }
  }

  async #authorize(refresh: boolean): Promise<string | null> {
    if (this.#credentials === undefined) return null;
    if (this.#authorization === undefined || refresh) {
      const given = await this.#credentials({ origin: this.#home, refresh });
      const text = given === null ? null : `${given.username ?? 'x-access-token'}:${given.token}`;
      this.#authorization = text === null ? null : `Basic ${Buffer.from(text).toString('base64')}`;
    }
    return this.#authorization;
  }

  async #answer(response: Dispatcher.ResponseData, expected: string, signal: AbortSignal): Promise<GitAnswer> {
    const failure = statusFault(response, this.#base.host);
    if (failure !== null) {
      await response.body.dump({ limit: 65_536 }).catch(() => undefined);
      throw failure;
    }
    const contentType =
      String(response.headers['content-type'] ?? '')
        .split(';')[0]
        ?.trim() ?? '';
    if (contentType !== expected || response.headers['content-encoding'] !== undefined) {
      // What git's own client reads from a server without git: a list of refs as a file.
      const isFile = /^[0-9a-f]{40,64}\trefs\//.test(await beginningOf(response.body));
      const why = isFile
        ? 'serves the files of a repository, with no git behind them: serve it by git http-backend or the like'
        : 'does not answer as a git server there: check the address';
      throw new RepoCondition('not-found', `${this.#base.host} ${why}`);
    }
    return { contentType, body: this.#counted(chunksOf(response.body), signal) };
  }

  async *#counted(body: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of body) {
        this.bytesDown += chunk.length;
        yield chunk;
      }
    } catch (error) {
      throw this.#networkFault(error, this.#base, signal);
    }
  }

  #networkFault(error: unknown, url: URL, signal: AbortSignal): Error {
    if (error instanceof RepoCondition) return error;
    if (signal.aborted) return signal.reason instanceof Error ? signal.reason : new Error('aborted');
    const cause = rootCause(error);
    if (cause instanceof PrivateAddressError) return unreachable(cause.message, error);
    const code = (cause as { code?: unknown }).code;
    return unreachable(`${url.host} cannot be reached: ${whyUnreachable(code)}`, error);
  }
}

function dispatcherFor(network: NetworkSettings, url: URL): Dispatcher {
  let set = dispatchers.get(network);
  if (set === undefined) {
    set = buildDispatchers(network);
    dispatchers.set(network, set);
  }
  if (bypassesProxy(network.noProxy ?? '', url)) return set.direct;
  return url.protocol === 'https:' ? set.https : set.http;
}

function buildDispatchers(network: NetworkSettings): { direct: Dispatcher; http: Dispatcher; https: Dispatcher } {
  const ca = network.ca === undefined ? {} : { ca: [...rootCertificates, network.ca] };
  const guard = network.allowPrivate === true ? {} : { lookup: guardedLookup(network.lookup) };
  const timeout = network.headersTimeoutMs ?? 10_000;
  const direct = new Agent({ connections: 8, connect: { timeout, ...ca, ...guard } });
  // The proxy is the operator's own and may be private; it resolves the names of its targets itself.
  const proxy = (uri: string | undefined) =>
    uri === undefined || uri === ''
      ? direct
      : new ProxyAgent({ uri, connections: 8, connectTimeout: timeout, requestTls: ca, proxyTls: ca });
  return { direct, http: proxy(network.httpProxy), https: proxy(network.httpsProxy) };
}

/** Whether a `no_proxy` list (names, `.suffixes`, `*`, optional ports) covers the URL. */
export function bypassesProxy(noProxy: string, url: URL): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '').toLowerCase();
  const port = url.port !== '' ? url.port : url.protocol === 'https:' ? '443' : '80';
  return noProxy
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .some((entry) => {
      const [, name = '', entryPort] = /^(.*?)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? [];
      if (entryPort !== undefined && entryPort !== port) return false;
      const suffix = name.replace(/^\*?\.?/, '');
      return name === '*' || host === suffix || host.endsWith(`.${suffix}`);
    });
}

function redirectTarget(from: URL, location: string | string[] | undefined): URL {
  const url = typeof location === 'string' ? URL.parse(location, from.href) : null;
  if (url === null) throw new RepoCondition('moved', 'the repository redirects without saying where');
  const clean = new URL(url.href);
  clean.username = '';
  clean.password = '';
  if (!url.href.endsWith(discovery))
    throw moved(clean, 'the repository redirects to something that is not a repository');
  if (url.username !== '' || url.password !== '')
    throw moved(clean, 'the repository redirects to an address with credentials');
  const allowed = url.origin === from.origin || (url.protocol === 'https:' && from.protocol === 'https:');
  if (allowed) return url;
  if (url.protocol === 'https:') throw moved(clean, 'the repository redirects to https; give that address instead');
  throw moved(clean, 'the repository redirects to another, unprotected place');
}

function moved(to: URL, why: string): RepoCondition {
  const base = to.href.split('/info/refs')[0] as string;
  return new RepoCondition('moved', `${why}: ${base.slice(0, 300)}`, { movedTo: base });
}

function statusFault(response: Dispatcher.ResponseData, host: string): RepoCondition | null {
  const status = response.statusCode;
  if (status === 200) return null;
  const retryAfterSeconds = retryAfterOf(response.headers);
  const limited = { ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }) };
  const exhausted = response.headers['x-ratelimit-remaining'] === '0';
  if (status === 429 || ((status === 503 || status === 403) && (retryAfterSeconds !== undefined || exhausted))) {
    return new RepoCondition('rate-limited', `${host} asks to come back later (${status})`, limited);
  }
  if (status === 401)
    return new RepoCondition('auth-failed', `${host} refuses the credentials, or asks for some (401)`);
  if (status === 403)
    return new RepoCondition('auth-failed', `the credentials may not read the repository on ${host} (403)`);
  if (status === 404 || status === 410) {
    return new RepoCondition(
      'not-found',
      `${host} knows no such repository, or hides it from these credentials (${status})`,
    );
  }
  return new OddStatus('unreachable', `${host} answers with status ${status}`);
}

function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

function rootCause(error: unknown): object {
  let cause = error;
  for (let hops = 0; hops < 5 && cause instanceof Error; hops += 1) {
    const inner: unknown = cause instanceof AggregateError ? cause.errors[0] : cause.cause;
    if (!(inner instanceof Error)) return cause;
    cause = inner;
  }
  return cause instanceof Error ? cause : new Error('unknown failure');
}

function unreachable(why: string, cause?: unknown): RepoCondition {
  return new RepoCondition('unreachable', why, { cause });
}

/** Which refs, which objects: what a version-2 server is asked in a single request each. */
export class GitWire {
  readonly http: GitHttp;
  readonly #caps: RepoCaps & PackLimits;
  #discovered: 1 | 2 | null = null;

  constructor(http: GitHttp, caps: RepoCaps & PackLimits) {
    this.http = http;
    this.#caps = caps;
  }

  /** What the server says of itself; versions 0 and 1 list all refs with it, of which those of that name are kept. */
  async capabilities(protocol: 1 | 2, signal: AbortSignal, wanted?: string): Promise<Capabilities> {
    const answer = await this.http.discover(protocol, signal);
    this.#discovered = protocol;
    const pkts = readPkts(bounded(answer.body, this.#caps.packBytes, 'the list of refs'));
    return parseAdvertisement(pkts, (name) => name === wanted || name === `${wanted}^{}`);
  }

  /** The ref of that name, if there is one: one request. */
  async lsRefs(wanted: string, signal: AbortSignal): Promise<RemoteRef[]> {
    const body = await this.#post(lsRefsRequest([wanted]), 2, signal);
    const pkts = readPkts(bounded(body, this.#caps.packBytes, 'the list of refs'));
    return parseLsRefs(pkts, (name) => name === wanted);
  }

  /** Objects of a small pack by id. `lookup` supplies the bases of a thin one. */
  async fetch(
    request: FetchRequest,
    signal: AbortSignal,
    more: { readonly packBytes?: number; readonly lookup?: BaseLookup } = {},
  ): Promise<Map<string, GitObject>> {
    const limit = more.packBytes ?? this.#caps.packBytes;
    const pack = new PackBytes();
    for await (const piece of this.pack(request, signal, limit)) {
      this.#caps.taking?.(piece.length);
      pack.add(piece);
    }
    return readPack(pack, this.#caps, more.lookup);
  }

  /** The bytes of a pack as they come, at most `limit` of them. */
  async *pack(request: FetchRequest, signal: AbortSignal, limit: number): AsyncGenerator<Buffer> {
    const body = await this.#post(fetchRequest(request), 2, signal);
    yield* inPieces(bounded(fetchedPack(framesOf(body, limit)), limit, 'the pack'));
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
    yield* inPieces(bounded(oldFetchedPack(framesOf(body, limit)), limit, 'the pack'));
  }

  async #post(body: Buffer, protocol: 0 | 2, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    try {
      return (await this.http.post(body, protocol, signal)).body;
    } catch (error) {
      // Some hosts redirect only the discovery request of a renamed repository, and know nothing of the rest.
      const isElsewhere =
        error instanceof MovedOnPost || (error instanceof RepoCondition && error.condition === 'not-found');
      if (!isElsewhere || this.#discovered !== null) throw error;
    }
    await this.capabilities(protocol === 2 ? 2 : 1, signal);
    return (await this.http.post(body, protocol, signal)).body;
  }
}

/** Frames add five bytes to at most 65 kB, other frames are few: the same bound twice holds both in check. */
const framesOf = (body: AsyncIterable<Uint8Array>, limit: number): ReturnType<typeof readPkts> =>
  readPkts(bounded(body, limit + limit / 8 + 1_000_000, 'the answer'));

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
