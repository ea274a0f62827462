// Sealed values as the service itself uses them: opened at the moment of use, kept in memory alone, never logged.

import { findSecret, type SealedConnection } from '../adapters/store/credentials.ts';
import { type FlowContext, type ProjectRef, portsOf } from './context.ts';

/** The plaintext of a secret for use by the service itself; undefined where it is absent or expired. */
export async function secretText(ctx: FlowContext, project: ProjectRef, name: string): Promise<string | undefined> {
  const found = await findSecret(ctx.db, { orgId: project.orgId, projectId: project.id }, name, ctx.runtime.now());
  if (found === undefined) return undefined;
  const binding = { orgId: project.orgId, projectId: found.projectId ?? undefined, name, use: 'secret' as const };
  return portsOf(ctx).sealer.open(found, binding).toString('utf8');
}

/** A connection's credentials, as its POST took them. */
export function connectionSecrets(ctx: FlowContext, connection: SealedConnection): { readonly [key: string]: unknown } {
  if (connection.sealed === null || connection.keyVersion === null) return {};
  const { orgId, projectId, name, keyVersion, sealed } = connection;
  const text = portsOf(ctx).sealer.open({ keyVersion, sealed }, { orgId, projectId, name, use: 'connection' });
  return JSON.parse(text.toString('utf8')) as { [key: string]: unknown };
}
