// What a provider of boxes does where its engine cannot do some of it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError } from '../engine/engine.ts';
import type { BoxRef, Engine } from '../engine/types.ts';
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
    assert.equal(await Promise.race([end, sleep(20_000, 'it is waited for', { ref: false })]), 'it is archived');
  } finally {
    await rm(dir, { recursive: true });
  }
});

test('what an engine that fell silent has of a session is not waited for by a launch that nobody wants any more', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-boxes-'));
  try {
    const silence = new Promise<never>(() => undefined);
    const box = { owner: { installation: 'i', session: 's', epoch: 1 }, name: 'n', uid: 'u', running: true };
    let asked = Promise.withResolvers<void>();
    let isLast: (name: string) => boolean = () => false;
    const called = (name: string, answer: unknown) => async () => {
      if (!isLast(name)) return answer;
      asked.resolve();
      return silence;
    };
    const engine = {
      name: 'docker',
      list: called('list', [box]),
      destroy: called('destroy', undefined),
      removeVolume: called('removeVolume', undefined),
      hasVolume: called('hasVolume', true),
      resolve: () => assert.fail('it is not wanted any more'),
    } as unknown as Engine;
    const facts = { isolation: 'container', commit: null, warm: false, limits: { memory: null, cpu: null } };
    const options = {
      ...{ engine, facts, layout: await Layout.open(dir) },
      ...{ fence: 'preferred', isLocal: true, privateFiles: [] },
    };
    const provider = new EngineProvider(options as unknown as ConstructorParameters<typeof EngineProvider>[0]);
    const id = randomUUID();
    const launches = {
      create: (signal: AbortSignal) => provider.create({ id, image: 'any' }, { signal }),
      reopen: (signal: AbortSignal) => provider.reopen(id, {}, { signal }),
    };
    const files = options.layout.at(id);
    await files.make();
    await files.write({ version: 1, spec: { id, image: 'any' }, mounts: [] });
    for (const [how, last] of [
      ['create', 'list'],
      ['create', 'destroy'],
      ['create', 'removeVolume'],
      ['reopen', 'list'],
      ['reopen', 'destroy'],
      ['reopen', 'hasVolume'],
    ] as const) {
      asked = Promise.withResolvers();
      isLast = (name) => name === last;
      const ending = new AbortController();
      const end = launches[how](ending.signal).then(
        () => 'made',
        (error: Error) => error.message,
      );
      await Promise.race([asked.promise, end]);
      ending.abort(new Error('the daemon stops'));
      assert.equal(
        await Promise.race([end, sleep(20_000, 'it is waited for', { ref: false })]),
        'the daemon stops',
        `${how}: ${last}`,
      );
    }
  } finally {
    await rm(dir, { recursive: true });
  }
});

/** An engine that has boxes by their labels, and no volumes. */
function labelled(boxes: BoxRef[]) {
  const engine = {
    name: 'docker',
    list: async (installation: string, session?: string) =>
      boxes.filter(
        ({ owner }) => owner.installation === installation && (session === undefined || owner.session === session),
      ),
    volumes: async () => [],
    removeVolume: async () => undefined,
    destroy: async ({ uid }: BoxRef) =>
      void boxes.splice(
        boxes.findIndex((one) => one.uid === uid),
        1,
      ),
  } as unknown as Engine;
  const put = (installation: string): string => {
    const session = randomUUID();
    boxes.push({ owner: { installation, session, epoch: 1 }, name: session, uid: session, running: true });
    return session;
  };
  return { engine, put, left: () => boxes.map(({ uid }) => uid) };
}

async function providerOf(engine: Engine, dir: string, installation: string): Promise<EngineProvider> {
  const facts = { isolation: 'container', commit: null, warm: false, limits: { memory: null, cpu: null } };
  const layout = await Layout.open(dir);
  const options = { engine, facts, layout, installation, fence: 'preferred', isLocal: true, privateFiles: [] };
  return new EngineProvider(options as unknown as ConstructorParameters<typeof EngineProvider>[0]);
}

const nobodys = async (): Promise<Set<string>> => new Set();
const unexpected = (id: string, error: unknown): void => assert.fail(`${id}: ${String(error)}`);

test('installations of two databases whose data directories have one path leave each other’s boxes alone', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-boxes-'));
  try {
    const { engine, put, left } = labelled([]);
    const one = await providerOf(engine, dir, randomUUID());
    const other = await providerOf(engine, dir, randomUUID());
    const [ours, theirs] = [put(one.installation), put(other.installation)];
    assert.deepEqual(await one.list(), [{ id: ours, running: true }]);
    assert.deepEqual(await one.reap(nobodys, unexpected), [ours]);
    assert.deepEqual(left(), [theirs]);
  } finally {
    await rm(dir, { recursive: true });
  }
});

test('a box that an earlier version has left, by the path alone, is that of whose files lie there', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'svc-boxes-'));
  try {
    const { engine, put, left } = labelled([]);
    const { tag, ...layout } = await Layout.open(dir).then((opened) => ({
      tag: opened.tag,
      at: opened.at.bind(opened),
    }));
    const provider = await providerOf(engine, dir, randomUUID());
    const [here, elsewhere] = [put(tag), put(tag)];
    await layout.at(here).make();
    await layout.at(here).write({ version: 1, spec: { id: here, image: 'any' }, mounts: [] });
    assert.deepEqual(await provider.list(), [{ id: here, running: true }]);
    assert.equal(await provider.holds(here, { uid: here, secret: '' }), true);
    assert.deepEqual(await provider.reap(nobodys, unexpected), [here]);
    assert.deepEqual(left(), [elsewhere]);
  } finally {
    await rm(dir, { recursive: true });
  }
});
