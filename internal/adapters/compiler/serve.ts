// What the worker thread does: compiles what it is sent and answers, one at a time, keeping its cache between compiles. A large
// answer goes in parts, each when the last has been taken, so that taking it never holds the daemon's event loop.

import { parentPort } from 'node:worker_threads';
import type { BundleEntry } from '../../domain/bundle.ts';
import { type Answer, type Message, type Part, received } from './compiler.ts';
import { type CompiledOutput, type CompilerInput, createRunner } from './run.ts';

/** Characters of JSON in one part: some milliseconds to take. */
const partSize = 512 * 1024;

const { run, sizeOf } = createRunner();
let rest: Iterator<Answer> | undefined;
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
  const answer = rest?.next();
  if (answer?.done === false) parentPort?.postMessage(answer.value);
});

function* answers(input: CompilerInput): Generator<Answer> {
  let output: CompiledOutput;
  try {
    output = run(input);
  } catch (error) {
    yield { kind: 'error', error: error instanceof Error ? error : new Error(String(error)) };
    return;
  }
  let size = 0;
  let part: Part = { resources: [], places: {} };
  for (const resource of output.resources) {
    const name = `${resource.kind}/${resource.name}`;
    const places = output.places?.[name];
    part.resources.push(resource);
    if (places !== undefined) part.places[name] = places;
    size += sizeOf(resource);
    if (size < partSize) continue;
    yield { kind: 'part', part };
    size = 0;
    part = { resources: [], places: {} };
  }
  const last = { ...output, resources: [], ...(output.places !== undefined && { places: {} }) };
  yield { kind: 'output', output: last, part };
}
