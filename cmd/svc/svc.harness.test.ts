import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, rename, utimes, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { resolveHarness } from '../../internal/adapters/harness/harness.ts';
import { callSvc, emptyHome, runSvc } from './testkit.ts';

let home: Awaited<ReturnType<typeof emptyHome>>;
before(async () => {
  home = await emptyHome();
});
after(() => home.remove());

/** A program named npm that does `script` with the prefix in $3 and the wanted package in the last argument. */
async function fakeNpm(name: string, script: string): Promise<string> {
  const directory = join(home.path, name);
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'npm'), `#!/bin/sh\nfor spec; do :; done\n${script}\n`);
  await chmod(join(directory, 'npm'), 0o755);
  return `${directory}${delimiter}/usr/bin${delimiter}/bin`;
}

/** Lays out what the real one does, as far as it is looked at. */
const laysOut = `
name=\${spec%@*}; version=\${spec##*@}
mkdir -p "$3/node_modules/$name/dist"
printf '{"name":"%s","version":"%s"}' "$name" "\${FAKE_VERSION:-$version}" > "$3/node_modules/$name/package.json"
[ -n "$FAKE_HALF" ] || echo 'process.exit(0)' > "$3/node_modules/$name/dist/index.js"
for engine in @anthropic-ai/claude-agent-sdk @openai/codex; do
  mkdir -p "$3/node_modules/$engine" "$3/node_modules/@engine/for-here"
  echo '{"optionalDependencies":{"@engine/for-here":"1.0.0"}}' > "$3/node_modules/$engine/package.json"
done
[ -n "$FAKE_HERE" ] || FAKE_HERE=${process.platform}
printf '{"os":["%s"],"cpu":["${process.arch}"]}' "$FAKE_HERE" > "$3/node_modules/@engine/for-here/package.json"
`;

/** Lays out one of another version than the pinned one; where it is. */
async function layOutOld(dataDir: string): Promise<string> {
  const root = join(dataDir, 'harnesses/harness-b');
  const adapter = join(root, 'node_modules/@agentclientprotocol/codex-acp');
  await mkdir(join(adapter, 'dist'), { recursive: true });
  await writeFile(join(adapter, 'package.json'), '{"version":"0.0.1"}');
  await writeFile(join(adapter, 'dist/index.js'), '');
  return root;
}

test('an installation is found by list, and is not made twice', async () => {
  const dataDir = join(home.path, 'data');
  const PATH = await fakeNpm('good', laysOut);
  const run = (...args: string[]) => runSvc(home.path, args, { env: { PATH, SVC_DATA_DIR: dataDir } });
  const list = async () => JSON.parse((await run('harness', 'list', '--json')).stdout).items;
  const before = await list();
  assert.deepEqual(
    before.map((item: { name: string; state: string }) => [item.name, item.state]),
    [
      ['harness-a', 'missing'],
      ['harness-b', 'missing'],
    ],
  );
  assert.match(before[1].message, /svc harness install harness-b/);
  assert.match((await run('harness', 'list')).stderr, /as seen from here: svcd may be told otherwise/);

  const first = await run('harness', 'install', 'harness-b', '--json');
  assert.equal(first.code, 0, first.stderr);
  const done = JSON.parse(first.stdout);
  assert.equal(done.already, false);
  assert.equal(done.directory, join(dataDir, 'harnesses', 'harness-b'));
  const found = (await list())[1];
  assert.equal(found.state, 'installed');
  assert.equal(found.version, found.pinnedVersion);
  assert.ok(found.command[1].startsWith(done.directory));
  assert.equal(JSON.parse((await run('harness', 'install', 'harness-b', '--json')).stdout).already, true);
  assert.deepEqual(await readdir(join(dataDir, 'harnesses')), ['harness-b']);
});

test('another version than the pinned one is outdated, and an installation replaces it', async () => {
  const dataDir = join(home.path, 'old');
  await layOutOld(dataDir);
  const env = { PATH: await fakeNpm('good', laysOut), SVC_DATA_DIR: dataDir };
  const list = await runSvc(home.path, ['harness', 'list'], { env });
  assert.match(list.stdout, /harness-b +outdated +harness-b is installed at 0\.0\.1, and this version of svc needs/);
  assert.equal((await runSvc(home.path, ['harness', 'install', 'harness-b'], { env })).code, 0);
  assert.match((await runSvc(home.path, ['harness', 'list'], { env })).stdout, /harness-b +installed/);
});

test('an installation is found at every moment in which another takes its place', async () => {
  const dataDir = join(home.path, 'replaced');
  const root = await layOutOld(dataDir);
  for (let many = 0; many < 5_000; many += 1) await writeFile(join(root, `file-${many}`), '');
  const env = { PATH: await fakeNpm('good', laysOut), SVC_DATA_DIR: dataDir };
  let isOver = false;
  const installing = runSvc(home.path, ['harness', 'install', 'harness-b'], { env }).finally(() => (isOver = true));
  const look = { harness: 'harness-b', dataDir, configured: undefined, nodePath: process.execPath } as const;
  const seen = new Set<string>();
  while (!isOver) seen.add((await resolveHarness(look)).state);
  assert.equal((await installing).code, 0);
  assert.deepEqual([...seen], ['outdated', 'installed']);
  assert.deepEqual(await readdir(join(dataDir, 'harnesses')), ['harness-b']);
});

test('an installation is found where another was killed while it took its place, and where that one fails', async () => {
  const dataDir = join(home.path, 'between');
  const env = { PATH: await fakeNpm('bad', 'exit 1'), SVC_DATA_DIR: dataDir };
  await rename(await layOutOld(dataDir), join(dataDir, 'harnesses/.harness-b.before'));
  assert.match((await runSvc(home.path, ['harness', 'list'], { env })).stdout, /harness-b +outdated/);
  assert.equal((await runSvc(home.path, ['harness', 'install', 'harness-b'], { env })).code, 1);
  assert.deepEqual(await readdir(join(dataDir, 'harnesses')), ['harness-b']);
  assert.match((await runSvc(home.path, ['harness', 'list'], { env })).stdout, /harness-b +outdated/);
});

test('what an installation that was killed has left goes with a later one, and one that is under way stays', async () => {
  const dataDir = join(home.path, 'killed');
  const [left, underWay] = ['.harness-b-dEaD00', '.harness-b-aLiVe0'];
  for (const name of [left, underWay]) await mkdir(join(dataDir, 'harnesses', name, 'deep'), { recursive: true });
  const before = new Date(Date.now() - 25 * 3_600_000);
  await utimes(join(dataDir, 'harnesses', left), before, before);
  const env = { PATH: await fakeNpm('good', laysOut), SVC_DATA_DIR: dataDir };
  assert.equal((await runSvc(home.path, ['harness', 'install', 'harness-b'], { env })).code, 0);
  assert.deepEqual((await readdir(join(dataDir, 'harnesses'))).toSorted(), [underWay, 'harness-b']);
});

test('a configured command goes before what is installed', async () => {
  const env = { SVC_DATA_DIR: join(home.path, 'none'), SVC_HARNESS_A_COMMAND: '["/opt/agent","--acp"]' };
  const list = await runSvc(home.path, ['harness', 'list', '--json'], { env });
  const [first] = JSON.parse(list.stdout).items;
  assert.deepEqual([first.state, first.command], ['configured', ['/opt/agent', '--acp']]);
  const wrong = await runSvc(home.path, ['harness', 'list'], { env: { ...env, SVC_HARNESS_A_COMMAND: 'agent' } });
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /SVC_HARNESS_A_COMMAND must be a JSON array/);
});

test('what the database of svcd needs may stand wherever it does, for no database is asked', async () => {
  const config = join(home.path, 'svc.yaml');
  const env = { SVC_DATA_DIR: join(home.path, 'none'), SVC_CONFIG: config };
  for (const text of ['databaseUrl: postgres://db/svc', 'databaseDirectUrl: postgres://db/svc']) {
    await writeFile(config, text);
    for (const kind of ['harness', 'preset']) {
      const { code, stderr } = await callSvc(home.path, [kind, 'list'], { env });
      assert.equal(code, 0, stderr);
    }
  }
});

const failures: readonly (readonly [string, string, { readonly [name: string]: string }, string, RegExp])[] = [
  ['half', laysOut, { FAKE_HALF: '1' }, 'not-usable', /is not there/],
  ['another version', laysOut, { FAKE_VERSION: '9.9.9' }, 'not-usable', /is not there/],
  ['a program for elsewhere', laysOut, { FAKE_HERE: 'elsewhere' }, 'not-usable', /without the program of .* for /],
  ['a 404', 'echo "npm error code E404" >&2; exit 1', {}, 'not-published', /does not have @agentclientprotocol/],
  ['no reason', 'exit 3', {}, 'npm-failed', /gave no reason/],
];
for (const [what, script, env, code, message] of failures) {
  test(`an installation that ends with ${what} is refused and leaves nothing`, async () => {
    const dataDir = join(home.path, `data ${what}`);
    const PATH = await fakeNpm(`npm ${what}`, script);
    const ran = await runSvc(home.path, ['harness', 'install', 'harness-a', '--json'], {
      env: { PATH, SVC_DATA_DIR: dataDir, ...env },
    });
    assert.equal(ran.code, 1, ran.stderr);
    const problem = JSON.parse(ran.stderr);
    assert.equal(problem.code, code);
    assert.match(problem.detail, message);
    assert.deepEqual(await readdir(join(dataDir, 'harnesses')), []);
  });
}

test('without npm, and without a registry, the reason is said and what to do', async () => {
  const none = await runSvc(home.path, ['harness', 'install', 'harness-a'], {
    env: { PATH: join(home.path, 'nothing'), SVC_DATA_DIR: join(home.path, 'a') },
  });
  assert.equal(none.code, 1);
  assert.match(none.stderr, /npm is not on PATH/);
  // The real npm, at an address where nothing listens.
  const env = { npm_config_registry: 'http://127.0.0.1:9/', npm_config_fetch_retries: '0', SVC_DATA_DIR: home.path };
  const unreachable = await runSvc(home.path, ['harness', 'install', 'harness-a'], { env });
  assert.equal(unreachable.code, 1);
  assert.match(unreachable.stderr, /the package registry cannot be reached: .*ECONNREFUSED/);
});

test('another name than a harness is misuse', async () => {
  const ran = await runSvc(home.path, ['harness', 'install', 'harness-c']);
  assert.equal(ran.code, 2);
  assert.match(ran.stderr, /harness-a/);
});
