// The code host on loopback: its REST API, its GraphQL, its git over HTTP, and the addresses that it signs. Real HTTP, real
// git repositories, tokens that an application's key mints. A request that the provider's published descriptions refuse
// is answered with 400 and kept in `schemaRefusals`; `fault` makes it slow, limited, or lose an answer after the work.

import { createVerify, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SimAnswer, Call, Handler, SimWorld } from './codehost-call.ts';
import { codeHandlers } from './codehost-code.ts';
import { answerGraphql } from './codehost-graphql.ts';
import { issueHandlers } from './codehost-issues.ts';
import { mayDo } from './codehost-permissions.ts';
import { pullHandlers } from './codehost-pulls.ts';
import { matchOperation, refusedBySchema } from './codehost-schema.ts';
import { type Actor, ApiRefusal, parsed, SimRepository } from './codehost-state.ts';
import { workHandlers } from './codehost-work.ts';
import { GitFixture, type FixtureFile } from './git-fixture.ts';
import { GitServer } from './git-server.ts';

export interface SimRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** As it came, parsed where it is JSON. */
  readonly body: unknown;
  readonly authorization: string | undefined;
  /** The operation of the description, `graphql`, `git`, or undefined. */
  readonly operation: string | undefined;
  readonly at: number;
  status: number;
}
export type SimFault =
  /** Instead of doing anything. */
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly headers?: { readonly [name: string]: string };
      readonly body?: object;
    }
  /** Do the work, and break the connection instead of answering. */
  | { readonly kind: 'lose' }
  /** Break the connection before any work. */
  | { readonly kind: 'drop' }
  /** Do the work, and answer so. */
  | { readonly kind: 'after'; readonly status: number; readonly body?: string }
  | { readonly kind: 'slow'; readonly delayMs: number };

interface Token {
  readonly token: string;
  /** Names; null: all of the installation. */
  readonly repositories: readonly string[] | null;
  readonly permissions: { readonly [name: string]: string };
  readonly mintedAt: number;
  revoked: boolean;
}

const handlers: { readonly [operation: string]: Handler } = {
  ...issueHandlers,
  ...pullHandlers,
  ...codeHandlers,
  ...workHandlers,
};
const granted = [
  'contents',
  'pull_requests',
  'issues',
  'checks',
  'statuses',
  'actions',
  'workflows',
  'secrets',
  'environments',
];

export interface SimulatorOptions {
  /** PEM of the application's public key: tokens that it did not sign are refused. */
  readonly appPublicKey?: string;
  readonly appId?: string;
  readonly port?: number;
}

export class CodehostSimulator implements SimWorld {
  readonly log: SimRequest[] = [];
  /** What a published description refused, with the request's name. */
  readonly schemaRefusals: string[] = [];
  readonly tokens = new Map<string, Token>();
  readonly repositories: SimRepository[] = [];
  /** What the installation was granted. */
  granted: { [name: string]: 'read' | 'write' } = Object.fromEntries(granted.map((name) => [name, 'write']));
  state: 'active' | 'suspended' | 'deleted' = 'active';
  installationId = '1';
  /** Asked for every request. */
  fault: (request: SimRequest) => SimFault | null = () => null;
  /** Hears what happens, as webhooks would tell it. */
  onEvent: (event: string, payload: object) => void = () => undefined;
  readonly bot: Actor = { login: 'svc-app[bot]', id: 77, type: 'Bot' };
  origin = '';
  readonly #options: SimulatorOptions;
  readonly #server: Server;
  readonly #signed = new Map<string, { readonly content: Buffer; readonly type: string }>();
  #git: GitServer | undefined;
  #root = '';
  #last = 1_000;

  constructor(options: SimulatorOptions = {}) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      this.#handle(request, response).catch((error: unknown) => {
        this.schemaRefusals.push(`simulator: ${(error as Error).stack}`);
        response.destroy();
      });
    });
  }

  async start(): Promise<this> {
    this.#root = await mkdtemp(join(tmpdir(), 'svc-codehost-'));
    this.#git = new GitServer({
      root: this.#root,
      allowPush: true,
      config: { 'uploadpack.allowAnySHA1InWant': 'true' },
    });
    await new Promise<void>((resolve) => this.#server.listen(this.#options.port ?? 0, '127.0.0.1', resolve));
    this.origin = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#git?.stop();
    await rm(this.#root, { recursive: true, force: true });
  }

  /** A repository with one commit on `main`. */
  async repository(fullName: string, files: { readonly [path: string]: FixtureFile } = { 'README.md': '# here\n' }) {
    const [owner = '', name = ''] = fullName.split('/');
    const git = await GitFixture.create(join(this.#root, owner, `${name}.git`));
    await git.commit(files, { message: 'Begin' });
    const repo = new SimRepository({ id: this.nextId(), owner, name, git });
    this.repositories.push(repo);
    return repo;
  }

  nextId(): number {
    this.#last += 1;
    return this.#last;
  }
  time(): string {
    return `${new Date().toISOString().slice(0, 19)}Z`;
  }
  sign(content: Buffer, type: string): string {
    const key = randomBytes(12).toString('hex');
    this.#signed.set(key, { content, type });
    return `${this.origin}/signed/${key}`;
  }
  happened(event: string, payload: object, repo: SimRepository): void {
    const { id, name, owner, fullName } = repo;
    const repository = { id, name, full_name: fullName, private: repo.private, owner: { login: owner } };
    this.onEvent(event, { ...payload, repository, installation: { id: Number(this.installationId) } });
  }
  /** Every token that was minted is worth nothing from now on. */
  revokeTokens(): void {
    for (const one of this.tokens.values()) one.revoked = true;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.origin);
    if (/\.git\//.test(url.pathname)) return this.#handleGit(request, response, url);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    const method = request.method ?? 'GET';
    const path = url.pathname.replace(/^\/api(\/v3)?(?=\/)/, '');
    const matched = matchOperation(method, path);
    const logged: SimRequest = {
      method,
      path,
      query: url.search,
      body: parsed(text),
      authorization: request.headers.authorization,
      operation: path === '/graphql' ? 'graphql' : matched?.name,
      at: Date.now(),
      status: 0,
    };
    this.log.push(logged);
    const fault = this.fault(logged);
    if (fault?.kind === 'drop') return void request.socket.destroy();
    if (fault?.kind === 'slow') await sleep(fault.delayMs);
    let answer: SimAnswer;
    if (fault?.kind === 'status')
      answer = { status: fault.status, body: fault.body ?? {}, ...(fault.headers && { headers: fault.headers }) };
    else answer = await this.#answer(logged, url, request).catch(refusal);
    if (fault?.kind === 'lose') return void request.socket.destroy();
    if (fault?.kind === 'after') answer = { status: fault.status, text: fault.body ?? '' };
    logged.status = answer.status ?? 200;
    const { body, text: said, bytes, headers } = answer;
    const content = bytes ?? (said === undefined ? (body === undefined ? '' : JSON.stringify(body)) : said);
    response.writeHead(answer.status ?? 200, {
      ...(content !== '' && { 'content-type': said === undefined ? 'application/json' : 'text/plain' }),
      ...headers,
    });
    response.end(answer.status === 204 ? '' : content);
  }
  async #answer(logged: SimRequest, url: URL, request: IncomingMessage): Promise<SimAnswer> {
    const signed = this.#signed.get(logged.path.replace('/signed/', ''));
    if (signed !== undefined) {
      // As the provider's storage: whoever sends a token there is refused.
      if (logged.authorization !== undefined) return { status: 400, body: { message: 'no credentials here' } };
      return { bytes: signed.content, headers: { 'content-type': signed.type } };
    }
    if (logged.path.startsWith('/user-attachments/files/')) return { status: 404, body: { message: 'Not Found' } };
    if (logged.path.startsWith('/app')) return this.#answerApp(logged, url);
    const token = this.#admit(logged.authorization);
    const base = {
      sim: this,
      accept: request.headers.accept ?? '',
      actor: this.bot,
      covers: this.#covered(token),
      body: (logged.body ?? {}) as Call['body'],
    };
    if (logged.operation === 'graphql') {
      const answer = await answerGraphql(base, base.body);
      if (answer.status === 400) this.schemaRefusals.push(`graphql: ${JSON.stringify(answer.body)}`);
      return answer;
    }
    const matched = matchOperation(logged.method, logged.path);
    if (matched === undefined) {
      this.schemaRefusals.push(`${logged.method} ${logged.path}: no such operation`);
      throw new ApiRefusal(404, 'Not Found');
    }
    this.#holdToSchema(matched, url, logged);
    if (logged.path === '/markdown') return this.#markdown(String(base.body['text']));
    const repo = this.#find(matched.params, base.covers);
    if (repo !== undefined && !mayDo(matched.name, token.permissions)) {
      throw new ApiRefusal(403, 'Resource not accessible by integration');
    }
    const handler = handlers[matched.name];
    if (handler === undefined) throw new Error(`no handler for ${matched.name}`);
    return handler({ ...base, params: matched.params, query: url.searchParams, repo: repo as SimRepository });
  }

  #holdToSchema(
    matched: { name: string; params: { readonly [name: string]: string } },
    url: URL,
    logged: SimRequest,
  ): void {
    const wrong = refusedBySchema(matched, url.searchParams, logged.body);
    if (wrong === undefined) return;
    this.schemaRefusals.push(`${matched.name}: ${wrong}`);
    throw new ApiRefusal(400, `the description refuses it: ${wrong}`);
  }

  /** Names in any case; one that was renamed redirects; a private one that the token does not cover is not there. */
  #find(params: { readonly [name: string]: string }, covers: readonly string[]): SimRepository | undefined {
    const { owner, repo: name } = params;
    if (owner === undefined || name === undefined) return undefined;
    const wanted = `${owner}/${name}`.toLowerCase();
    const found = this.repositories.find((one) => one.fullName.toLowerCase() === wanted);
    if (found === undefined || (found.private && !covers.includes(found.fullName)))
      throw new ApiRefusal(404, 'Not Found');
    if (found.movedTo !== undefined)
      throw new ApiRefusal(301, 'Moved Permanently', { url: `${this.origin}/repositories/1` });
    return found;
  }

  #admit(authorization: string | undefined): Token {
    const given = /^(?:bearer|token) (.+)$/i.exec(authorization ?? '')?.[1];
    const token = given === undefined ? undefined : this.tokens.get(given);
    if (token === undefined || token.revoked) throw new ApiRefusal(401, 'Bad credentials');
    return token;
  }

  #covered({ repositories }: Token): string[] {
    return this.repositories
      .filter(
        (one) => repositories === null || repositories.some((name) => name.toLowerCase() === one.name.toLowerCase()),
      )
      .map((one) => one.fullName);
  }

  /** An image of an attachment becomes an address that is good for a while. */
  #markdown(text: string): SimAnswer {
    const url = /!\[[^\]]*\]\(([^)]+)\)/.exec(text)?.[1];
    const kept = url === undefined ? undefined : this.#signed.get(`asset:${url}`);
    const address = kept === undefined ? (url ?? '') : this.sign(kept.content, kept.type);
    return { text: `<p><img src="${address}"></p>`, headers: { 'content-type': 'text/html' } };
  }
  /** What the host keeps under an attachment's address. */
  attach(url: string, content: Buffer, type: string): void {
    this.#signed.set(`asset:${url}`, { content, type });
  }

  #answerApp(logged: SimRequest, url: URL): SimAnswer {
    this.#checkApp(logged.authorization);
    const matched = matchOperation(logged.method, logged.path);
    if (matched === undefined) throw new ApiRefusal(404, 'Not Found');
    this.#holdToSchema(matched, url, logged);
    if (matched.name === 'GET /app') return { body: { id: 1, slug: 'svc-app', name: 'svc' } };
    const id = matched.params['installation_id'];
    if (this.state === 'deleted' || id !== this.installationId) throw new ApiRefusal(404, 'Not Found');
    if (matched.name === 'GET /app/installations/{installation_id}') {
      const suspended = this.state === 'suspended' ? this.time() : null;
      const shown = {
        id: Number(id),
        app_slug: 'svc-app',
        repository_selection: 'selected',
        permissions: this.granted,
      };
      return {
        body: { ...shown, suspended_at: suspended, account: { login: this.repositories[0]?.owner ?? 'o', id: 1 } },
      };
    }
    if (this.state === 'suspended') throw new ApiRefusal(403, 'This installation has been suspended');
    return this.#mint((logged.body ?? {}) as { repositories?: string[]; permissions?: { [name: string]: string } });
  }

  #mint({ repositories, permissions }: { repositories?: string[]; permissions?: { [name: string]: string } }) {
    for (const [name, level] of Object.entries(permissions ?? {})) {
      if (name !== 'metadata' && this.granted[name] !== 'write' && this.granted[name] !== level) {
        throw new ApiRefusal(422, 'The permissions requested are not granted to this installation.');
      }
    }
    const known = this.repositories.map((one) => one.name.toLowerCase());
    if ((repositories ?? []).some((name) => !known.includes(name.toLowerCase()))) {
      throw new ApiRefusal(
        422,
        'There is at least one repository that does not exist or is not accessible to the parent installation.',
      );
    }
    const part = (bytes: number): string => randomBytes(bytes).toString('base64url');
    const token = `ghs_1_${part(30)}.${part(300)}.${part(40)}`;
    // The provider's trap: an empty list is all of them.
    const names = repositories === undefined || repositories.length === 0 ? null : repositories;
    const kept = { token, repositories: names, permissions: { metadata: 'read', ...(permissions ?? this.granted) } };
    this.tokens.set(token, { ...kept, mintedAt: Date.now(), revoked: false });
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    const selection = names === null ? 'all' : 'selected';
    return {
      status: 201,
      body: { token, expires_at: expires, permissions: kept.permissions, repository_selection: selection },
    };
  }

  #checkApp(authorization: string | undefined): void {
    const [head, claims, signature] = (/^bearer (.+)$/i.exec(authorization ?? '')?.[1] ?? '').split('.');
    const { appPublicKey } = this.#options;
    const isSigned =
      appPublicKey === undefined ||
      createVerify('RSA-SHA256')
        .update(`${head}.${claims}`)
        .verify(appPublicKey, signature ?? '', 'base64url');
    if (!isSigned || signature === undefined) throw new ApiRefusal(401, 'A JSON web token could not be decoded');
  }

  async #handleGit(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const basic = Buffer.from(/^Basic (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? '', 'base64').toString();
    const token = this.tokens.get(basic.replace(/^x-access-token:/, ''));
    const isPush = /git-receive-pack/.test(url.pathname + url.search);
    const logged: SimRequest = {
      method: request.method ?? 'GET',
      path: url.pathname,
      query: url.search,
      body: undefined,
      authorization: request.headers.authorization,
      operation: isPush ? 'git push' : 'git fetch',
      at: Date.now(),
      status: 0,
    };
    this.log.push(logged);
    const fault = this.fault(logged);
    if (fault?.kind === 'drop') return void request.socket.destroy();
    if (fault?.kind === 'slow') await sleep(fault.delayMs, undefined, { ref: false });
    const name = /^\/([^/]+\/[^/]+)\.git\//.exec(url.pathname)?.[1] ?? '';
    const repo = this.repositories.find((one) => one.fullName.toLowerCase() === name.toLowerCase());
    const isPublic = repo?.private === false && !isPush;
    const level = token?.permissions['contents'];
    const isCovered = token !== undefined && repo !== undefined && this.#covered(token).includes(repo.fullName);
    const isLet = token?.revoked === false && isCovered && (level === 'write' || (level === 'read' && !isPush));
    if (fault?.kind === 'status' || repo === undefined || (!isPublic && !isLet)) {
      request.resume();
      logged.status = fault?.kind === 'status' ? fault.status : token?.revoked !== false ? 401 : isCovered ? 403 : 404;
      const challenge = logged.status === 401 ? { 'www-authenticate': 'Basic realm="code host"' } : {};
      const body = fault?.kind === 'status' && fault.body !== undefined ? JSON.stringify(fault.body) : undefined;
      response.writeHead(logged.status, { ...challenge, ...(fault?.kind === 'status' && fault.headers) }).end(body);
      return;
    }
    if (fault?.kind === 'lose') response.end = (() => response.destroy()) as typeof response.end;
    await this.#git?.handle(request, response);
    logged.status = response.statusCode;
  }
}

function refusal(error: unknown): SimAnswer {
  if (error instanceof ApiRefusal) return { status: error.status, body: error.body };
  throw error;
}
