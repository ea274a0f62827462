import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { startTrickle } from '../../../base/testkit/trickle.ts';
import { callApi, callMcp, fetchSigned, mintInstallationToken, readInstallation } from './codehost.ts';

test('an answer that trickles is given up, whatever was asked', async (t) => {
  const { url, wholes } = await startTrickle(t, 200);
  const { privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  });
  const app = { apiUrl: url, appId: '1', installationId: '1', privateKey, allowPrivate: true };
  const api = { apiUrl: url, token: 't', path: '/x', resource: 'core', allowPrivate: true } as const;
  const calls = [
    () => callApi({ ...api, method: 'GET', isWrite: false }),
    () => callApi({ ...api, method: 'POST', isWrite: true }),
    () => callMcp({ url, token: 't', tool: 'x', input: {}, allowPrivate: true }),
    () => fetchSigned(url, { allowPrivate: true, mostBytes: 1_000 }),
    () => mintInstallationToken(app as never),
  ];
  for (const call of calls) await assert.rejects(call, String(call));
  assert.deepEqual(await readInstallation(app as never), { word: 'unavailable' });
  assert.equal(wholes(), 0);
});
