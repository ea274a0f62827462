// Changes what a connection is set up with. An application that was installed anew has another installation: its connection
// goes on with it, under the same name, intake and credentials, once the code host has said that it is the application's.

import { changeConnectionConfig, type ObservedConnection } from '../../adapters/store/connections/connections.ts';
import { dropTokensOf } from '../../adapters/store/outbox/tokens.ts';
import { wishPullLooks } from '../../adapters/store/repositories/pull-polls.ts';
import { enqueueResyncs } from '../../adapters/store/repositories/resyncs.ts';
import type { SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { settingsTable } from '../../../schemas/connection.ts';
import { askedBy } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { isLoopback } from '../../domain/loopback.ts';
import { canonicalJson, type JsonObject } from '../../domain/json.ts';
import { changeStatus } from '../connection-status.ts';
import type { Actor, FlowContext, ProjectRef } from '../context.ts';
import { connectionSecrets } from '../sealed.ts';
import { addressOf, checkInstallation, known, shown, type Verdict } from './check.ts';

/**
 * Changes the settings that are given, null taking one away. Throws Fault `not_found`; `invalid` for a setting of another
 * provider; `unprocessable` where a credential would go to another host, the code host knows no such installation of the
 * application, or does not take its key; `unavailable` where it does not answer: then nothing is changed.
 */
export async function changeConfig(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  input: { readonly name: string; readonly config: { readonly [key: string]: string | number | null | undefined } },
): Promise<ObservedConnection> {
  const before = await known(ctx, project, input.name);
  const settings = settingsTable[before.provider] ?? [];
  const given = Object.entries(input.config).filter(
    (entry): entry is [string, string | number | null] => entry[1] !== undefined,
  );
  const foreign = given.find(([key]) => !settings.includes(key));
  if (foreign !== undefined) {
    throw new Fault(
      'invalid',
      'invalid-body',
      `config: ${foreign[0]} cannot be changed on a connection of ${before.provider}`,
    );
  }
  const changed = given.filter(([key, value]) => canonicalJson(before.config[key] ?? null) !== canonicalJson(value));
  if (changed.length === 0) return shown(ctx, project, input.name);
  const config = Object.fromEntries(changed);
  const kept = Object.entries({ ...before.config, ...config }).filter(([, value]) => value !== null);
  const connection = { ...before, config: Object.fromEntries(kept) };
  requireOwnCredentials(ctx, before, connection);
  const verdict = await verdictOf(ctx, connection, config);
  await ctx.db.tx(async (tx) => {
    const now = ctx.runtime.now();
    await changeConnectionConfig(tx, { id: before.id, config, observed: verdict?.observed, now });
    // What the old installation gave is of no use to the new one.
    await dropTokensOf(tx, before.id);
    await recordAudit(tx, {
      orgId: project.orgId,
      projectId: project.id,
      principal: actor,
      action: 'connection.updated',
      subject: { kind: 'Connection', name: before.name },
      detail: { provider: before.provider, connectionId: before.id, changed: Object.keys(config) },
    });
    const isOff = before.status === 'disabled' || before.status === 'inactive';
    if (verdict?.to !== undefined && !isOff) {
      await changeStatus(ctx, tx, { connection, to: verdict.to, reason: verdict.reason, actor });
    }
    await enqueueResyncs(tx, { orgId: project.orgId, projectId: project.id });
    await wishPullLooks(tx, { projectId: project.id, connection: before.name });
  });
  return shown(ctx, project, before.name);
}

/** Of a connection's credentials those that its provider is sent; the others prove what comes in. */
const sent = ['privateKey', 'token', 'apiKey', 'botToken'];

/** Throws Fault `unprocessable` where a credential that nobody is shown would go to another host than it was given for. */
function requireOwnCredentials(ctx: FlowContext, before: SealedConnection, connection: SealedConnection): void {
  const [was, is] = [before, connection].map((one) => new URL(addressOf(ctx, one)));
  // A provider that is tried out is on this machine, where it may be asked at all.
  if (was?.origin === is?.origin || isLoopback(is?.hostname ?? '')) return;
  if (!Object.keys(connectionSecrets(ctx, before)).some((key) => sent.includes(key))) return;
  throw new Fault(
    'unprocessable',
    'credentials-elsewhere',
    `The credentials of connection ${before.name} were given for ${was?.origin} and are sent nowhere else: remove it and add it anew there; nothing was changed`,
  );
}

/** What the code host says of the connection as it is to be; undefined where that asks for nothing. */
async function verdictOf(
  ctx: FlowContext,
  connection: SealedConnection,
  config: JsonObject,
): Promise<Verdict | undefined> {
  if (connection.provider !== 'codehost' || !askedBy.some((key) => key in config)) return undefined;
  const verdict = await checkInstallation(ctx, connection, null);
  const refuse = (code: string, message: string): Fault =>
    new Fault('unprocessable', code, `${message}; nothing was changed`);
  if (verdict?.to === 'removed') {
    throw refuse('installation-unknown', 'the code host knows no such installation of this application');
  }
  if (verdict?.reason === 'credential-refused') {
    throw refuse('credential-refused', 'the code host does not take the key of this application');
  }
  // One that limits its callers has not looked either.
  if (verdict !== undefined && (verdict.to === undefined || verdict.reason === 'provider-unavailable')) {
    throw new Fault('unavailable', 'provider-unavailable', 'the code host does not answer; nothing was changed');
  }
  return verdict;
}
