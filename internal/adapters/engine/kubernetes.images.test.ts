// What a tag is, asked by several launches at once, of which one is given up. The pods of it run nothing here.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { digestText, imageTable, Scene, until } from './kubernetes-testkit.ts';

test('what a tag is goes on being asked for who waits still, whoever asked first, and for nobody no more', async () => {
  const scene = await Scene.start([], () => async () => ({
    ended: Promise.resolve({ code: 0 }),
    exec: () => assert.fail('nothing is run in it'),
    kill: async () => undefined,
  }));
  try {
    const { cluster } = scene;
    const engine = await scene.open();
    const pods = (): number => cluster.store.all('pods').length;
    const [tag, other] = ['registry.example.com/node:24', 'registry.example.com/node:26'];
    for (const one of [tag, other])
      cluster.kubelet.images.set(one, `docker-pullable://registry.example.com/node@${digestText}`);
    const [first, last] = [new AbortController(), new AbortController()];
    const asked = [first, last].map(({ signal }) => engine.resolve(tag, signal));
    first.abort(new Error('its session has ended'));
    const [given, found] = await Promise.allSettled(asked);
    assert.match(String((given as PromiseRejectedResult).reason), /its session has ended/);
    assert.deepEqual(found, { status: 'fulfilled', value: imageTable });
    await until('its pod is gone', () => pods() === 0);
    cluster.kubelet.unschedulable = 'no node is free';
    const lone = engine.resolve(other, last.signal);
    await until('it is asked for', () => pods() === 1);
    last.abort(new Error('its session has ended'));
    await assert.rejects(lone, /its session has ended/);
    await until('its pod is gone', () => pods() === 0);
    cluster.kubelet.unschedulable = undefined;
    assert.deepEqual(await engine.resolve(other), imageTable);
  } finally {
    await scene.stop();
  }
});
