// What a repository is read with where its `auth` names a code-host connection: the connection's own token, or one of its
// installation, kept in memory for four fifths of its life. What the code host says when it gives none, of the connection or of
// its limits, holds for every other token of it, and is noted as theirs is.

import { RepoCondition } from '../../adapters/repo/repo.ts';
import type { Credentials } from '../../adapters/repo/types.ts';
import type { InstallationToken } from '../../adapters/providers/codehost/codehost.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { isUsable } from '../../domain/connection.ts';
import { maskCredentials } from '../../domain/credential.ts';
import { Fault } from '../../domain/fault.ts';
import { apiUrlOf, isOfCodehost, settingText } from '../codehost-mounts.ts';
import { type FlowContext, type ProjectRef, tokensOf } from '../context.ts';
import { type MintRefusal, mintResource, noteMinted, noteRefusal } from '../installation-token.ts';
import { limitReached, passed, takeSlot } from '../provider-limits.ts';
import { connectionSecrets } from '../sealed.ts';

/**
 * The token of a code-host connection: its own, or one minted of its installation. Throws RepoCondition `auth-failed`, also
 * for an origin that is not its code host: whoever may name an address is not to be sent what nobody is shown.
 */
export async function connectionToken(
  ctx: FlowContext,
  project: ProjectRef,
  name: string,
  { origin, refresh }: Parameters<Credentials>[0],
): Promise<{ username?: string; token: string }> {
  const connection = await connectionByName(ctx.db, project.id, name);
  if (connection === undefined || connection.provider !== 'codehost' || !isUsable(connection.status)) {
    throw new RepoCondition(
      'auth-failed',
      `there is no active code-host connection ${maskCredentials(name)}; add it, or change auth`,
    );
  }
  if (!isOfCodehost(ctx, connection, origin)) {
    const elsewhere = `connection ${name} is not of ${URL.parse(origin)?.host ?? origin}: its token goes to its own code host alone`;
    throw new RepoCondition('auth-failed', elsewhere);
  }
  const credentials = connectionSecrets(ctx, connection);
  const token = settingText(credentials['token']);
  if (token !== undefined) return { token };
  const { tokens } = tokensOf(ctx);
  const now = ctx.runtime.now();
  const kept = tokens.get(connection.id);
  // One of the installation that the connection named before reads other repositories, however long it is good.
  const { appId = null, installationId = null, apiUrl = null } = connection.config;
  const of = JSON.stringify([appId, installationId, apiUrl]);
  if (!refresh && kept?.of === of && kept.until > now) return { username: 'x-access-token', token: kept.token };
  const minted = await mint(ctx, connection, settingText(credentials['privateKey']), now);
  // Four fifths of its life: what is handed out must outlive the longest read.
  const until = new Date(now.getTime() + (minted.expiresAt.getTime() - now.getTime()) * 0.8);
  tokens.set(connection.id, { token: minted.token, until, of });
  return { username: 'x-access-token', token: minted.token };
}

async function mint(ctx: FlowContext, connection: SealedConnection, privateKey: string | undefined, now: Date) {
  const { config, name } = connection;
  const appId = settingText(config['appId']);
  const installationId = settingText(config['installationId']);
  const apiUrl = apiUrlOf(ctx, connection);
  if (privateKey === undefined || appId === undefined || installationId === undefined) {
    throw new RepoCondition(
      'auth-failed',
      `connection ${name} cannot read repositories: it needs config.appId, config.installationId and a privateKey`,
    );
  }
  const connectionId = connection.id;
  const isCounted = await turnOf(connection, takeSlot(ctx, { connectionId, resources: [mintResource] }));
  // It goes to whatever address a repository has, and to nothing but git that fetches.
  const scope = { permissions: { contents: 'read' } } as const;
  const asked = { appId, installationId, privateKey, now, scope, ...(apiUrl !== undefined && { apiUrl }) };
  let minted: InstallationToken;
  try {
    minted = await tokensOf(ctx).mintToken(asked);
  } catch (cause) {
    if (cause instanceof RepoCondition) throw cause;
    const refusal = cause as MintRefusal;
    await noteRefusal(ctx, connection, refusal);
    const { reason, seconds, status } = refusal;
    if (reason === 'limited')
      throw limited(connection, await limitReached(ctx, { connectionId, resource: mintResource, seconds }));
    const message = `connection ${name}: ${cause instanceof Error ? cause.message : 'no installation token'}`;
    throw new RepoCondition(status === undefined || status >= 500 ? 'unreachable' : 'auth-failed', message, { cause });
  }
  if (isCounted) await passed(ctx, connectionId, [mintResource]);
  await noteMinted(ctx, connection);
  return minted;
}

/** A limit that is known is kept to. */
async function turnOf(connection: SealedConnection, turn: Promise<boolean>): Promise<boolean> {
  try {
    return await turn;
  } catch (error) {
    throw error instanceof Fault && error.code === 'rate-limited' ? limited(connection, error) : error;
  }
}

const limited = ({ name }: SealedConnection, { message, retryAfterSeconds }: Fault): RepoCondition =>
  new RepoCondition('rate-limited', `connection ${name}: ${message}`, {
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  });
