// The commands that need a server, against a real daemon on a real database; those that a signal ends as processes of their own.

import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc, emptyHome, type Ran, runSvc, type RunOptions } from './testkit.ts';

const demo = join(import.meta.dirname, '../../testdata/demo');

let home: Awaited<ReturnType<typeof emptyHome>>;
let daemon: TestDaemon;
let fleet: string;
before(async () => {
  home = await emptyHome();
  daemon = await startTestDaemon();
  fleet = await mkdtemp(join(tmpdir(), 'svc-fleet-'));
  await cp(demo, fleet, { recursive: true });
});
after(async () => {
  await daemon?.stop();
  await home?.remove();
  await rm(fleet, { recursive: true, force: true });
});

/** With client.json of the daemon's data directory, as on the machine where it runs. */
const svc = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  (options.signal === undefined ? callSvc : runSvc)(home.path, args, {
    ...options,
    env: { SVC_DATA_DIR: daemon.dataDir, ...options.env },
  });

async function json(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await svc([...args, '--json']);
  assert.equal(code, 0, stderr);
  assert.equal(stderr, '');
  return JSON.parse(stdout);
}

const items = async (...args: string[]): Promise<readonly Record<string, unknown>[]> =>
  (await json(...args))['items'] as readonly Record<string, unknown>[];

test('a folder is added, synced with its stages shown, listed and shown', async () => {
  const added = await json('repo', 'add', 'fleet', '--path', fleet, '--interval', '5m', '--context', 'team=a=b');
  assert.equal(added['intervalSeconds'], 300);
  assert.deepEqual(added['context'], { team: 'a=b' });
  const synced = await svc(['repo', 'sync', 'fleet', '--wait']);
  assert.equal(synced.code, 0, synced.stderr);
  for (const stage of ['resolve', 'snapshot']) assert.match(synced.stderr, new RegExp(`^✓ ${stage} \\d+`, 'm'));
  const listed = await svc(['repo', 'list']);
  assert.match(listed.stdout, /^NAME +SOURCE +BRANCH +STATE +COMMIT +APPLIED +AGENTS\nfleet +\/.* 2\n$/);
  const shown = await svc(['repo', 'show', 'fleet']);
  assert.match(shown.stdout, /^latest run$/m);
  assert.match(shown.stdout, /^context: +team=a=b$/m);
  assert.match(
    (await svc(['repo', 'pin', 'fleet', 'abc'])).stderr,
    /^svc: commit: .* four and more signs of its beginning/,
  );
});

test('what the sync stored is listed: agents, triggers, endpoints, schedules', async () => {
  assert.deepEqual(
    (await items('agent', 'list')).map((agent) => agent['name']),
    ['gardener', 'greeter'],
  );
  const shown = await svc(['agent', 'show', 'greeter']);
  assert.match(shown.stdout, /^owner: +fleet$/m);
  assert.match(shown.stdout, /^commit: +folder:[0-9a-f]{12}$/m);
  assert.match(shown.stdout, /^triggers: +1$/m);
  assert.match(shown.stdout, /^sessions: +\d+, \d+ live$/m);
  assert.match(shown.stdout, /^ {2}harness: harness-a$/m);
  assert.match((await svc(['agent', 'history', 'greeter'])).stdout, /^REVISION +CREATED +COMMIT +RUN\n1 /);
  assert.equal((await items('trigger', 'list', '--agent', 'greeter')).length, 1);
  assert.match((await svc(['endpoint', 'show', 'greetings'])).stdout, /^address: +http.*\/events$/m);
  const origins = (await svc(['agent', 'show', 'greeter', '--origins'])).stdout;
  assert.match(origins, /^harness +\S+ +import +\S*fragments\/\S+\.yaml:\d+$/m);
  const trigger = (await svc(['trigger', 'show', 'greeter#0'])).stdout;
  assert.match(trigger, /^declared: +\.svc\/agents\/greeter\.yaml:\d+$/m);
  assert.match(trigger, /^last match: +never$/m);
  const wide = (await svc(['trigger', 'list', '--agent', 'greeter', '-o', 'wide'])).stdout;
  assert.match(wide, /^AGENT .* DECLARED +LAST MATCH\n.*\.svc\/agents\/greeter\.yaml:\d+ +never$/m);
  assert.match((await svc(['spend', '--days', '7'])).stdout, /^no model has been called in the last 7 days$/m);
  assert.match(
    (await svc(['spend', '--by', 'session', '--agent', 'greeter'])).stdout,
    /^no session has called a model$/m,
  );
  assert.equal((await svc(['spend', '--by', 'day', '--limit', '3'])).code, 2);
  assert.match((await svc(['schedule', 'list'])).stdout, /gardener +0 +30 7 \* \* 1-5 +Europe\/Lisbon +in /);
});

test('an agent of a repository is not deleted by hand, and the reason names the repository', async () => {
  const text = await svc(['agent', 'delete', 'greeter']);
  assert.equal(text.code, 1);
  assert.match(text.stderr, /fleet/);
  const problem = await svc(['agent', 'delete', 'greeter', '--json']);
  assert.equal(problem.code, 1);
  assert.equal(problem.stdout, '');
  assert.equal(JSON.parse(problem.stderr).status, 409);
});

test('runs are shown with stages and changes, and a broken tree fails the sync with its diagnostics', async () => {
  const run = (await items('reconcile', 'list', '--repo', 'fleet', '--status', 'applied'))[0];
  assert.ok(run !== undefined);
  const shown = await svc(['reconcile', 'show', String(run['id'])]);
  for (const line of [
    /^stages$/m,
    /^changes: 4 created$/m,
    /^ {2}\+ Agent greeter$/m,
    /^consequences$/m,
    /\+ schedule +gardener#0/,
  ]) {
    assert.match(shown.stdout, line);
  }
  const file = join(fleet, '.svc/agents/greeter.yaml');
  const good = await readFile(file, 'utf8');
  await writeFile(file, good.replace('routing: { kind: spawn }', 'routing: { kind: spwn }'));
  const failed = await svc(['repo', 'sync', 'fleet', '--wait']);
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /greeter\.yaml:\d+:\d+: error \[routing-invalid\]/);
  assert.match(failed.stderr, /\^\^\^\^/);
  assert.match(failed.stderr, /fleet: the sync failed/);
  const problem = await svc(['repo', 'sync', 'fleet', '--wait', '--json']);
  assert.equal(problem.code, 1);
  assert.equal(JSON.parse(problem.stdout).status, 'failed');
  assert.equal(JSON.parse(problem.stderr).code, 'sync-failed');
  await writeFile(file, good);
});

test('logs -f tells runs as they happen, one JSON line a change, and ends at Ctrl-C', async () => {
  const stop = new AbortController();
  const followed = svc(['reconcile', 'logs', '--follow', '--limit', '0', '--json'], {
    signal: stop.signal,
    onStdout: (text) => {
      if (/"status":"(unchanged|applied)"/.test(text)) stop.abort();
    },
  });
  // Whenever the follower has opened its stream, one of these runs is after that. One at a time: a slow machine would
  // otherwise start them faster than they end.
  while (!stop.signal.aborted) await svc(['repo', 'sync', 'fleet', '--wait']);
  const { code, stdout } = await followed;
  assert.equal(code, 130);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.ok(lines.every((run) => run.repository === 'fleet'));
});

test('apply sends the tree with what it names outside .svc; diff and a dry run change nothing', async () => {
  const tree = await mkdtemp(join(tmpdir(), 'svc-apply-'));
  try {
    await cp(demo, tree, { recursive: true });
    await rm(join(tree, '.svc/agents/gardener.yaml'));
    await writeFile(join(tree, 'outside.yaml'), 'systemPrompt: from outside\n');
    await writeFile(
      join(tree, '.svc/agents/greeter.yaml'),
      'name: guest\nimports: [../fragments/sandbox.yaml, ../../outside.yaml]\n',
    );
    const plan = await svc(['diff', tree]);
    assert.equal(plan.code, 0, plan.stderr);
    assert.match(plan.stdout, /^ {2}\+ Agent guest$/m);
    assert.equal((await json('apply', tree, '--dry-run'))['status'], 'planned');
    assert.equal((await json('apply', tree))['status'], 'applied');
    assert.match((await svc(['agent', 'show', 'guest'])).stdout, /from outside/);
    assert.match((await svc(['diff', tree])).stdout, /^no changes/);
    await writeFile(join(tree, '.svc/agents/greeter.yaml'), 'name: guest\nharness: x\nenvironment: garden\n');
    const refused = await svc(['apply', tree]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /greeter\.yaml:2:10: error/);
    await rm(join(tree, '.svc'), { recursive: true });
    await mkdir(join(tree, '.svc/agents'), { recursive: true });
    const emptied = await svc(['diff', tree]);
    assert.equal(emptied.code, 0, emptied.stderr);
    assert.match(emptied.stdout, /^ {2}- Agent guest$/m, 'a tree of no agents is one, as svc validate has it');
    assert.equal((await svc(['agent', 'delete', 'guest'])).code, 0);
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
});

test('what cannot be sent is told at what needs it, and left out where nothing does', async () => {
  const tree = await mkdtemp(join(tmpdir(), 'svc-tree-'));
  const agent = 'name: guest\nharness: harness-a\nenvironment: { name: plain, image: { kind: preset, name: base } }\n';
  const put = (more: string) => writeFile(join(tree, '.svc/agents/guest.yaml'), `${agent}${more}`);
  const refused = async (): Promise<string[]> => {
    const { code, stderr } = await svc(['diff', tree, '--json']);
    assert.equal(code, 1, stderr);
    const { code: word, detail, diagnostics } = JSON.parse(stderr);
    const told = diagnostics.map((one: Record<string, unknown>) => `${one['code']} ${one['file']}:${one['line']}`);
    return [word, detail, ...told];
  };
  try {
    for (const path of ['.svc/agents', '.svc/assets', 'real']) await mkdir(join(tree, path), { recursive: true });
    for (const path of ['.svc/other.bin', '.svc/assets/a.png', 'p.md']) {
      await writeFile(join(tree, path), '');
      await truncate(join(tree, path), 3 * 1024 * 1024);
    }
    await put('');
    const plan = await json('diff', tree);
    assert.equal(plan['status'], 'planned');
    const told = plan['diagnostics'] as readonly Record<string, unknown>[];
    assert.deepEqual(
      told.map((one) => `${one['severity']} ${one['code']} ${one['file']}`),
      ['warning ignored-file .svc/other.bin'],
    );
    await put('identity: { avatar: { asset: .svc/assets/a.png } }\n');
    const cannot = ['invalid-tree', '.svc/assets/a.png cannot be sent'];
    assert.deepEqual(await refused(), [...cannot, 'avatar-invalid .svc/agents/guest.yaml:4']);
    await put('systemPrompt: { file: ../../p.md }\n');
    assert.deepEqual(await refused(), [
      'invalid-tree',
      'p.md cannot be sent',
      'file-too-large .svc/agents/guest.yaml:4',
    ]);
    await symlink('real', join(tree, 'shared'));
    await put('imports: ../../shared/f.yaml\n');
    assert.deepEqual(await refused(), [
      'invalid-tree',
      'shared cannot be sent',
      'symlink-refused .svc/agents/guest.yaml:4',
    ]);
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
});

test('suspend, resume, reserve and remove do what they say', async () => {
  assert.equal((await json('repo', 'suspend', 'fleet'))['suspended'], true);
  assert.match((await svc(['repo', 'list'])).stdout, /suspended/);
  assert.doesNotMatch((await svc(['repo', 'show', 'fleet'])).stdout, /next poll/);
  assert.equal((await json('repo', 'resume', 'fleet'))['suspended'], false);
  assert.match((await svc(['endpoint', 'reserve', 'later'])).stdout, /reserved for one hour: http/);
  assert.equal((await svc(['endpoint', 'delete', 'later'])).code, 0);
  assert.equal((await svc(['repo', 'remove', 'fleet'])).code, 0);
  assert.deepEqual(await items('agent', 'list'), []);
  assert.equal((await svc(['repo', 'show', 'fleet'])).code, 1);
});

test('tenants, members, tokens and the audit are there', async () => {
  assert.equal((await svc(['project', 'create', 'second', '--name', 'Second one'])).code, 0);
  assert.deepEqual(
    (await items('project', 'list')).map((project) => String(project['slug'])).toSorted((a, b) => (a < b ? -1 : 1)),
    ['default', 'second'],
  );
  assert.deepEqual(await items('agent', 'list', '--project', 'second'), []);
  assert.equal((await svc(['member', 'set', 'ada@example.com', '--role', 'member', '--org'])).code, 0);
  assert.equal((await svc(['member', 'set', 'ada@example.com', '--role', 'operator'])).code, 0);
  assert.match((await svc(['member', 'list'])).stdout, /ada@example\.com/);
  const foretold = await svc(['member', 'remove', 'Ada@example.com', '--dry-run']);
  assert.match(foretold.stdout, /^ada@example\.com is operator of the project no more/);
  assert.equal((await svc(['member', 'remove', 'Ada@example.com', '--reason', 'left us'])).code, 0);
  assert.match((await svc(['member', 'remove', 'ada@example.com'])).stderr, /nobody here is ada@example\.com/);
  assert.equal((await svc(['member', 'remove', 'ada@example.com', '--org'])).code, 0);
  const made = await svc(['token', 'create', 'ci']);
  assert.match(made.stdout, /^svc_[A-Za-z0-9_-]{43}\n$/);
  const token = (await items('token', 'list')).find((each) => each['name'] === 'ci');
  const worthless = await json('token', 'revoke', String(token?.['id']), '--dry-run');
  assert.match(JSON.stringify(worthless), /Whatever uses ci of .* is refused/);
  assert.equal((await svc(['token', 'revoke', String(token?.['id'])])).code, 0);
  assert.match((await svc(['token', 'revoke', 'none'])).stderr, /revoked with --org/);
  const dead = await svc(['agent', 'list'], { env: { SVC_TOKEN: made.stdout.trim() } });
  assert.equal(dead.code, 1);
  assert.match(dead.stderr, /the token is not valid there/);
  assert.match((await svc(['audit', 'list'])).stdout, /project_member\.removed/);
  assert.match((await svc(['audit', 'list', '--action', 'repository.created'])).stdout, /Repository fleet /);
});

test('service accounts, archived projects and the exported audit are there', async () => {
  assert.equal((await svc(['account', 'create', 'robot', '--role', 'member'])).code, 0);
  const made = await svc(['token', 'create', 'robots', '--for', 'robot']);
  assert.match(made.stdout, /^svc_[A-Za-z0-9_-]{43}\n$/);
  const asRobot = async () => (await svc(['org', 'list'], { env: { SVC_TOKEN: made.stdout.trim() } })).code;
  assert.equal(await asRobot(), 0);
  assert.equal((await svc(['account', 'disable', 'robot'])).code, 0);
  assert.equal(await asRobot(), 1);
  assert.match((await svc(['account', 'list'])).stdout, /robot +disabled/);
  assert.equal((await svc(['account', 'enable', 'robot'])).code, 0);
  assert.equal(await asRobot(), 0);
  assert.match((await svc(['account', 'delete', 'robot', '--dry-run'])).stdout, /1 token goes with it: robots/);
  assert.equal((await svc(['account', 'delete', 'robot'])).code, 0);
  assert.equal(await asRobot(), 1);

  assert.equal((await svc(['project', 'create', 'third'])).code, 0);
  assert.equal((await svc(['project', 'rename', 'third', 'Third one'])).code, 0);
  assert.match((await svc(['project', 'archive', 'third', '--dry-run'])).stdout, /^Project third stays as it is/);
  assert.equal((await svc(['project', 'archive', 'third'])).code, 0);
  const refused = await svc(['endpoint', 'reserve', 'x', '--project', 'third']);
  assert.match(refused.stderr, /archived/);
  assert.equal((await svc(['project', 'restore', 'third'])).code, 0);

  const listed = await items('audit', 'list', '--org', '--subject', 'third', '--action', 'project.updated');
  assert.equal(listed.length, 3);
  assert.match((await svc(['project', 'delete', 'third', '--dry-run'])).stdout, /^Project third goes/);
  assert.equal((await svc(['project', 'delete', 'third', '--reason', 'tried out'])).code, 0);
  const [gone] = await items('audit', 'list', '--org', '--action', 'project.deleted');
  assert.equal((gone?.['detail'] as { readonly reason?: string } | undefined)?.reason, 'tried out');
  assert.equal((await svc(['org', 'create', 'passing'])).code, 0);
  assert.match((await svc(['org', 'delete', 'passing', '--dry-run'])).stdout, /^Organization passing goes/);
  assert.equal((await svc(['org', 'delete', 'passing'])).code, 0);
  assert.equal((await svc(['audit', 'list', '--since', 'yesterday'])).code, 1);
  // Without a zone it is a time of this machine, whatever the daemon's is.
  const before = new Date(Date.now() - 60_000 - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
  assert.ok((await items('audit', 'list', '--org', '--since', before)).length > 0);
  const exported = await svc(['audit', 'export', '--org']);
  const lines = exported.stdout.trimEnd().split('\n');
  const ids = lines.map((line) => Number(JSON.parse(line).id));
  assert.ok(ids.length > 10);
  assert.deepEqual(
    ids,
    ids.toSorted((a, b) => a - b),
  );
  assert.ok(!exported.stdout.includes(made.stdout.trim()));
  assert.equal((await svc(['audit', 'export', '--project', 'nowhere'])).code, 1);
});

test('doctor passes on a sound installation and fails on a bad token', async () => {
  const sound = await json('doctor');
  assert.equal(sound['ok'], true, JSON.stringify(sound));
  const bad = await svc(['doctor'], { env: { SVC_TOKEN: 'svc_wrong-and-not-shown' } });
  assert.equal(bad.code, 1);
  assert.match(bad.stdout, /✗ token/);
  assert.ok(!`${bad.stdout}${bad.stderr}`.includes('wrong-and-not-shown'));
});

test('doctor sends nobody after a missing key while it is the database that is away', async () => {
  let failed = ['database', 'keys'];
  let why = 'The database cannot be reached.';
  const server = createServer((request, response) => {
    const checks = failed.map((name) => ({ name, ok: false, reason: why }));
    const status = request.url === '/readyz' ? 503 : 200;
    response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(JSON.stringify({ status: 'unready', checks }));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const told = async (): Promise<string> =>
    (await svc(['doctor'], { env: { SVC_URL: `http://127.0.0.1:${port}` } })).stdout;
  try {
    const away = await told();
    assert.match(away, /✗ database .*\n +→ look after its server: does it run, is its disk full/);
    assert.doesNotMatch(away, /missing key/);
    failed = ['keys'];
    assert.match(await told(), /✗ keys .*\n +→ put the missing key back/);
    // Where the file is there, and none is missing in it, it has to be corrected.
    why = 'SVC_MASTER_KEY_FILE line 2 is not version:base64(32 bytes), with a version from 1 up';
    assert.match(await told(), /✗ keys .*line 2.*\n +→ correct the file of SVC_MASTER_KEY_FILE/);
    why = 'the master key file lacks version 2; version 1, the last of the master key file, has been retired';
    assert.match(await told(), /✗ keys .*\n +→ put the missing key back/);
    why = 'version 1, the last of the master key file, has been retired';
    assert.match(await told(), /✗ keys .*\n +→ correct the file .* the current one last/);
  } finally {
    server.close();
  }
});

test('an agent with one trigger names it, also where the name of the agent ends in a number', async () => {
  const tree = await mkdtemp(join(tmpdir(), 'svc-numbered-'));
  try {
    await mkdir(join(tree, '.svc/agents'), { recursive: true });
    await writeFile(
      join(tree, '.svc/agents/a.yaml'),
      `name: web-2
harness: harness-a
environment: { name: numbered, image: { kind: preset, name: base } }
triggers:
  - { kind: heartbeat, cron: '0 7 * * *', routing: { kind: spawn } }
`,
    );
    assert.equal((await svc(['apply', tree])).code, 0);
    for (const name of ['web-2', 'web-2#0', 'web-2-0']) {
      const shown = await svc(['trigger', 'show', name]);
      assert.match(shown.stdout, /^trigger: +web-2#0$/m, shown.stderr);
    }
  } finally {
    await rm(tree, { recursive: true, force: true });
  }
});

test('what an edit says to do next can be done, also where the repository is suspended', async () => {
  await json('repo', 'add', 'edited', '--path', fleet, '--suspend');
  for (const change of [['--suspend'], ['--interval', '5m']]) {
    const { stdout } = await svc(['repo', 'edit', 'edited', ...change]);
    const [, command = ''] = /`svc ([^`]+)`/.exec(stdout) ?? [];
    assert.equal((await svc(command.split(' '))).code, 0, `${stdout}${command}`);
    assert.equal((await svc(['repo', 'suspend', 'edited'])).code, 0);
  }
  assert.equal((await svc(['repo', 'remove', 'edited', '--yes'])).code, 0);
});
