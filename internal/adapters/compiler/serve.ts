// What the worker thread does: compiles what it is sent and answers, one at a time, keeping its cache between compiles. A large
// answer goes in parts, each when the one before the last has been taken, so that taking it never holds the daemon's event loop.

import { parentPort } from 'node:worker_threads';
import { collector } from '../../base/collector.ts';
import { noteShared } from '../../base/shared-room.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import { type WorkerAnswer, type Message, type Part, received } from './compiler.ts';
import { type CompiledOutput, type CompiledResource, type CompilerInput, createRunner } from './run.ts';
import { packed } from './texts.ts';

/** Characters of JSON in one part: some milliseconds to take. */
const partSize = 512 * 1024;

// The engine lets a thread's heap grow to half of its limit before it looks for what is not needed any more. A large tree
// would have the process grow by that, whatever is left of it. To look for it on the way takes half as long again as the compile,
// so it is done where the tree is a large one.
const collect = collector();
/** The same, and gives the room back, which the engine else keeps for some seconds, whether its thread is still there or not. */
const giveBack = (): void => collect({ type: 'major', flavor: 'last-resort' });
/** Bytes of files between two collections: what a compile makes on its way is several times that. */
const collectedBytes = 4 * 1024 * 1024;
/** Bytes of an answer between two times that room is given back. */
const givenBackBytes = 12 * 1024 * 1024;
let passedBytes = 0;
let isSparing = false;
let isLarge = false;
const { run, sizeOf } = createRunner((bytes) => {
  passedBytes += bytes;
  if (!isSparing || passedBytes < collectedBytes) return;
  [passedBytes, isLarge] = [0, true];
  collect();
});
let rest: Iterator<WorkerAnswer> | undefined;
/** Files of the tree that is on its way. */
let entries = new Map<string, BundleEntry>();

parentPort?.on('message', (message: Message) => {
  if (message.kind === 'entries') {
    for (const entry of received(message)) entries.set(entry.path, entry);
    return;
  }
  if (message.kind === 'compile') {
    rest = answers({ ...message.input, bundle: { ...message.input.bundle, entries } });
    entries = new Map();
  }
  answerNext();
  // One ahead: the next part is made while the first is taken.
  if (message.kind === 'compile') answerNext();
});

function answerNext(): void {
  const answer = rest?.next();
  if (answer?.done !== false) return;
  const { value } = answer;
  parentPort?.postMessage(value, value.kind === 'error' ? [] : [value.part.packed.bytes.buffer]);
  if (value.kind === 'output') tidyUp();
}

/** Bytes of files and of what they became, from which on room is given back behind the first answer. */
const firstBytes = 1024 * 1024;
let isFirst = true;

/**
 * A thread that has begun with a fleet holds as much again as it keeps of that, while the daemon plans and stores it. Once, and
 * behind the answer: it takes compiled code along, and what is compiled next is what pushes run.
 */
function tidyUp(): void {
  rest = undefined;
  if (isFirst && passedBytes >= firstBytes) setImmediate(giveBack);
  isFirst = false;
}

/** Bytes of files of a tree that is compiled sparingly. */
const largeTree = 2 * collectedBytes;

function treeBytes({ bundle }: CompilerInput): number {
  let bytes = 0;
  for (const entry of bundle.entries.values()) bytes += entry.bytes?.length ?? 0;
  return bytes;
}

function answers(input: CompilerInput): Iterator<WorkerAnswer> {
  try {
    const bytes = treeBytes(input);
    [isSparing, isLarge, passedBytes] = [bytes >= largeTree, false, 0];
    // Of trees before this one: its own is in use.
    noteShared(bytes);
    const output = run(input);
    const { resources, places } = output;
    // The order of its keys is kept.
    const last = { ...output, resources: [], ...(places !== undefined && { places: {} }) };
    return parts(resources.toReversed(), places, last);
  } catch (error) {
    return [{ kind: 'error' as const, error: error instanceof Error ? error : new Error(String(error)) }].values();
  }
}

/**
 * An answer in parts, from the end of what is `left`, which is emptied: what has been handed over the other thread holds by
 * then, and of a large answer nobody has room for both.
 */
function* parts(
  left: CompiledResource[],
  places: CompiledOutput['places'],
  output: CompiledOutput,
): Generator<WorkerAnswer> {
  let handed = givenBackBytes;
  for (;;) {
    // What is left is what the answer still holds.
    if (isLarge && handed >= givenBackBytes) {
      giveBack();
      handed = 0;
    }
    const part = nextPart(left, places);
    if (left.length === 0) {
      if (isLarge) giveBack();
      yield { kind: 'output', output, part };
      return;
    }
    handed += part.packed.bytes.length;
    yield { kind: 'part', part };
  }
}

/** Takes some of what is left, from its end. */
function nextPart(left: CompiledResource[], places: CompiledOutput['places']): Part {
  const taken: CompiledResource[] = [];
  const of: Part['places'] = {};
  for (let size = 0; size < partSize; ) {
    const resource = left.pop();
    if (resource === undefined) break;
    const name = `${resource.kind}/${resource.name}`;
    const own = places?.[name];
    taken.push(resource);
    if (own !== undefined) of[name] = own;
    size += sizeOf(resource);
  }
  return { packed: packed(taken), places: of };
}
