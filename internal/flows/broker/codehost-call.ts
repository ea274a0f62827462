// One call of a session at the code host: the repository and the permissions that it was confined to, and the ways to ask
// and to write with them. Limits are waited for and noted, a token that was not taken is replaced; a write is a step of the
// outbox and is sent again only where the provider is known to have done nothing.

import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ApiAnswer,
  type ApiRequest,
  callApi,
  callMcp,
  mcpResource,
  RefusedCall,
} from '../../adapters/providers/codehost/codehost.ts';
import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { objectAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { apiUrlOf } from '../codehost-mounts.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import {
  type HeldToken,
  installationToken,
  type Permissions,
  permissionText,
  readyToken,
} from '../installation-token.ts';
import { checkSteps } from './confine.ts';
import { listed } from './shape.ts';
import { limitReached, passed, type Step, takeSlot } from '../outbox/outbox.ts';

/** A fresh token may not be known everywhere at once. */
const replicationMs = { within: 5_000, pause: 1_000 } as const;
const triesMax = 4;
/** What all that changes something counts against. */
const writes = 'write';

export interface CodehostCallOptions {
  readonly ctx: FlowContext;
  readonly project: Pick<ProjectRef, 'id' | 'orgId'>;
  readonly connection: SealedConnection;
  readonly installationId: string | undefined;
  /** `owner/name`, as the mount spells it. */
  readonly repository: string;
  readonly permissions: Permissions;
  /** Who says it, for the marks in bodies. */
  readonly session: { readonly id: string; readonly agent: string } | null;
}

export interface Ask {
  /** Below the repository, such as `/issues/1`; with `root`, from the API's address on. */
  readonly path: string;
  readonly isRoot?: boolean;
  readonly method?: ApiRequest['method'];
  readonly query?: ApiRequest['query'];
  readonly body?: Json;
  readonly accept?: string;
  readonly isPlain?: boolean;
  readonly leadsElsewhere?: boolean;
  readonly resource?: 'core' | 'search' | 'code_search';
  readonly mostBytes?: number;
  readonly mostValues?: number;
}

export class CodehostCall {
  readonly options: CodehostCallOptions;
  #step: Step | undefined;
  #callId: string | undefined;

  constructor(options: CodehostCallOptions) {
    this.options = options;
  }

  /** The same with the outbox behind it: it may write. */
  writing(step: Step, callId: string): this {
    this.#step = step;
    this.#callId = callId;
    return this;
  }

  get callId(): string {
    if (this.#callId === undefined) throw new Error('this call does not write');
    return this.#callId;
  }
  get owner(): string {
    return this.options.repository.split('/')[0] ?? '';
  }
  get base(): string {
    return `/repos/${this.options.repository.split('/').map(encodeURIComponent).join('/')}`;
  }
  get now(): Date {
    return this.options.ctx.runtime.now();
  }

  /** Reads. Throws Fault. */
  async read(ask: Ask): Promise<ApiAnswer> {
    checkSteps(ask.path);
    return this.#repeated(false, ask.resource ?? 'core', (token) => this.#send(token, ask, false));
  }

  async json(path: string, query?: Ask['query']): Promise<Json> {
    return (await this.read({ path, ...(query !== undefined && { query }) })).json;
  }

  /** A query of GraphQL; answers with its data. */
  async query(text: string, variables: JsonObject): Promise<JsonObject> {
    const answer = await this.#repeated(false, 'graphql', (token) => this.#graphql(token, text, variables, false));
    return objectAt(objectAt(answer.json)['data']);
  }

  /** Text as the provider renders it: nothing is kept there. */
  async render(body: Json): Promise<ApiAnswer> {
    const ask: Ask = { path: '/markdown', isRoot: true, method: 'POST', body, isPlain: true };
    return this.#repeated(false, 'core', (token) => this.#send(token, ask, false));
  }

  /** A tool of the provider's own server, with this call's repository and token. */
  async remote(url: string, tool: string, input: JsonObject): Promise<Json> {
    const { ctx, repository } = this.options;
    const [owner = '', repo = ''] = repository.split('/');
    const asked = { url, tool, input: { ...input, owner, repo }, allowPrivate: ctx.config.allowPrivateNetwork };
    const answer = await this.#repeated(false, mcpResource, (token) => callMcp({ ...asked, token }));
    return Array.isArray(answer) ? listed(answer as readonly Json[], undefined) : answer;
  }

  /** The value of an Authorization header, for the host's own addresses. */
  async authorization(): Promise<string> {
    return `Bearer ${(await installationToken(this.options.ctx, this.options)).token}`;
  }

  /**
   * Writes, as one step; `shape` makes of the provider's answer what the caller is told, as the reader of `probe` does.
   * `isLast`: the call is done with it.
   */
  async write<T extends Json>(
    ask: Ask & { readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE' },
    of: { readonly probe: JsonObject; readonly isLast?: boolean; shape(json: JsonObject, status: number): T },
  ): Promise<T> {
    checkSteps(ask.path);
    return this.#stepped(of, 'core', (token) =>
      this.#send(token, ask, true).then((answer) => of.shape(objectAt(answer.json), answer.status)),
    );
  }

  mutate<T extends Json>(
    text: string,
    input: JsonObject,
    of: { readonly probe: JsonObject; readonly isLast?: boolean; shape(data: JsonObject): T },
  ): Promise<T> {
    return this.mutateAll(text, { input }, of);
  }

  /** Several mutations in one request; the provider runs them one after another. */
  async mutateAll<T extends Json>(
    text: string,
    variables: JsonObject,
    of: { readonly probe: JsonObject; readonly isLast?: boolean; shape(data: JsonObject): T },
  ): Promise<T> {
    return this.#stepped(of, 'graphql', (token) =>
      this.#graphql(token, text, variables, true).then((answer) => of.shape(objectAt(objectAt(answer.json)['data']))),
    );
  }

  #stepped<T extends Json>(
    { probe, isLast = true }: { readonly probe: JsonObject; readonly isLast?: boolean },
    resource: ApiRequest['resource'],
    send: (token: string) => Promise<T>,
  ): Promise<T> {
    const step = this.#step;
    if (step === undefined) throw new Error('this call does not write');
    const { repository, installationId, permissions, session } = this.options;
    const where = { repository, permissions, ...(installationId !== undefined && { installationId }) };
    const kept = { ...where, ...probe, ...(session !== null && { agent: session.agent }) };
    return this.#repeated(true, resource, (token) => step({ probe: kept, last: isLast }, () => send(token)));
  }

  async #repeated<T>(isWrite: boolean, resource: string, send: (token: string) => Promise<T>): Promise<T> {
    const { ctx, connection } = this.options;
    const spacingMs = isWrite ? (ctx.outbox?.writeSpacingMs ?? 1_000) : 0;
    const resources = isWrite ? [writes, resource] : [resource];
    let refused: HeldToken | undefined;
    for (let tries = 1; ; tries += 1) {
      // Most reads find neither a limit nor a turn to wait for, and a token.
      const ready = tries === 1 && !isWrite ? await readyToken(ctx, this.options, resources) : undefined;
      const slot = { connectionId: connection.id, resources, spacingMs, isWrite };
      const isCounted = ready === undefined && (await takeSlot(ctx, slot));
      const held: HeldToken = ready ?? (await installationToken(ctx, this.options, refused));
      try {
        const answer = await send(held.token);
        if (tries > 1 || isCounted) await passed(ctx, connection.id, resources);
        return answer;
      } catch (error) {
        if (!(error instanceof RefusedCall)) throw error;
        refused = await this.#after(error, held, { tries, resource });
      }
    }
  }

  /** What to do where the provider did nothing: the token to replace, if any. Throws Fault where that is enough. */
  async #after(
    { why }: RefusedCall,
    held: HeldToken,
    { tries, resource }: { readonly tries: number; readonly resource: string },
  ): Promise<HeldToken | undefined> {
    const { ctx, connection } = this.options;
    if (why.kind === 'limited') {
      const reached = { connectionId: connection.id, seconds: why.seconds };
      const fault = await limitReached(ctx, { ...reached, resource: why.resource });
      // The host may call it otherwise than the calls that it stops do.
      if (why.resource !== resource && why.resource !== writes) await limitReached(ctx, { ...reached, resource });
      // A wait of half a minute at most is `takeSlot`'s.
      if (tries >= triesMax || (fault.retryAfterSeconds ?? 60) > 30) throw fault;
      return undefined;
    }
    const ageMs = this.now.getTime() - held.mintedAt.getTime();
    if (tries >= triesMax) {
      throw outsideFault(
        'credential-refused',
        `the code host does not take the token of connection ${connection.name}`,
      );
    }
    if (ageMs > replicationMs.within) return held;
    await sleep(replicationMs.pause);
    return tries === triesMax - 1 ? held : undefined;
  }

  get #needs(): string {
    return permissionText(this.options.permissions);
  }

  #send(token: string, ask: Ask, isWrite: boolean): Promise<ApiAnswer> {
    const { isRoot = false, path, method = 'GET', resource = 'core', ...rest } = ask;
    return callApi({
      apiUrl: apiUrlOf(this.options.ctx, this.options.connection),
      token,
      method,
      path: isRoot ? path : `${this.base}${path}`,
      isWrite,
      resource,
      needs: this.#needs,
      allowPrivate: this.options.ctx.config.allowPrivateNetwork,
      ...rest,
    });
  }

  #graphql(token: string, query: string, variables: JsonObject, isWrite: boolean): Promise<ApiAnswer> {
    return callApi({
      apiUrl: apiUrlOf(this.options.ctx, this.options.connection),
      token,
      method: 'POST',
      path: '/graphql',
      body: { query, variables },
      isWrite,
      resource: 'graphql',
      needs: this.#needs,
      allowPrivate: this.options.ctx.config.allowPrivateNetwork,
    });
  }
}
