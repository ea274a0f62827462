// What a process of tests loads before its file: one that has run its tests and does not end, because something of them is still
// open, is ended and has failed. Without it the whole run waits for that process, and says nothing of it.
//
//   node --test --import ./internal/base/testkit/ends.ts …   (`?seconds=1`: how long is waited, a minute otherwise)

import { ChildProcess } from 'node:child_process';
import { writeSync } from 'node:fs';
import { after } from 'node:test';

const seconds = Number(new URL(import.meta.url).searchParams.get('seconds') ?? 60);

/** Programs that its tests have started and not ended: one that has its output in common with it keeps the run waiting for that. */
function programs(): ChildProcess[] {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): unknown[] };
  return handles.call(process).filter((one) => one instanceof ChildProcess);
}

// Not the process that starts them: that one takes down afterwards what all of them share.
if (process.env['NODE_TEST_CONTEXT'] === 'child-v8')
  after(() => {
    setTimeout(() => {
      const open = process.getActiveResourcesInfo().join(', ');
      writeSync(2, `${seconds} s after its last test it does not end: ${open}\n`);
      for (const one of programs()) one.kill('SIGKILL');
      process.exit(1);
    }, seconds * 1_000).unref();
  });
