// Objects in a store that speaks the API of S3, by paths (`<endpoint>/<bucket>/<prefix><key>`): four calls, signed, with
// bounded answers.

import { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import { emptySha256, encoded, type S3Keys, signed } from './s3-sign.ts';
import { isKey, type ObjectFile, type ObjectStore, type StoredObject } from './types.ts';

export interface S3Settings {
  /** `https://host[:port]`; a path in it stays in front of the bucket. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  /** In front of every key: `svc/setup/`. */
  readonly prefix: string;
  readonly keys: S3Keys;
  readonly now: () => number;
}

const connectMs = 5_000;
const silentMs = 60_000;
/** Of all of a call, for an answer that trickles is never silent; `object`: of one that carries an object, which others wait for. */
const wholeMs = { call: 60_000, object: 900_000 } as const;
const answerBytes = 4 * 1024 * 1024;
/** A thousand objects each. */
const pagesMax = 100;

export class S3Store implements ObjectStore {
  readonly where: string;
  readonly #settings: S3Settings;
  readonly #agent = new Agent({ connect: { timeout: connectMs }, headersTimeout: silentMs, bodyTimeout: silentMs });

  constructor(settings: S3Settings) {
    this.#settings = settings;
    this.where = `${settings.endpoint}/${settings.bucket}`;
  }

  async get(key: string): Promise<Readable | null> {
    const { statusCode, body } = await this.#call('GET', this.#path(key), { wholeMs: wholeMs.object });
    if (statusCode === 200) return body;
    const why = await textOf(body);
    if (statusCode === 404) return null;
    throw this.#refused('GET', statusCode, why);
  }

  async put(key: string, { path, bytes, sha256 }: ObjectFile): Promise<void> {
    const headers = { 'content-length': String(bytes), 'content-type': 'application/octet-stream' };
    const body = createReadStream(path);
    try {
      await this.#expect('PUT', this.#path(key), [200, 201, 204], { sha256, headers, body, wholeMs: wholeMs.object });
    } finally {
      body.destroy();
    }
  }

  async list(): Promise<StoredObject[]> {
    const { prefix } = this.#settings;
    const found: StoredObject[] = [];
    let token: string | undefined;
    for (let page = 0; page < pagesMax; page += 1) {
      const query = { 'list-type': '2', prefix, ...(token !== undefined && { 'continuation-token': token }) };
      const text = await this.#expect('GET', '', [200], { query });
      for (const entry of entriesIn(text)) {
        const key = field(entry, 'Key').slice(prefix.length);
        if (isKey(key))
          found.push({ key, bytes: Number(field(entry, 'Size')), at: Date.parse(field(entry, 'LastModified')) });
      }
      token = field(text, 'NextContinuationToken') || undefined;
      if (token === undefined) break;
    }
    return found;
  }

  async remove(key: string): Promise<void> {
    await this.#expect('DELETE', this.#path(key), [200, 204, 404]);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  #path(key: string): string {
    if (!isKey(key)) throw new Error('a key of an object is a SHA-256');
    return `/${this.#settings.prefix.split('/').map(encoded).join('/')}${key}`;
  }

  async #expect(method: 'GET' | 'PUT' | 'DELETE', path: string, statuses: readonly number[], more: CallMore = {}) {
    const { statusCode, body } = await this.#call(method, path, more);
    const text = await textOf(body);
    if (statuses.includes(statusCode)) return text;
    throw this.#refused(method, statusCode, text);
  }

  #call(method: 'GET' | 'PUT' | 'DELETE', path: string, more: CallMore = {}): Promise<Dispatcher.ResponseData> {
    const { endpoint, bucket, keys, region, now } = this.#settings;
    const url = new URL(`${endpoint.replace(/\/$/, '')}/${encoded(bucket)}${path}`);
    for (const [name, value] of Object.entries(more.query ?? {})) url.searchParams.set(name, value);
    const sha256 = more.sha256 ?? emptySha256;
    // Blanks are signed as %20, and so are they sent.
    const query = [...url.searchParams].map(([name, value]) => `${encoded(name)}=${encoded(value)}`).toSorted();
    const headers = signed(
      { method, url, sha256, ...(more.headers && { headers: more.headers }) },
      keys,
      region,
      new Date(now()),
    );
    return this.#agent.request({
      origin: url.origin,
      path: url.pathname + (query.length === 0 ? '' : `?${query.join('&')}`),
      method,
      headers,
      signal: AbortSignal.timeout(more.wholeMs ?? wholeMs.call),
      ...(more.body !== undefined && { body: more.body }),
    });
  }

  /** Its word, such as `AccessDenied`, and nothing of what was sent. */
  #refused(method: string, status: number, text: string): Error {
    return new Error(`${this.where}: ${method} ${status} ${field(text, 'Code').slice(0, 100)}`.trim());
  }
}

interface CallMore {
  readonly query?: Readonly<Record<string, string>>;
  readonly sha256?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Readable;
  readonly wholeMs?: number;
}

async function textOf(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > answerBytes) throw new Error('the object store answers with more than 4 MiB');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** What stands in each element of a list; of one that does not end, nothing behind it is looked at. */
function* entriesIn(xml: string): Generator<string> {
  const [begin, end] = ['<Contents>', '</Contents>'];
  for (let from = xml.indexOf(begin); from !== -1; ) {
    const to = xml.indexOf(end, from);
    if (to === -1) return;
    yield xml.slice(from + begin.length, to);
    from = xml.indexOf(begin, to);
  }
}

/** The text of the first element of this name; nothing that is asked for has markup of its own in it. */
function field(xml: string, name: string): string {
  const text = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1] ?? '';
  return text.replace(/&(amp|lt|gt|quot|apos);/g, (_whole, one: string) => entities[one] ?? '');
}

const entities: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
