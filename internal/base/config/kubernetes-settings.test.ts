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

test('pods that dial are told where: in a cluster the address of this pod, elsewhere the one that is given', () => {
  const dialed = (given: object) => settings({ namespace: 'boxes', wire: 'dial', ...given })?.dial;
  assert.deepEqual(dialed({ inCluster: true }), { listen: { host: '0.0.0.0', port: 4410 } });
  assert.deepEqual(dialed({ kubeconfig: 'x', dial: { listen: '[::1]:0', address: 'svcd.internal:443' } }), {
    listen: { host: '::1', port: 0 },
    address: { host: 'svcd.internal', port: 443 },
  });
  assert.deepEqual(dialed({ kubeconfig: 'x', dial: { listen: '10.0.0.5', address: '[fd00::5]' } }), {
    listen: { host: '10.0.0.5', port: 4410 },
    address: { host: 'fd00::5' },
  });
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
    [
      { kubeconfig: 'x', namespace, wire: 'dial' },
      /^sandboxes\.kubernetes\.dial\.address cannot be used: wire: dial needs host:port at which pods of the cluster reach this daemon$/,
    ],
    [
      { kubeconfig: 'x', namespace, dial: { address: 'a:1' } },
      /^sandboxes\.kubernetes\.dial cannot be used: it is of wire: dial$/,
    ],
    [
      { kubeconfig: 'x', namespace, wire: 'dial', dial: { address: '0.0.0.0:4410' } },
      /^sandboxes\.kubernetes\.dial\.address cannot be used: nobody can be reached at 0\.0\.0\.0:4410$/,
    ],
    [
      { kubeconfig: 'x', namespace, wire: 'dial', dial: { address: 'https://svc.example.com' } },
      /^sandboxes\.kubernetes\.dial\.address cannot be used: not host:port$/,
    ],
    [
      { inCluster: true, namespace, wire: 'dial', dial: { listen: '0.0.0.0:70000' } },
      /^sandboxes\.kubernetes\.dial\.listen cannot be used: not host:port$/,
    ],
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
