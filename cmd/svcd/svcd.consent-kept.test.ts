// What a provider gives for a code it gives once: it is kept also where the database breaks off behind it, or the project is busy.

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, it } from 'node:test';
import { inApply } from '../../internal/adapters/store/routing/project-lock.ts';
import { openDatabase } from '../../internal/adapters/store/store.ts';
import { type AuthorizationBench, startAuthorizationBench } from '../../internal/base/testkit/authorization-server.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { silent, type TestDatabase } from '../../internal/base/testkit/postgres.ts';
import { type ErrtrackBench, organization, startErrtrackBench } from './errtrack-testkit.ts';

/** The server goes down at the first row of a table; the answer takes that away. */
async function breaking({ db }: TestDatabase, when: string): Promise<() => Promise<void>> {
  await db.query('create sequence public.breaks');
  await db.query(`create function public.break_off() returns trigger language plpgsql as $$ begin
    if nextval('public.breaks') = 1 then raise exception 'it goes down' using errcode = '57P01'; end if; return new; end $$`);
  await db.query(`create trigger break_off before ${when} for each row execute function public.break_off()`);
  return async () => {
    const { rows } = await db.query<{ down: boolean }>('select is_called as down from public.breaks');
    assert.equal(rows[0]?.down, true, 'it went down');
    await db.query('drop function public.break_off() cascade');
    await db.query('drop sequence public.breaks');
  };
}

describe('the setup of an error tracker is completed', () => {
  let at: ErrtrackBench;
  before(async () => {
    at = await startErrtrackBench();
  });
  after(() => at.stop());

  const completed = async (consent: ReturnType<typeof at.simulator.consent>, state: string): Promise<void> => {
    const { body } = await at.callback(state, consent);
    assert.deepEqual([body['status'], body['reason']], ['completed', null]);
    const { exchanges, confirmations, status } = at.simulator.installations.get(consent.installationId) ?? {};
    assert.deepEqual([exchanges, confirmations, status], [1, 1, 'installed']);
    const { rows } = await at.daemon.database.db.query(
      `select from svc.oauth_tokens t where t.name like 'errtrack:%' and not exists (
         select from svc.errtrack_grants g where g.token_id = t.id)`,
    );
    assert.equal(rows.length, 0, 'no token is left that nobody names');
  };

  for (const [what, when] of [
    ['behind the exchange', 'insert on svc.oauth_tokens'],
    ['behind the confirmation', 'insert on svc.errtrack_grants'],
  ] as const) {
    it(`where the database breaks off ${what}`, async () => {
      const { state } = await at.start();
      const over = await breaking(at.daemon.database, when);
      await completed(at.simulator.consent(organization(1)), state);
      await over();
    });
  }

  it('where an apply of its project takes longer than others wait', async () => {
    const { state } = await at.start();
    const consent = at.simulator.consent(organization(1));
    const other = openDatabase({ url: at.daemon.database.url, log: silent });
    const { promise: isHeld, resolve: holds } = Promise.withResolvers<void>();
    let isOver = false;
    const applying = inApply(other, at.projectId, async () => {
      holds();
      const confirmed = (): boolean => at.simulator.installations.get(consent.installationId)?.confirmations === 1;
      while (!confirmed() && !isOver) await sleep(10);
      await sleep(2_500);
    });
    await isHeld;
    try {
      await completed(consent, state);
    } finally {
      isOver = true;
      await applying;
      await other.close();
    }
  });
});

describe('a consent is kept', () => {
  let peer: AuthorizationBench;
  let daemon: TestDaemon;
  before(async () => {
    peer = await startAuthorizationBench();
    daemon = await startTestDaemon({ config: { allowPrivateNetwork: true, roles: ['api'] } });
  });
  after(async () => {
    await daemon.stop();
    await peer.stop();
  });

  it('where the database breaks off behind the exchange', async () => {
    const made = await daemon.api('POST', 'P/connections', { provider: 'mcp', name: 'docs', url: peer.resource });
    assert.equal(made.status, 201);
    const { body } = await daemon.api('POST', 'P/connections/docs/authorize', {});
    const back = await peer.consent(String(body['authorizationUrl']));
    const over = await breaking(daemon.database, 'insert on svc.oauth_grants');
    const response = await fetch(`${daemon.url}${back.pathname}${back.search}`, { redirect: 'manual' });
    assert.match(response.headers.get('location') ?? '', /connectionOAuth=success/);
    await over();
    assert.equal(String((await daemon.api('GET', 'P/connections/docs')).body['status']), 'active');
    assert.equal(peer.counts.exchanges, 1);
  });
});
