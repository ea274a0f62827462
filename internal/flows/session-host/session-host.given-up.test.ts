// A launch whose host has let go of the session meanwhile: what it opened is closed under it, and how it ends says nothing of the
// session.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { cannotStart, type Sandbox, type SandboxProvider } from '../../adapters/sandbox/sandbox.ts';
import type { HostPorts } from '../host-ports.ts';
import { createHostBench } from './host-testkit.ts';

/** Has `made` come between whoever wants a sandbox made and its provider. */
function makeSandboxes(host: HostPorts, made: (make: () => Promise<Sandbox>) => Promise<Sandbox>): void {
  const { sandboxes } = host;
  const through: HostPorts['sandboxes'] = async (...of) => {
    const opened = await sandboxes(...of);
    const create: SandboxProvider['create'] = (spec) => made(() => opened.provider.create(spec));
    const provider = new Proxy(opened.provider, {
      get: (target, name) => {
        const value: unknown = name === 'create' ? create : Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
    return { ...opened, provider };
  };
  Object.assign(host, { sandboxes: through });
}

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
    makeSandboxes(host, async (make) => {
      const made = await make();
      reached.resolve();
      await go.promise;
      return made;
    });
    const { parted } = host.listings;
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

test('a session waits for a machine that has run out of something, however often that is met, and for as long', async () => {
  const bench = await createHostBench();
  try {
    const { db, host } = bench.daemon.ctx;
    assert.ok(host);
    await bench.apply({ one: {} });
    const lacks = (code: string): Error => Object.assign(new Error(`${code}: said the system`), { code });
    let met: Error | undefined;
    let tries = 0;
    makeSandboxes(host, async (make) => {
      tries += 1;
      if (met !== undefined) throw met;
      return make();
    });
    for (const lack of [lacks('ENOSPC'), cannotStart(lacks('EAGAIN'))]) {
      met = lack;
      const session = await bench.start('one', '!say here');
      const again = (failures: string): Promise<unknown> =>
        db.query(
          `update svc.sessions set retry_at = now(), failures = ${failures} where id = $1::uuid and retry_at > now()`,
          [session],
        );
      for (const failures of ['greatest(failures, 5)', 'failures']) {
        const before = tries;
        const isOver = (state: string, reason: string | null): boolean =>
          tries > before && (state === 'failed' || reason === 'engine');
        const { state, body } = await bench.until(session, ({ state: now, reason }) => isOver(now, reason));
        assert.equal(state, 'queued', JSON.stringify(body));
        assert.match(String(body['reasonText']), new RegExp(/ENOSPC|EAGAIN/.exec(lack.message)?.[0] ?? 'nothing'));
        await again(failures);
      }
      met = undefined;
      await bench.until(session, ({ state, said }) => {
        void again('failures');
        return state === 'idle' && said === 'here';
      });
    }
  } finally {
    await bench.stop();
  }
});
