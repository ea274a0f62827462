// What a new database gets: the organization and project `default`, an administrator, and its token.

import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import { insertFirstRows, insertRecoveredToken } from '../../adapters/store/tenancy/bootstrap.ts';
import type { FlowContext } from '../context.ts';
import { hashToken } from './access.ts';

export interface Client {
  readonly token: string;
  readonly org: string;
  readonly project: string;
}

type Ctx = Pick<FlowContext, 'db' | 'runtime'>;
const system = { kind: 'system', id: null, name: 'bootstrap' } as const;

/** A new API token: `svc_` and 43 base64url characters, 256 bits. */
export function newToken(runtime: FlowContext['runtime']): string {
  return `svc_${runtime.randomBytes(32).toString('base64url')}`;
}

/**
 * Fills an empty database; undefined where it is not empty. `keep` is given the client before the commit: what it has
 * written down is either valid afterwards, or the database is still empty and the next start writes it anew.
 */
export async function bootstrap(ctx: Ctx, keep: (client: Client) => Promise<void>): Promise<Client | undefined> {
  const client: Client = { token: newToken(ctx.runtime), org: 'default', project: 'default' };
  return ctx.db.tx(async (tx) => {
    const first = await insertFirstRows(tx, {
      slug: client.org,
      administrator: 'administrator',
      tokenSha256: hashToken(client.token),
    });
    if (first === undefined) return undefined;
    await recordAudit(tx, {
      orgId: first.orgId,
      projectId: first.projectId,
      principal: system,
      action: 'installation.created',
      subject: { kind: 'organization', name: client.org },
    });
    await keep(client);
    return client;
  });
}

/** A further token for the administrator, when the file with the first one is gone; undefined when there is nobody. */
export async function recoverClient(ctx: Ctx): Promise<Client | undefined> {
  const token = newToken(ctx.runtime);
  return ctx.db.tx(async (tx) => {
    const found = await insertRecoveredToken(tx, hashToken(token));
    if (found === undefined) return undefined;
    await recordAudit(tx, {
      orgId: found.orgId,
      projectId: null,
      principal: system,
      action: 'token.recovered',
      subject: { kind: 'token', name: 'client.json (recovered)' },
    });
    return { token, org: found.org, project: found.project ?? 'default' };
  });
}
