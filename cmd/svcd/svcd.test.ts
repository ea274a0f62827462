import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  apiClient,
  embeddedPid,
  readClientFile,
  spawnDaemon,
  tempDataDir,
} from '../../internal/base/testkit/daemon.ts';
import { createTestDatabase } from '../../internal/base/testkit/postgres.ts';

async function me(dataDir: string): Promise<number> {
  const { url, token } = readClientFile(dataDir);
  return (await apiClient(url, token)('GET', '/api/v1/me')).status;
}

describe('svcd with nothing configured', () => {
  let data: Awaited<ReturnType<typeof tempDataDir>>;
  before(async () => {
    data = await tempDataDir({ empty: true });
  });
  after(() => data.remove());

  it('starts complete, is found as it was left, drains at SIGTERM and leaves no server behind', async () => {
    const first = spawnDaemon({ dataDir: data.path });
    const ready = await first.ready;
    assert.equal(first.stdout().trim().split('\n').length, 1, 'one line on stdout');
    assert.deepEqual(Object.keys(ready), ['event', 'url', 'pid', 'dataDir']);
    assert.equal(ready.pid, first.process.pid);
    assert.equal(ready.dataDir, data.path);
    const client = readClientFile(data.path);
    assert.deepEqual(Object.keys(client), ['url', 'token', 'org', 'project']);
    assert.match(client.token, /^svc_[A-Za-z0-9_-]{43}$/);
    assert.deepEqual([client.url, client.org, client.project], [ready.url, 'default', 'default']);
    for (const name of ['client.json', 'master.key', 'postgres.password']) {
      assert.equal(statSync(join(data.path, name)).mode & 0o777, 0o600, name);
    }
    assert.match(readFileSync(join(data.path, 'master.key'), 'utf8'), /^1:[A-Za-z0-9+/]{43}=\n$/);
    assert.equal((await fetch(`${ready.url}/readyz`)).status, 200);
    assert.equal(await me(data.path), 200);
    assert.deepEqual(await first.kill('SIGTERM'), { code: 0, signal: null });
    assert.equal(await embeddedPid(data.path), undefined);

    const key = readFileSync(join(data.path, 'master.key'), 'utf8');
    const second = spawnDaemon({ dataDir: data.path });
    const again = await second.ready;
    assert.deepEqual(readClientFile(data.path), { ...client, url: again.url });
    assert.equal(readFileSync(join(data.path, 'master.key'), 'utf8'), key);
    assert.equal(await me(data.path), 200);
    assert.deepEqual(await second.kill('SIGINT'), { code: 0, signal: null });
  });

  it('recovers after SIGKILL, taking over the server that was left running', async () => {
    const first = spawnDaemon({ dataDir: data.path });
    await first.ready;
    const orphan = await embeddedPid(data.path);
    assert.deepEqual(await first.kill('SIGKILL'), { code: null, signal: 'SIGKILL' });
    assert.equal(await embeddedPid(data.path), orphan, 'the server goes on alone');
    const second = spawnDaemon({ dataDir: data.path });
    await second.ready;
    assert.equal(await me(data.path), 200);
    assert.deepEqual(await second.kill('SIGTERM'), { code: 0, signal: null });
    assert.equal(await embeddedPid(data.path), undefined, 'and is stopped by its new owner');
  });

  it('recovers after SIGKILL of itself and of the server', async () => {
    const first = spawnDaemon({ dataDir: data.path });
    await first.ready;
    const server = await embeddedPid(data.path);
    assert.ok(server !== undefined);
    await first.kill('SIGKILL');
    process.kill(server, 'SIGKILL');
    const second = spawnDaemon({ dataDir: data.path });
    await second.ready;
    assert.equal(await me(data.path), 200);
    await second.kill('SIGTERM');
  });

  it('starts its database again when that dies under it', async () => {
    const daemon = spawnDaemon({ dataDir: data.path });
    const { url } = await daemon.ready;
    const server = await embeddedPid(data.path);
    assert.ok(server !== undefined);
    // It cannot be for a while, as on a disk that is full.
    const settings = join(data.path, 'postgres', 'postgresql.auto.conf');
    const good = await readFile(settings, 'utf8');
    await writeFile(settings, 'nonsense = 1\n');
    process.kill(server, 'SIGKILL');
    const deadline = performance.now() + 120_000;
    while (!daemon.stderr().includes('database.restart_failed') && performance.now() < deadline) await sleep(20);
    assert.equal((await fetch(`${url}/readyz`)).status, 503);
    await writeFile(settings, good);
    let status = 0;
    while (status !== 200 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      const now = await embeddedPid(data.path);
      // For a moment neither is there, and the daemon has not looked since.
      if (now === undefined || now === server) continue;
      status = (await fetch(`${url}/readyz`)).status;
      if (status === 200) status = await me(data.path);
    }
    assert.equal(status, 200);
    assert.deepEqual(await daemon.kill('SIGTERM'), { code: 0, signal: null }, daemon.stderr());
  });

  it('stops in order while its database is being started again, and leaves none running', async () => {
    const daemon = spawnDaemon({ dataDir: data.path });
    await daemon.ready;
    const server = await embeddedPid(data.path);
    assert.ok(server !== undefined);
    process.kill(server, 'SIGKILL');
    assert.deepEqual(await daemon.kill('SIGTERM'), { code: 0, signal: null }, daemon.stderr());
    assert.equal(await embeddedPid(data.path), undefined);
  });

  it('writes client.json again when its owner has lost it', async () => {
    const old = readClientFile(data.path);
    await rm(join(data.path, 'client.json'));
    const daemon = spawnDaemon({ dataDir: data.path });
    await daemon.ready;
    assert.notEqual(readClientFile(data.path).token, old.token);
    assert.equal(await me(data.path), 200);
    await daemon.kill('SIGTERM');
  });

  it('refuses a second svcd on the same data directory, naming the setting, and the first goes on', async () => {
    const first = spawnDaemon({ dataDir: data.path });
    await first.ready;
    const second = spawnDaemon({ dataDir: data.path });
    assert.equal((await second.exited).code, 2);
    assert.match(
      second.stderr(),
      new RegExp(`^svcd: SVC_DATA_DIR .*in use by another svcd \\(process ${first.process.pid}\\)\\n$`),
    );
    assert.equal(await me(data.path), 200);
    await first.kill('SIGTERM');
  });

  it('a warning of the runtime is a line of the log like any other', async () => {
    const dir = await tempDataDir();
    const warning =
      'process.addListener("SIGUSR2",()=>process.emitWarning("odd",{type:"DeprecationWarning",code:"DEP9"}))';
    const daemon = spawnDaemon({
      dataDir: dir.path,
      env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(warning)}` },
    });
    process.kill((await daemon.ready).pid, 'SIGUSR2');
    while (!daemon.stderr().includes('odd')) await sleep(20);
    assert.deepEqual(await daemon.kill('SIGTERM'), { code: 0, signal: null }, daemon.stderr());
    const lines = daemon.stderr().trim().split('\n');
    const told = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'process.warning');
    assert.deepEqual(
      told.map(({ level, err }) => [level, err.type, err.message, err.code]),
      [['warn', 'DeprecationWarning', 'odd', 'DEP9']],
    );
    await dir.remove();
  });
});

describe('svcd on an external database', () => {
  it('bootstraps an empty one once, also when two start at the same moment', async () => {
    const database = await createTestDatabase({ empty: true });
    const [one, two] = [await tempDataDir({ empty: true }), await tempDataDir({ empty: true })];
    const masterKey = join(one.path, 'keys');
    writeFileSync(masterKey, `1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    const env = { SVC_DATABASE_URL: database.url, SVC_MASTER_KEY_FILE: masterKey };
    try {
      const daemons = [one, two].map((dir) => spawnDaemon({ dataDir: dir.path, env }));
      await Promise.all(daemons.map((daemon) => daemon.ready));
      const written = [one, two].filter((dir) => existsSync(join(dir.path, 'client.json')));
      assert.equal(written.length, 1, 'one of the two has bootstrapped');
      const { rows } = await database.db.query<{ orgs: number; tokens: number }>(
        'select (select count(*) from svc.orgs) as orgs, (select count(*) from svc.api_tokens) as tokens',
      );
      assert.deepEqual(rows, [{ orgs: 1, tokens: 1 }]);
      const { token } = readClientFile(written[0]?.path ?? '');
      for (const daemon of daemons) {
        assert.equal((await apiClient((await daemon.ready).url, token)('GET', '/api/v1/me')).status, 200);
      }
      for (const daemon of daemons) assert.deepEqual(await daemon.kill('SIGTERM'), { code: 0, signal: null });
    } finally {
      await one.remove();
      await two.remove();
      await database.close();
    }
  });

  it('refuses a database that a newer program has migrated', async () => {
    const database = await createTestDatabase();
    const dir = await tempDataDir({ empty: true });
    const masterKey = join(dir.path, 'keys');
    writeFileSync(masterKey, `1:${randomBytes(32).toString('base64')}\n`);
    await database.db.query(`insert into svc.migrations (number, name) values (9999, '9999_later')`);
    const daemon = spawnDaemon({
      dataDir: dir.path,
      env: { SVC_DATABASE_URL: database.url, SVC_MASTER_KEY_FILE: masterKey },
    });
    assert.equal((await daemon.exited).code, 1);
    assert.match(daemon.stderr(), /^svcd: The database has migration 9999_later, which this svcd does not know/);
    await dir.remove();
    await database.close();
  });
});

describe('svcd with a setting it cannot use', () => {
  const files = mkdtempSync(join(tmpdir(), 'svc-settings-'));
  const [keyFile, configFile, oauthFile] = [join(files, 'keys'), join(files, 'svc.yaml'), join(files, 'oauth.yaml')];
  const errtrackFile = join(files, 'errtrack.yaml');
  before(() => {
    writeFileSync(keyFile, `1:${randomBytes(32).toString('base64')}\n`);
    writeFileSync(configFile, 'sync: { resyncSeconds: often }\n');
    writeFileSync(errtrackFile, 'providers: { errtrack: { baseUrl: sentry.example } }\n');
    writeFileSync(oauthFile, 'providers: { oauth: { docs: { clientId: svc, issuer: "http://127.0.0.1:1" } } }\n');
  });
  after(() => rm(files, { recursive: true }));
  const cases: { name: string; args?: string[]; env?: Record<string, string>; says: RegExp }[] = [
    { name: 'an unknown flag', args: ['--colour', 'red'], says: /^svcd: --colour / },
    { name: 'an unknown role', env: { SVC_ROLES: 'api,cook' }, says: /^svcd: SVC_ROLES has the unknown role "cook"/ },
    { name: 'a listen address without a port', args: ['--listen', 'localhost'], says: /^svcd: --listen / },
    { name: 'an unknown sandbox', env: { SVC_SANDBOX: 'castle' }, says: /^svcd: SVC_SANDBOX / },
    {
      name: 'a sandbox without its section of the configuration file, without starting a database',
      env: { SVC_SANDBOX: 'docker' },
      says: /^svcd: SVC_SANDBOX cannot be used: docker needs sandboxes\.docker in the file of SVC_CONFIG$/m,
    },
    {
      name: 'a harness command that is not JSON',
      env: { SVC_HARNESS_A_COMMAND: 'node x' },
      says: /^svcd: SVC_HARNESS_A_COMMAND /,
    },
    {
      name: 'an external database without keys',
      env: { SVC_DATABASE_URL: 'postgres://127.0.0.1:1/x' },
      says: /^svcd: SVC_MASTER_KEY_FILE is required/,
    },
    {
      name: 'a configuration file that is not there',
      env: { SVC_CONFIG: '/nowhere/svc.yaml' },
      says: /^svcd: SVC_CONFIG /,
    },
    {
      name: 'a database that cannot be reached',
      env: { SVC_DATABASE_URL: 'postgres://u:hush@127.0.0.1:1/x', SVC_MASTER_KEY_FILE: keyFile },
      says: /^svcd: SVC_DATABASE_URL cannot be used: .*ECONNREFUSED/,
    },
    {
      name: 'an address of a database with half an escape, without a trace of the code',
      env: { SVC_DATABASE_URL: 'postgres://u:hush@127.0.0.1:1/a%2', SVC_MASTER_KEY_FILE: keyFile },
      says: /^svcd: SVC_DATABASE_URL cannot be used: a % in it begins no escape$/m,
    },
    {
      name: 'a certificate of the database that is not there, by the address that names it',
      env: {
        SVC_DATABASE_URL: 'postgres://u:hush@127.0.0.1:1/x?sslmode=verify-full&sslrootcert=/nowhere/ca.pem',
        SVC_MASTER_KEY_FILE: keyFile,
      },
      says: /^svcd: SVC_DATABASE_URL cannot be used: .*\/nowhere\/ca\.pem/,
    },
    {
      name: 'the same of the server behind a pooler',
      env: {
        SVC_DATABASE_URL: 'postgres://u:hush@127.0.0.1:1/x',
        SVC_DATABASE_DIRECT_URL: 'postgres://u:hush@127.0.0.1:1/%e',
        SVC_MASTER_KEY_FILE: keyFile,
      },
      says: /^svcd: SVC_DATABASE_DIRECT_URL cannot be used: /,
    },
    {
      name: 'a data directory that cannot be made',
      args: ['--data-dir', '/proc/svc'],
      says: /^svcd: --data-dir is given more than once/,
    },
    {
      name: 'a key file that is not there, without starting a database',
      env: { SVC_MASTER_KEY_FILE: '/nowhere/keys' },
      says: /^svcd: SVC_MASTER_KEY_FILE names \/nowhere\/keys, which cannot be read/,
    },
    {
      name: 'a key where the name of its file belongs, without a trace of it',
      env: { SVC_MASTER_KEY_FILE: '1:hushB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7c=' },
      says: /^svcd: SVC_MASTER_KEY_FILE names \S*1:\*+, which cannot be read \(ENOENT\)$/m,
    },
    {
      name: 'a section of the configuration file, without starting a database',
      env: { SVC_CONFIG: configFile },
      says: /^svcd: sync\.resyncSeconds cannot be used/,
    },
    {
      name: 'a provider of consent at an address that may not be asked',
      env: { SVC_CONFIG: oauthFile },
      says: /^svcd: providers\.oauth\.docs\.issuer is not a public https address/,
    },
    {
      name: 'an address of the error tracker that is none',
      env: { SVC_CONFIG: errtrackFile },
      says: /^svcd: providers\.errtrack\.baseUrl cannot be used: an absolute http\(s\) URL/,
    },
    { name: 'a data directory of another kind', env: { SVC_DATA_DIR: '/dev/null/x' }, says: /^svcd: SVC_DATA_DIR / },
    {
      name: 'a data directory where a file system refuses every name',
      env: { SVC_DATA_DIR: '/proc/svc' },
      says: /^svcd: SVC_DATA_DIR /,
    },
  ];
  for (const { name, args, env, says } of cases) {
    it(`${name}: exit 2 and one line that names it`, async () => {
      const dir = await tempDataDir({ empty: true });
      const dataDir = env?.['SVC_DATA_DIR'] ?? join(dir.path, 'data');
      const daemon = spawnDaemon({ dataDir, args: args ?? [], env: env ?? {} });
      assert.equal((await daemon.exited).code, 2, daemon.stderr());
      assert.match(daemon.stderr(), says);
      assert.equal(daemon.stderr().trim().split('\n').length, 1, daemon.stderr());
      assert.doesNotMatch(daemon.stderr(), /hush/);
      assert.equal(daemon.stdout(), '');
      await dir.remove();
    });
  }

  it('an address of one link alone, without that link: exit 2 and one line', async () => {
    const dir = await tempDataDir();
    const daemon = spawnDaemon({ dataDir: dir.path, env: { SVC_LISTEN: '[fe80::1]:0', SVC_LOG_LEVEL: 'silent' } });
    assert.equal((await daemon.exited).code, 2, daemon.stderr());
    assert.match(daemon.stderr(), /^svcd: SVC_LISTEN cannot be used: fe80::1:0: .*\n$/);
    await dir.remove();
  });

  it('a port in use: exit 2, and the database does not stay behind', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    assert.ok(address !== null && typeof address === 'object');
    const dir = await tempDataDir();
    const daemon = spawnDaemon({ dataDir: dir.path, env: { SVC_LISTEN: `127.0.0.1:${address.port}` } });
    assert.equal((await daemon.exited).code, 2);
    assert.match(daemon.stderr(), /^svcd: SVC_LISTEN cannot be used: .*in use$/m);
    assert.equal(await embeddedPid(dir.path), undefined);
    server.close();
    await dir.remove();
  });
});
