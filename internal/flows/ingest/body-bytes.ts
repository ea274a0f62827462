// How large a delivery of a provider may be, and who gets room for one beyond the ordinary: only whoever knows a
// connection, since nothing is proven before the body is there.

import type { Fault } from '../../domain/fault.ts';
import { type FlowContext, ingestOf } from '../context.ts';
import { connectionOf, type IntakeProvider } from './intake.ts';

const mebibyte = 1_048_576;
const ordinary = mebibyte;

/**
 * Bytes of the largest body that each provider's intake reads. A code host delivers up to 25 MB. A tracker says no limit;
 * its own library reads 5 MiB. A chat message has at most 40,000 characters, and stands up to four times in an edit: as
 * text and as blocks, before and after, escaped to twelve bytes a character.
 */
export const deliveryBytesMax: { readonly [provider in IntakeProvider]: number } = {
  codehost: 25 * mebibyte,
  tracker: 5 * mebibyte,
  chat: 4 * mebibyte,
};

const nothing = (): void => undefined;

/**
 * Room for a delivery of so many bytes; undefined: it does not say how many. What is ordinary has it already
 * (`IngestPorts.admit`). `giveUp`: see `IngestPorts.admitLarge`. Throws Fault `not_found` or `unavailable`.
 */
export async function reserveBodyBytes(
  ctx: FlowContext,
  provider: IntakeProvider,
  connectionId: string,
  bytes: number | undefined,
  giveUp: (why: Fault) => boolean,
): Promise<() => void> {
  if (bytes !== undefined && bytes <= ordinary) return nothing;
  const { connection } = await connectionOf(ctx, provider, connectionId);
  return ingestOf(ctx).admitLarge(bytes ?? deliveryBytesMax[provider], connection.projectId, giveUp);
}
