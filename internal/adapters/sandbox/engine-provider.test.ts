// What a provider of boxes does where its engine cannot do some of it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../engine/engine.ts';
import type { Engine } from '../engine/types.ts';
import { EngineProvider } from './engine-provider.ts';
import { Layout } from './layout.ts';

test('a box that cannot be removed keeps none of the others, and is told of', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-boxes-'));
  try {
    const sessions: string[] = Array.from({ length: 12 }, () => randomUUID()).toSorted();
    const [stuck, ...others] = sessions;
    const left = new Set(sessions);
    const engine = {
      name: 'docker',
      list: async (installation: string, session?: string) =>
        [...left].flatMap((id) =>
          session === undefined || session === id
            ? [{ owner: { installation, session: id, epoch: 1 }, name: id, uid: id, running: true }]
            : [],
        ),
      volumes: async () => [],
      removeVolume: async () => undefined,
      destroy: async ({ uid }: { uid: string }) => {
        if (uid === stuck) throw new EngineError('engine-unreachable', 'device or resource busy');
        left.delete(uid);
      },
    } as unknown as Engine;
    const facts = { isolation: 'container', commit: null, warm: false, limits: { memory: null, cpu: null } };
    const layout = await Layout.open(dir);
    const options = { engine, facts, layout, fence: 'preferred', isLocal: true, privateFiles: [] };
    const provider = new EngineProvider(options as unknown as ConstructorParameters<typeof EngineProvider>[0]);
    const told: unknown[] = [];
    const removed = await provider.reap(
      async () => new Set(),
      (id, error) => told.push([id, (error as Error).message]),
    );
    assert.deepEqual(removed.toSorted(), others);
    assert.deepEqual([...left], [stuck]);
    assert.deepEqual(told, [[stuck, 'device or resource busy']]);
  } finally {
    await rm(dir, { recursive: true });
  }
});

test('the pull of an image is given up with the launch that asked for it', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-boxes-'));
  try {
    const asked = Promise.withResolvers<void>();
    const engine = {
      name: 'docker',
      list: async () => [],
      removeVolume: async () => undefined,
      // A registry that swallows.
      resolve: (_image: string, signal?: AbortSignal) =>
        new Promise<never>((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
          asked.resolve();
        }),
    } as unknown as Engine;
    const facts = { isolation: 'container', commit: null, warm: false, limits: { memory: null, cpu: null } };
    const options = {
      ...{ engine, facts, layout: await Layout.open(dir) },
      ...{ fence: 'preferred', isLocal: true, privateFiles: [] },
    };
    const provider = new EngineProvider(options as unknown as ConstructorParameters<typeof EngineProvider>[0]);
    const ending = new AbortController();
    const creating = provider.create({ id: randomUUID(), image: 'slow' }, { signal: ending.signal });
    await Promise.race([asked.promise, creating]);
    ending.abort(new Error('it is archived'));
    const end = creating.then(
      () => 'made',
      (error: Error) => error.message,
    );
    assert.equal(await Promise.race([end, sleep(5_000, 'it is waited for', { ref: false })]), 'it is archived');
  } finally {
    await rm(dir, { recursive: true });
  }
});
