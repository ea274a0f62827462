import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { Fault } from '../../domain/fault.ts';
import type { ProjectRef } from '../context.ts';
import { createSecret, resolveSecrets, type SecretUse } from './secrets.ts';

let daemon: TestDaemon;
let project: ProjectRef;
let now = new Date('2026-11-21T12:00:00Z');
before(async () => {
  daemon = await startTestDaemon({ runtime: { now: () => now }, config: { roles: ['api'] } });
  const { rows } = await daemon.database.db.query<ProjectRef>(
    `select p.id, p.slug, o.id as "orgId", o.slug as "orgSlug" from svc.projects p join svc.orgs o on o.id = p.org_id`,
  );
  project = rows[0] as ProjectRef;
});
after(() => daemon.stop());
beforeEach(async () => {
  now = new Date('2026-11-21T12:00:00Z');
  await daemon.database.db.query('delete from svc.secrets');
});

const o = '/api/v1/orgs/default/secrets';
const put = async (name: string, body: object, base = 'P/secrets'): Promise<void> => {
  const { status } = await daemon.api('PUT', `${base}/${name}`, body);
  assert.ok(status < 300);
};
const resolve = (uses: readonly SecretUse[], mode: 'env' | 'edge-injection' = 'env', session = 's-1') =>
  resolveSecrets(daemon.ctx, project, uses, { session, mode });
const textOf = (env: ReadonlyMap<string, Buffer>) =>
  Object.fromEntries([...env].map(([key, value]) => [key, `${value}`]));
const fails = (uses: readonly SecretUse[], message: string | RegExp, mode: 'env' | 'edge-injection' = 'env') =>
  assert.rejects(resolve(uses, mode), (error: unknown) => {
    assert.ok(error instanceof Fault);
    if (typeof message === 'string') assert.equal(error.message, message);
    else assert.match(error.message, message);
    return true;
  });
const accesses = async (): Promise<{ name: string; detail: { [key: string]: unknown } }[]> => {
  const { rows } = await daemon.database.db.query<{ name: string; detail: { [key: string]: unknown } }>(
    `select subject_name as name, detail from svc.audit where action = 'secret.access' order by id`,
  );
  return rows;
};

describe('resolution of the secrets of a launch', () => {
  it('takes the project’s before the organization’s, and passes over an expired one', async () => {
    await put('A', { value: 'org a' }, o);
    await put('A', { value: 'project a', expiresAt: '2026-11-21T12:01:00Z' });
    await put('B', { value: 'org b' }, o);
    const uses = [
      { variable: 'X', name: 'A' },
      { variable: 'Y', name: 'B' },
      { variable: 'Z', name: 'A' },
    ];
    const first = await resolve(uses);
    assert.deepEqual(textOf(first.env), { X: 'project a', Z: 'project a', Y: 'org b' });
    now = new Date('2026-11-21T12:01:00Z');
    assert.deepEqual(textOf((await resolve(uses)).env), { X: 'org a', Z: 'org a', Y: 'org b' });
    first.wipe();
    assert.ok([...first.env.values()].every((value) => value.every((byte) => byte === 0)));
  });

  it('fails with the spec’s words for what is required, and leaves out what is optional', async () => {
    await put('gone', { value: 'x', idleExpirySeconds: 60 });
    await put('live', { value: 'y' });
    now = new Date('2026-11-21T12:01:00Z');
    await fails(
      [
        { variable: 'A', name: 'live' },
        { variable: 'B', name: 'none' },
      ],
      'Secret not found: none',
    );
    await fails([{ variable: 'A', name: 'gone' }], 'Secret has expired: gone');
    await fails(
      [
        { variable: 'A', name: 'gone', optional: true },
        { variable: 'B', name: 'gone' },
      ],
      'Secret has expired: gone',
    );
    const before = (await accesses()).length;
    const { env } = await resolve([
      { variable: 'A', name: 'gone', optional: true },
      { variable: 'B', name: 'none', optional: true },
      { variable: 'C', name: 'live', optional: true },
    ]);
    assert.deepEqual(textOf(env), { C: 'y' });
    assert.equal((await accesses()).length, before + 1);
  });

  it('a launch that fails leaves no stamp, no entry and no restarted idle clock', async () => {
    await put('live', { value: 'y', idleExpirySeconds: 60 });
    const before = await accesses();
    await fails(
      [
        { variable: 'A', name: 'live' },
        { variable: 'B', name: 'none' },
      ],
      'Secret not found: none',
    );
    assert.deepEqual(await accesses(), before);
    const { body } = await daemon.api('GET', 'P/secrets/live');
    assert.equal(body['lastAccessedAt'], null);
  });

  it('stamps, restarts the idle clock, and tells secret, scope, session and mode in the audit', async () => {
    await put('idle', { value: 'v', idleExpirySeconds: 60 });
    await put('wide', { value: 'v', injection: { hosts: ['a.test'], header: 'X-Key' } }, o);
    const session = randomUUID();
    now = new Date('2026-11-21T12:00:50Z');
    await resolve(
      [
        { variable: 'A', name: 'idle' },
        { variable: 'B', name: 'wide' },
      ],
      'edge-injection',
      session,
    );
    now = new Date('2026-11-21T12:01:40Z');
    const { body } = await daemon.api('GET', 'P/secrets/idle');
    assert.deepEqual([body['expired'], body['lastAccessedAt']], [false, '2026-11-21T12:00:50.000Z']);
    const entries = (await accesses()).filter((row) => row.detail['session'] === session);
    assert.deepEqual(entries, [
      { name: 'idle', detail: { secret: 'idle', scope: 'project', session, mode: 'env', variables: ['A'] } },
      {
        name: 'wide',
        detail: { secret: 'wide', scope: 'organization', session, mode: 'edge-injection', variables: ['B'] },
      },
    ]);
    const audit = await daemon.api('GET', 'P/audit?action=secret.access&limit=1');
    assert.deepEqual(
      { ...audit.body['items']?.[0]?.['principal'] },
      { kind: 'system', id: null, name: 'secret-resolver' },
    );
  });

  it('of a remote tool restarts the idle clock with each launch, and gives nothing to the sandbox', async () => {
    await put('token', { value: 'abc', idleExpirySeconds: 60 });
    const uses = [{ tool: 'tracker', name: 'token' }];
    const session = randomUUID();
    for (const at of ['12:00:50', '12:01:40', '12:02:30']) {
      now = new Date(`2026-11-21T${at}Z`);
      const { env, injections } = await resolve(uses, 'edge-injection', session);
      assert.deepEqual([textOf(env), injections], [{}, []]);
      const { body } = await daemon.api('GET', 'P/secrets/token');
      assert.equal(body['lastAccessedAt'], `2026-11-21T${at}.000Z`);
    }
    const [entry] = (await accesses()).filter((row) => row.detail['session'] === session);
    assert.deepEqual([entry?.detail['mode'], entry?.detail['tools']], ['edge-injection', ['tracker']]);
    now = new Date('2026-11-21T12:03:30Z');
    await fails(uses, 'Secret has expired: token');
  });

  it('gives the edge its plan and the sandbox a placeholder; without an edge, the value', async () => {
    await put('token', {
      value: 'abc',
      injection: { hosts: ['a.test', 'b.test'], header: 'Authorization', format: 'Bearer {value}!' },
    });
    const edge = await resolve([{ variable: 'T', name: 'token' }], 'edge-injection');
    assert.deepEqual(textOf(edge.env), { T: 'svc-injected-secret:token' });
    assert.deepEqual(
      edge.injections.map((one) => ({ ...one, value: String(one.value), raw: String(one.raw) })),
      [{ name: 'token', hosts: ['a.test', 'b.test'], header: 'Authorization', value: 'Bearer abc!', raw: 'abc' }],
    );
    const inline = await resolve([{ variable: 'T', name: 'token' }]);
    assert.deepEqual([textOf(inline.env), inline.injections, inline.inline], [{ T: 'abc' }, [], ['token']]);
  });

  it('refuses two secrets that claim one host and header, and a value that would be two headers', async () => {
    await put('one', { value: '1', injection: { hosts: ['a.test', 'b.test'], header: 'X-Key' } });
    await put('two', { value: '2', injection: { hosts: ['b.test'], header: 'x-kEY' } });
    await put('three', { value: '3\n', injection: { hosts: ['b.test'], header: 'X-Other' } });
    const both = [
      { variable: 'A', name: 'one' },
      { variable: 'B', name: 'two' },
    ];
    await fails(both, 'Injected secrets one and two both claim header x-key of host b.test', 'edge-injection');
    await fails(both, /both claim/);
    await resolve(
      [
        { variable: 'A', name: 'one' },
        { variable: 'B', name: 'one' },
      ],
      'edge-injection',
    );
    await put('delete', { value: '4\u007f', injection: { hosts: ['b.test'], header: 'X-Other' } });
    for (const name of ['three', 'delete'])
      await fails([{ variable: 'A', name }], new RegExp(`${name} cannot be injected`), 'edge-injection');
  });

  it('releases nothing when the audit cannot be written', async () => {
    await put('A', { value: 'v' });
    const { db } = daemon.database;
    await db.query(`alter table svc.audit add constraint closed check (action <> 'secret.access') not valid`);
    await assert.rejects(resolve([{ variable: 'A', name: 'A' }]), /closed/);
    await db.query('alter table svc.audit drop constraint closed');
    assert.equal((await daemon.api('GET', 'P/secrets/A')).body['lastAccessedAt'], null);
  });

  it('takes one statement for fifty secrets, and launches side by side do not deadlock', async () => {
    const names = Array.from({ length: 50 }, (_, n) => `S${n}`);
    for (const name of names) await put(name, { value: name });
    const uses = names.map((name) => ({ variable: name, name }));
    const { db } = daemon.ctx;
    const plain = { ...daemon.ctx, db: { ...db, query: db.query.bind(db), tx: db.tx.bind(db) } };
    let statements = 0;
    const counted = {
      ...plain,
      db: {
        ...plain.db,
        query: (text: string, values?: readonly unknown[]) => ((statements += 1), db.query(text, values)),
      },
    };
    const found = await resolveSecrets(counted as typeof daemon.ctx, project, uses, { session: 's', mode: 'env' });
    assert.deepEqual([found.env.size, statements], [50, 1]);
    const turns = Array.from({ length: 12 }, (_, n) => resolve(n % 2 === 0 ? uses : uses.toReversed()));
    for (const one of await Promise.all(turns)) assert.equal(String(one.env.get('S7')), 'S7');
  });
});

describe('creation by a session', () => {
  const actor = { kind: 'session', id: null, name: 'agent' } as const;
  const scope = () => ({ orgId: project.orgId, projectId: project.id });
  const make = (input: object) => createSecret(daemon.ctx, scope(), actor, { name: 'A', ...input });

  it('fails on a live secret of the name and on a shadowed one, unless it overwrites', async () => {
    await make({ value: 'one' });
    await assert.rejects(make({ value: 'two' }), /exists in the (project|organization); set overwrite/);
    await make({ value: 'two', overwrite: true });
    assert.equal(String((await resolve([{ variable: 'A', name: 'A' }])).env.get('A')), 'two');
    await put('B', { value: 'org' }, o);
    await assert.rejects(make({ name: 'B', value: 'x' }), /would shadow/);
    await make({ name: 'B', value: 'x', overwrite: true });
    await make({ name: 'C', value: 'x', expiresAt: '2026-11-21T12:00:01Z' });
    now = new Date('2026-11-21T12:00:01Z');
    await make({ name: 'C', value: 'y' });
    assert.equal(String((await resolve([{ variable: 'C', name: 'C' }])).env.get('C')), 'y');
  });

  it('draws a value that nobody is told', async () => {
    const made = await make({ generate: 'sk-[a-f0-9]{40}' });
    const value = String((await resolve([{ variable: 'A', name: 'A' }])).env.get('A'));
    assert.match(value, /^sk-[a-f0-9]{40}$/);
    assert.ok(!JSON.stringify(made).includes(value));
    await assert.rejects(make({ name: 'D', generate: 'ab+' }), /generate: character 3: \+ has no bound/);
    await assert.rejects(make({ name: 'D', generate: 'a', value: 'b' }), /exactly one/);
    await assert.rejects(make({ name: 'D' }), /exactly one/);
  });
});
