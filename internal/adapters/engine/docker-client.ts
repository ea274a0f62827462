// The API of Docker, and of Podman that speaks it too, over its socket or over TCP (API 1.41). Bounded answers, and each
// refusal as an EngineError.

import type { Duplex } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import { Joined } from '../../base/joined.ts';
import { EngineError } from './types.ts';

export interface DockerAddress {
  /** A Unix socket of this machine. */
  readonly socket?: string;
  /** `host:port`; without `tls` only on loopback. */
  readonly host?: string;
  /** PEM. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

export interface DockerAnswer {
  readonly status: number;
  /** Of JSON; a text where it is none. */
  readonly body: unknown;
}

interface Call {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly body?: object | Buffer;
  readonly signal?: AbortSignal | undefined;
  /** How long the answer may take; 0: as long as it likes. Default 60 s. */
  readonly timeoutMs?: number;
}

const api = '/v1.41';
const answerBytes = 16 * 1024 * 1024;
/** Of an answer in lines, one of them. */
const lineBytes = 1024 * 1024;
const newline = 10;
const callMs = 60_000;
const connectMs = 5_000;

export class DockerClient {
  readonly #agent: Agent;
  readonly #origin: string;
  /** For messages: where it is. */
  readonly where: string;

  constructor({ socket, host, tls }: DockerAddress) {
    const connect = { timeout: connectMs, ...(socket !== undefined && { socketPath: socket }), ...tls };
    // A stream into a box keeps its connection to itself; the others are few.
    this.#agent = new Agent({ connect, headersTimeout: 0, bodyTimeout: 0, pipelining: 1 });
    this.#origin = `${tls === undefined ? 'http' : 'https'}://${host ?? 'engine'}`;
    this.where = socket ?? host ?? '';
  }

  /** Throws EngineError for an engine that does not answer, refuses the caller or fails by itself; else gives the answer. */
  async call(path: string, options: Call = {}): Promise<DockerAnswer> {
    const response = await this.#request(path, options);
    const text = await this.#read(response.body);
    const answer = { status: response.statusCode, body: parsed(text) };
    const { status } = answer;
    if (status === 401 || status === 403) throw this.refused('engine-refused', answer);
    return answer;
  }

  /** As `call`, and throws EngineError `engine-unreachable` for any status but those that are expected. */
  async expect(path: string, expected: readonly number[], options: Call = {}): Promise<DockerAnswer> {
    const answer = await this.call(path, options);
    if (expected.includes(answer.status)) return answer;
    throw this.refused('engine-unreachable', answer);
  }

  /** An answer as it comes, in lines. Throws Error for one that does not end within its bound. */
  async *lines(path: string, options: Call): AsyncGenerator<string> {
    const response = await this.#request(path, { timeoutMs: 0, ...options });
    if (response.statusCode >= 400) {
      const answer = { status: response.statusCode, body: parsed(await this.#read(response.body)) };
      yield JSON.stringify({ error: messageOf(answer) });
      return;
    }
    const pending = new Joined();
    const add = (part: Buffer): void => {
      if (pending.length + part.length > lineBytes) throw new Error('a line over 1 MiB');
      pending.add(part);
    };
    const take = (): string[] => [pending.take().toString('utf8')].filter((line) => line.trim() !== '');
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      let start = 0;
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
        add(chunk.subarray(start, at));
        yield* take();
        start = at + 1;
      }
      add(chunk.subarray(start));
    }
    yield* take();
  }

  /** The connection itself, after the engine has agreed to give it up. */
  async upgrade(path: string, body?: object): Promise<Duplex> {
    const options = {
      origin: this.#origin,
      path: api + path,
      method: 'POST',
      protocol: 'tcp',
      ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(callMs),
    } as const;
    try {
      const { socket } = await this.#agent.upgrade(options);
      return socket;
    } catch (error) {
      throw this.unreachable(error);
    }
  }

  refused(code: EngineError['code'], answer: DockerAnswer): EngineError {
    return new EngineError(code, `The engine at ${this.where}: ${messageOf(answer)} (${answer.status})`);
  }

  unreachable(error: unknown): EngineError {
    const { code, message } = error as { code?: string; message?: string };
    const isForbidden = code === 'EACCES' || code === 'EPERM';
    const text = `The engine at ${this.where} ${isForbidden ? 'may not be opened' : 'does not answer'} (${code ?? message ?? 'no answer'})`;
    return new EngineError(isForbidden ? 'engine-refused' : 'engine-unreachable', text, { cause: error });
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #request(
    path: string,
    { method = 'GET', body, signal, timeoutMs = callMs }: Call,
  ): Promise<Dispatcher.ResponseData> {
    const limit = timeoutMs === 0 ? [] : [AbortSignal.timeout(timeoutMs)];
    const signals = [...limit, ...(signal === undefined ? [] : [signal])];
    const isArchive = Buffer.isBuffer(body);
    try {
      return await this.#agent.request({
        origin: this.#origin,
        path: api + path,
        method,
        ...(body !== undefined && {
          headers: { 'content-type': isArchive ? 'application/x-tar' : 'application/json' },
          body: isArchive ? body : JSON.stringify(body),
        }),
        ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw this.unreachable(error);
    }
  }

  async #read(body: Dispatcher.ResponseData['body']): Promise<string> {
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        size += chunk.length;
        if (size > answerBytes) throw new Error('an answer over 16 MiB');
        chunks.push(chunk);
      }
    } catch (error) {
      throw this.unreachable(error);
    }
    return Buffer.concat(chunks).toString('utf8');
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** What the engine said, in one bounded line. */
export function messageOf({ body }: DockerAnswer): string {
  const found = typeof body === 'object' && body !== null && 'message' in body ? body.message : body;
  const text = typeof found === 'string' ? found : JSON.stringify(found ?? '');
  return text.trim().slice(0, 4_000).replace(/\s+/g, ' ').slice(0, 400);
}

/** A field of an answer, however deep; undefined where it is not there. */
export function field(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (found, name) =>
      typeof found === 'object' && found !== null ? (found as Readonly<Record<string, unknown>>)[name] : undefined,
    value,
  );
}

export const textField = (value: unknown, ...path: readonly string[]): string => {
  const found = field(value, ...path);
  return typeof found === 'string' ? found : '';
};
