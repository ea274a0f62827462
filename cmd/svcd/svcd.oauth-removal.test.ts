// What a removal of a connection by consent leaves where it is refused, and what it asks of the server where it is not.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lockProject } from '../../internal/adapters/store/routing/project-lock.ts';
import { startAuthorizationBench } from '../../internal/base/testkit/authorization-server.ts';
import { createToolBench } from '../../internal/edge/mcp/mcp-testkit.ts';

test('a removal that is refused asks the server to forget nothing, and the connection has its tokens as before', async () => {
  const peer = await startAuthorizationBench();
  const { daemon, stop } = await createToolBench({ config: { allowPrivateNetwork: true } });
  const { api, ctx } = daemon;
  try {
    const made = await api('POST', 'P/connections', { provider: 'mcp', name: 'docs', url: peer.resource });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const begun = await api('POST', 'P/connections/docs/authorize', {});
    const back = await peer.consent(String(begun.body['authorizationUrl']));
    assert.equal((await fetch(back, { redirect: 'manual' })).status, 303);

    const { rows } = await ctx.db.query<{ id: string }>('select id from svc.projects');
    const [held, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = ctx.db.tx(async (tx) => {
      await lockProject(tx, rows[0]?.id ?? '');
      held.resolve();
      await free.promise;
    });
    await held.promise;
    try {
      // Not by the client of the other calls, which asks again.
      const path = '/api/v1/orgs/default/projects/default/connections/docs';
      const headers = { authorization: `Bearer ${daemon.token}` };
      const busy = await fetch(`${daemon.url}${path}`, { method: 'DELETE', headers });
      assert.deepEqual([busy.status, ((await busy.json()) as { code: string }).code], [503, 'busy']);
      assert.equal(peer.counts.revocations, 0);
    } finally {
      free.resolve();
      await holding;
    }
    const checked = await api('POST', 'P/connections/docs/check');
    assert.deepEqual([checked.status, checked.body['status'] as unknown], [200, 'active']);

    assert.equal((await api('DELETE', 'P/connections/docs')).status, 204);
    assert.equal(peer.counts.revocations, 1);
    const { items } = (await api('GET', 'P/audit?limit=2')).body as unknown as { items: { action: string }[] };
    assert.deepEqual(
      items.map(({ action }) => action),
      ['connection.revoked', 'connection.removed'],
    );
  } finally {
    await stop();
    await peer.stop();
  }
});
