// A launch whose host has let go of the session meanwhile: what it opened is closed under it, and how it ends says nothing of the
// session.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
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
    // Whoever reads the session has no business with where the daemon's files lie.
    const { dataDir } = bench.daemon;
    met = Object.assign(new Error(`EACCES: permission denied, mkdir '${dataDir}/boxes'`), { code: 'EACCES' });
    const closed = await bench.start('one', '!say here');
    const { body } = await bench.until(closed, ({ body: seen }) => seen['reasonText'] !== undefined);
    assert.equal(body['reasonText'], `EACCES: permission denied, mkdir '<data-dir>/boxes'`);
  } finally {
    await bench.stop();
  }
});

test('what the system says of a file is not taken for a database that is away: the launch is paused, or waits for its disk', async () => {
  const bench = await createHostBench();
  try {
    const { dataDir, ctx } = bench.daemon;
    const { db, host } = ctx;
    assert.ok(host);
    await bench.apply({ one: {} });
    let tries = 0;
    const missing = Object.assign(new Error('ENOENT: no such file or directory'), { code: 'ENOENT' });
    let met: Error | undefined = missing;
    makeSandboxes(host, async (make) => {
      tries += 1;
      if (met !== undefined) throw met;
      return make();
    });
    const session = await bench.start('one', '!say here');
    await bench.until(session, () => tries > 0);
    const { rows } = await db.query<{ failures: number }>('select failures from svc.sessions where id = $1::uuid', [
      session,
    ]);
    assert.equal(rows[0]?.failures, 1);
    // The disk of the data directory goes, and comes back.
    met = undefined;
    const [here, away] = [join(dataDir, 'sandboxes'), join(dataDir, 'away')];
    await rename(here, away);
    const { body } = await bench.until(session, ({ body: now }) =>
      /is not there any more/.test(String(now['reasonText'])),
    );
    assert.deepEqual([body['state'], body['reason']], ['queued', 'engine']);
    await rename(away, here);
    await db.query('update svc.sessions set retry_at = now() where id = $1::uuid', [session]);
    await bench.until(session, ({ state, said }) => state === 'idle' && said === 'here');
  } finally {
    await bench.stop();
  }
});
