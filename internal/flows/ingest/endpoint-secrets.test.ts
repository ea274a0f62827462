import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { test } from 'node:test';
import { EndpointSecrets } from './endpoint-secrets.ts';

test('secrets of endpoints are kept up to a bound of bytes, those that were asked for last', async () => {
  const secrets = new EndpointSecrets();
  const now = new Date();
  const credential = {
    key: createSecretKey(Buffer.alloc(1_000_000)),
    digest: Buffer.alloc(32),
    guard: { orgId: 'o', projectId: 'p', name: 'n', secretId: 's', mark: '1' },
    notedUntil: Number.POSITIVE_INFINITY,
  };
  const names = Array.from({ length: 40 }, (_, at) => `endpoint-${at}`);
  for (const name of names) {
    assert.equal(await secrets.read(name, () => Promise.resolve(credential)), credential);
    assert.ok(secrets.known(name, now) !== undefined, `${name} is kept`);
    assert.ok(secrets.known('endpoint-0', now) !== undefined, 'what is in use stays');
  }
  const kept = names.filter((name) => secrets.known(name, now) !== undefined).length;
  assert.ok(kept > 10 && kept < 20, `${kept} secrets of a megabyte are kept`);
});
