// Secrets of a project and of an organization (docs/reference/http-api.md#conventions). Metadata answers are built field by field: nothing
// that a row may hold besides can slip into one. Only reveal answers with a value.

import * as v from 'valibot';
import * as api from '../../../../schemas/api/secrets.ts';
import { countSecrets } from '../../../adapters/store/console/counts.ts';
import { listSecrets, type SecretMetadata, type SecretScope } from '../../../adapters/store/secrets/secrets.ts';
import {
  editSecret,
  findSecretMetadata,
  removeSecret,
  revealSecret,
  rotateSecretValue,
  secretVersion,
  writeSecret,
} from '../../../flows/secrets/secrets.ts';
import { secretName } from '../../../../schemas/secret.ts';
import { Fault } from '../../../domain/fault.ts';
import { pageOf, readTextPage } from '../page.ts';
import { type Call, conditionOf, created, noContent, ok, type Route, serve, tagged } from '../route.ts';
import { counted, withReason } from './shapes.ts';
import { dryDeleteSecret } from '../../../flows/console/console.ts';

const time = (date: Date | null): string | null => date?.toISOString() ?? null;
const show = (row: SecretMetadata) => ({
  name: row.name,
  scope: row.scope,
  description: row.description,
  protected: row.protected,
  expiresAt: time(row.expiresAt),
  idleExpirySeconds: row.idleExpirySeconds,
  injection: row.injection,
  lastAccessedAt: time(row.lastAccessedAt),
  lastRotatedAt: time(row.lastRotatedAt),
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
  expired: row.expired,
});

const shown = (row: SecretMetadata) => tagged(secretVersion(row), ok(show(row)));

/** The name in the path. A name of another shape is told by its rule, never repeated. */
function nameOf({ params: { name } }: { readonly params: { readonly name: string } }): string {
  if (v.is(secretName, name)) return name;
  throw new Fault('invalid', 'invalid-name', "A secret's name has 1 to 128 characters of A-Za-z0-9_.-");
}

/** The same calls stand at both scopes. */
function secretRoutesAt(
  operations: typeof api.projectSecrets | typeof api.organizationSecrets,
  scopeOf: (call: Pick<Call, 'org' | 'project'>) => SecretScope,
): readonly Route[] {
  return [
    serve(operations.list, async (call) => {
      const page = readTextPage(call.query);
      const rows = await listSecrets(call.ctx.db, scopeOf(call), {
        ...page,
        limit: page.limit + 1,
        now: call.ctx.runtime.now(),
      });
      const total = call.query.counts === 'true' ? await countSecrets(call.ctx.db, scopeOf(call)) : undefined;
      return ok({ ...pageOf(rows, page.limit, (row) => [row.name], show), ...counted(total) });
    }),
    serve(operations.get, async (call) => shown(await findSecretMetadata(call.ctx, scopeOf(call), nameOf(call)))),
    serve(operations.update, async (call) =>
      shown(await editSecret(call.ctx, scopeOf(call), call.actor, nameOf(call), call.body, conditionOf(call))),
    ),
    serve(operations.remove, async (call) => {
      const [scope, name, condition] = [scopeOf(call), nameOf(call), conditionOf(call)];
      if (call.query.dryRun === 'true') return ok(await dryDeleteSecret(call.ctx, scope, name, condition));
      await removeSecret(call.ctx, scope, withReason(call.actor, call.body), name, condition);
      return noContent;
    }),
    serve(operations.write, async (call) => {
      const written = await writeSecret(
        call.ctx,
        scopeOf(call),
        call.actor,
        nameOf(call),
        call.body,
        conditionOf(call),
      );
      return written.created
        ? tagged(secretVersion(written.secret), created(show(written.secret)))
        : shown(written.secret);
    }),
    serve(operations.rotate, async (call) =>
      shown(
        await rotateSecretValue(call.ctx, scopeOf(call), call.actor, nameOf(call), call.body.value, conditionOf(call)),
      ),
    ),
    serve(operations.reveal, async (call) =>
      ok({ value: await revealSecret(call.ctx, scopeOf(call), call.actor, nameOf(call)) }),
    ),
  ];
}

export const secretRoutes: readonly Route[] = [
  ...secretRoutesAt(api.projectSecrets, ({ project }) => ({ orgId: project.orgId, projectId: project.id })),
  ...secretRoutesAt(api.organizationSecrets, ({ org }) => ({ orgId: org.id, projectId: null })),
];
