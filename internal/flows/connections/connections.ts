// Connections to providers: made with credentials that are sealed and never shown, listed, removed (contract, section
// 3). Decides what a connection is called to authors, what its removal means for triggers, and which repositories look
// again. It holds the lock of the project, so that no apply resolves a trigger against a connection that is going. It
// never talks to a provider.

import { inApply } from '../../adapters/store/routing/project-lock.ts';
import {
  type ConnectionRow,
  deleteConnection,
  findConnection,
  insertConnection,
  triggersNeeding,
} from '../../adapters/store/connections/connections.ts';
import type { Sealed } from '../../adapters/crypto/crypto.ts';
import type { ConnectionInput } from '../../../schemas/connection.ts';
import { Fault } from '../../domain/fault.ts';
import type { JsonObject } from '../../domain/json.ts';
import { type Actor, type FlowContext, portsOf, type ProjectRef } from '../context.ts';
import { countSealed } from '../secrets/secrets.ts';
import { tell } from './connection-change.ts';

export type { SetupCaller } from './errtrack-authority.ts';
export { selectRecipients } from './errtrack-publish.ts';
export { issueDetails, latestEvent, listAllowed, search } from './errtrack-reads.ts';
export { listOptions, updateSelection } from './errtrack-selection.ts';
export { cancelSetup, startSetup, takeCallback } from './errtrack-setup.ts';
export { readSetup } from './errtrack-status.ts';

/** Where a provider sends its webhooks. */
export function intakeUrl(ctx: FlowContext, row: Pick<ConnectionRow, 'provider' | 'id'>): string {
  return `${ctx.baseUrl}/api/v1/intake/${row.provider}/${row.id}`;
}

const noConnection = (): Fault =>
  new Fault('not_found', 'not-found', 'There is no such resource, or it is not visible to you.');

/** One connection of a project. Throws Fault `not_found`. */
export async function readConnection(ctx: FlowContext, project: ProjectRef, name: string): Promise<ConnectionRow> {
  const found = await findConnection(ctx.db, project.id, name);
  if (found === undefined) throw noConnection();
  return found;
}

/** Makes an active connection. Throws Fault `conflict` for a taken name. */
export async function addConnection(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  input: ConnectionInput,
): Promise<ConnectionRow> {
  const { provider, name } = input;
  const config = (input.config ?? {}) as JsonObject;
  const id = ctx.runtime.uuid();
  const now = ctx.runtime.now();
  const sealed = sealCredentials(ctx, project, name, input.credentials);
  // What authors write as a tool's provider: the product behind a chat connection.
  const product = input.provider === 'chat' ? (input.config?.provider ?? 'slack') : provider;
  return inApply(ctx.db, project.id, async (tx) => {
    const made = await insertConnection(tx, {
      id,
      projectId: project.id,
      provider,
      product,
      name,
      config,
      now,
      ...sealed,
    });
    if (!made) throw new Fault('conflict', 'name-taken', `a connection named ${name} exists already`);
    const row: ConnectionRow = { id, provider, name, status: 'active', config };
    await tell(ctx, tx, { project, actor, row, what: 'established', detail: {} });
    await countSealed(ctx, tx, sealed.keyVersion);
    return row;
  });
}

function sealCredentials(ctx: FlowContext, project: ProjectRef, name: string, credentials: object): Sealed {
  const plaintext = Buffer.from(JSON.stringify(credentials), 'utf8');
  const binding = { orgId: project.orgId, projectId: project.id, name, use: 'connection' as const };
  try {
    return portsOf(ctx).sealer.seal(plaintext, binding);
  } finally {
    plaintext.fill(0);
  }
}

/**
 * Removes a connection; optional triggers that it served are skipped until there is another. Throws Fault `not_found`,
 * or `conflict` naming the agents whose triggers cannot go without it.
 */
export async function removeConnection(
  ctx: FlowContext,
  project: ProjectRef,
  actor: Actor,
  name: string,
): Promise<void> {
  await inApply(ctx.db, project.id, async (tx) => {
    const row = await findConnection(tx, project.id, name);
    if (row === undefined) throw noConnection();
    const needing = await triggersNeeding(tx, row.id);
    if (needing.length > 0) throw inUse(name, needing);
    const skipped = await deleteConnection(tx, row.id);
    await tell(ctx, tx, { project, actor, row, what: 'removed', detail: { skippedTriggers: skipped } });
  });
}

function inUse(name: string, needing: readonly { readonly agent: string; readonly ordinal: number }[]): Fault {
  const named = needing.slice(0, 10).map(({ agent, ordinal }) => `${agent} (trigger ${ordinal})`);
  const more = needing.length > named.length ? ` and ${needing.length - named.length} more` : '';
  return new Fault(
    'conflict',
    'connection-in-use',
    `connection ${name} is needed by ${named.join(', ')}${more}; remove these triggers, or make them optional, first`,
  );
}
