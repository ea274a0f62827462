// What a session's remote tool is given of a connection by consent: a token for its own resource, in the request alone.

import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { challengeOf, isWithin } from '../../core/consent/consent.ts';
import { Fault } from '../../domain/fault.ts';
import type { FlowContext } from '../context.ts';
import { oauthProviders } from '../../base/config/oauth-settings.ts';
import { isConsented } from './oauth-clients.ts';
import { authorizationRequired, connectionToken, type HeldToken, scopeChallenged } from './oauth-tokens.ts';

export interface ConsentedAccess {
  /** The header's value; with `refused`, another than the one before. Throws Fault. */
  authorization(refused?: boolean): Promise<string>;
  /** What a refusal leads to; undefined where another consent would change nothing. */
  wantsScopes(challenge: string | undefined): Promise<Fault | undefined>;
}

/** Access of one call to `url` through the connection of that name. */
export function consentedAccess(ctx: FlowContext, projectId: string, name: string, url: string): ConsentedAccess {
  let held: HeldToken | undefined;
  const find = async (): Promise<SealedConnection> => {
    const connection = await connectionByName(ctx.db, projectId, name);
    if (connection === undefined || !isConsented(ctx, connection.provider)) throw authorizationRequired(name);
    if (connection.status === 'disabled' || connection.status === 'inactive') throw authorizationRequired(name);
    const { url: own } = connection.config;
    const provider = oauthProviders(ctx.config.file).get(connection.provider);
    const resource = typeof own === 'string' ? own : provider?.resource;
    // What the configuration names beside it is the operator's word.
    if (provider?.mcpUrl === url) return connection;
    // A token is for the resource that it was asked for, whatever an author writes beside its name.
    if (resource !== undefined && !isWithin(resource, url)) {
      throw new Fault('unprocessable', 'connection-mismatch', `connection ${name} is for another server`);
    }
    return connection;
  };
  return {
    async authorization(refused) {
      const before = refused === true ? held?.generation : undefined;
      held = await connectionToken(ctx, await find(), before);
      return `Bearer ${held.accessToken}`;
    },
    async wantsScopes(challenge) {
      const said = challengeOf(challenge);
      if (said.error !== 'insufficient_scope' || held === undefined) return undefined;
      return scopeChallenged(ctx, await find(), held.generation, said.scopes);
    },
  };
}
