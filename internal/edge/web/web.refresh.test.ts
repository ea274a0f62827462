// What a provider of sign-in says between two sign-ins, while the daemon ends or the database breaks off, and what no row can
// hold of what it says.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { armFailpoint } from '../../base/failpoint.ts';
import { type OidcPeer, startOidcPeer } from '../../base/testkit/oidc-peer.ts';
import { refreshGroups } from '../../flows/signin/signin.ts';

let daemon: TestDaemon;
let peer: OidcPeer;
let dir: string;
before(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-refresh-'));
  peer = await startOidcPeer(() => [`${daemon.url}/signin/callback/peer`]);
  writeFileSync(join(dir, 'peer'), `${peer.clientSecret}\n`);
  const { issuer, clientId } = peer;
  const signIn = {
    oidc: [{ name: 'peer', issuer, clientId, clientSecretFile: join(dir, 'peer') }],
    roles: [
      { group: 'admins', org: 'default', role: 'admin' },
      { group: 'lookers', org: 'default', project: 'default', role: 'viewer' },
    ],
    tokens: false,
  };
  daemon = await startTestDaemon({ config: { roles: ['api'], file: { signIn } } });
});
after(async () => {
  await daemon.stop();
  await peer.stop();
  rmSync(dir, { recursive: true, force: true });
});

const get = (url: string, cookie = '') => fetch(url, { redirect: 'manual', headers: { cookie } });
const cookieIn = (headers: Headers, name: string): string =>
  headers
    .getSetCookie()
    .find((line) => line.startsWith(`${name}=`))
    ?.split(';')[0] ?? '';

/** A browser of the person that the provider names; answers with what it is told of itself. */
async function signIn() {
  const begun = await get(`${daemon.url}/signin/peer`);
  const back = await peer.consent(begun.headers.get('location') ?? '');
  const cookie = cookieIn(
    (await get(back, cookieIn(begun.headers, '__Host-svc-signin'))).headers,
    '__Host-svc-session',
  );
  const asked = (key: string, method: string, path: string) =>
    daemon.api(method, path, undefined, { token: null, headers: { cookie, 'x-svc-key': key, origin: daemon.url } });
  const key = String((await asked('', 'POST', '/api/v1/auth/key')).body['key']);
  return () => asked(key, 'GET', '/api/v1/me');
}

const refresh = (minutes: number) => {
  const now = (): Date => new Date(Date.now() + minutes * 60_000);
  return refreshGroups({ ...daemon.ctx, runtime: { ...daemon.ctx.runtime, now } });
};

/** The server goes down so many times at what the trigger is about. */
async function breaking(times: number, trigger: string) {
  const { db } = daemon.database;
  await db.query('create sequence public.breaks');
  await db.query(`create function public.break_off() returns trigger language plpgsql as $$ begin
    if nextval('public.breaks') <= ${times} then raise exception 'it goes down' using errcode = '57P01'; end if; return new; end $$`);
  await db.query(`create trigger break_off before ${trigger} execute function public.break_off()`);
  return {
    isDown: async () =>
      (await db.query<{ down: boolean }>('select is_called as down from public.breaks')).rows[0]?.down === true,
    async over() {
      await db.query('drop function public.break_off() cascade');
      await db.query('drop sequence public.breaks');
    },
  };
}
const dropping =
  'update on svc.external_identities for each row when (old.token_id is not null and new.token_id is null)';

test('a token that was sent when its daemon ended is not sent again, and what was known holds', async () => {
  peer.person = { sub: 'kim', name: 'Kim', groups: ['lookers'] };
  const me = await signIn();
  const sent = (): number => peer.requests.filter((path) => path === '/token').length;
  const before = sent();
  armFailpoint('signin.refresh-sent', () => {
    armFailpoint(undefined);
    throw new Error('it has ended');
  });
  await assert.rejects(refresh(61), /it has ended/);
  for (const minutes of [62, 67, 130]) await refresh(minutes);
  assert.equal(sent(), before);
  const { rows } = await daemon.database.db.query(`select from svc.oauth_tokens where name like 'signin:%'`);
  assert.equal(rows.length, 0, 'it is nobody’s any more');
  assert.equal((await me()).status, 200);
});

test('what a refresh has given is kept, since the token before is of no use any more', async () => {
  peer.person = { sub: 'ann', name: 'Ann', groups: ['admins'] };
  const me = await signIn();
  assert.equal((await me()).body['orgs']?.[0]?.['role'] as unknown, 'admin');
  peer.person = { sub: 'ann', name: 'Ann', groups: ['lookers'] };
  const broken = await breaking(1, 'insert on svc.oauth_tokens for each row');
  await refresh(61);
  await broken.over();
  assert.equal((await me()).body['orgs']?.[0]?.['role'] as unknown, 'member', 'no administrator any more');
  peer.person = { sub: 'ann', name: 'Ann', groups: ['admins'] };
  await refresh(122);
  assert.equal((await me()).body['orgs']?.[0]?.['role'] as unknown, 'admin', 'and asked about again');
});

test('whom the provider refuses is out all the same', async () => {
  peer.person = { sub: 'bob', name: 'Bob', groups: ['admins'] };
  const me = await signIn();
  peer.gone.add('bob');
  const broken = await breaking(1, dropping);
  await refresh(61);
  await broken.over();
  assert.equal((await me()).status, 401);
});

test('a token that was not sent after all is sent later', async () => {
  peer.person = { sub: 'dan', name: 'Dan', groups: ['lookers'] };
  const me = await signIn();
  rmSync(join(dir, 'peer'));
  const broken = await breaking(
    1,
    'update on svc.external_identities for each row when (old.refresh_sent_at is not null and new.refresh_sent_at is null)',
  );
  await refresh(61);
  await broken.over();
  writeFileSync(join(dir, 'peer'), `${peer.clientSecret}\n`);
  peer.person = { sub: 'dan', name: 'Dan', groups: ['admins'] };
  await refresh(67);
  assert.equal((await me()).body['orgs']?.[0]?.['role'] as unknown, 'admin');
});

test('a refusal that is written late ends no browser of whoever has signed in since', async () => {
  peer.person = { sub: 'eve', name: 'Eve', groups: ['admins'] };
  await signIn();
  peer.gone.add('eve');
  const broken = await breaking(3, dropping);
  const refreshing = refresh(61);
  while (!(await broken.isDown())) await sleep(5);
  peer.gone.delete('eve');
  const me = await signIn();
  await refreshing;
  await broken.over();
  assert.equal((await me()).status, 200);
});

test('a person whose name at the provider no row can hold comes in as nobody', async () => {
  for (const sub of ['a\0b', randomBytes(4_000).toString('base64url')]) {
    peer.person = { sub, name: 'Ann', groups: ['admins'] };
    const begun = await get(`${daemon.url}/signin/peer`);
    const back = await peer.consent(begun.headers.get('location') ?? '');
    const { status, headers } = await get(back, cookieIn(begun.headers, '__Host-svc-signin'));
    assert.deepEqual([status, headers.get('location')], [303, '/signin/error'], JSON.stringify(sub.slice(0, 9)));
  }
});
