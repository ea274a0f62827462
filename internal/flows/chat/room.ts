// A connection of the chat provider in use: its token for the moment of a call, its limits, and where in the provider's
// workspace a session is.

import { callChat } from '../../adapters/providers/chat/chat.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { isUsable } from '../../domain/connection.ts';
import { idAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import { isCredential, isPlain } from '../../domain/text.ts';
import { withKey } from '../connection-status.ts';
import type { FlowContext } from '../context.ts';
import { type Step, withinLimits } from '../outbox/outbox.ts';
import { connectionSecrets } from '../sealed.ts';

export const product = 'slack';

/** Throws Fault `connection-inactive`. */
export async function chatConnection(ctx: FlowContext, projectId: string, name: string): Promise<SealedConnection> {
  const connection = await connectionByName(ctx.db, projectId, name);
  if (connection?.provider !== 'chat' || !isUsable(connection.status)) {
    throw outsideFault('connection-inactive', `there is no active chat connection ${name}`);
  }
  return connection;
}

export interface Workspace {
  readonly workspaceId: string;
  readonly botUserId: string | undefined;
}
/** What the provider calls a workspace, a person, a channel or a message; undefined for what can be the name of none. */
export const nameIn = (value: Json | undefined): string | undefined => {
  const text = textAt(value);
  return text !== undefined && text !== '' && text.length <= nameCharsMax && isPlain(text) ? text : undefined;
};
const nameCharsMax = 255;

type Args = { readonly [name: string]: Json | undefined };

const workspaces = new WeakMap<object, Map<string, Workspace>>();

/** Calls of one connection. */
export class ChatRoom {
  readonly ctx: FlowContext;
  readonly connection: SealedConnection;

  constructor(ctx: FlowContext, connection: SealedConnection) {
    this.ctx = ctx;
    this.connection = connection;
  }

  read(method: string, args: Args): Promise<JsonObject> {
    return this.#repeated(method, () => this.#send(method, args, false));
  }

  /** Sends as the only step of a write; `shape` makes of the result what the caller is told, as the reader does. */
  write<T extends Json>(
    step: Step,
    of: { readonly method: string; readonly args: Args; readonly probe: JsonObject; shape(result: JsonObject): T },
  ): Promise<T> {
    const { method, args, probe, shape } = of;
    return this.#repeated(method, () =>
      step({ probe, last: true }, async () => shape(await this.#send(method, args, true))),
    );
  }

  /** Who the connection is in its workspace: what its configuration says, else what the provider does. */
  async workspace(): Promise<Workspace> {
    const { id, config, sealed } = this.connection;
    const [workspaceId, botUserId] = [idAt(config['workspaceId']), idAt(config['botUserId'])];
    if (workspaceId !== undefined && botUserId !== undefined) return { workspaceId, botUserId };
    const known = workspaces.get(this.ctx.runtime) ?? new Map<string, Workspace>();
    workspaces.set(this.ctx.runtime, known);
    const key = `${id} ${sealed?.toString('hex', 0, 16) ?? ''}`;
    const before = known.get(key);
    if (before !== undefined) return before;
    const told = await this.read('auth.test', {});
    const found = {
      workspaceId: workspaceId ?? nameIn(told['team_id']) ?? '',
      botUserId: botUserId ?? nameIn(told['user_id']),
    };
    if (known.size > 1_000) known.clear();
    known.set(key, found);
    return found;
  }

  #repeated<T>(method: string, send: () => Promise<T>): Promise<T> {
    return withinLimits(this.ctx, { connectionId: this.connection.id, resource: method }, send);
  }

  #send(method: string, args: Args, isWrite: boolean): Promise<JsonObject> {
    const { ctx, connection } = this;
    const token = connectionSecrets(ctx, connection)['botToken'];
    if (!isCredential(token)) {
      throw outsideFault(
        'credential-refused',
        `connection ${connection.name} has no usable bot token; nothing was done`,
      );
    }
    const apiUrl = textAt(connection.config['apiUrl']) ?? ctx.outbox?.chatApiUrl ?? 'https://slack.com/api';
    const asked = { apiUrl, token, method, args, isWrite, allowPrivate: ctx.config.allowPrivateNetwork };
    return withKey(ctx, connection, () => callChat(asked));
  }
}
