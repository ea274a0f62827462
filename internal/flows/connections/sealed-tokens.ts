// What connections by consent hold: sealed into a row of its own, bound to what it is of, opened when it is used.

import { insertToken, tokenById } from '../../adapters/store/secrets/oauth-tokens.ts';
import type { Sql } from '../../adapters/store/store.ts';
import { type FlowContext, sealingOf } from '../context.ts';
import { countSealed } from '../secrets/secrets.ts';

interface Binding {
  readonly orgId: string;
  /** Null: the organization's. */
  readonly projectId: string | null;
  readonly name: string;
}
const sealBinding = ({ orgId, projectId, name }: Binding) =>
  ({ orgId, ...(projectId !== null && { projectId }), name, use: 'oauth-token' }) as const;

/** Seals a text into a row of its own; its id. */
export async function keepSealed(ctx: FlowContext, tx: Sql, binding: Binding, text: string): Promise<string> {
  const id = ctx.runtime.uuid();
  const plaintext = Buffer.from(text, 'utf8');
  try {
    const sealed = sealingOf(ctx).sealer.seal(plaintext, sealBinding(binding));
    await insertToken(tx, { id, ...binding, ...sealed });
    await countSealed(ctx, tx, sealed.keyVersion);
    return id;
  } finally {
    plaintext.fill(0);
  }
}

/** Opens what `keepSealed` kept; undefined where it is gone. */
export async function openSealed(
  ctx: FlowContext,
  binding: Binding,
  id: string | null,
  sql: Sql = ctx.db,
): Promise<string | undefined> {
  const row = id === null ? undefined : await tokenById(sql, id);
  if (row === undefined) return undefined;
  const plaintext = sealingOf(ctx).sealer.open(row, sealBinding(binding));
  try {
    return plaintext.toString('utf8');
  } finally {
    plaintext.fill(0);
  }
}
