// Where a session works, for whoever gives it files or runs programs beside its harness.

import { dirname } from 'node:path/posix';
import type { Sandbox } from '../../adapters/sandbox/sandbox.ts';
import type { ExecLine, ExecRequest, SandboxPlace } from '../host-ports.ts';
import { type ExecPlace, execIn } from './exec.ts';

const directoryMs = 10_000;
/** Writes a file and the folder that it is in, as a process of the sandbox would. */
async function writeInto(sandbox: Sandbox, path: string, content: Uint8Array): Promise<void> {
  const made = await sandbox.run({ command: ['mkdir', '-p', dirname(path)], timeoutMs: directoryMs });
  if (made.code !== 0) throw new Error('the sandbox cannot make a directory');
  await sandbox.writeFile(path, content);
}

export function placeOf(of: ExecPlace): SandboxPlace {
  let running = 0;
  let endedAt = -Infinity;
  async function* exec(program: ExecRequest): AsyncGenerator<ExecLine> {
    running += 1;
    try {
      yield* execIn(of, program);
    } finally {
      running -= 1;
      endedAt = performance.now();
    }
  }
  return {
    cwd: of.cwd,
    write: (path, content) => writeInto(of.sandbox, path, content),
    exec,
    restsForMs: () => (running > 0 ? 0 : performance.now() - endedAt),
  };
}
