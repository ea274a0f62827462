// What a provider's delivery would be as an event (docs/reference/connections.md#intakes): the naming of the intake without its
// proof, its record and its consequences. For explanations; changes nothing.

import * as chat from '../../adapters/providers/chat/chat.ts';
import * as codehost from '../../adapters/providers/codehost/codehost.ts';
import * as tracker from '../../adapters/providers/tracker/tracker.ts';
import { agentUsernames, factId, readFacts } from '../../adapters/store/connections/provider-facts.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import type { Delivery, NamedEvent } from '../../domain/delivery.ts';
import { Fault } from '../../domain/fault.ts';
import { idAt, textAt } from '../../domain/fields.ts';
import type { JsonObject } from '../../domain/json.ts';
import { messageOf } from '../../domain/messages.ts';
import type { FlowContext, ProjectRef } from '../context.ts';

export interface RawDelivery {
  /** Name of the connection that it would come through. */
  readonly connection: string;
  /** How the provider names it beside the body: X-GitHub-Event of a code host. */
  readonly event: string | undefined;
  readonly body: JsonObject;
}

export type Named = { readonly ignored: string } | { readonly event: NamedEvent; readonly ignored?: undefined };

/** Throws Fault `not_found` for the connection, `invalid` for a body or name that cannot be one of its provider. */
export async function nameDelivery(ctx: FlowContext, project: ProjectRef, given: RawDelivery): Promise<Named> {
  const connection = await connectionByName(ctx.db, project.id, given.connection);
  if (connection === undefined) {
    throw new Fault('not_found', 'connection-not-found', messageOf('noConnection', given.connection));
  }
  const delivery = await normalized(ctx, connection, given);
  if (delivery.kind === 'malformed') throw new Fault('invalid', 'invalid-body', delivery.reason);
  if (delivery.kind === 'ignored') return { ignored: delivery.reason };
  const known = await readFacts(ctx.db, connection.id, delivery.needs ?? []);
  const { event } = delivery.finish?.((fact) => known.get(factId(fact))) ?? delivery;
  return { event: { ...event, payload: { ...event.payload, raw: given.body } } };
}

async function normalized(ctx: FlowContext, connection: SealedConnection, given: RawDelivery): Promise<Delivery> {
  const { config, provider } = connection;
  const { body, event } = given;
  const usernames = await agentUsernames(ctx.db, connection.projectId);
  const botUserId = idAt(config['botUserId']);
  if (provider === 'tracker') return tracker.normalize(body, { botUserId, usernames });
  if (provider === 'chat') return chat.normalize(body, { botUserId, workspaceId: idAt(config['workspaceId']) });
  if (provider !== 'codehost') {
    throw new Fault('invalid', 'invalid-connection', `No deliveries come through ${connection.name}.`);
  }
  if (event === undefined || event === '') {
    throw new Fault('invalid', 'invalid-body', 'event: name what the code host sends as X-GitHub-Event, such as push');
  }
  const self = { appId: idAt(config['appId']), botLogin: textAt(config['botLogin']), usernames };
  return codehost.normalize(event, 'explained', body, self);
}
