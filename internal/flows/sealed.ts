// Sealed values as the service itself uses them: opened at the moment of use, kept in memory alone, never logged.

import {
  findSecret,
  type SealedConnection,
  type SealedSecret,
  secretMark,
  secretStands,
} from '../adapters/store/secrets/credentials.ts';
import { noteUse } from '../adapters/store/secrets/secrets.ts';
import { Fault } from '../domain/fault.ts';
import { messageOf } from '../domain/messages.ts';
import { type FlowContext, type ProjectRef, sealingOf } from './context.ts';

/**
 * What in the service reads a secret, for the audit: a repository's source, a registry of templates, a probe, a webhook
 * endpoint, model calls.
 */
export interface SecretReader {
  readonly kind: 'repository' | 'templates' | 'probe' | 'endpoint' | 'model' | 'tool';
  readonly name: string;
}

const dayMs = 24 * 60 * 60 * 1000;
const notedMax = 10_000;

/**
 * The plaintext of a secret for use by the service itself; undefined where it is absent or expired. The first use of a
 * value by a reader, and one a day after it, leave the entry `secret.use` before the value is opened; the others write
 * nothing, so that a poll that finds nothing new writes nothing. Throws where the entry cannot be written.
 */
export async function secretText(
  ctx: FlowContext,
  project: Pick<ProjectRef, 'id' | 'orgId'>,
  name: string,
  reader: SecretReader,
): Promise<string | undefined> {
  return (await openSecret(ctx, project, name, reader))?.text;
}

/** Of no project: a secret of one, which its members write, is never meant. */
const noProject = '00000000-0000-0000-0000-000000000000';

/** As `secretText`, of what belongs to an organization: its own secret alone, whatever stands under the name in a project. */
export const organizationSecretText = (
  ctx: FlowContext,
  orgId: string,
  name: string,
  reader: SecretReader,
): Promise<string | undefined> => secretText(ctx, { id: noProject, orgId }, name, reader);

/** What is wrong with a secret that `secretText` did not find, in the spec's words. */
export async function absentSecret(
  ctx: FlowContext,
  project: Pick<ProjectRef, 'id' | 'orgId'>,
  name: string,
): Promise<Fault> {
  const isThere = await secretStands(ctx.db, { orgId: project.orgId, projectId: project.id }, name);
  return isThere
    ? new Fault('unprocessable', 'secret-expired', messageOf('secretExpired', name))
    : new Fault('unprocessable', 'secret-not-found', messageOf('secretNotFound', name));
}

/** A secret in the open, and what tells its value from every other one. */
export interface OpenSecret {
  readonly id: string;
  readonly mark: string;
  readonly text: string;
  /** In milliseconds: a use from then on has to leave an entry of its own. */
  readonly notedUntil: number;
}

/** As `secretText`, together with which secret it is. */
export async function openSecret(
  ctx: FlowContext,
  project: Pick<ProjectRef, 'id' | 'orgId'>,
  name: string,
  reader: SecretReader,
): Promise<OpenSecret | undefined> {
  const found = await findSecret(ctx.db, { orgId: project.orgId, projectId: project.id }, name, ctx.runtime.now());
  if (found === undefined) return undefined;
  const notedUntil = (await note(ctx, project, name, found, reader)) + dayMs;
  const binding = { orgId: project.orgId, projectId: found.projectId ?? undefined, name, use: 'secret' as const };
  const plaintext = sealingOf(ctx).sealer.open(found, binding);
  try {
    return { id: found.id, mark: secretMark(found.sealed), text: plaintext.toString('utf8'), notedUntil };
  } finally {
    plaintext.fill(0);
  }
}

/** Answers with when the use was noted, which may be long ago. */
async function note(
  ctx: FlowContext,
  project: Pick<ProjectRef, 'id' | 'orgId'>,
  name: string,
  found: SealedSecret,
  reader: SecretReader,
): Promise<number> {
  const { noted } = sealingOf(ctx);
  const now = ctx.runtime.now();
  const usedBy = `${reader.kind}:${project.id}:${reader.name}`;
  // The nonce of the wrapping stands for the value.
  const key = `${found.id} ${usedBy} ${found.sealed.toString('base64', 1, 13)}`;
  const last = noted.get(key);
  if (last !== undefined && now.getTime() - last < dayMs) return last;
  await noteUse(ctx.db, {
    secretId: found.id,
    orgId: project.orgId,
    projectId: project.id,
    name,
    usedBy,
    detail: {
      secret: name,
      scope: found.projectId === null ? 'organization' : 'project',
      reader: { kind: reader.kind, name: reader.name },
    },
    now,
  });
  if (noted.size >= notedMax) noted.clear();
  noted.set(key, now.getTime());
  return now.getTime();
}

/** A connection's credentials, as its POST took them. */
export function connectionSecrets(ctx: FlowContext, connection: SealedConnection): { readonly [key: string]: unknown } {
  if (connection.sealed === null || connection.keyVersion === null) return {};
  const { orgId, projectId, name, keyVersion, sealed } = connection;
  const text = sealingOf(ctx).sealer.open({ keyVersion, sealed }, { orgId, projectId, name, use: 'connection' });
  try {
    return JSON.parse(text.toString('utf8')) as { [key: string]: unknown };
  } finally {
    text.fill(0);
  }
}
