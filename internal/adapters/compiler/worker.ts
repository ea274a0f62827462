// The worker thread: compiles what it is sent and answers, one at a time, keeping its cache between compiles.

import { parentPort } from 'node:worker_threads';
import type { Answer } from './compiler.ts';
import { type CompilerInput, createRunner } from './run.ts';

const run = createRunner();

parentPort?.on('message', (input: CompilerInput) => {
  let answer: Answer;
  try {
    answer = { kind: 'output', output: run(input) };
  } catch (error) {
    answer = { kind: 'error', error: error instanceof Error ? error : new Error(String(error)) };
  }
  parentPort?.postMessage(answer);
});
