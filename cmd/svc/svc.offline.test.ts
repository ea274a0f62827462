import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { selfSigned } from '../../internal/adapters/repo/test-certificate.ts';
import { emptyHome, runSvc } from './testkit.ts';

const rootDir = join(import.meta.dirname, '../..');
const demo = join(rootDir, 'testdata/demo');

let home: Awaited<ReturnType<typeof emptyHome>>;
before(async () => {
  home = await emptyHome();
});
after(async () => home.remove());

const run = (...args: string[]) => runSvc(home.path, args);

/** A tree of its own with these files. */
async function tree(name: string, files: { readonly [path: string]: string }): Promise<string> {
  const root = join(home.path, name);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(root, path, '..'), { recursive: true });
    await writeFile(join(root, path), text);
  }
  return root;
}

const broken = `name: triage
harness: harness-c
environment: { name: node, image: { kind: preset, name: node24 } }
triggers:
  - event: webhook.received
    endpont: reports
    routing: { kind: spawn }
`;

test('compile --json prints one document of the shape that the reference gives, the same each time', async () => {
  const first = await run('compile', demo, '--json');
  assert.equal(first.code, 0, first.stderr);
  assert.equal(first.stderr, '');
  const document = JSON.parse(first.stdout);
  assert.deepEqual(Object.keys(document), ['ok', 'resources', 'diagnostics']);
  assert.equal(document.ok, true);
  assert.deepEqual(
    document.resources.map((resource: { kind: string; name: string }) => `${resource.kind}/${resource.name}`),
    ['Agent/gardener', 'Agent/greeter', 'Environment/garden', 'Identity/greeter'],
  );
  assert.deepEqual(document.resources[1].source, { file: '.svc/agents/greeter.yaml', document: 0 });
  assert.match(document.resources[1].spec.systemPrompt, /^Write English\. Your tone is warm\./);
  const second = await run('compile', '--json', '--', demo);
  assert.equal(second.stdout, first.stdout);
});

test('a broken tree exits 1 with every diagnostic at its place, on stderr or in the document', async () => {
  const path = await tree('broken', { '.svc/agents/a.yaml': broken });
  const text = await run('validate', path);
  assert.equal(text.code, 1);
  assert.equal(text.stdout, '');
  assert.match(
    text.stderr,
    /^\.svc\/agents\/a\.yaml:2:10: error \[invalid-value\] .*\n {2}2 \| harness: harness-c\n {4}\| {10}\^{9}$/m,
  );
  assert.match(text.stderr, /hint: Did you mean endpoint\?/);
  assert.match(text.stderr, /^3 errors$/m);
  const json = await run('validate', path, '--json');
  assert.equal(json.code, 1);
  const document = JSON.parse(json.stdout);
  assert.deepEqual(Object.keys(document), ['ok', 'diagnostics']);
  assert.equal(document.diagnostics.length, 3);
  const compiled = JSON.parse((await run('compile', path, '--json')).stdout);
  assert.deepEqual([compiled.ok, compiled.resources], [false, []]);
});

test('validate of a good tree says what it holds', async () => {
  const { code, stdout, stderr } = await run('validate', demo);
  assert.deepEqual([code, stdout, stderr], [0, 'ok: 2 agents, 1 environment, 1 identity\n', '']);
});

test('a path that is no directory is misuse, a directory without .svc is an error of the tree', async () => {
  const file = await run('compile', join(demo, 'README.md'));
  assert.equal(file.code, 2);
  assert.match(file.stderr, /is not a directory/);
  const missing = await run('compile', join(home.path, 'nowhere'), '--json');
  assert.equal(missing.code, 2);
  assert.equal(missing.stdout, '');
  assert.equal(JSON.parse(missing.stderr).code, 'misuse');
  const empty = await tree('empty', { 'README.md': '' });
  const { code, stderr } = await run('validate', empty);
  assert.equal(code, 1);
  assert.match(stderr, /no-svc-directory/);
  assert.equal((await run('compile')).code, 2);
});

test('--context splits at the first =, and a name outside the pattern is misuse', async () => {
  const path = await tree('context', {
    '.svc/agents/a.yaml': 'name: default\nimports: ../fragments/f.yaml\n',
    '.svc/fragments/f.yaml': 'systemPrompt: "{{ $where }}"\n',
  });
  assert.match((await run('compile', path)).stderr, /where/);
  const good = await run('compile', path, '--json', '--context', 'where=a=b');
  assert.equal(JSON.parse(good.stdout).resources[0].spec.systemPrompt, 'a=b');
  for (const context of ['1x=y', 'a-b=c', '=c', 'plain']) {
    assert.equal((await run('compile', path, '--context', context)).code, 2, context);
  }
});

test('files outside .svc that an import names are read, links and submodules are refused', async () => {
  const path = await tree('outside', {
    '.svc/agents/a.yaml': 'name: default\nimports: ../../shared/f.yaml\n',
    'shared/f.yaml': 'systemPrompt: from outside\n',
  });
  const good = await run('compile', path, '--json');
  assert.equal(JSON.parse(good.stdout).resources[0].spec.systemPrompt, 'from outside');
  await symlink('a.yaml', join(path, '.svc/agents/b.yaml'));
  const linked = await run('validate', path);
  assert.equal(linked.code, 1);
  assert.match(linked.stderr, /symlink-refused/);
  await writeFile(join(path, 'shared/.git'), 'gitdir: ../.git/modules/shared\n');
  assert.match((await run('validate', path)).stderr, /submodule-refused.*goes through shared, which is a submodule/);
});

test('a .svc that is itself a link or a submodule is a diagnostic like any other', async () => {
  const path = await tree('real', { '.svc/agents/a.yaml': 'name: default\n' });
  const linked = await tree('linked', { 'README.md': '' });
  await symlink(join(path, '.svc'), join(linked, '.svc'));
  const module = await tree('module', {
    '.svc/.git': 'gitdir: ../.git/modules/agents\n',
    '.svc/agents/a.yaml': 'name: a\n',
  });
  for (const [place, told] of [
    [linked, 'symlink-refused .svc: .svc is a symbolic link: it must be a directory'],
    [module, 'submodule-refused .svc: .svc is a submodule: it must be a directory'],
  ] as const) {
    const { code, stdout } = await run('compile', place, '--json');
    assert.equal(code, 1);
    const { ok, resources, diagnostics } = JSON.parse(stdout);
    assert.deepEqual([ok, resources], [false, []]);
    assert.deepEqual(
      diagnostics.map((one: Record<string, string>) => `${one['code']} ${one['file']}: ${one['message']}`),
      [told],
    );
  }
});

test('shipped templates and those of a configuration file are found', async () => {
  const path = await tree('templates', {
    '.svc/agents/a.yaml': 'name: default\nimports: "@house/base@latest/prompt.yaml"\n',
    'sources/base/prompt.yaml': 'systemPrompt: of the house\n',
    'svc.yaml': 'templates: [{ scope: "@house", directory: ./sources }]\n',
  });
  assert.match((await run('validate', path)).stderr, /template-unresolved/);
  const good = await run('compile', path, '--json', '--config', join(path, 'svc.yaml'));
  assert.equal(JSON.parse(good.stdout).resources?.[0]?.spec.systemPrompt, 'of the house', good.stdout);
  const bad = await tree('badconfig', { 'svc.yaml': 'catalog: { presets: 7 }\n' });
  const { code, stderr } = await run('validate', path, '--config', join(bad, 'svc.yaml'));
  assert.equal(code, 2);
  assert.match(stderr, /catalog/);
});

test('a tree compiles as it would on the daemon of the configuration file and of the environment', async () => {
  const path = await tree('asdaemon', {
    '.svc/agents/a.yaml': 'name: default\nimports: "@house/base@latest/prompt.yaml"\n',
    'svc.yaml': `sandbox: docker
allowPrivateNetwork: true
sandboxes: { docker: { socket: /run/none.sock } }
templates: [{ scope: "@house", registry: "http://127.0.0.1:9" }]
`,
    'open.yaml': 'templates: [{ scope: "@house", registry: "http://127.0.0.1:9" }]\n',
  });
  const says = async (file: string, env: { readonly [name: string]: string } = {}): Promise<string> => {
    const { code, stderr } = await runSvc(home.path, ['validate', path, '--config', join(path, file)], { env });
    assert.equal(code, 1);
    return stderr;
  };
  assert.match(await says('svc.yaml'), /Preset base has no image/);
  assert.doesNotMatch(await says('svc.yaml', { SVC_SANDBOX: 'process' }), /has no image/);
  assert.doesNotMatch(await says('svc.yaml'), /SVC_ALLOW_PRIVATE_NETWORK/);
  assert.doesNotMatch(await says('open.yaml', { SVC_ALLOW_PRIVATE_NETWORK: '1' }), /SVC_ALLOW_PRIVATE_NETWORK/);
  assert.match(await says('open.yaml'), /SVC_ALLOW_PRIVATE_NETWORK/);
  const env = { SVC_CONFIG: join(path, 'bad.yaml') };
  await writeFile(env.SVC_CONFIG, 'catalog: { presets: 7 }\n');
  const { code, stderr } = await runSvc(home.path, ['preset', 'build', 'x', '--from', path], { env });
  assert.deepEqual([code, stderr.startsWith('svc: catalog.presets')], [2, true], stderr);
});

test('schema prints what is kept under schemas/json, and writes the same files', async () => {
  const kept = await readFile(join(rootDir, 'schemas/json/environment.schema.json'), 'utf8');
  assert.equal((await run('schema', 'environment')).stdout, kept);
  const target = join(home.path, 'written');
  assert.equal((await run('schema', '--write', target)).code, 0);
  assert.deepEqual((await readdir(target)).sort(), (await readdir(join(rootDir, 'schemas/json'))).sort());
});

test('help names every command and goes to stdout; a group alone is misuse', async () => {
  const { code, stdout } = await run('--help');
  assert.equal(code, 0);
  for (const words of ['compile', 'repo sync', 'reconcile logs', 'secret set', 'completion'])
    assert.ok(stdout.includes(words));
  const group = await run('repo');
  assert.equal(group.code, 2);
  assert.match(group.stderr, /svc repo add NAME/);
  assert.match((await run('help', 'repo', 'add')).stdout, /usage\n {2}svc repo add NAME/);
  assert.equal((await run('rpeo', 'list')).code, 2);
});

test('completion scripts are syntactically right for the shells that are here', async (t) => {
  const scripts = await mkdtemp(join(tmpdir(), 'svc-completion-'));
  t.after(() => rm(scripts, { recursive: true }));
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout } = await run('completion', shell);
    assert.equal(code, 0);
    assert.match(stdout, /reconcile/);
    // From a file: fish takes no script from a socket.
    const file = join(scripts, `svc.${shell}`);
    await writeFile(file, stdout);
    const checked = spawnSync(shell, ['-n', file], { encoding: 'utf8' });
    // A machine need not have every shell; bash it has, or the tests would not run.
    if (shell === 'bash' || checked.error === undefined) assert.equal(checked.status, 0, checked.stderr);
  }
});

test('completion scripts know each option by its short name too, where it has one', async () => {
  const of = async (shell: string): Promise<string> => (await run('completion', shell)).stdout;
  const [zsh, fish] = [await of('zsh'), await of('fish')];
  for (const [long, short] of [
    ['follow', 'f'],
    ['output', 'o'],
    ['selector', 'l'],
    ['watch', 'w'],
    ['yes', 'y'],
    ['help', 'h'],
  ]) {
    assert.match(zsh, new RegExp(`'\\{--${long},-${short}\\}'\\[`), `zsh: -${short}`);
    assert.match(fish, new RegExp(` -l ${long} -s ${short} `), `fish: -${short}`);
  }
});

test('bash completes commands, second words, options and choices', async () => {
  const { stdout: script } = await run('completion', 'bash');
  const complete = (...words: string[]): string[] => {
    const list = words.map((word) => `'${word}'`).join(' ');
    const code = `${script}\nCOMP_WORDS=(svc ${list}); COMP_CWORD=${words.length}; _svc; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const ran = spawnSync('bash', ['-c', code], { encoding: 'utf8' });
    assert.equal(ran.status, 0, ran.stderr);
    return ran.stdout.trim().split('\n');
  };
  assert.deepEqual(complete('rec'), ['reconcile']);
  assert.deepEqual(complete('reconcile', 'l'), ['list', 'logs']);
  assert.deepEqual(complete('repo', 'add', 'x', '--br'), ['--branch']);
  assert.deepEqual(complete('--json', 'completion', 'f'), ['fish']);
  assert.deepEqual(complete('validate', '--cont'), ['--context']);
  // As readline cuts them.
  assert.deepEqual(complete('-o', 'json', 'agent', 'dif'), ['diff']);
  assert.deepEqual(complete('--output', '=', 'json', 'agent', 'dif'), ['diff']);
  assert.deepEqual(complete('--output=json', 'agent', 'dif'), ['diff']);
});

test('without a server the reason says how to find one, and a token is never repeated', async () => {
  const none = await run('agent', 'list');
  assert.equal(none.code, 1);
  assert.match(none.stderr, /client\.json.*\n.*SVC_URL/s);
  const away = await runSvc(home.path, ['agent', 'list', '--json'], {
    env: { SVC_URL: 'http://127.0.0.1:9', SVC_TOKEN: 'svc_do-not-show-me' },
  });
  assert.equal(away.code, 1);
  assert.equal(away.stdout, '');
  assert.equal(JSON.parse(away.stderr).code, 'unreachable');
  const odd = await run('agent', 'list', '--url', 'http://127.0.0.1:9', '--token', 'svc_do-not show-me');
  assert.equal(odd.code, 2);
  for (const { stderr } of [away, odd]) assert.ok(!stderr.includes('show-me'), stderr);
});

test('where the certificate of a server is not trusted, the reason says how to trust it', async () => {
  const server = createServer(selfSigned(), (_, response) => response.end()).listen(0, '127.0.0.1');
  try {
    await once(server, 'listening');
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    for (const [command, told] of [
      [['agent', 'list'], 'stderr'],
      [['doctor'], 'stdout'],
    ] as const) {
      const ran = await runSvc(home.path, [...command], { env: { SVC_URL: url, SVC_TOKEN: 'svc_mine' } });
      assert.equal(ran.code, 1);
      assert.match(ran[told], /reach.*SELF_SIGNED_CERT.*\n.*NODE_EXTRA_CA_CERTS=FILE/);
    }
  } finally {
    server.close();
  }
});

test('the token of client.json goes to the server of client.json alone', async () => {
  await tree('data', {
    'client.json': JSON.stringify({ url: 'http://127.0.0.1:9', token: 'svc_mine', org: 'o', project: 'p' }),
  });
  const other = await run('agent', 'list', '--data-dir', join(home.path, 'data'), '--url', 'http://127.0.0.1:8');
  assert.equal(other.code, 1);
  assert.match(other.stderr, /no token is known for http:\/\/127\.0\.0\.1:8/);
});

test('whoever has no home, neither by HOME nor by an account, is told so in a line', (t) => {
  const start = (...args: readonly string[]) =>
    spawnSync(process.execPath, args, { uid: 41_234, gid: 41_234, env: {}, encoding: 'utf8' });
  const reads = start('-e', `require('node:fs').readFileSync(${JSON.stringify(join(rootDir, 'package.json'))})`);
  if (process.getuid?.() !== 0 || reads.status !== 0) return t.skip('no account of another number can be taken here');
  const client = start(join(rootDir, 'cmd/svc/main.mjs'), 'agent', 'list');
  assert.equal(client.status, 1, client.stderr);
  assert.match(client.stderr, /^svc: no server is known: [^\n]*\nstart svcd, [^\n]*\n$/);
  const daemon = start(join(rootDir, 'cmd/svcd/main.mjs'));
  assert.equal(daemon.status, 2, daemon.stderr);
  assert.match(daemon.stderr, /^svcd: SVC_DATA_DIR is needed: there is no home directory[^\n]*\n$/);
});

test('a context has an address that is one, without credentials', async () => {
  for (const url of ['http://', 'https://svc example.com', 'http://h:99999', 'ftp://h', 'https://me:hunter2@h']) {
    const { code, stderr } = await run('context', 'add', 'away', '--url', url, '--token', 'svc_t');
    assert.equal(code, 2, stderr);
    assert.match(stderr, /^svc: --url must (?:be a URL that starts with|not hold credentials)[^\n]*\n$/, url);
  }
});

test('a URL with credentials is neither sent nor repeated', async () => {
  const { code, stderr } = await run('repo', 'add', 'x', '--url', 'https://me:hunter2@git.example.com/x.git');
  assert.equal(code, 2);
  assert.ok(!stderr.includes('hunter2'));
});

test('a tree is printed alike whether it is small, or large enough for its limits to be enforced', async () => {
  const file = (name: string) =>
    `name: ${name}\nharness: harness-a\nenvironment: { name: e, image: { kind: preset, name: base } }\n`;
  const small = await tree('alike', { '.svc/agents/a.yaml': file('a') });
  const large = await tree('alike-large', {
    '.svc/agents/a.yaml': file('a'),
    '.svc/assets/large.txt': 'x'.repeat(200_000),
  });
  const [one, other] = [await run('compile', small, '--json'), await run('compile', large, '--json')];
  assert.equal(one.code, 0, one.stderr);
  assert.equal(other.stdout, one.stdout);
});
