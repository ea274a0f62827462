// The drill of docs/guides/backup.md with the real programs: a daemon on its own database, under traffic, is saved, killed and wiped; what is
// restored, once into a data directory and once into a database of its own, by somebody who is no superuser there, is all
// of it, and goes on.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import pg from 'pg';
import {
  type Api,
  apiClient,
  copyPrepared,
  embeddedPid,
  readClientFile,
  type SpawnedDaemon,
  spawnDaemon,
  tempDataDir,
} from '../../internal/base/testkit/daemon.ts';
import { testCluster } from '../../internal/base/testkit/postgres.ts';
import type { Manifest } from '../../internal/flows/backup/backup.ts';
import { callSvc, emptyHome, runSvc } from './testkit.ts';

const agent = join(import.meta.dirname, '../../testdata/scripted-agent/agent.mjs');
const harness = { SVC_HARNESS_A_COMMAND: JSON.stringify([process.execPath, agent]), SVC_SANDBOX: 'process' };
const triage = {
  name: 'triage',
  harness: 'harness-a',
  environment: { name: 'default', image: { kind: 'preset', name: 'base' } },
  triggers: [
    {
      event: 'webhook.received',
      endpoint: 'reports',
      auth: { kind: 'none' },
      message: 'A report arrived: {{title}}',
      routing: { kind: 'spawn' },
    },
  ],
};

let home: { readonly path: string; remove(): Promise<void> };
let data: { readonly path: string; remove(): Promise<void> };
let daemon: SpawnedDaemon | undefined;
before(async () => {
  [home, data] = [await emptyHome(), await tempDataDir({ empty: true })];
});
after(async () => {
  await daemon?.kill('SIGKILL');
  await home.remove();
  await data.remove();
});

async function until<T>(ask: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < 600; tries += 1) {
    const found = await ask();
    if (found !== undefined) return found;
    await sleep(100);
  }
  throw new Error('it did not come');
}

const manifestOf = async (directory: string): Promise<Manifest> =>
  JSON.parse(await readFile(join(directory, 'manifest.json'), 'utf8')) as Manifest;

async function transcript(api: Api, session: string): Promise<string> {
  return JSON.stringify((await api('GET', `P/sessions/${session}/messages?limit=200`)).body);
}

test('a directory that cannot be made is told of, to a backup and to a restore', async () => {
  // Of a file system that says of no name that it could be there; Node's own recursive mkdir never ends on it.
  const nowhere = '/proc/svc-nowhere/below';
  const { path } = await tempDataDir();
  try {
    const env = { SVC_DATA_DIR: path };
    const ends = async (args: readonly string[], where: typeof env): Promise<void> => {
      const { code, stderr } = await runSvc(home.path, args, { env: where, signal: AbortSignal.timeout(30_000) });
      assert.deepEqual([code, /ENOENT.*\/proc\/svc-nowhere/.test(stderr)], [1, true], stderr);
    };
    await ends(['backup', nowhere, '--without-key'], env);
    const saved = join(path, 'saved');
    const { code, stderr } = await runSvc(home.path, ['backup', saved, '--without-key'], { env });
    assert.equal(code, 0, stderr);
    await ends(['restore', saved], { SVC_DATA_DIR: nowhere });
  } finally {
    await rm(path, { recursive: true, force: true });
  }
});

test('the check before an upgrade tells what svcd would not start with, in any section of its configuration', async () => {
  const config = join(data.path, 'svc.yaml');
  const store = (keys: string): string =>
    `sandboxes: {setupCache: {s3: {endpoint: "https://s3.example.com", bucket: abc, ${keys}}}}`;
  for (const [text, ...words] of [
    ['sessions: {maximum: 5}', 'sessions.maximum'],
    ['sources: {readSeconds: never}', 'sources.readSeconds'],
    ['{sandbox: command, sessions: {command: {run: [box]}}}', 'sessions.command.run', '{id} is in none'],
    ['notifications: {receivers: [{kind: webhook, name: a, url: "ftp://a"}]}', 'notifications.receivers.0.url'],
    ['sandboxes: {presets: {x: {rootfs: /nowhere}}}', 'sandboxes.presets.x.rootfs', '/nowhere is no directory'],
    [
      '{sandbox: docker, sandboxes: {docker: {host: "127.0.0.1:1", tls: {ca: ca.pem, cert: b, key: c}}}}',
      'sandboxes.docker.tls.ca',
      'ca.pem cannot be read (ENOENT)',
    ],
    [`{sandbox: kubernetes, sandboxes: {kubernetes: {kubeconfig: none, namespace: a}}}`, 'kubeconfig', '(ENOENT)'],
    [`{sandbox: kubernetes, sandboxes: {kubernetes: {kubeconfig: svc.yaml, namespace: a}}}`, 'no current-context'],
    [store('accessKeyIdEnv: NO_SUCH'), 'sandboxes.setupCache.s3.accessKeyIdEnv', 'NO_SUCH is not set'],
    [store('accessKeyIdEnv: STORE_KEY, secretAccessKeyFile: none'), 's3.secretAccessKeyFile', '(ENOENT)'],
    // Without these it starts.
    ['providers: {model: {provider-a: {keyFile: none}}}', 'provider-a.keyFile', 'svcd starts without it'],
    ['templates: [{scope: "@house", directory: none}]', 'templates.0.directory', 'svcd starts without it'],
    ['sessions: {max: 5}'],
  ]) {
    await writeFile(config, text ?? '');
    const argv = ['upgrade', 'check', '--data-dir', join(data.path, 'none'), '--config', config];
    const { code, stdout, stderr } = await callSvc(home.path, argv, { env: { STORE_KEY: 'id' } });
    assert.equal(code, words.length === 0 || words.includes('svcd starts without it') ? 0 : 1, stdout);
    assert.match(stderr, code === 0 ? /^$/ : /^svc: \d+ problems? found\n$/);
    for (const word of words) assert.ok(stdout.includes(word), stdout);
  }
});

test('what a backup saved of a daemon under traffic is whole after a wipe, and sessions go on', async () => {
  const source = join(data.path, 'a');
  await copyPrepared(source);
  daemon = spawnDaemon({ dataDir: source, env: harness });
  const { url } = await daemon.ready;
  const { token } = readClientFile(source);
  const api = apiClient(url, token);
  const files = [{ path: '.svc/agents/triage.yaml', content: JSON.stringify(triage) }];
  const applied = await api('POST', 'P/apply', { files });
  const ingest = new URL(String(applied.body['webhooks']?.[0]?.['ingestUrl'])).pathname;
  await api('PUT', 'P/secrets/deploy', { value: 'the value of deploy', protected: false });
  const report = async (title: string): Promise<void> => {
    assert.equal((await api('POST', ingest, { title, dedupKey: title }, { token: null })).status, 202);
  };
  await report('disk full');
  const session = await until(async () => {
    const { items } = (await api('GET', 'P/sessions')).body as unknown as { items: { id: string; state: string }[] };
    return items.find((one) => one.state === 'idle')?.id;
  });

  // Traffic from before the backup begins until after it has ended.
  let isOver = false;
  const sent: string[] = [];
  const traffic = (async () => {
    while (!isOver) {
      await report(`traffic ${sent.length}`);
      sent.push(`traffic ${sent.length}`);
    }
  })();
  await until(async () => (sent.length >= 5 ? true : undefined));
  const before = [...sent];
  const saved = join(data.path, 'saved');
  const ran = await callSvc(home.path, ['backup', saved, '--data-dir', source]);
  isOver = true;
  await traffic;
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.stdout, /rows of \d+ tables, with the master key/);
  assert.equal((await stat(saved)).mode & 0o777, 0o700);
  for (const name of await readdir(saved)) {
    assert.equal((await stat(join(saved, name))).mode & 0o777, 0o600, name);
    assert.ok(!(await readFile(join(saved, name))).includes('the value of deploy'), name);
  }
  const again = await callSvc(home.path, ['backup', saved, '--data-dir', source, '--json']);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /backup-exists/);
  const lost = join(data.path, 'lost.key');
  const keyless = await callSvc(home.path, ['upgrade', 'check', '--data-dir', source, '--master-key-file', lost]);
  assert.equal(keyless.code, 1, keyless.stderr);
  assert.match(keyless.stdout, /up to date[\s\S]*lost\.key, which cannot be read/);

  // The machine is lost.
  await daemon.kill('SIGKILL');
  const pid = await embeddedPid(source);
  if (pid !== undefined) process.kill(pid, 'SIGQUIT');
  await until(async () => ((await embeddedPid(source)) === undefined ? true : undefined));
  const client = readClientFile(source);
  await rm(source, { recursive: true, force: true });

  const target = join(data.path, 'b');
  // As something that carries files about may leave it.
  await chmod(join(saved, 'master.key'), 0o644);
  // What cannot be put back leaves nothing behind that would refuse the one that can.
  const torn = join(data.path, 'torn');
  await mkdir(torn);
  for (const file of await readdir(saved)) await copyFile(join(saved, file), join(torn, file));
  const rows = gzipSync('no row of this table\n');
  await writeFile(join(torn, 'svc.agents.copy.gz'), rows);
  const { files: digests, ...rest } = await manifestOf(torn);
  const digest = createHash('sha256').update(rows).digest('hex');
  await writeFile(
    join(torn, 'manifest.json'),
    JSON.stringify({ ...rest, files: { ...digests, 'svc.agents.copy.gz': digest } }),
  );
  const failed = await callSvc(home.path, ['restore', torn, '--data-dir', target]);
  assert.equal(failed.code, 1, failed.stdout);
  assert.deepEqual(await readdir(target), []);
  const nowhere = join(saved, 'manifest.json', 'master.key');
  const unput = await callSvc(home.path, ['restore', saved, '--data-dir', target, '--master-key-file', nowhere]);
  assert.equal(unput.code, 1, unput.stdout);
  assert.deepEqual(await readdir(target), [], 'nor does one whose key cannot be put where it belongs');
  // Of a database that is not there any more.
  const gone = { ...client, token: `svc_${'x'.repeat(43)}` };
  await writeFile(join(target, 'client.json'), JSON.stringify(gone));
  const restored = await callSvc(home.path, ['restore', saved, '--data-dir', target]);
  assert.equal(restored.code, 0, restored.stderr);
  assert.equal((await stat(join(target, 'master.key'))).mode & 0o777, 0o600);
  const twice = await callSvc(home.path, ['restore', saved, '--data-dir', target]);
  assert.match(twice.stderr, /not-empty|There is a database/);
  const checked = await callSvc(home.path, ['upgrade', 'check', '--data-dir', target]);
  assert.equal(checked.code, 0, checked.stdout);
  assert.match(checked.stdout, /up to date[\s\S]*opens what is stored/);
  // The same rows, byte for byte.
  const copy = join(data.path, 'copy');
  await mkdir(copy, { mode: 0o755 });
  assert.equal((await callSvc(home.path, ['backup', copy, '--data-dir', target])).code, 0);
  assert.equal((await stat(copy)).mode & 0o777, 0o700, 'also where the directory was there');
  assert.deepEqual((await manifestOf(copy)).files, (await manifestOf(saved)).files);
  assert.deepEqual((await manifestOf(copy)).database, (await manifestOf(saved)).database);

  daemon = spawnDaemon({ dataDir: target, env: harness });
  const { url: served } = await daemon.ready;
  const own = apiClient(served, readClientFile(target).token);
  assert.equal((await own('GET', '/api/v1/me')).status, 200, 'client.json is of the database that is there');
  const second = apiClient(served, token);
  assert.equal((await second('GET', 'P/agents/triage')).body['name'], 'triage');
  assert.equal((await second('POST', 'P/secrets/deploy/reveal')).body['value'], 'the value of deploy');
  assert.equal((await second('POST', ingest, { title: 'again', dedupKey: 'again' }, { token: null })).status, 202);
  // Every report that was acknowledged before the backup began is there, and none twice.
  const wanted = ['disk full', 'again', ...before];
  await until(async () => {
    const items: { payload: { title: string }; routerStatus: string }[] = [];
    // However many came in while it was saved.
    for (let cursor: string | null = ''; cursor !== null; ) {
      const at: string = cursor === '' ? '' : `&cursor=${cursor}`;
      const page = (await second('GET', `P/events?key=webhook.received&limit=200${at}`)).body as unknown as {
        items: typeof items;
        nextCursor: string | null;
      };
      items.push(...page.items);
      cursor = page.nextCursor;
    }
    const titles = items.map((item) => item.payload.title);
    assert.equal(new Set(titles).size, titles.length);
    const isThere = wanted.every((title) =>
      items.some((one) => one.payload.title === title && one.routerStatus === 'routed'),
    );
    return isThere ? true : undefined;
  });
  // The session knows what it was told, and answers.
  assert.match(await transcript(second, session), /disk full/);
  const told = await second('POST', `P/sessions/${session}/messages`, { text: 'are you there?' });
  assert.ok(told.status < 300, JSON.stringify(told.body));
  await until(async () => ((await transcript(second, session)).split('are you there?').length >= 3 ? true : undefined));
  await daemon.kill('SIGTERM');

  await intoAnotherServer(saved);
});

/** The same backup into a database of a server of somebody else's. */
async function intoAnotherServer(saved: string): Promise<void> {
  const name = `restored_${randomBytes(4).toString('hex')}`;
  const adminUrl = await testCluster();
  const admin = new pg.Client({ connectionString: adminUrl });
  await admin.connect();
  try {
    await admin.query(`create role ${name} login password 'p' nosuperuser`);
    await admin.query(`create database ${name} owner ${name}`);
    const url = new URL(adminUrl);
    [url.username, url.password, url.pathname] = [name, 'p', name];
    const keys = join(data.path, 'keys/master.key');
    const env = { SVC_DATABASE_URL: url.href, SVC_MASTER_KEY_FILE: keys, SVC_DATA_DIR: join(data.path, 'c') };

    // A file that was changed is found before anything is written.
    const broken = join(data.path, 'broken');
    await mkdir(broken);
    for (const file of await readdir(saved)) await copyFile(join(saved, file), join(broken, file));
    await writeFile(join(broken, 'svc.agents.copy.gz'), 'x');
    const refused = await callSvc(home.path, ['restore', broken], { env });
    assert.deepEqual(
      [refused.code, /svc\.agents\.copy\.gz was changed/.test(refused.stderr)],
      [1, true],
      refused.stderr,
    );

    // Where the key cannot be put the database is left as it was: it could not be opened, nor be restored into again.
    const nowhere = { ...env, SVC_MASTER_KEY_FILE: join(broken, 'svc.agents.copy.gz/master.key') };
    const keyless = await callSvc(home.path, ['restore', saved], { env: nowhere });
    assert.equal(keyless.code, 1, keyless.stdout);

    const ran = await callSvc(home.path, ['restore', saved], { env });
    assert.equal(ran.code, 0, ran.stderr);
    assert.equal(await readFile(keys, 'utf8'), await readFile(join(saved, 'master.key'), 'utf8'));
    const copy = join(data.path, 'copy-of-external');
    assert.equal((await callSvc(home.path, ['backup', copy, '--without-key'], { env })).code, 0);
    const { files } = await manifestOf(saved);
    assert.deepEqual({ ...(await manifestOf(copy)).files, 'master.key': files['master.key'] }, files);
    const over = await callSvc(home.path, ['restore', saved], { env });
    assert.deepEqual([over.code, /is in use/.test(over.stderr)], [1, true], over.stderr);
    await leavesAlone(saved, url.href, env);
    // With a key that opens nothing of it there is no backup.
    await writeFile(keys, `1:${randomBytes(32).toString('base64')}\n`);
    const wrong = await callSvc(home.path, ['backup', join(data.path, 'wrong')], { env });
    assert.deepEqual([wrong.code, /does not hold the master key 1/.test(wrong.stderr)], [1, true], wrong.stderr);
  } finally {
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.query(`drop role if exists ${name}`);
    await admin.end();
  }
}

/** One that is in use is not migrated by what is refused there, whichever of the two is older. */
async function leavesAlone(saved: string, url: string, env: Readonly<Record<string, string>>): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const names = async (): Promise<string[]> =>
      (await client.query<{ name: string }>('select name from svc.migrations order by number')).rows.map(
        ({ name }) => name,
      );
    const refused = async (directory: string): Promise<void> => {
      const before = await names();
      const { code, stderr } = await callSvc(home.path, ['restore', directory], { env });
      assert.deepEqual([code, /is in use/.test(stderr)], [1, true], stderr);
      assert.deepEqual(await names(), before);
    };
    const earlier = join(data.path, 'earlier');
    await mkdir(earlier);
    for (const file of await readdir(saved)) await copyFile(join(saved, file), join(earlier, file));
    // Nor is it the key of a version that seals nothing of it, and whose line is gone, that is told of.
    const keys = `9:${randomBytes(32).toString('base64')}\n${await readFile(join(saved, 'master.key'), 'utf8')}`;
    await writeFile(join(earlier, 'master.key'), keys);
    const { database, ...rest } = await manifestOf(saved);
    const files = { ...rest.files, 'master.key': createHash('sha256').update(keys).digest('hex') };
    const older = { ...database, migrations: database.migrations.slice(0, -1) };
    await writeFile(join(earlier, 'manifest.json'), JSON.stringify({ ...rest, files, database: older }));
    await refused(earlier);
    // As of the release before, whose daemons would not start again on one that is migrated.
    await client.query(`delete from svc.migrations where name = $1`, [database.migrations.at(-1)]);
    await refused(saved);
  } finally {
    await client.end();
  }
}
