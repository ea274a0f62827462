// Whom a project tells of what happens in it, as people see it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon({ config: { roles: ['api'] } });
});
after(() => daemon.stop());

test('where a webhook leads, whose address often is its credential, is shown whole to who may change it alone', async () => {
  const O = '/api/v1/orgs/default';
  const url = 'https://hooks.example:8443/services/T0000/B0000/aBcDeFgHiJkLmNoPqRsTuVwX?key=k';
  const made = await daemon.api('POST', 'P/receivers', { name: 'pager', kind: 'webhook', url });
  assert.equal(made.body['url'] as unknown, url);
  const seenWith = async (role: string): Promise<unknown[]> => {
    await daemon.api('POST', `${O}/service-accounts`, { name: role });
    await daemon.api('POST', 'P/members', { serviceAccount: role, role });
    const { body } = await daemon.api('POST', `${O}/tokens`, { serviceAccount: role, name: 'ci' });
    const as = { token: String(body['token']) };
    const one = await daemon.api('GET', 'P/receivers/pager', undefined, as);
    const all = await daemon.api('GET', 'P/receivers', undefined, as);
    const { items } = all.body as unknown as { items: { url: string }[] };
    return [one.body['url'], ...items.map((item) => item.url)];
  };
  assert.deepEqual(await seenWith('viewer'), Array(2).fill('https://hooks.example:8443/…'));
  assert.deepEqual(await seenWith('admin'), Array(2).fill(url));
});
