// A launch whose host has let go of the session meanwhile: what it opened is closed under it, and how it ends says nothing of the
// session.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { SandboxProvider } from '../../adapters/sandbox/sandbox.ts';
import { createHostBench } from './host-testkit.ts';

test('a launch that its host gave up, being slow, ends no session: it is launched anew', async () => {
  const bench = await createHostBench();
  try {
    const { api, ctx } = bench.daemon;
    const { db, host } = ctx;
    assert.ok(host);
    await api('PUT', 'P/secrets/key', { value: 'a value' });
    await bench.apply({ slow: { env: { KEY: { $secret: 'key' } } } });
    const [reached, go, left] = [0, 1, 2].map(() => Promise.withResolvers<void>());
    assert.ok(reached && go && left);
    // Its sandbox takes its time to be made, once.
    const { sandboxes } = host;
    const slow = async (...of: Parameters<typeof sandboxes>): ReturnType<typeof sandboxes> => {
      const opened = await sandboxes(...of);
      const create: SandboxProvider['create'] = async (spec) => {
        const made = await opened.provider.create(spec);
        reached.resolve();
        await go.promise;
        return made;
      };
      const provider = new Proxy(opened.provider, {
        get: (of, name) => {
          const value: unknown = name === 'create' ? create : Reflect.get(of, name, of);
          return typeof value === 'function' ? value.bind(of) : value;
        },
      });
      return { ...opened, provider };
    };
    const { parted } = host.listings;
    Object.assign(host, { sandboxes: slow });
    Object.assign(host.listings, {
      parted: (sessionId: string) => {
        left.resolve();
        return parted(sessionId);
      },
    });
    const session = await bench.start('slow', '!env KEY');
    await reached.promise;
    // As where its renewals came too late: another one is let have it.
    const setLease = (what: string) =>
      db.query(`update svc.session_leases set ${what} where session_id = $1::uuid`, [session]);
    await setLease(`daemon_id = '${randomUUID()}'`);
    await left.promise;
    go.resolve();
    await setLease(`until = now() - interval '1 second'`);
    const { state, said } = await bench.until(session, ({ state: now }) => ['idle', 'failed'].includes(now));
    assert.deepEqual([state, said], ['idle', 'KEY=***']);
  } finally {
    await bench.stop();
  }
});
