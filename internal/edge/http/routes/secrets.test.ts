import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type ApiAnswer, startTestDaemon, type TestDaemon } from '../../../base/testkit/daemon.ts';

let daemon: TestDaemon;
let now = new Date('2026-11-21T12:00:00Z');
before(async () => {
  daemon = await startTestDaemon({ runtime: { now: () => now } });
});
after(() => daemon.stop());
beforeEach(async () => {
  now = new Date('2026-11-21T12:00:00Z');
  await daemon.database.db.query('delete from svc.secrets');
});

const o = '/api/v1/orgs/default/secrets';
const put = (name: string, body: unknown, base = 'P/secrets'): Promise<ApiAnswer> =>
  daemon.api('PUT', `${base}/${name}`, body);
const later = (seconds: number): void => {
  now = new Date(now.getTime() + seconds * 1_000);
};
const status = (answer: ApiAnswer, expected: number): ApiAnswer => {
  assert.equal(answer.status, expected, JSON.stringify(answer.body));
  return answer;
};

describe('secrets over HTTP', () => {
  it('a write creates with 201, the same write again answers 200, and neither answers with the value', async () => {
    const body = { value: 'canary-1', description: 'd', injection: { hosts: ['api.test'], header: 'X-Key' } };
    const first = status(await put('A', body), 201);
    const second = status(await put('A', body), 200);
    // By a clock that stands still; a write is a version of its own all the same.
    assert.deepEqual({ ...first.body, updatedAt: '2026-11-21T12:00:00.001Z' }, { ...second.body });
    assert.deepEqual(Object.keys(first.body).sort(), [
      'createdAt',
      'description',
      'expired',
      'expiresAt',
      'idleExpirySeconds',
      'injection',
      'lastAccessedAt',
      'lastRotatedAt',
      'name',
      'protected',
      'scope',
      'updatedAt',
    ]); // prettier-ignore
    assert.equal(first.headers.get('cache-control'), 'no-store');
    assert.equal(first.body['protected'], true);
    assert.deepEqual(first.body['injection'], { hosts: ['api.test'], header: 'X-Key' });
    assert.ok(!JSON.stringify([first.body, second.body]).includes('canary'));
  });

  it('a write is of a secret that lives: a deadline that has passed is refused, and what was there stays', async () => {
    status(await put('A', { value: 'before', protected: false }), 201);
    for (const expiresAt of ['2026-11-21T11:59:59Z', '2026-11-21T12:00:00Z', '1970-01-01T00:00:00Z']) {
      for (const base of ['P/secrets', o]) {
        const { body } = status(await put('A', { value: 'after', expiresAt }, base), 400);
        assert.deepEqual([body['code'], body['detail']], [
          'invalid-expiry',
          'expiresAt must lie in the future.',
        ] as never);
      }
    }
    assert.equal((await daemon.api('POST', 'P/secrets/A/reveal')).body['value'], 'before' as never);
    status(await put('A', { value: 'after', expiresAt: '2026-11-21T12:00:01Z' }), 200);
    // A write brings an expired one back, whatever its deadline was.
    later(2);
    assert.equal((await daemon.api('GET', 'P/secrets/A')).body['expired'], true as never);
    assert.equal(status(await put('A', { value: 'again' }), 200).body['expired'], false as never);
  });

  it('a write is full: what it leaves out has its default', async () => {
    await put('A', {
      value: 'v',
      description: 'd',
      protected: false,
      idleExpirySeconds: 5,
      expiresAt: '2027-01-01T00:00:00Z',
    });
    const { body } = status(await put('A', { value: 'w' }), 200);
    assert.deepEqual(
      [body['description'], body['protected'], body['idleExpirySeconds'], body['expiresAt'], body['injection']],
      [null, true, null, null, null],
    );
  });

  it('takes every limit of the spec, and nothing beyond one', async () => {
    const good: object[] = [
      { description: 'x'.repeat(1024) },
      { description: '😀'.repeat(1024) },
      { description: null },
      { idleExpirySeconds: 1 },
      { idleExpirySeconds: 315_360_000 },
      { idleExpirySeconds: null, expiresAt: null },
      { expiresAt: '2027-02-28T10:00:00+02:00' },
      { injection: null },
      {
        injection: {
          hosts: Array.from({ length: 16 }, (_, n) => `h${n}.test`),
          header: 'a'.repeat(128),
          format: `{value}${'x'.repeat(249)}`,
        },
      },
      { injection: { hosts: ['localhost'], header: 'Authorization', format: 'Bearer {value}' } },
      { value: 'x'.repeat(65_536) },
      { value: ' \n' },
    ];
    for (const [index, more] of good.entries()) status(await put(`good-${index}`, { value: 'v', ...more }), 201);
    const bad: object[] = [
      { value: '' },
      { value: null },
      { value: 5 },
      { value: ['v'] },
      { value: 'x'.repeat(65_537) },
      { value: 'a\0b' },
      { value: '\ud800' },
      { description: 'x'.repeat(1025) },
      { description: 'a\0b' },
      { description: '\ud800' },
      { description: 5 },
      { protected: 'yes' },
      { protected: null },
      { idleExpirySeconds: 0 },
      { idleExpirySeconds: 315_360_001 },
      { idleExpirySeconds: 1.5 },
      { idleExpirySeconds: '5' },
      { expiresAt: 'tomorrow' },
      { expiresAt: '2027-02-30T00:00:00Z' },
      { expiresAt: '2027-01-01' },
      { expiresAt: 5 },
      { expiresAt: '2027-01-01T25:00:00Z' },
      { unknown: 1 },
      { name: 'A' },
      ...[
        '*.a.test',
        'A.test',
        'https://a.test',
        'a.test:443',
        'a.test/x',
        '',
        'a..test',
        '-a.test',
        'a_b.test',
        '10.0.0.1',
        '::1',
        'a.test.',
      ].map((host) => ({ injection: { hosts: [host], header: 'X' } })),
      { injection: { hosts: [], header: 'X' } },
      { injection: { hosts: ['a', 'a'], header: 'X' } },
      { injection: { hosts: Array.from({ length: 17 }, (_, n) => `h${n}`), header: 'X' } },
      ...['Connection', 'content-length', 'HOST', 'Transfer-Encoding', '', 'a b', 'a:b', 'é', 'a'.repeat(129)].map(
        (header) => ({ injection: { hosts: ['a.test'], header } }),
      ),
      ...['Bearer', '', `{value}${'x'.repeat(250)}`, '{value}\r\nX: 1', '{value}\u0000'].map((format) => ({
        injection: { hosts: ['a.test'], header: 'X', format },
      })),
      { injection: { hosts: ['a.test'], header: 'X', extra: 1 } },
      { injection: { header: 'X' } },
      { injection: 'x' },
    ]; // prettier-ignore
    for (const more of bad) {
      const answer = await put('B', { value: 'v', ...more });
      assert.equal(answer.status, 400, JSON.stringify(more).slice(0, 200));
      assert.equal(answer.headers.get('content-type'), 'application/problem+json');
    }
    status(await put('B', { description: 'no value' }), 400);
    status(await put('a%20b', { value: 'v' }), 400);
    status(await put('a'.repeat(129), { value: 'v' }), 400);
    status(await put('a'.repeat(128), { value: 'v' }), 201);
    status(await daemon.api('GET', 'P/secrets/B'), 404);
  });

  it('lists each scope by itself, expired ones included', async () => {
    for (const name of ['b', 'A', 'c'])
      await put(name, { value: 'v', expiresAt: name === 'c' ? '2026-11-21T12:00:10Z' : null });
    await put('org-wide', { value: 'v' }, o);
    later(10);
    const page = status(await daemon.api('GET', 'P/secrets?limit=2'), 200);
    assert.deepEqual([page.body['items']?.[0]?.['name'], page.body['items']?.[1]?.['name']], ['A', 'b']);
    const rest = await daemon.api('GET', `P/secrets?cursor=${page.body['nextCursor']}`);
    assert.deepEqual([rest.body['items']?.[0]?.['name'], rest.body['items']?.[0]?.['expired']], ['c', true]);
    assert.equal(rest.body['nextCursor'], null);
    const org = await daemon.api('GET', o);
    assert.deepEqual(
      [org.body['items']?.[0]?.['name'], org.body['items']?.[0]?.['scope']],
      ['org-wide', 'organization'],
    );
  });

  it('reveals an unprotected secret of exactly the named scope, after its audit entry', async () => {
    await put('A', { value: 'plain ✓', protected: false }, o);
    status(await daemon.api('POST', 'P/secrets/A/reveal'), 404);
    const revealed = status(await daemon.api('POST', `${o}/A/reveal`), 200);
    assert.deepEqual({ ...revealed.body }, { value: 'plain ✓' });
    assert.equal(revealed.headers.get('cache-control'), 'no-store');
    const audit = await daemon.api('GET', '/api/v1/orgs/default/audit?action=secret.revealed');
    assert.equal(audit.body['items']?.[0]?.['subject']?.['name'], 'A');
    await put('B', { value: 'hidden' });
    const refused = status(await daemon.api('POST', 'P/secrets/B/reveal'), 403);
    assert.equal(refused.body['code'], 'secret-protected');
    await put('C', { value: 'x', protected: false, expiresAt: '2026-11-21T12:00:01Z' });
    later(1);
    status(await daemon.api('POST', 'P/secrets/C/reveal'), 404);
  });

  it('reveals nothing when the audit entry cannot be written', async () => {
    await put('A', { value: 'plain', protected: false });
    const { db } = daemon.database;
    await db.query(`alter table svc.audit add constraint closed check (action <> 'secret.revealed') not valid`);
    const answer = await daemon.api('POST', 'P/secrets/A/reveal');
    await db.query('alter table svc.audit drop constraint closed');
    assert.equal(answer.status, 500);
    assert.ok(!JSON.stringify(answer.body).includes('plain'));
  });

  it('edits without a value: expiry only while unprotected and live, protection only towards true', async () => {
    await put('A', { value: 'v', protected: false });
    status(await daemon.api('PATCH', 'P/secrets/A', { value: 'w' }), 400);
    const edited = status(await daemon.api('PATCH', 'P/secrets/A', { idleExpirySeconds: 60, description: 'd' }), 200);
    assert.deepEqual([edited.body['idleExpirySeconds'], edited.body['description']], [60, 'd']);
    status(await daemon.api('PATCH', 'P/secrets/A', { protected: true, idleExpirySeconds: 30 }), 200);
    assert.equal(
      status(await daemon.api('PATCH', 'P/secrets/A', { protected: false }), 403).body['code'],
      'secret-protected',
    );
    status(await daemon.api('PATCH', 'P/secrets/A', { idleExpirySeconds: null }), 403);
    status(await daemon.api('PATCH', 'P/secrets/A', { expiresAt: '2030-01-01T00:00:00Z' }), 403);
    status(
      await daemon.api('PATCH', 'P/secrets/A', { description: null, injection: { hosts: ['a.test'], header: 'X' } }),
      200,
    );
    await put('B', { value: 'v', protected: false, idleExpirySeconds: 10 });
    later(10);
    assert.equal(
      status(await daemon.api('PATCH', 'P/secrets/B', { idleExpirySeconds: null }), 409).body['code'],
      'secret-expired',
    );
    status(await daemon.api('PATCH', 'P/secrets/B', { description: 'still' }), 200);
    status(await daemon.api('PATCH', 'P/secrets/none', { description: 'd' }), 404);
  });

  it('an edit does not restart the idle clock; a write and a rotation do', async () => {
    const expired = async (): Promise<unknown> => (await daemon.api('GET', 'P/secrets/A')).body['expired'];
    await put('A', { value: 'v', protected: false, idleExpirySeconds: 100 });
    later(60);
    await daemon.api('PATCH', 'P/secrets/A', { description: 'd' });
    later(60);
    assert.equal(await expired(), true);
    status(await daemon.api('POST', 'P/secrets/A/rotate', { value: 'w' }), 200);
    later(60);
    assert.equal(await expired(), false);
    await put('A', { value: 'v', idleExpirySeconds: 100 });
    later(99);
    assert.equal(await expired(), false);
    later(1);
    assert.equal(await expired(), true);
  });

  it('a rotation keeps description, protection, injection and a deadline to come, and clears one that has passed', async () => {
    status(await daemon.api('POST', 'P/secrets/A/rotate', { value: 'w' }), 404);
    const injection = { hosts: ['a.test'], header: 'X', format: 'k {value}' };
    await put('A', { value: 'v', description: 'd', protected: false, injection, expiresAt: '2026-11-21T12:01:00Z' });
    later(30);
    const first = status(await daemon.api('POST', 'P/secrets/A/rotate', { value: 'w' }), 200).body;
    assert.deepEqual(
      [first['description'], first['protected'], first['injection'], first['expiresAt'], first['lastRotatedAt']],
      ['d', false, injection, '2026-11-21T12:01:00.000Z', '2026-11-21T12:00:30.000Z'],
    );
    later(30);
    assert.equal((await daemon.api('GET', 'P/secrets/A')).body['expired'], true);
    const second = status(await daemon.api('POST', 'P/secrets/A/rotate', { value: 'x' }), 200).body;
    assert.deepEqual([second['expiresAt'], second['expired']], [null, false]);
    assert.equal((await daemon.api('POST', 'P/secrets/A/reveal')).body['value'], 'x');
  });

  it('a deletion answers 204 once', async () => {
    await put('A', { value: 'v' });
    status(await daemon.api('DELETE', 'P/secrets/A'), 204);
    const again = status(await daemon.api('DELETE', 'P/secrets/A'), 404);
    const never = status(await daemon.api('GET', 'P/secrets/never'), 404);
    assert.equal(again.body['detail'], never.body['detail']);
  });

  for (const [scope, base] of Object.entries({ organization: o, project: 'P/secrets' }))
    it(`is written while a repository that may read with it is being removed: of the ${scope}`, async () => {
      const { db } = daemon.database;
      const named = { name: `removed-by-${scope}`, url: 'https://git.test/x.git', intervalSeconds: 86_400 };
      const { body: repository } = status(await daemon.api('POST', 'P/repositories', named), 201);
      const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        and query like '%''resync'' from due%'`;
      const written = await db.tx(async (tx) => {
        await tx.query('delete from svc.repositories where id = $1::uuid', [String(repository['id'])]);
        let isAnswered = false;
        const writing = put('A', { value: 'v' }, base).finally(() => (isAnswered = true));
        while (!isAnswered && (await db.query(waits)).rowCount === 0);
        return { writing };
      });
      status(await written.writing, 201);
    });

  it('listing, writing and revealing are three permissions', async () => {
    const { body: account } = await daemon.api('POST', '/api/v1/orgs/default/service-accounts', { name: 'viewer' });
    assert.ok(account['id'], JSON.stringify(account));
    status(await daemon.api('POST', 'P/members', { serviceAccount: 'viewer', role: 'viewer' }), 201);
    const made = await daemon.api('POST', '/api/v1/orgs/default/tokens', { serviceAccount: 'viewer', name: 't' });
    const token = String(made.body['token']);
    await put('A', { value: 'v', protected: false });
    status(await daemon.api('GET', 'P/secrets', undefined, { token }), 200);
    status(await daemon.api('PUT', 'P/secrets/A', { value: 'w' }, { token }), 403);
    status(await daemon.api('POST', 'P/secrets/A/reveal', undefined, { token }), 403);
    status(await daemon.api('GET', o, undefined, { token }), 403);
    status(await daemon.api('POST', '/api/v1/keys/rotate', undefined, { token }), 403);
  });
});
