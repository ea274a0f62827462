// The thread that reads one large delivery (large.ts) and ends with it. Its answers are plain data; bytes go to and fro
// without being copied.

import { isUtf8 } from 'node:buffer';
import { parentPort } from 'node:worker_threads';
import { checkJson, NotJson, readLazily, TooMany } from '../../core/match/match.ts';
import { TooDeep } from '../../domain/depth.ts';
import type { Json, JsonObject } from '../../domain/json.ts';
import { answerIn } from './answer-words.ts';
import { jsonPieces } from './json-pieces.ts';
import type { LargeResult, LargeRequest } from './large.ts';
import { finishedOf, outlineOf, type ReadEvent, readingOf } from './reading.ts';

const say = (answer: LargeResult, bytes: readonly ArrayBuffer[] = []): void =>
  parentPort?.postMessage(answer, [...bytes]);

let finish: ((known: ReadonlyMap<string, string>) => void) | undefined;

parentPort?.on('message', (order: LargeRequest) => {
  if (order.kind === 'finish') finish?.(order.known);
  else {
    const refusal = read(order);
    if (refusal !== undefined) say({ kind: 'refused', ...refusal });
  }
});

/** Why the bytes are no body; undefined: what they say has been told. */
function read({ raw, bounds, asked }: Extract<LargeRequest, { kind: 'read' }>) {
  if (!isUtf8(raw)) return { why: 'is not UTF-8' };
  const isMarked = raw[0] === 0xef && raw[1] === 0xbb && raw[2] === 0xbf;
  const bytes = isMarked ? raw.subarray(3) : raw;
  try {
    checkJson(bytes, bounds);
  } catch (error) {
    if (error instanceof NotJson) return { why: 'is not JSON' };
    if (error instanceof TooDeep) return { why: `nests over ${bounds.levels} levels` };
    if (error instanceof TooMany) return { why: `holds over ${bounds.values} values` };
    throw error;
  }
  const body: Json = readLazily(bytes);
  if (typeof body !== 'object' || body === null || Array.isArray(body) || 'rawJSON' in body) {
    return { why: 'is not a JSON object' };
  }
  const { envelope, delivery, bot } = readingOf(asked, body as JsonObject);
  if (delivery.kind !== 'event') {
    say({ kind: 'said', envelope, delivery });
    return undefined;
  }
  finish = (known) => {
    const events = finishedOf(delivery, known).map(
      (event): ReadEvent => ({
        key: event.key,
        ...(event.target !== undefined && { target: event.target }),
        answer: answerIn(event, bot),
        // What was received is written beside the payload, and not in it.
        payload: jsonPieces({ ...event.payload, raw: undefined }),
      }),
    );
    const pieces = events.flatMap(({ payload }) => payload as Uint8Array<ArrayBuffer>[]);
    say({ kind: 'finished', events, raw }, [raw.buffer, ...pieces.map((piece) => piece.buffer)]);
  };
  say({ kind: 'said', envelope, delivery: outlineOf(delivery) });
  return undefined;
}
