import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { discoverServer, OauthFailure } from './authorization.ts';

test('an authorization server whose name is longer than one is kept is none', async (t) => {
  const server = createServer((request, response) => {
    const issuer = `${origin()}${(request.url ?? '').replace('/.well-known/oauth-authorization-server', '')}`;
    const endpoints = { authorization_endpoint: `${origin()}/authorize`, token_endpoint: `${origin()}/token` };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ issuer, ...endpoints, code_challenge_methods_supported: ['S256'] }));
  });
  const origin = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const ask = (path: string) => discoverServer({ allowPrivate: true }, `${origin()}/${path}`);
  assert.equal((await ask('a'.repeat(1_000))).issuer, `${origin()}/${'a'.repeat(1_000)}`);
  const isTold = (error: unknown): boolean => error instanceof OauthFailure && error.word === 'discovery-failed';
  await assert.rejects(ask('a'.repeat(3_000)), isTold);
});
