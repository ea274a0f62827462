import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestDaemon } from '../../base/testkit/daemon.ts';
import { clientSecretOf, methodNamed } from './methods.ts';

test('the secret of a provider of sign-in is the organization’s, whatever stands under its name in a project', async (t) => {
  const oidc = [{ name: 'idp', issuer: 'https://idp.example', clientId: 'svc', clientSecretRef: 'sso' }];
  const daemon = await startTestDaemon({ config: { file: { signIn: { oidc } } } });
  t.after(() => daemon.stop());
  const { ctx } = daemon;
  const method = methodNamed(ctx, 'idp');
  assert.ok(method !== undefined);
  assert.ok((await daemon.api('PUT', 'P/secrets/sso', { value: 'of-a-project' })).status < 300);
  await assert.rejects(clientSecretOf(ctx, method), { name: 'SigninRefused' });
  assert.ok(
    (await daemon.api('PUT', '/api/v1/orgs/default/secrets/sso', { value: 'of-the-organization' })).status < 300,
  );
  assert.equal(await clientSecretOf(ctx, method), 'of-the-organization');
});
