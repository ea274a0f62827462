// A git server on loopback: `git http-backend` behind Node, as stock git serves smart HTTP. The demo serves its
// repository with it; tests also read its log of requests and make it misbehave.

import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gitEnvironment } from './git-fixture.ts';
import { type Program, startProgram } from './programs.ts';

export interface LoggedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly gitProtocol: string | undefined;
  readonly authorization: string | undefined;
  status: number;
  bytesUp: number;
  /** Bytes of the body that was sent. */
  bytesDown: number;
  /** The request's body, where `keepBodies` is set. */
  body: string;
}

/** What to do instead of answering. */
export type Fault =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: string;
    }
  /** Answer, and destroy the connection after so many bytes of the body. */
  | { readonly kind: 'cut'; readonly afterBytes: number }
  /** Answer, and end the body early as if it were complete. */
  | { readonly kind: 'truncate'; readonly afterBytes: number }
  /** Wait before answering at all. */
  | { readonly kind: 'slow'; readonly delayMs: number }
  /** Wait before answering until this has come to an end. */
  | { readonly kind: 'hold'; readonly until: Promise<unknown> }
  /** Begin to answer and then say nothing more. */
  | { readonly kind: 'stall'; readonly afterBytes: number }
  /** Send this as the answer of git, and then end it, or destroy the connection. */
  | { readonly kind: 'replace'; readonly body: (real: Buffer) => Buffer; readonly cut?: boolean };

export interface GitServerOptions {
  /** Directory whose subdirectories are the repositories. */
  readonly root: string;
  /** `uploadpack.allowFilter`, which stock git has off. Default true. */
  readonly allowFilter?: boolean;
  /** Hand `Git-Protocol` on to git; without it a server speaks version 0. Default true. */
  readonly passProtocol?: boolean;
  /** Further git configuration for every repository, such as `uploadpackfilter.tree.maxDepth`. */
  readonly config?: Readonly<Record<string, string>>;
  /** Let clients push. Default false. */
  readonly allowPush?: boolean;
  /** Ask for HTTP Basic with one of these tokens (any user name, unless one is given). */
  readonly auth?: { readonly username?: string; readonly tokens: readonly string[] };
  /** Certificate and key in PEM: serve https. */
  readonly tls?: { readonly cert: string; readonly key: string };
  readonly keepBodies?: boolean;
  /** Port to listen on; 0, the default, takes a free one. */
  readonly port?: number;
}

export class GitServer {
  readonly log: LoggedRequest[] = [];
  /** Asked for every request; null answers as usual. */
  fault: (request: LoggedRequest, index: number) => Fault | null = () => null;
  options: GitServerOptions;
  readonly #server: Server;
  readonly #running = new Set<Program>();

  constructor(options: GitServerOptions) {
    this.options = options;
    const listener = (request: IncomingMessage, response: ServerResponse) => {
      this.handle(request, response).catch((error: unknown) => {
        response.destroy(error instanceof Error ? error : undefined);
      });
    };
    this.#server = options.tls === undefined ? createHttpServer(listener) : createHttpsServer(options.tls, listener);
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.options.port ?? 0, '127.0.0.1', resolve);
    });
    return this;
  }

  async stop(): Promise<void> {
    for (const git of this.#running) git.kill();
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** `http://127.0.0.1:<port>`. */
  get origin(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `${this.options.tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  }

  /** The address of a repository, by its directory's name. */
  url(repository: string): string {
    return `${this.origin}/${repository}`;
  }

  /** Number of requests and bytes of bodies sent since the log was last emptied. */
  traffic(): { requests: number; bytesDown: number } {
    return { requests: this.log.length, bytesDown: this.log.reduce((sum, { bytesDown }) => sum + bytesDown, 0) };
  }

  /** Serves one request, also of another server's. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = '/', query = ''] = (request.url ?? '/').split('?');
    const { authorization } = request.headers;
    const gitProtocol = request.headers['git-protocol'];
    const logged: LoggedRequest = {
      method: request.method ?? 'GET',
      path: decodeURIComponent(path),
      query,
      gitProtocol: typeof gitProtocol === 'string' ? gitProtocol : undefined,
      authorization,
      status: 0,
      bytesUp: 0,
      bytesDown: 0,
      body: '',
    };
    const index = this.log.push(logged) - 1;
    const body: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) body.push(chunk);
    const input = Buffer.concat(body);
    logged.bytesUp = input.length;
    if (this.options.keepBodies === true) logged.body = input.toString('latin1');
    const fault = this.fault(logged, index);
    // Whoever asked may have left long before: nothing stays up for that.
    if (fault?.kind === 'slow') await sleep(fault.delayMs, undefined, { ref: false });
    if (fault?.kind === 'hold') await fault.until;
    if (fault?.kind === 'status') {
      this.#reply(response, logged, fault.status, fault.headers ?? {}, Buffer.from(fault.body ?? ''));
    } else if (!this.#admits(authorization)) {
      this.#reply(response, logged, 401, { 'www-authenticate': 'Basic realm="git"' }, Buffer.from(''));
    } else await this.#serve(request, response, logged, input, fault);
  }

  #admits(authorization: string | undefined): boolean {
    const { auth } = this.options;
    if (auth === undefined) return true;
    const given = Buffer.from(/^Basic (.+)$/.exec(authorization ?? '')?.[1] ?? '', 'base64').toString('utf8');
    const colon = given.indexOf(':');
    const user = auth.username === undefined || given.slice(0, colon) === auth.username;
    return colon > 0 && user && auth.tokens.includes(given.slice(colon + 1));
  }

  #reply(
    response: ServerResponse,
    logged: LoggedRequest,
    status: number,
    headers: Record<string, string>,
    body: Buffer,
  ): void {
    logged.status = status;
    logged.bytesDown = body.length;
    response.writeHead(status, headers);
    response.end(body);
  }

  async #serve(
    request: IncomingMessage,
    response: ServerResponse,
    logged: LoggedRequest,
    input: Buffer,
    fault: Fault | null,
  ): Promise<void> {
    const env = this.#environment(request, logged, input.length);
    const git = startProgram({ file: 'git', args: ['http-backend'], env });
    this.#running.add(git);
    const over = (): void => void this.#running.delete(git);
    git.ended.then(over, over);
    response.once('close', () => git.kill());
    // Git may stop reading early (it refuses the request): what it answers is still the answer.
    git.stdin.on('error', () => undefined);
    git.stdin.end(input);
    const sender = new Sender(response, logged, fault);
    let head: Buffer | null = Buffer.alloc(0);
    for await (const chunk of git.stdout as AsyncIterable<Buffer>) {
      if (head === null) {
        if (!(await sender.send(chunk))) return;
        continue;
      }
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      if (end < 0) continue;
      sender.head(head.toString('latin1', 0, end));
      const rest = head.subarray(end + 4);
      head = null;
      if (!(await sender.send(rest))) return;
    }
    if (head !== null) sender.head('Status: 500 Internal Server Error');
    sender.end();
  }

  #environment(request: IncomingMessage, logged: LoggedRequest, length: number): Record<string, string> {
    const config: Record<string, string> = {
      'uploadpack.allowFilter': String(this.options.allowFilter ?? true),
      'http.receivepack': String(this.options.allowPush ?? false),
      'safe.directory': '*',
      ...this.options.config,
    };
    const entries = Object.entries(config).flatMap(([key, value], index) => [
      [`GIT_CONFIG_KEY_${index}`, key],
      [`GIT_CONFIG_VALUE_${index}`, value],
    ]);
    return gitEnvironment({
      GIT_PROJECT_ROOT: this.options.root,
      GIT_HTTP_EXPORT_ALL: '1',
      REQUEST_METHOD: logged.method,
      PATH_INFO: logged.path,
      QUERY_STRING: logged.query,
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      // git compresses larger requests, such as a long list of wants.
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      CONTENT_LENGTH: String(length),
      REMOTE_ADDR: '127.0.0.1',
      REMOTE_USER: 'demo',
      GIT_CONFIG_COUNT: String(entries.length / 2),
      ...(Object.fromEntries(entries) as Record<string, string>),
      ...((this.options.passProtocol ?? true) && logged.gitProtocol !== undefined
        ? { GIT_PROTOCOL: logged.gitProtocol }
        : {}),
    });
  }
}

/** Sends an answer on, as far as the fault lets it. */
class Sender {
  #sent = 0;
  #held: Buffer[] = [];
  readonly #response: ServerResponse;
  readonly #logged: LoggedRequest;
  readonly #fault: Fault | null;

  constructor(response: ServerResponse, logged: LoggedRequest, fault: Fault | null) {
    this.#response = response;
    this.#logged = logged;
    this.#fault = fault;
  }

  head(text: string): void {
    let status = 200;
    const headers: Record<string, string> = {};
    for (const line of text.split('\r\n')) {
      const colon = line.indexOf(':');
      const [name, value] = [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      if (name === 'status') status = Number.parseInt(value, 10);
      else headers[name] = value;
    }
    this.#logged.status = status;
    this.#response.writeHead(status, headers);
  }

  /** False once nothing more is to be sent. */
  async send(chunk: Buffer): Promise<boolean> {
    const fault = this.#fault;
    if (fault?.kind === 'replace') {
      this.#held.push(chunk);
      return true;
    }
    const limit = fault !== null && 'afterBytes' in fault ? fault.afterBytes : Number.POSITIVE_INFINITY;
    const part = chunk.subarray(0, Math.max(0, limit - this.#sent));
    this.#sent += part.length;
    this.#logged.bytesDown = this.#sent;
    const flushed = this.#response.write(part);
    if (part.length === chunk.length) {
      if (!flushed && !this.#response.destroyed) {
        await new Promise<void>((resolve) => {
          const done = () => {
            this.#response.off('drain', done).off('close', done);
            resolve();
          };
          this.#response.on('drain', done).on('close', done);
        });
      }
      return !this.#response.destroyed;
    }
    if (fault?.kind === 'cut') setImmediate(() => this.#response.destroy());
    if (fault?.kind === 'truncate') this.#response.end();
    return false;
  }

  end(): void {
    if (this.#fault?.kind === 'replace') {
      const body = this.#fault.body(Buffer.concat(this.#held));
      this.#logged.bytesDown = body.length;
      if (this.#fault.cut === true) this.#response.write(body, () => this.#response.destroy());
      else this.#response.end(body);
    } else this.#response.end();
  }
}
