// An event as it is given to who records it, and as the statement takes a batch of them.

export interface EventTarget {
  readonly type: string;
  readonly key: string;
}

export interface NewEvent {
  /** Version 7, see `timeOrderedId`. */
  readonly id: string;
  readonly projectId: string;
  readonly key: string;
  /** SHA-256 of the deduplication scope and key; null: nothing to deduplicate on. */
  readonly dedupHash: Buffer | null;
  /** The received body. */
  readonly raw: Buffer | null;
  /** Its frame, which is stored in its place (`frameOf`). */
  readonly frame?: Buffer | undefined;
  /** The normalized payload as the text of a JSON object, without its `raw`; null: the received body is the payload. */
  readonly payload: string | null;
  /** The body in pieces, of an event that `recordWith` records: `raw` and `payload` are null then. */
  readonly large?: LargeBody;
  readonly receivedAt: Date;
  readonly endpointId?: string;
  readonly connectionId?: string;
  readonly target?: EventTarget;
  /** Binding events that led to this one, one after another; absent: it came from outside. */
  readonly depth?: number;
  /** The event that this one repeats. */
  readonly replayOf?: string;
}

export interface LargeBody {
  readonly raw: Buffer;
  /** UTF-8, one behind the other. */
  readonly payload: readonly Uint8Array[];
}

/** Events on their way to the statement that records them. */
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
