// `svc dev` with the configuration file of an installation: it takes presets, models and programs from there, and nothing
// that would make its daemon one of that installation's.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';
import { emptyHome, runSvc } from './testkit.ts';

const agent = `name: helper
harness: harness-a
environment: { name: n, image: { kind: preset, name: house } }
`;

test('the daemon of svc dev leaves the database alone that a configuration file names for the installation', async (t) => {
  const home = await emptyHome();
  t.after(() => home.remove());
  const database = await createTestDatabase({ empty: true });
  t.after(() => database.close());
  const place = (name: string): string => join(home.path, name);
  await mkdir(place('.svc/agents'), { recursive: true });
  await writeFile(place('.svc/agents/helper.yaml'), agent);
  await writeFile(place('master.key'), `1:${randomBytes(32).toString('base64')}\n`);
  const scripted = [process.execPath, join(import.meta.dirname, '../../testdata/scripted-agent/agent.mjs')];
  const file = {
    databaseUrl: database.url,
    masterKeyFile: place('master.key'),
    baseUrl: 'https://svc.example.com',
    roles: ['api'],
    harnessACommand: scripted,
    sandbox: 'process',
    catalog: { presets: ['house'] },
  };
  await writeFile(place('svc.yaml'), JSON.stringify(file));
  const told = ['dev', 'helper', '--message', 'hello'];
  for (const [args, env] of [
    [[...told, '--timeout', '60d', '--config', 'svc.yaml'], {}],
    [[...told, '--timeout', '60s'], { SVC_CONFIG: place('svc.yaml') }],
  ] as const) {
    const { code, stdout, stderr } = await runSvc(home.path, args, { env });
    const { rows } = await database.db.query(`select from pg_namespace where nspname = 'svc'`);
    assert.equal(rows.length, 0, `it has migrated the installation's database: ${stderr}`);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^ {4}echo: hello$/m);
  }
  const nowhere = await runSvc(home.path, [...told, '--config', 'svc.yaml', '--keep', '/dev/null/x']);
  assert.deepEqual([nowhere.code, nowhere.stderr], [1, 'svc: /dev/null/x cannot be made (EEXIST)\n']);
});
