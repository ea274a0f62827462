import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { type ErrtrackSettings, refreshTokens } from './errtrack.ts';

test('a credential whose time no row can hold is kept for as long as one can', async (t) => {
  let expiresAt = '';
  const server = createServer((_, response) => {
    response.end(JSON.stringify({ token: 't', refreshToken: 'r', expiresAt }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const settings = { baseUrl, clientId: 'c', allowPrivate: true } as ErrtrackSettings;
  for (const [said, kept] of [
    ['2030-01-01T00:00:00Z', '2030-01-01T00:00:00.000Z'],
    ['-200000-01-01T00:00:00Z', '1970-01-01T00:00:00.000Z'],
    ['+200000-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z'],
  ] as const) {
    expiresAt = said;
    const given = await refreshTokens(settings, 'secret', { installationId: 'i', refreshToken: 'old' });
    assert.deepEqual(given, { outcome: 'done', token: 't', refreshToken: 'r', expiresAt: new Date(kept) });
  }
});
