// A program that a person runs in a session's sandbox (docs/reference/sessions.md#sandboxes), beside its harness: with the
// session's environment, where the session works. What it says is masked as what the harness says.

import { constants } from 'node:os';
import { pipeline, type Readable } from 'node:stream';
import type { Sandbox, SandboxProcess } from '../../adapters/sandbox/sandbox.ts';
import type { ExecLine, ExecRequest } from '../host-ports.ts';
import type { Mask } from './mask.ts';

/** Lines that wait for whoever reads them; then the program waits. */
const waitingMax = 64;
const signals: { readonly [name: string]: number } = constants.signals;

export interface ExecPlace {
  readonly sandbox: Sandbox;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly mask: Mask;
}

/** The program's output as it comes, and how it ended. It ends with its reader, and with the sandbox. */
export async function* execIn({ sandbox, env, cwd, mask }: ExecPlace, request: ExecRequest): AsyncGenerator<ExecLine> {
  const { argv, stdin, signal } = request;
  const child = await sandbox.spawn({ argv, env, cwd });
  const kill = (): void => void child.kill().catch(() => undefined); // Its end is told by `exited`, or nobody listens.
  signal.addEventListener('abort', kill, { once: true });
  // A program may end before it has read all.
  pipeline(stdin, child.stdin, () => undefined);
  try {
    yield* outputOf(child, mask);
    const { code, signal: by } = await child.exited;
    yield { exitCode: code ?? 128 + (signals[by ?? 'SIGKILL'] ?? 9) };
  } finally {
    signal.removeEventListener('abort', kill);
    // What nobody reads any more would be kept as long as the sandbox is.
    for (const stream of [child.stdout, child.stderr]) stream.destroy();
    await child.kill();
  }
}

async function* outputOf(child: SandboxProcess, mask: Mask): AsyncGenerator<ExecLine> {
  const waiting: ExecLine[] = [];
  let wake: () => void = () => undefined;
  let left = 2;
  const streams = [child.stdout, child.stderr];
  const listen = (stream: Readable, fd: 1 | 2): void => {
    let held = '';
    const push = (isLast: boolean): void => {
      // What may be the beginning of something hidden waits for the rest of it.
      const masked = mask.apply(held);
      const open = isLast ? 0 : mask.open(masked);
      const text = masked.slice(0, masked.length - open);
      held = masked.slice(masked.length - open);
      if (text !== '') waiting.push({ fd, data: Buffer.from(text, 'latin1').toString('base64') });
      if (waiting.length >= waitingMax) for (const one of streams) one.pause();
      wake();
    };
    stream.on('data', (chunk: Buffer) => {
      held += chunk.toString('latin1');
      push(false);
    });
    stream.once('close', () => {
      left -= 1;
      push(true);
    });
  };
  listen(child.stdout, 1);
  listen(child.stderr, 2);
  for (;;) {
    const line = waiting.shift();
    if (line !== undefined) {
      yield line;
      continue;
    }
    if (left === 0) return;
    for (const stream of streams) stream.resume();
    await new Promise<void>((resolve) => {
      wake = resolve;
      if (waiting.length > 0 || left === 0) resolve();
    });
  }
}
