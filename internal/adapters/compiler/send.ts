// A tree on its way to the worker: in parts, each copied together and handed over without another copy, with a turn of
// the event loop between two, so that a tree of thousands of files holds up nobody.

import { yieldToEventLoop } from '../../base/yielding.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import type { CompilerInput } from './run.ts';

/** Bytes and entries of one part: a millisecond or two. */
const partBytes = 1024 * 1024;
const partEntries = 500;

/** An entry with the place of its bytes in the part. */
export interface SentEntry {
  readonly entry: Omit<BundleEntry, 'bytes'>;
  readonly at: number;
  /** -1 where it has none. */
  readonly length: number;
}
export type Message =
  | { readonly kind: 'entries'; readonly bytes: Uint8Array; readonly entries: readonly SentEntry[] }
  | { readonly kind: 'compile'; readonly input: CompilerInput }
  | { readonly kind: 'next' };

interface Port {
  postMessage(message: Message, transfer?: ArrayBuffer[]): void;
}

/** Sends the files, then what to do with them. Stops where `isWanted` says that nobody waits any more. */
export async function sendInput(port: Port, input: CompilerInput, isWanted: () => boolean): Promise<void> {
  let batch: BundleEntry[] = [];
  let size = 0;
  const flush = (): void => {
    const bytes = new Uint8Array(size);
    const entries: SentEntry[] = [];
    let at = 0;
    for (const { bytes: content, ...entry } of batch) {
      if (content !== undefined) bytes.set(content, at);
      entries.push({ entry, at, length: content?.length ?? -1 });
      at += content?.length ?? 0;
    }
    port.postMessage({ kind: 'entries', bytes, entries }, [bytes.buffer]);
    batch = [];
    size = 0;
  };
  for (const entry of input.bundle.entries.values()) {
    batch.push(entry);
    size += entry.bytes?.length ?? 0;
    if (size < partBytes && batch.length < partEntries) continue;
    flush();
    await yieldToEventLoop();
    if (!isWanted()) return;
  }
  if (batch.length > 0) flush();
  port.postMessage({ kind: 'compile', input: { ...input, bundle: { ...input.bundle, entries: new Map() } } });
}

/** Entries of a part as they were. */
export function* received({ bytes, entries }: Extract<Message, { kind: 'entries' }>): Generator<BundleEntry> {
  for (const { entry, at, length } of entries) {
    yield length < 0 ? entry : { ...entry, bytes: bytes.subarray(at, at + length) };
  }
}
