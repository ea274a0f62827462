// One repository at its code host, for what the service itself says there: who may be asked, with which permissions, and
// writes through the outbox, each under a key, so that whoever repeats one after a crash sends it no second time.

import { RepoCondition } from '../../adapters/repo/repo.ts';
import { connectionByName, type SealedConnection } from '../../adapters/store/secrets/credentials.ts';
import { projectOf, type Repository, repositoryById } from '../../adapters/store/repositories/repositories.ts';
import { isUsable } from '../../domain/connection.ts';
import { Fault } from '../../domain/fault.ts';
import { isOfMasterKey } from '../../domain/outside.ts';
import { objectAt, textAt } from '../../domain/fields.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { CodehostCall } from '../broker/broker.ts';
import { settingText } from '../codehost-mounts.ts';
import type { FlowContext, ProjectRef } from '../context.ts';
import type { Permissions } from '../installation-token.ts';
import { performWrite } from '../outbox/outbox.ts';
import { connectionSecrets } from '../sealed.ts';

export interface Hub {
  readonly ctx: FlowContext;
  readonly project: ProjectRef;
  readonly repository: Repository;
  readonly connection: SealedConnection;
}

/** Undefined where nobody is to be told: no connection, or one that only takes events in. */
export async function hubOf(ctx: FlowContext, repositoryId: string): Promise<Hub | undefined> {
  const repository = await repositoryById(ctx.db, repositoryId);
  if (repository?.auth?.kind !== 'connection' || repository.suspended) return undefined;
  const project = await projectOf(ctx.db, repository.projectId);
  const connection = await connectionByName(ctx.db, repository.projectId, repository.auth.connection);
  if (project === undefined || connection?.provider !== 'codehost' || !isUsable(connection.status)) return undefined;
  // Only an installation may write there: a bare token was given for reading.
  if (settingText(connectionSecrets(ctx, connection)['privateKey']) === undefined) return undefined;
  return { ctx, project, repository, connection };
}

/** The name of the check and the context of the status. */
export const contextName = ({ project, repository }: Hub): string => `svc/${project.slug}/${repository.name}`;

/** A call of no session, on a token for that repository (`owner/name`) with these permissions alone. */
export function codehostCallOf(
  { ctx, project, connection }: Hub,
  fullName: string,
  permissions: Permissions,
): CodehostCall {
  return new CodehostCall({
    ctx,
    project,
    connection,
    installationId: undefined,
    repository: fullName,
    permissions,
    session: null,
  });
}

export interface HubWrite {
  readonly alias: 'plan' | 'status';
  readonly tool: string;
  /** The same for a repeat of the same write, another for any other. */
  readonly key: string;
  readonly fullName: string;
  readonly permissions: Permissions;
  /** Of what is sent. */
  readonly input: Json;
}

/** Writes once under the key; answers as the first of that key did. Throws Fault. */
export async function writeOnce(
  hub: Hub,
  of: HubWrite,
  send: (codehost: CodehostCall) => Promise<JsonObject>,
): Promise<JsonObject> {
  const { ctx, project, connection } = hub;
  const answer = await performWrite(ctx, {
    project,
    sessionId: null,
    provider: 'codehost',
    connectionId: connection.id,
    alias: of.alias,
    tool: of.tool,
    actor: { kind: 'system', id: null, name: 'code-host-plans' },
    idempotencyKey: of.key,
    input: of.input,
    run: async (step, callId) => {
      const made = await send(codehostCallOf(hub, of.fullName, of.permissions).writing(step, callId));
      return { answer: made, url: textAt(made['url']) };
    },
  });
  return objectAt(answer);
}

const attemptsMax = 8;
const pause = { firstMs: 3_000, mostMs: 300_000 } as const;

/** Milliseconds until a telling that failed is tried again; null: it is left at that, until somebody wishes it anew. */
export function againAfterMs(error: unknown, attempts: number): number | null {
  if (attempts >= attemptsMax) return null;
  const backOff = Math.min(pause.firstMs * 2 ** attempts, pause.mostMs);
  if (error instanceof Fault) {
    if (error.code === 'rate-limited') return Math.max(backOff, (error.retryAfterSeconds ?? 60) * 1_000);
    // `unavailable` is the database: what it broke off has not been told, and nobody wishes for it a second time.
    const passing = ['provider-unavailable', 'outcome-unknown', 'not-sent', 'busy', 'unavailable'];
    return passing.includes(error.code) || isOfMasterKey(error.code) ? backOff : null;
  }
  if (error instanceof RepoCondition) return isPassing(error) ? backOff : null;
  return backOff;
}

/** A source that is away comes back; anything else is what the commit is like. */
export const isPassing = ({ condition }: RepoCondition): boolean =>
  condition === 'unreachable' || condition === 'rate-limited' || condition === 'stale';
