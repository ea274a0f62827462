// What people do to a secret: write, edit, rotate, reveal, delete. Each is one transaction with its audit entry.

import type { AuditAction } from '../../domain/audit-actions.ts';
import { recordAudit } from '../../adapters/store/tenancy/audit.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { countWraps } from '../../adapters/store/secrets/keys.ts';
import { enqueueResyncs } from '../../adapters/store/repositories/resyncs.ts';
import {
  changeSecret,
  deleteSecret,
  lockSecret,
  putSecret,
  readSecret,
  rotateSecret,
  type SealedValue,
  type SecretChange,
  type SecretMetadata,
  type SecretScope,
  takeRevealed,
} from '../../adapters/store/secrets/secrets.ts';
import type { SealBinding } from '../../adapters/crypto/crypto.ts';
import { isoMillis, type SecretSettings } from '../../../schemas/secret.ts';
import { Fault } from '../../domain/fault.ts';
import { type Condition, requireVersion } from '../../domain/version.ts';
import type { JsonObject } from '../../domain/json.ts';
import { messagesTable } from '../../domain/messages.ts';
import { type Actor, type FlowContext, sealingOf } from '../context.ts';

/** The body of a write, as its schema gives it. */
export type SecretInput = SecretSettings & { readonly value: string };

/** One text for what is not there, is expired where that counts as absent, or is not the caller's to see. */
export const noSecret = (): Fault => new Fault('not_found', 'not-found', messagesTable.notVisible);

const bindingOf = (scope: SecretScope, name: string): SealBinding => ({
  orgId: scope.orgId,
  projectId: scope.projectId ?? undefined,
  name,
  use: 'secret',
});

const scopeWord = (scope: SecretScope): string => (scope.projectId === null ? 'organization' : 'project');

/** Seals a value under the current key; the bytes between are wiped. */
export function sealValue(ctx: FlowContext, scope: SecretScope, name: string, value: string): SealedValue {
  const plaintext = Buffer.from(value, 'utf8');
  try {
    return sealingOf(ctx).sealer.seal(plaintext, bindingOf(scope, name));
  } finally {
    plaintext.fill(0);
  }
}

/** Counts a sealed value in the transaction that stores it; throws where its key may not seal (any more). */
export async function countSealed(ctx: FlowContext, tx: Sql, keyVersion: number, count = 1): Promise<void> {
  const fingerprint = sealingOf(ctx).sealer.fingerprint(keyVersion);
  if (fingerprint === undefined)
    throw new Fault('unavailable', 'master-key-missing', 'the master key is gone; try again');
  await countWraps(tx, { version: keyVersion, fingerprint, count });
}

/** An entry about a secret, in the transaction of what it tells; `detail` never holds a value. */
export async function auditSecret(
  tx: Sql,
  scope: SecretScope,
  actor: Actor,
  action: AuditAction,
  name: string,
  detail: JsonObject = {},
): Promise<void> {
  await recordAudit(tx, {
    orgId: scope.orgId,
    projectId: scope.projectId,
    principal: actor,
    action,
    subject: { kind: 'Secret', name },
    detail: { scope: scopeWord(scope), ...detail },
  });
}

/** The dates and words of a write; what is left out gets its default. */
export function fullSettings(input: SecretSettings) {
  return {
    description: input.description ?? null,
    protected: input.protected ?? true,
    injection: injectionOf(input.injection),
    expiresAt: dateOf(input.expiresAt),
    idleExpirySeconds: input.idleExpirySeconds ?? null,
  };
}

function injectionOf(given: SecretSettings['injection']) {
  if (given === null || given === undefined) return null;
  const { hosts, header, format } = given;
  return { hosts, header, ...(format !== undefined && { format }) };
}

function dateOf(text: string | null | undefined): Date | null {
  const at = text === null || text === undefined ? undefined : isoMillis(text);
  return at === undefined ? null : new Date(at);
}

/**
 * Whoever names the secret looks again: everyone where it came or went, and repositories that read with it where only
 * its value changed.
 */
export async function wake(tx: Sql, scope: SecretScope, name: string, cameOrWent: boolean): Promise<void> {
  await enqueueResyncs(tx, { ...scope, ...(!cameOrWent && { secretRef: name }) });
}

/** Of what people change; that it was used is no change. */
export const secretVersion = ({ updatedAt }: SecretMetadata): string => String(updatedAt.getTime());

const isLive = (row: SecretMetadata | undefined): boolean => row !== undefined && !row.expired;

/** Metadata of exactly this scope. Throws Fault `not_found`. */
export async function findSecretMetadata(ctx: FlowContext, scope: SecretScope, name: string): Promise<SecretMetadata> {
  return requireSecret(ctx.db, scope, name, ctx.runtime.now());
}

/** The same as a transaction sees it, after what it has written. Throws Fault `not_found`. */
async function requireSecret(sql: Sql, scope: SecretScope, name: string, now: Date): Promise<SecretMetadata> {
  const row = await readSecret(sql, scope, name, now);
  if (row === undefined) throw noSecret();
  return row;
}

/**
 * A full write: the secret is afterwards what the body says, whatever it was; what the body leaves out has its default.
 * The idle clock starts again, and an earlier deadline is gone. The same body twice leaves the same secret. Throws Fault
 * `invalid` for a deadline that has passed: a secret that was written is live.
 */
export async function writeSecret(
  ctx: FlowContext,
  scope: SecretScope,
  actor: Actor,
  name: string,
  input: SecretInput,
  condition: Condition = {},
): Promise<{ readonly created: boolean; readonly secret: SecretMetadata }> {
  const settings = fullSettings(input);
  const now = ctx.runtime.now();
  if (settings.expiresAt !== null && settings.expiresAt <= now)
    throw new Fault('invalid', 'invalid-expiry', 'expiresAt must lie in the future.');
  const sealed = sealValue(ctx, scope, name, input.value);
  return ctx.db.tx(async (tx) => {
    const before = await lockSecret(tx, scope, name, now);
    requireVersion(condition, before && secretVersion(before));
    const written = await putSecret(tx, scope, { name, ...sealed, ...settings }, { now });
    const created = written?.created === true;
    await auditSecret(tx, scope, actor, created ? 'secret.created' : 'secret.written', name, {
      protected: settings.protected,
      injected: settings.injection !== null,
    });
    const secret = await requireSecret(tx, scope, name, now);
    // There was nothing to lock: somebody else has made it since.
    if (before === undefined && !created) requireVersion(condition, secretVersion(secret));
    await wake(tx, scope, name, isLive(before) !== isLive(secret));
    await countSealed(ctx, tx, sealed.keyVersion);
    return { created, secret };
  });
}

/**
 * Changes what is not the value. Expiry only of a secret that is neither protected nor expired; protection only from
 * false to true. Throws Fault `not_found`, `forbidden` (protected) or `conflict` (expired).
 */
export async function editSecret(
  ctx: FlowContext,
  scope: SecretScope,
  actor: Actor,
  name: string,
  input: SecretSettings,
  condition: Condition = {},
): Promise<SecretMetadata> {
  const now = ctx.runtime.now();
  return ctx.db.tx(async (tx) => {
    const before = await lockSecret(tx, scope, name, now);
    if (before === undefined) throw noSecret();
    requireVersion(condition, secretVersion(before));
    const change = changeOf(before, input);
    const keys = Object.keys(change);
    if (keys.length === 0) return before;
    await changeSecret(tx, scope, name, change, now);
    await auditSecret(tx, scope, actor, 'secret.changed', name, { keys });
    const after = await requireSecret(tx, scope, name, now);
    if (isLive(before) !== isLive(after)) await wake(tx, scope, name, true);
    return after;
  });
}

function changeOf(before: SecretMetadata, input: SecretSettings): SecretChange {
  if (input.protected === false && before.protected) {
    throw new Fault(
      'forbidden',
      'secret-protected',
      'A protected secret stays protected; write a new value with protected: false instead.',
    );
  }
  const editsExpiry = input.expiresAt !== undefined || input.idleExpirySeconds !== undefined;
  if (editsExpiry && before.protected) {
    throw new Fault(
      'forbidden',
      'secret-protected',
      'The expiry of a protected secret changes with its value only; write the value again with the new expiry.',
    );
  }
  if (editsExpiry && before.expired) {
    throw new Fault(
      'conflict',
      'secret-expired',
      'The secret has expired; only a new value brings it back. Write or rotate it.',
    );
  }
  return {
    ...(input.description !== undefined && { description: input.description }),
    ...(input.protected === true && !before.protected && { protected: true }),
    ...(input.injection !== undefined && { injection: injectionOf(input.injection) }),
    ...(input.expiresAt !== undefined && { expiresAt: dateOf(input.expiresAt) }),
    ...(input.idleExpirySeconds !== undefined && { idleExpirySeconds: input.idleExpirySeconds }),
  };
}

/** A new value for a secret that is there, also for an expired one. Throws Fault `not_found`. */
export async function rotateSecretValue(
  ctx: FlowContext,
  scope: SecretScope,
  actor: Actor,
  name: string,
  value: string,
  condition: Condition = {},
): Promise<SecretMetadata> {
  const sealed = sealValue(ctx, scope, name, value);
  const now = ctx.runtime.now();
  return ctx.db.tx(async (tx) => {
    const before = await lockSecret(tx, scope, name, now);
    if (before !== undefined) requireVersion(condition, secretVersion(before));
    if (before === undefined || !(await rotateSecret(tx, scope, name, sealed, now))) throw noSecret();
    await auditSecret(tx, scope, actor, 'secret.rotated', name);
    await wake(tx, scope, name, before.expired);
    const after = await requireSecret(tx, scope, name, now);
    await countSealed(ctx, tx, sealed.keyVersion);
    return after;
  });
}

/**
 * The plaintext of a live, unprotected secret of exactly this scope. Its audit entry is committed before the value is
 * opened. Throws Fault `not_found` (absent or expired) or `forbidden` with code `secret-protected`.
 */
export async function revealSecret(ctx: FlowContext, scope: SecretScope, actor: Actor, name: string): Promise<string> {
  const taken = await takeRevealed(ctx.db, scope, name, actor, ctx.runtime.now());
  if (taken === undefined) throw noSecret();
  if (taken.protected) throw new Fault('forbidden', 'secret-protected', 'A protected secret is never revealed.');
  const plaintext = sealingOf(ctx).sealer.open(taken, bindingOf(scope, name));
  try {
    return plaintext.toString('utf8');
  } finally {
    plaintext.fill(0);
  }
}

/** Throws Fault `not_found`. What names the secret is told by the next sync or launch. */
export async function removeSecret(
  ctx: FlowContext,
  scope: SecretScope,
  actor: Actor,
  name: string,
  condition: Condition = {},
): Promise<void> {
  const now = ctx.runtime.now();
  await ctx.db.tx(async (tx) => {
    const before = await lockSecret(tx, scope, name, now);
    if (before !== undefined) requireVersion(condition, secretVersion(before));
    if (before === undefined || !(await deleteSecret(tx, scope, name))) throw noSecret();
    await auditSecret(tx, scope, actor, 'secret.deleted', name);
    await wake(tx, scope, name, true);
  });
}
