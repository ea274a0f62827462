import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sandboxesSettings } from './sandbox-settings.ts';

const presets = { node24: { image: 'registry.example.com/node24@sha256:1' }, bare: {} };
const settings = (kubernetes: object) =>
  sandboxesSettings({ sandboxes: JSON.parse(JSON.stringify({ presets, kubernetes })) as never }, '/etc/svc').kubernetes;

test('a cluster is told by a kubeconfig or by being in it, and pools by the image of their preset', () => {
  assert.deepEqual(settings({ kubeconfig: 'cluster/config', namespace: 'boxes', warmPools: { node24: 'warm' } }), {
    kubeconfig: '/etc/svc/cluster/config',
    namespace: 'boxes',
    fence: 'preferred',
    pools: { [presets.node24.image]: 'warm' },
  });
  const inside = { inCluster: true, namespace: 'boxes', runtimeClass: 'gvisor', wire: 'exec', fence: 'required' };
  assert.deepEqual(settings(inside), { namespace: 'boxes', runtimeClass: 'gvisor', fence: 'required', pools: {} });
});

test('what cannot be used is refused by the name of its key', () => {
  const namespace = 'boxes';
  for (const [given, words] of [
    [{ namespace }, /^sandboxes\.kubernetes cannot be used: it takes either kubeconfig or inCluster: true$/],
    [{ namespace, kubeconfig: 'x', inCluster: true }, /^sandboxes\.kubernetes cannot be used: it takes either/],
    [{ kubeconfig: 'x' }, /^sandboxes\.kubernetes\.namespace cannot be used/],
    [
      { kubeconfig: 'x', namespace: 'Boxes' },
      /^sandboxes\.kubernetes\.namespace cannot be used: no name of Kubernetes/,
    ],
    [{ kubeconfig: 'x', namespace, wire: 'dial' }, /^sandboxes\.kubernetes\.wire cannot be used: dial is not built/],
    [{ kubeconfig: 'x', namespace, wire: 'ssh' }, /^sandboxes\.kubernetes\.wire cannot be used/],
    [{ kubeconfig: 'x', namespace, fence: 'maybe' }, /^sandboxes\.kubernetes\.fence cannot be used/],
    [{ kubeconfig: 'x', namespace, replicas: 1 }, /^sandboxes\.kubernetes\.replicas cannot be used/],
    [
      { kubeconfig: 'x', namespace, warmPools: { bare: 'warm' } },
      /^sandboxes\.kubernetes\.warmPools\.bare cannot be used: set sandboxes\.presets\.bare\.image$/,
    ],
  ] as const)
    assert.throws(() => settings(given), { message: words });
});
