import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sandboxesSettings } from './sandbox-settings.ts';

const docker = (settings: object) =>
  sandboxesSettings({ sandboxes: JSON.parse(JSON.stringify({ docker: settings })) as never }, '/etc/svc').docker;

test('Docker is reached over a socket, or a host with certificates; on loopback without', () => {
  assert.deepEqual(docker({ socket: '/run/engine.sock' }), { socket: '/run/engine.sock', fence: 'preferred' });
  assert.deepEqual(docker({ host: '127.0.0.1:2375', runtime: 'runsc', fence: 'required' }), {
    host: '127.0.0.1:2375',
    runtime: 'runsc',
    fence: 'required',
  });
  const tls = { ca: 'ca.pem', cert: '/keys/cert.pem', key: 'key.pem' };
  assert.deepEqual(docker({ host: '10.0.0.1:2376', tls }), {
    host: '10.0.0.1:2376',
    fence: 'preferred',
    tls: { ca: '/etc/svc/ca.pem', cert: '/keys/cert.pem', key: '/etc/svc/key.pem' },
  });
});

test('a preset may be called what it is', () => {
  const { presets } = sandboxesSettings({ sandboxes: { presets: { prototype: { image: 'trial:1' } } } }, '/etc/svc');
  assert.equal(presets['prototype']?.image, 'trial:1');
});

test('a setting of Docker that cannot be used is named', () => {
  const wrong: readonly (readonly [object, RegExp])[] = [
    [{}, /^sandboxes\.docker cannot be used: it takes a socket or a host$/],
    [{ socket: '/x', host: '127.0.0.1:1' }, /^sandboxes\.docker cannot be used: it takes a socket or a host$/],
    [{ host: '10.0.0.1:2375' }, /^sandboxes\.docker cannot be used: a host that is not on loopback needs tls$/],
    [{ socket: 'engine.sock' }, /^sandboxes\.docker\.socket cannot be used: not an absolute path$/],
    [{ host: 'engine' }, /^sandboxes\.docker\.host cannot be used: not host:port$/],
    [{ host: '127.0.0.1:65536' }, /^sandboxes\.docker\.host cannot be used: not host:port$/],
    [{ host: '127.0.0.1:0' }, /^sandboxes\.docker\.host cannot be used: not host:port$/],
    [{ socket: '/x', fence: 'maybe' }, /^sandboxes\.docker\.fence cannot be used/],
    [{ socket: '/x', other: 1 }, /^sandboxes\.docker\.other cannot be used/],
  ];
  for (const [settings, message] of wrong) assert.throws(() => docker(settings), { message });
});
