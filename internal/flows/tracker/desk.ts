// A connection of the tracker in use: its key for the moment of a call, and its limits.

import { callTracker } from '../../adapters/providers/tracker/tracker.ts';
import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { outsideFault } from '../../domain/outside.ts';
import type { FlowContext } from '../context.ts';
import { type Step, withinLimits } from '../outbox/outbox.ts';
import { connectionSecrets } from '../sealed.ts';

const resource = 'graphql';

export class TrackerDesk {
  readonly ctx: FlowContext;
  readonly connection: SealedConnection;

  constructor(ctx: FlowContext, connection: SealedConnection) {
    this.ctx = ctx;
    this.connection = connection;
  }

  /** The data of a query. Throws Fault. */
  read(query: string, variables: JsonObject): Promise<JsonObject> {
    return this.#repeated(() => this.#send(query, variables, false));
  }

  /** Sends as the only step of a write; `shape` makes of the data what the caller is told, as the reader does. */
  write<T extends Json>(
    step: Step,
    of: {
      readonly query: string;
      readonly variables: JsonObject;
      readonly probe: JsonObject;
      shape(data: JsonObject): T;
    },
  ): Promise<T> {
    const { query, variables, probe, shape } = of;
    return this.#repeated(() =>
      step({ probe, last: true }, async () => shape(await this.#send(query, variables, true))),
    );
  }

  #repeated<T>(send: () => Promise<T>): Promise<T> {
    return withinLimits(this.ctx, { connectionId: this.connection.id, resource }, send);
  }

  #send(query: string, variables: JsonObject, isWrite: boolean): Promise<JsonObject> {
    const { ctx, connection } = this;
    const key = connectionSecrets(ctx, connection)['apiKey'];
    if (typeof key !== 'string' || key === '') {
      throw outsideFault('credential-refused', `connection ${connection.name} has no key of the API; nothing was done`);
    }
    const apiUrl = textAt(connection.config['apiUrl']) ?? ctx.outbox?.trackerApiUrl ?? 'https://api.linear.app';
    return callTracker({ apiUrl, key, query, variables, isWrite, allowPrivate: ctx.config.allowPrivateNetwork });
  }
}
