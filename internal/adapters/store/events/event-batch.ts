// Events on their way to the statement that records them: what all share, or many, once; hashes and bodies in one piece
// of bytes; ids and numbers as the texts of arrays. A JSON object an event costs both sides more than all the rest.

import type { NewEvent } from './new-event.ts';
import { storable } from '../schema/text.ts';

export interface PackedEvents {
  /** uuid[] */
  readonly ids: string;
  /** Of each event its hash, if it has one, then its body, then its payload. */
  readonly bytes: Buffer;
  /** int[], by event: the `n` of what it shares. */
  readonly shared: string;
  /** int[], by event: where its body begins in `bytes`, counted from 1; its hash ends right before. */
  readonly starts: string;
  /** int[], by event; null for none. */
  readonly rawSizes: string;
  /** int[], by event; null for none. */
  readonly payloadSizes: string;
  /** JSON array of `Shared`, each with its number `n`. */
  readonly kinds: string;
  /** int[], by event: what was received, where its frame is stored; empty where that is so for none. */
  readonly rawBytes: string;
}

/** An event and the number of its guard. */
export interface Numbered {
  readonly event: NewEvent;
  readonly guard: number | undefined;
}

/** Packs a batch in its order. */
export function packed(given: readonly Numbered[]): PackedEvents {
  const parts: Buffer[] = [];
  const kinds: object[] = [];
  const shared: number[] = [];
  const starts: number[] = [];
  const rawSizes: (number | null)[] = [];
  const payloadSizes: (number | null)[] = [];
  const rawBytes: (number | null)[] = [];
  let isAnyFramed = false;
  let ids = '';
  let size = 0;
  let last: Numbered | undefined;
  const place = (part: Buffer | null): number | null => {
    if (part === null) return null;
    parts.push(part);
    size += part.length;
    return part.length;
  };
  for (const one of given) {
    const { event } = one;
    // Those that come in together mostly came in by the same door, in the same millisecond.
    if (last === undefined || !isAlike(last, one)) kinds.push(kindOf(one, kinds.length));
    last = one;
    ids = ids === '' ? event.id : `${ids},${event.id}`;
    shared.push(kinds.length - 1);
    place(event.dedupHash);
    starts.push(size + 1);
    rawSizes.push(place(event.frame ?? event.raw));
    rawBytes.push(event.frame && event.raw ? event.raw.length : null);
    isAnyFramed ||= event.frame !== undefined;
    payloadSizes.push(place(event.payload === null ? null : Buffer.from(event.payload, 'utf8')));
  }
  return {
    ids: `{${ids}}`,
    bytes: parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts, size),
    shared: arrayText(shared),
    starts: arrayText(starts),
    rawSizes: arrayText(rawSizes),
    payloadSizes: arrayText(payloadSizes),
    kinds: JSON.stringify(kinds),
    rawBytes: isAnyFramed ? arrayText(rawBytes) : '{}',
  };
}

const arrayText = (numbers: readonly (number | null)[]): string => {
  let text = '';
  for (const number of numbers) text += text === '' ? `${number}` : `,${number}`;
  return `{${text}}`;
};

function isAlike(one: Numbered, other: Numbered): boolean {
  const { event: a } = one;
  const { event: b } = other;
  return (
    one.guard === other.guard &&
    a.projectId === b.projectId &&
    a.key === b.key &&
    a.receivedAt.getTime() === b.receivedAt.getTime() &&
    a.endpointId === b.endpointId &&
    a.connectionId === b.connectionId &&
    (a.dedupHash === null) === (b.dedupHash === null) &&
    a.target?.type === b.target?.type &&
    a.target?.key === b.target?.key &&
    a.depth === b.depth &&
    a.replayOf === b.replayOf
  );
}

const kindOf = ({ event, guard }: Numbered, n: number): object => ({
  n,
  project: event.projectId,
  key: storable(event.key),
  endpoint: event.endpointId,
  connection: event.connectionId,
  target_type: event.target?.type,
  target_key: event.target && storable(event.target.key),
  at: event.receivedAt,
  depth: event.depth,
  replay_of: event.replayOf,
  hashed: event.dedupHash !== null,
  guard,
});
