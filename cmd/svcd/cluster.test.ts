import assert from 'node:assert/strict';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import type { Config } from '../../internal/base/config/config.ts';
import { addressOf, clusterOf, doorOf } from './cluster.ts';

const configOf = (dial: object, more: object = {}): Config =>
  ({
    sandbox: 'kubernetes',
    fileDir: '/',
    file: { sandboxes: { kubernetes: { kubeconfig: '/nowhere/config', namespace: 'boxes', wire: 'dial', dial } } },
    ...more,
  }) as unknown as Config;

test('the port of pods that dial is opened where sessions run on the cluster, and is refused by its setting', async (t) => {
  const opened = await doorOf(configOf({ listen: '127.0.0.1:0', address: 'svcd.internal' }));
  t.after(() => opened?.close());
  assert.equal(opened?.place.host, 'svcd.internal');
  assert.ok((opened?.place.port ?? 0) > 0);
  assert.equal(await doorOf(configOf({ address: 'svcd.internal' }, { sandbox: 'process' })), undefined);
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.after(() => taken.close());
  const { port } = taken.address() as AddressInfo;
  const inUse = doorOf(configOf({ listen: `127.0.0.1:${port}`, address: 'svcd.internal' }));
  const message = `sandboxes.kubernetes.dial.listen cannot be used: 127.0.0.1:${port} cannot be listened on (EADDRINUSE)`;
  await assert.rejects(inUse, { message });
});

test('a kubeconfig that cannot be read is refused by its setting', () => {
  const config = configOf({ address: 'svcd.internal' });
  assert.throws(
    () => clusterOf(config, undefined, 'http://127.0.0.1:4400'),
    /^ConfigError: sandboxes\.kubernetes\.kubeconfig cannot be used: /,
  );
});

test('a daemon that listens everywhere has an address that others have a way to', () => {
  assert.equal(addressOf(new URL('http://10.0.0.5:4400')), 'http://10.0.0.5:4400');
  const { hostname, port } = new URL(addressOf(new URL('http://0.0.0.0:4400')));
  assert.equal(port, '4400');
  assert.notEqual(hostname, '0.0.0.0');
});
