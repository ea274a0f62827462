// Creation by a session (docs/reference/secrets.md#generated-values): a value that is given, or one drawn here that nobody sees.

import {
  type SecretMetadata,
  type SecretScope,
  isInherited,
  putSecret,
  readSecret,
} from '../../adapters/store/secrets/secrets.ts';
import { drawPattern, parsePattern } from '../../core/pattern/pattern.ts';
import type { SecretSettings } from '../../../schemas/secret.ts';
import { Fault } from '../../domain/fault.ts';
import type { Actor, FlowContext } from '../context.ts';
import { auditSecret, countSealed, fullSettings, noSecret, sealValue, wake } from './manage.ts';

/** Exactly one of `value` and `generate`; the shapes are checked by whoever takes them in (schemas/secret.ts). */
export interface CreateSecret extends SecretSettings {
  readonly name: string;
  readonly value?: string;
  /** A bounded pattern; see core/pattern. */
  readonly generate?: string;
  readonly overwrite?: boolean;
}

/**
 * Creates a secret. Without `overwrite`, throws Fault `conflict` where a live secret of the name stands in the scope, or
 * where one in a project would shadow a live one of its organization. Throws Fault `invalid` for a bad pattern, naming
 * the place. The answer is metadata; a drawn value is never returned.
 */
export async function createSecret(
  ctx: FlowContext,
  scope: SecretScope,
  actor: Actor,
  input: CreateSecret,
): Promise<SecretMetadata> {
  const { name, overwrite = false } = input;
  const sealed = sealValue(ctx, scope, name, valueOf(ctx, input));
  const settings = fullSettings(input);
  const now = ctx.runtime.now();
  return ctx.db.tx(async (tx) => {
    const own = overwrite ? undefined : await readSecret(tx, scope, name, now);
    // What stands in the project itself is told first: it is what the name means there.
    const isOwn = own !== undefined && !own.expired;
    if (!overwrite && !isOwn && scope.projectId !== null && (await isInherited(tx, scope.orgId, name, now))) {
      throw new Fault(
        'conflict',
        'secret-shadows',
        `Secret ${name} exists in the organization, and this one would shadow it; set overwrite: true to do that.`,
      );
    }
    const written = await putSecret(tx, scope, { name, ...sealed, ...settings }, { now, keepLive: !overwrite });
    if (written === undefined) {
      const where = scope.projectId === null ? 'organization' : 'project';
      const message = `Secret ${name} exists in the ${where}; set overwrite: true to replace its value.`;
      throw new Fault('conflict', 'secret-exists', message);
    }
    await auditSecret(tx, scope, actor, written.created ? 'secret.created' : 'secret.written', name, {
      protected: settings.protected,
      injected: settings.injection !== null,
      generated: input.generate !== undefined,
    });
    await wake(tx, scope, name, true);
    const secret = await readSecret(tx, scope, name, now);
    if (secret === undefined) throw noSecret();
    await countSealed(ctx, tx, sealed.keyVersion);
    return secret;
  });
}

function valueOf(ctx: FlowContext, input: CreateSecret): string {
  if ((input.value === undefined) === (input.generate === undefined)) {
    throw new Fault('invalid', 'invalid-body', 'Give exactly one of value and generate.');
  }
  if (input.value !== undefined) return input.value;
  const parsed = parsePattern(input.generate ?? '');
  if (parsed.ok) return drawPattern(parsed.pattern, ctx.runtime.randomBytes);
  throw new Fault('invalid', 'invalid-pattern', `generate: character ${parsed.offset + 1}: ${parsed.message}`);
}
