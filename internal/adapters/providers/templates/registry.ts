// Templates from an npm registry: the package's document, the version that a request means, the tarball, its integrity.
// Redirects are followed by hand, each checked; the token goes to the registry's own origin alone.

import { createHash } from 'node:crypto';
import { maxSatisfying, satisfies, SemVer, valid, validRange } from 'semver';
import { type Dispatcher, request } from 'undici';
import { yieldToEventLoop } from '../../../base/concurrency.ts';
import { PrivateAddressError } from '../../../base/net/net.ts';
import { timeLimit } from '../../../base/waits.ts';
import { lookedAt } from '../../../domain/depth.ts';
import { checkUrl, RefusedAddressError, type TemplateNetwork } from './guard.ts';
import {
  callTimeoutMs,
  packumentBytesMax,
  packumentValuesMax,
  redirectsMax,
  tarballBytesMax,
  TemplateFailure,
  versionsMax,
} from './limits.ts';

export interface RegistryAccess {
  /** Base URL of the registry. */
  readonly url: string;
  readonly token?: string;
  readonly dispatcher: Dispatcher;
  readonly network: TemplateNetwork;
  readonly signal?: AbortSignal;
}

/** What the registry says of one version. */
export interface Release {
  readonly version: string;
  readonly tarball: string;
  /** Subresource integrity, or a SHA-1 of old packages in that form. */
  readonly integrity: string;
}

const acceptHeader = 'application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8';

async function download(access: RegistryAccess, start: URL, accept: string, bytesMax: number): Promise<Buffer> {
  const home = new URL(access.url).origin;
  const signal = timeLimit(callTimeoutMs, access.signal);
  let url = start;
  for (let hop = 0; hop <= redirectsMax; hop += 1) {
    checkUrl(url, access.network);
    const authorized = access.token !== undefined && url.origin === home;
    const response = await request(url, {
      dispatcher: access.dispatcher,
      signal,
      headers: { accept, ...(authorized && { authorization: `Bearer ${access.token}` }) },
    });
    const location = response.headers['location'];
    if (response.statusCode >= 300 && response.statusCode < 400 && typeof location === 'string') {
      await response.body.dump();
      if (!URL.canParse(location, url.href))
        throw new TemplateFailure('unreachable', 'the registry redirects to no URL');
      url = new URL(location, url);
      continue;
    }
    if (response.statusCode !== 200) {
      await response.body.dump();
      throw refused(response.statusCode);
    }
    return await read(response.body, bytesMax);
  }
  throw new TemplateFailure('unreachable', `the registry redirects more than ${redirectsMax} times`);
}

async function read(body: AsyncIterable<Buffer>, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let total = 0;
  for await (const chunk of body) {
    total += chunk.length;
    if (total > bytesMax) throw new TemplateFailure('too-large', `the registry sends more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, total);
}

function refused(status: number): TemplateFailure {
  if (status === 404 || status === 410) return new TemplateFailure('not-found', 'the registry has no such package');
  if (status === 401 || status === 403) {
    return new TemplateFailure(
      'unreachable',
      `the registry refuses access (${status}); set tokenSecretRef of its source`,
    );
  }
  return new TemplateFailure('unreachable', `the registry answers ${status}`);
}

/** Network failures become `unreachable`; the text of foreign errors stays inside, their code is enough. */
async function reaching<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof TemplateFailure) throw error;
    if (error instanceof RefusedAddressError) throw new TemplateFailure('unreachable', error.message);
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    if (cause instanceof PrivateAddressError) throw new TemplateFailure('unreachable', cause.message);
    const code = (cause as NodeJS.ErrnoException).code ?? (cause as Error).name;
    throw new TemplateFailure('unreachable', `the registry cannot be reached (${code})`);
  }
}

/** The package's document: versions and dist-tags. */
export async function fetchPackument(access: RegistryAccess, name: string): Promise<unknown> {
  const base = access.url.endsWith('/') ? access.url : `${access.url}/`;
  const url = new URL(name.replace('/', '%2f'), base);
  const bytes = await reaching(() => download(access, url, acceptHeader, packumentBytesMax));
  await checkSize(bytes);
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new TemplateFailure('corrupt', 'the registry sends a document that is not JSON');
  }
}

/** Looks at a document before it is parsed, which costs what its values cost. */
async function checkSize(bytes: Buffer): Promise<void> {
  for (const looking = lookedAt(bytes, documentBounds); ; await yieldToEventLoop()) {
    const { done, value } = looking.next();
    if (value !== undefined) throw new TemplateFailure('too-large', 'the registry sends a document of too many values');
    if (done === true) return;
  }
}

const documentBounds = { levels: 100, values: packumentValuesMax } as const;

const isRecord = (value: unknown): value is { readonly [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const member = (value: unknown, key: string): unknown =>
  isRecord(value) && Object.hasOwn(value, key) ? value[key] : undefined;

/** The release that `requested` (an exact version, a dist-tag or a range) means, as npm would choose. */
export function chooseRelease(packument: unknown, requested: string): Release {
  const versions = member(packument, 'versions');
  if (!isRecord(versions)) throw new TemplateFailure('corrupt', 'the registry sends a document without versions');
  const listed = Object.keys(versions);
  if (listed.length > versionsMax)
    throw new TemplateFailure('too-large', `the registry lists more than ${versionsMax} versions`);
  const known = listed.filter((version) => valid(version) === version);
  const chosen = chooseVersion(known, member(packument, 'dist-tags'), requested);
  if (chosen === undefined) {
    const ordered = known.map((version) => new SemVer(version)).sort((a, b) => b.compare(a));
    const newest = ordered.slice(0, 3).join(', ');
    throw new TemplateFailure(
      'no-such-version',
      newest === '' ? 'it has no version' : `the newest versions are ${newest}`,
    );
  }
  const dist = member(versions[chosen], 'dist');
  const tarball = member(dist, 'tarball');
  if (typeof tarball !== 'string' || !URL.canParse(tarball)) {
    throw new TemplateFailure('corrupt', `the registry names no tarball for ${chosen}`);
  }
  const integrity = member(dist, 'integrity');
  if (typeof integrity === 'string' && integrity !== '') return { version: chosen, tarball, integrity };
  const shasum = member(dist, 'shasum');
  if (typeof shasum !== 'string' || !/^[0-9a-f]{40}$/.test(shasum)) {
    throw new TemplateFailure('corrupt', `the registry gives no integrity for ${chosen}`);
  }
  return { version: chosen, tarball, integrity: `sha1-${Buffer.from(shasum, 'hex').toString('base64')}` };
}

function chooseVersion(known: readonly string[], tags: unknown, requested: string): string | undefined {
  const exact = valid(requested);
  if (exact !== null) return known.includes(exact) ? exact : undefined;
  const tagged = member(tags, requested);
  if (typeof tagged === 'string') return known.includes(tagged) ? tagged : undefined;
  if (validRange(requested) === null) return undefined;
  // A range that the `latest` tag satisfies means that version, also where a higher one was published after it.
  const latest = member(tags, 'latest');
  if (typeof latest === 'string' && known.includes(latest) && satisfies(latest, requested)) return latest;
  return maxSatisfying(known, requested) ?? undefined;
}

/** Downloads the tarball and holds it against the release's integrity. */
export async function fetchTarball(access: RegistryAccess, release: Release): Promise<Buffer> {
  const bytes = await reaching(() => download(access, new URL(release.tarball), '*/*', tarballBytesMax));
  if (!matchesIntegrity(bytes, release.integrity)) {
    throw new TemplateFailure('integrity-mismatch', `the tarball of ${release.version} is not what the registry lists`);
  }
  return bytes;
}

const strength = ['sha512', 'sha384', 'sha256', 'sha1'];

/** Subresource integrity: any hash of the strongest algorithm listed. No known algorithm is no match. */
export function matchesIntegrity(bytes: Uint8Array, integrity: string): boolean {
  const listed = integrity
    .trim()
    .split(/\s+/)
    .map((item) => /^([a-z0-9]+)-([A-Za-z0-9+/]+={0,2})(?:\?.*)?$/.exec(item));
  for (const algorithm of strength) {
    const hashes = listed.filter((item) => item?.[1] === algorithm);
    if (hashes.length === 0) continue;
    const actual = createHash(algorithm).update(bytes).digest('base64');
    return hashes.some((item) => item?.[2] === actual);
  }
  return false;
}

/** What is recorded of a tarball, whatever algorithm the registry used. */
export function tarballIntegrity(bytes: Uint8Array): string {
  return `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
}
