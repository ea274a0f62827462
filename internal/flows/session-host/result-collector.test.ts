// What a session leaves, read by programs that do not end when they are told to.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import type { Exit, Sandbox, SandboxProcess } from '../../adapters/sandbox/types.ts';
import type { FlowContext } from '../context.ts';
import { Mask } from './mask.ts';
import { ResultCollector } from './result-collector.ts';

test('a program that says too much and does not end at once ends the reading, and not the daemon', async () => {
  const exited = Promise.withResolvers<Exit>();
  let kills = 0;
  const spawn = async (): Promise<SandboxProcess> => {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const kill = async (): Promise<Exit> => {
      kills += 1;
      if (kills === 2) exited.resolve({ code: null, signal: 'SIGKILL' });
      throw new Error('processes 1 of a sandbox do not end');
    };
    for (let piece = 0; piece < 8; piece += 1) stdout.write(Buffer.alloc(64 * 1024, 'x'));
    stdout.end();
    return { pid: 1, stdin, stdout, stderr, exited: exited.promise, kill };
  };
  const unhandled: unknown[] = [];
  const hear = (reason: unknown): void => void unhandled.push(reason);
  process.on('unhandledRejection', hear);
  const sandbox = { home: '/home', pathIn: (path: string) => path, spawn } as unknown as Sandbox;
  const session = { sessionId: 's' } as unknown as ConstructorParameters<typeof ResultCollector>[1]['session'];
  const log = { warn: () => assert.fail('what is read is not kept') };
  const ctx = { runtime: { log }, db: {} } as unknown as FlowContext;
  await new ResultCollector(ctx, { session, sandbox, mounts: [], mask: new Mask() }).now();
  // Rejections are told behind the turn in which they come.
  await once(AbortSignal.timeout(1), 'abort');
  process.off('unhandledRejection', hear);
  assert.deepEqual(unhandled, []);
  assert.ok(kills >= 2);
});
