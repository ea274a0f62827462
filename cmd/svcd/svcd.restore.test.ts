// What is stored against whoever can write the database, and what a copy of the database needs besides it: the key file.
// The copy is a logical one, table by table with COPY: the embedded server comes without pg_dump.

import assert from 'node:assert/strict';
import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase, type TestDatabase } from '../../internal/base/testkit/postgres.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon();
});
after(() => daemon.stop());

const put = async (path: string, value: string): Promise<void> => {
  assert.ok((await daemon.api('PUT', path, { value, protected: false })).status < 300);
};

async function copyDatabase(from: TestDatabase, to: TestDatabase, directory: string): Promise<void> {
  const { rows } = await from.db.query<{ name: string; columns: string }>(
    `select format('svc.%I', c.relname) as name, string_agg(quote_ident(a.attname), ', ' order by a.attnum) as columns
       from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = 'svc'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' group by 1 order by 1`,
  );
  for (const [index, { name, columns }] of rows.entries()) {
    await from.db.query(`copy (select ${columns} from ${name}) to '${directory}/${index}'`);
  }
  await to.db.tx(async (tx) => {
    await tx.query('set local session_replication_role = replica');
    for (const [index, { name, columns }] of rows.entries()) {
      await tx.query(`delete from ${name}`);
      await tx.query(`copy ${name} (${columns}) from '${directory}/${index}'`);
    }
    // As a dump does: numbers go on where they were.
    const { rows: counters } = await tx.query<{ name: string; column: string }>(
      `select format('svc.%I', c.relname) as name, a.attname as column from pg_class c join pg_attribute a on a.attrelid = c.oid
        where c.relnamespace = 'svc'::regnamespace and a.attidentity <> '' and not c.relispartition`,
    );
    for (const { name, column } of counters) {
      await tx.query(
        `select setval(pg_get_serial_sequence('${name}', '${column}'), (select coalesce(max(${column}), 1) from ${name}))`,
      );
    }
  });
}

describe('a copy of the database on another host', () => {
  it('opens every value with the master key, and is not ready with another one', async () => {
    await put('P/secrets/A', 'project value');
    await put('/api/v1/orgs/default/secrets/A', 'organization value');
    const directory = await mkdtemp(join(tmpdir(), 'svc-copy-'));
    await chmod(directory, 0o777);
    const copy = await createTestDatabase();
    try {
      await copyDatabase(daemon.database, copy, directory);
      const keyFile = join(directory, 'restored.key');
      await copyFile(daemon.ctx.config.masterKeyFile, keyFile);
      const options = { database: copy, token: daemon.token };
      const restored = await startTestDaemon({ ...options, config: { masterKeyFile: keyFile } });
      try {
        for (const [path, value] of [
          ['P/secrets', 'project value'],
          ['/api/v1/orgs/default/secrets', 'organization value'],
        ] as const) {
          const { status, body } = await restored.api('POST', `${path}/A/reveal`);
          assert.deepEqual([status, { ...body }], [200, { value }]);
        }
        assert.equal((await restored.api('GET', '/readyz')).status, 200);
      } finally {
        await restored.stop();
      }
      // A daemon of the test kit makes a key of its own, of the same number.
      const other = await startTestDaemon(options);
      try {
        const unready = await other.api('GET', '/readyz');
        assert.equal(unready.status, 503);
        assert.match(JSON.stringify(unready.body), /another key as version 1 /);
        assert.equal((await other.api('POST', 'P/secrets/A/reveal')).status, 503);
      } finally {
        await other.stop();
      }
    } finally {
      await copy.close();
      await rm(directory, { recursive: true, force: true });
    }
  });
});

describe('a stored value that was tampered with', () => {
  const reveal = async (path = 'P/secrets/T'): Promise<void> => {
    const { status, body } = await daemon.api('POST', `${path}/reveal`);
    assert.equal(status, 500);
    assert.doesNotMatch(JSON.stringify(body), /tampered/);
  };

  it('is refused for every flipped byte and every cut', async () => {
    await put('P/secrets/T', 'tampered');
    const { db } = daemon.database;
    const { rows } = await db.query<{ sealed: Buffer }>(`select sealed from svc.secrets where name = 'T'`);
    const sealed = rows[0]?.sealed ?? Buffer.alloc(0);
    const store = (bytes: Buffer) => db.query(`update svc.secrets set sealed = $1::bytea where name = 'T'`, [bytes]);
    for (let at = 0; at < sealed.length; at += 1) {
      const flipped = Buffer.from(sealed);
      flipped[at] = (flipped[at] ?? 0) ^ (1 << (at % 8));
      await store(flipped);
      await reveal();
    }
    for (const length of [0, 1, 12, 60, sealed.length - 16, sealed.length - 12, sealed.length - 1]) {
      await store(sealed.subarray(0, length));
      await reveal();
    }
    await store(sealed);
    assert.equal((await daemon.api('POST', 'P/secrets/T/reveal')).body['value'], 'tampered');
  });

  it('is refused in the row of another name, scope, project and organization', async () => {
    const { db } = daemon.database;
    await daemon.api('POST', '/api/v1/orgs/default/projects', { slug: 'second', name: 'Second' });
    await daemon.api('POST', '/api/v1/orgs', { slug: 'other', name: 'Other' });
    const second = '/api/v1/orgs/default/projects/second/secrets/T';
    const others = ['P/secrets/U', '/api/v1/orgs/default/secrets/T', second, '/api/v1/orgs/other/secrets/T'];
    await put('P/secrets/T', 'tampered');
    for (const path of others) await put(path, 'its own');
    await db.query(
      `update svc.secrets s set sealed = t.sealed, key_version = t.key_version
         from svc.secrets t join svc.projects p on p.id = t.project_id and p.slug = 'default'
        where t.name = 'T' and s.id <> t.id`,
    );
    for (const path of others) await reveal(path);
    assert.equal((await daemon.api('POST', 'P/secrets/T/reveal')).body['value'], 'tampered');
  });
});
