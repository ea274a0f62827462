// Tokens of a code host's installation, each for one repository and the least that a call needs. Kept sealed in the
// database for all daemons, until four fifths of their life; of those who need one at once, one mints and the others wait.
// A token is in memory while it is used, in the request that carries it, and nowhere else.

import { setTimeout as sleep } from 'node:timers/promises';
import type { MintReason } from '../adapters/providers/codehost/codehost.ts';
import {
  claimMint,
  dropToken,
  keepToken,
  readReadyToken,
  readToken,
  type TokenRow,
  yieldMint,
} from '../adapters/store/outbox/tokens.ts';
import type { SealedConnection } from '../adapters/store/secrets/credentials.ts';
import { countWraps } from '../adapters/store/secrets/keys.ts';
import type { Fault } from '../domain/fault.ts';
import { canonicalJson } from '../domain/json.ts';
import { outsideFault } from '../domain/outside.ts';
import { apiUrlOf, settingText } from './codehost-mounts.ts';
import { changeStatus, serviceActor } from './connection-status.ts';
import { type FlowContext, sealingOf, tokensOf } from './context.ts';
import { limitReached, passed, takeSlot } from './provider-limits.ts';
import { connectionSecrets } from './sealed.ts';

export type Permissions = { readonly [permission: string]: 'read' | 'write' };

export interface TokenRequest {
  readonly connection: SealedConnection;
  /** In place of the connection's own. */
  readonly installationId?: string | undefined;
  /** `owner/name` */
  readonly repository: string;
  /** Without metadata, which every token may read. */
  readonly permissions: Permissions;
}
export interface HeldToken {
  readonly token: string;
  readonly mintedAt: Date;
}

/** As people read them. */
export const permissionText = (permissions: Permissions): string =>
  Object.entries(permissions)
    .map(([permission, level]) => `${permission}: ${level}`)
    .join(', ');

/** What new tokens count against. */
export const mintResource = 'tokens';
const claimSeconds = 20;
const waitMs = { most: 30_000, look: 50 } as const;

const installationOf = ({ connection, installationId }: TokenRequest): string | undefined =>
  installationId ?? settingText(connection.config['installationId']);
const scopeOf = (of: TokenRequest): string =>
  canonicalJson({
    installation: installationOf(of) ?? '',
    repository: of.repository.toLowerCase(),
    permissions: of.permissions,
  });

/** Those who wait for the same token in one daemon wait together: one of them asks the database, and mints. */
const waiting = new Map<string, Promise<HeldToken>>();

/**
 * A token that may be used now. `refused`: the one that the provider has just not taken. Throws Fault
 * `connection-inactive`, `credential-refused`, `permission-missing`, `not-found`, `rate-limited`, `provider-unavailable`.
 */
export function installationToken(ctx: FlowContext, of: TokenRequest, refused?: HeldToken): Promise<HeldToken> {
  const scope = scopeOf(of);
  const key = JSON.stringify([ctx.daemonId, of.connection.id, scope, refused?.mintedAt ?? null]);
  const before = waiting.get(key);
  if (before !== undefined) return before;
  const coming = takeToken(ctx, of, scope, refused).finally(() => waiting.delete(key));
  waiting.set(key, coming);
  return coming;
}

async function takeToken(
  ctx: FlowContext,
  of: TokenRequest,
  scope: string,
  refused: HeldToken | undefined,
): Promise<HeldToken> {
  const { connection } = of;
  if (refused !== undefined) await dropToken(ctx.db, connection.id, scope, refused.mintedAt);
  const until = performance.now() + waitMs.most;
  for (;;) {
    const row = await readToken(ctx.db, connection.id, scope);
    const held = row && open(ctx, connection, scope, row);
    if (held !== undefined) return held;
    // New ones have a limit of their own there.
    const isCounted = await takeSlot(ctx, { connectionId: connection.id, resources: [mintResource] });
    // One that this daemon cannot open is as good as none.
    const claim = { connectionId: connection.id, scope, seconds: claimSeconds, stale: row?.mintedAt };
    if (await claimMint(ctx.db, claim)) {
      const minted = await mint(ctx, of, scope);
      if (isCounted) await passed(ctx, connection.id, [mintResource]);
      return minted;
    }
    if (performance.now() > until) {
      throw outsideFault('provider-unavailable', 'no token of the code host came in time; nothing was done');
    }
    await sleep(waitMs.look);
  }
}

/** A token that is there, where no limit of the provider is in the way of these resources; undefined where either is not so. */
export async function readyToken(
  ctx: FlowContext,
  of: TokenRequest,
  resources: readonly string[],
): Promise<HeldToken | undefined> {
  const { connection } = of;
  const scope = scopeOf(of);
  const row = await readReadyToken(ctx.db, { connectionId: connection.id, scope, resources });
  return row && open(ctx, connection, scope, row);
}

const bindingOf = ({ orgId, projectId, id }: SealedConnection, scope: string) =>
  ({ orgId, projectId, name: `${id} ${scope}`, use: 'oauth-token' }) as const;

function open(ctx: FlowContext, connection: SealedConnection, scope: string, row: TokenRow): HeldToken | undefined {
  const { sealer } = sealingOf(ctx);
  if (!sealer.knows(row.keyVersion)) return undefined;
  const bytes = sealer.open(row, bindingOf(connection, scope));
  try {
    return { token: bytes.toString('utf8'), mintedAt: row.mintedAt };
  } finally {
    bytes.fill(0);
  }
}

async function mint(ctx: FlowContext, of: TokenRequest, scope: string): Promise<HeldToken> {
  const { connection } = of;
  try {
    const minted = await ask(ctx, of);
    const mintedAt = ctx.runtime.now();
    const lifeMs = minted.expiresAt.getTime() - mintedAt.getTime();
    const { sealer } = sealingOf(ctx);
    const kept = sealer.seal(Buffer.from(minted.token), bindingOf(connection, scope));
    const fingerprint = sealer.fingerprint(kept.keyVersion);
    await ctx.db.tx(async (tx) => {
      if (fingerprint !== undefined) await countWraps(tx, { version: kept.keyVersion, fingerprint, count: 1 });
      const usableUntil = new Date(mintedAt.getTime() + lifeMs * 0.8);
      await keepToken(tx, { ...kept, connectionId: connection.id, scope, mintedAt, usableUntil });
    });
    ctx.runtime.log.info({ connectionId: connection.id, permissions: of.permissions }, 'codehost.token_minted');
    await noteMinted(ctx, connection);
    return { token: minted.token, mintedAt };
  } catch (error) {
    await yieldMint(ctx.db, connection.id, scope);
    throw error;
  }
}

async function ask(ctx: FlowContext, of: TokenRequest): Promise<{ token: string; expiresAt: Date }> {
  const { connection, repository, permissions } = of;
  const { config, name } = connection;
  const privateKey = settingText(connectionSecrets(ctx, connection)['privateKey']);
  const appId = settingText(config['appId']);
  const apiUrl = apiUrlOf(ctx, connection);
  const installationId = installationOf(of);
  const repositoryName = repository.slice(repository.indexOf('/') + 1);
  if (privateKey === undefined || appId === undefined || installationId === undefined || repositoryName === '') {
    throw outsideFault(
      'connection-inactive',
      `connection ${name} needs config.appId, config.installationId and a privateKey`,
    );
  }
  try {
    return await tokensOf(ctx).mintToken({
      appId,
      installationId,
      privateKey,
      now: ctx.runtime.now(),
      ...(apiUrl !== undefined && { apiUrl }),
      scope: { repositories: [repositoryName], permissions },
    });
  } catch (error) {
    const refusal = error as MintRefusal;
    await noteRefusal(ctx, connection, refusal);
    const { reason, seconds } = refusal;
    if (reason === 'limited')
      throw await limitReached(ctx, { connectionId: connection.id, resource: mintResource, seconds });
    throw mintFault(refusal, name, permissions);
  }
}

/** What is thrown where no token is given. */
export interface MintRefusal {
  readonly status?: number;
  readonly reason?: MintReason;
  readonly seconds?: number;
}

/** Deliveries get lost: what the provider says here is as true, and is kept and told in the same way. */
export async function noteRefusal(
  ctx: FlowContext,
  connection: SealedConnection,
  { status, reason }: MintRefusal,
): Promise<void> {
  const isKey = reason === 'credential' || (reason === undefined && status === 401);
  const to = isKey ? 'degraded' : reason === 'suspended' || reason === 'removed' ? reason : undefined;
  if (to === undefined) return;
  await ctx.db.tx((tx) =>
    changeStatus(ctx, tx, {
      connection,
      asked: connection,
      actor: serviceActor('codehost'),
      to,
      ...(isKey && { reason: 'credential-refused' }),
      from: ['active', 'degraded'],
    }),
  );
}

/** A token that was given says that the key is taken, and the installation there. */
export async function noteMinted(ctx: FlowContext, connection: SealedConnection): Promise<void> {
  if (connection.status !== 'degraded') return;
  const was = {
    from: ['degraded'],
    fromReasons: ['credential-refused', 'unavailable', 'provider-unavailable'],
  } as const;
  const said = { connection, asked: connection, to: 'active', actor: serviceActor('codehost') } as const;
  await ctx.db.tx((tx) => changeStatus(ctx, tx, { ...said, ...was }));
}

function mintFault({ status, reason }: MintRefusal, name: string, wanted: Permissions): Fault {
  switch (reason) {
    case 'credential':
      return outsideFault('credential-refused', `the code host does not take the key of connection ${name}`);
    case 'suspended':
    case 'removed':
    case 'inactive':
      return outsideFault('connection-inactive', `the installation of connection ${name} is suspended or removed`);
    case 'permissions': {
      return outsideFault(
        'permission-missing',
        `the installation of connection ${name} lacks one of ${permissionText(wanted)}`,
      );
    }
    case 'repository':
      return outsideFault('not-found', `the installation of connection ${name} does not reach this repository`);
    default:
      if (status === 401) return outsideFault('credential-refused', `the key of connection ${name} is no PEM key`);
      return outsideFault('provider-unavailable', 'the code host gave no token; nothing was done');
  }
}
