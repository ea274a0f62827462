// What newcomers and operators stumbled over, through the command itself against a real daemon: deliveries explained as a
// provider sends them, ids that paste back, events replayed into a local run, secrets and held runs, hooks that git runs, and completion in the
// shells that are here.

import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import examples from '@octokit/webhooks-examples' with { type: 'json' };
import { scriptedAgent } from '../../internal/adapters/harness/harness-testkit.ts';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc, type Ran, runSvc } from './testkit.ts';

const root = join(import.meta.dirname, '../..');
let daemon: TestDaemon;
let place: string;
let bin: string;
before(async () => {
  place = await mkdtemp(join(tmpdir(), 'svc-trial-'));
  daemon = await startTestDaemon({ config: { roles: ['api', 'sync', 'route'] } });
  bin = join(place, 'bin');
  await mkdir(bin);
  const main = join(root, 'cmd/svc/main.mjs');
  await writeFile(join(bin, 'svc'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`, { mode: 0o755 });
  await write('tree/.svc/agents/a.yaml', agent);
  const files = [{ path: '.svc/agents/a.yaml', content: agent }];
  const connected = await daemon.api('POST', 'P/connections', {
    provider: 'codehost',
    name: 'gh',
    credentials: { webhookSecret: 'hook' },
  });
  assert.equal(connected.status, 201);
  assert.equal((await daemon.api('POST', 'P/apply', { files })).status, 200);
});
after(async () => {
  await daemon?.stop();
  await rm(place, { recursive: true, force: true });
});

const agent = `name: triage
harness: harness-a
environment: { name: node, image: { kind: preset, name: base } }
systemPrompt: You sort.
triggers:
  - event: codehost.pull_request.opened
    connection: gh
    where: { $.codehost.repository.fullName: Codertocat/Hello-World }
    message: 'Pull request {{codehost.pullRequest.number}}'
    routing: { kind: spawn, bind: { target: codehost.pull_request } }
  - event: webhook.received
    endpoint: reports
    auth: { kind: none }
    message: 'A report: {{title}}'
    routing: { kind: spawn }
`;

async function write(path: string, text: string): Promise<string> {
  const whole = join(place, path);
  await mkdir(join(whole, '..'), { recursive: true });
  await writeFile(whole, text);
  return whole;
}

const env = () => ({ SVC_DATA_DIR: daemon.dataDir });
const svc = (...args: string[]): Promise<Ran> => callSvc(place, args, { env: env() });
async function ok(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await svc(...args);
  assert.equal(code, 0, stderr);
  return stdout;
}

interface Delivery {
  readonly action?: string;
}
const corpus = examples as unknown as readonly { readonly name: string; readonly examples: readonly Delivery[] }[];
const delivery = (name: string, action: string): string =>
  JSON.stringify(corpus.find((one) => one.name === name)?.examples.find((one) => one.action === action));

test('a delivery is explained as the provider sends it', async () => {
  const opened = await write('opened.json', delivery('pull_request', 'opened'));
  const raw = ['trigger', 'explain', '--raw', '--connection', 'gh', '--event', 'pull_request', '--payload'];
  const told = await ok(...raw, opened);
  assert.match(told, /^the delivery is codehost\.pull_request\.opened$/m);
  assert.match(told, /^triage#0 +✓/m);
  assert.match(told, /\$\.codehost\.repository\.fullName is "Codertocat\/Hello-World"/);
  const answer = JSON.parse(await ok(...raw, opened, '--json'));
  assert.equal(answer.event, 'codehost.pull_request.opened');
  assert.equal(answer.payload.codehost.repository.fullName, 'Codertocat/Hello-World');
  assert.equal(answer.payload.raw, undefined);
  const starred = await write('star.json', '{"action":"created"}');
  const ignored = await ok(...raw.map((word) => (word === 'pull_request' ? 'star' : word)), starred);
  assert.match(ignored, /^the delivery would not be recorded: /);
  assert.equal(
    (await daemon.api('GET', 'P/events?key=codehost.*')).body['items']?.['length'],
    0,
    'nothing is recorded',
  );
  for (const [args, code, words] of [
    [[...raw.map((word) => (word === 'gh' ? 'gone' : word)), opened], 1, /There is no connection gone/],
    [raw.slice(0, 3).concat('--payload', opened), 2, /--raw needs --connection NAME/],
    [[...raw.slice(0, 5), '--payload', opened], 1, /X-GitHub-Event/],
    [['trigger', 'explain', '--payload', opened], 2, /--event KEY and --payload FILE are needed/],
  ] as const) {
    const ran = await svc(...args);
    assert.equal(ran.code, code, ran.stderr);
    assert.match(ran.stderr, words);
  }
});

test('ids paste back from a table of eighty columns, whole or in pieces, and a short piece is told apart', async () => {
  const { body: endpoint } = await daemon.api('GET', 'P/endpoints/reports');
  const ids: string[] = [];
  for (const title of ['one', 'two']) {
    const sent = await fetch(String(endpoint['ingestUrl']), { method: 'POST', body: JSON.stringify({ title }) });
    ids.push(((await sent.json()) as { eventRecordId: string }).eventRecordId);
  }
  const [first = '', second = ''] = ids;
  const shown = await callSvc(place, ['event', 'list'], { env: { ...env(), COLUMNS: '80' } });
  for (const id of ids) assert.ok(shown.stdout.includes(id), shown.stdout);
  for (const piece of [first, first.slice(-12), first.slice(-6)]) {
    assert.match(await ok('event', 'show', piece), new RegExp(`^id: +${first}$`, 'm'));
  }
  for (const piece of [first.slice(0, 8), first.slice(0, 3)]) {
    const { code, stderr } = await svc('event', 'show', piece);
    assert.equal(code, 1);
    assert.match(stderr, new RegExp(`${piece} is a piece of \\d+ ids: .*${second}`));
  }
  const short = await svc('event', 'show', first.slice(-3));
  assert.match(short.stderr, / is (?:too short a piece of an id|a piece of \d+ ids): /);
});

test('a run says what a person did, and a rollback leaves what runs where head is not applied', async () => {
  const path = (prompt: string) =>
    write(
      'folder/.svc/agents/f.yaml',
      agent.replace('triage', 'folder').replace('You sort.', prompt).split('triggers:')[0] ?? '',
    );
  await path('One.');
  await ok('repo', 'add', 'folder', '--path', join(place, 'folder'), '--wait');
  await path('Two.');
  await ok('repo', 'sync', 'folder', '--wait');
  await path('"Three');
  assert.equal((await svc('repo', 'sync', 'folder', '--wait')).code, 1);
  const refused = await svc('repo', 'rollback', 'folder', '--wait');
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /is not applied; commit \S+ runs/);
  assert.match(await ok('agent', 'show', 'folder'), /systemPrompt: Two\./);
  await path('Two.');
  await ok('repo', 'sync', 'folder', '--wait');
  await ok('repo', 'rollback', 'folder', '--wait');
  assert.match(await ok('agent', 'show', 'folder'), /systemPrompt: One\./);
  assert.match(await ok('reconcile', 'list', '--repo', 'folder'), / manual \(rollback\) /);
  await ok('repo', 'release', 'folder', '--wait');
  assert.match(await ok('agent', 'show', 'folder'), /systemPrompt: Two\./);
  assert.match(await ok('reconcile', 'logs', '--repo', 'folder'), / by manual \(release\) /);
});

test('a stored event is replayed into a local run, and what --keep names is kept', async () => {
  const { body: page } = await daemon.api('GET', 'P/events?key=webhook.received');
  const id = String(page['items']?.[0]?.['id']);
  const title = String(page['items']?.[0]?.['payload']?.['title']);
  const kept = join(place, 'kept');
  const { code, stdout, stderr } = await runSvc(
    place,
    ['dev', 'triage', 'tree', '--replay', id.slice(-8), '--keep', kept],
    {
      env: {
        ...env(),
        SVC_HARNESS_A_COMMAND: JSON.stringify(scriptedAgent),
        SVC_SANDBOX: 'process',
        TMPDIR: place,
      },
    },
  );
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^webhook\.received wakes trigger 1$/m);
  assert.match(stdout, new RegExp(`echo: A report: ${title}$`, 'm'));
  const left = await readdir(kept, { recursive: true });
  assert.ok(left.length > 0, stderr);
  const text = (
    await Promise.all(
      left.filter((one) => /\.(?:json|jsonl|txt|md|log)$/.test(one)).map((one) => readFile(join(kept, one), 'utf8')),
    )
  ).join('\n');
  assert.ok(text.includes(`A report: ${title}`), left.join(' '));
  assert.equal((await daemon.api('GET', 'P/sessions?agent=nobody')).body['items']?.['length'], 0);
});

test('a secret that comes back heals what failed for want of it, without a sync by hand', async () => {
  const path = join(place, 'healing');
  const text = agent
    .replace('triage', 'healing')
    .replace('reports', 'healed')
    .replace('kind: none', 'kind: bearer_token, secretRef: mended');
  await write(
    'healing/.svc/agents/h.yaml',
    text.replace(/  - event: codehost[^]*?  - event: webhook/, '  - event: webhook'),
  );
  const failed = await svc('repo', 'add', 'healing', '--path', path, '--wait');
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /error \[secret-missing\] Secret not found: mended$/m);
  assert.match(failed.stderr, /hint: Set it with: svc secret set mended /);
  assert.match(await ok('repo', 'list'), /^healing .* failed /m);
  await callSvc(place, ['secret', 'set', 'mended', '--from-file', '-'], { env: env(), stdin: 'value' });
  for (let tries = 0; tries < 600 && !/^healing .* synced /m.test(await ok('repo', 'list')); tries++) await sleep(100);
  assert.match(await ok('repo', 'list'), /^healing .* synced /m);
  await ok('repo', 'remove', 'healing', '--yes');
});

test('a run that is held says how to approve it, and once it is approved which run did it', async () => {
  const path = join(place, 'held');
  const bare = (agent.split('triggers:')[0] ?? '').replace('You sort.', 'x');
  for (const n of [1, 2, 3, 4, 5, 6, 7]) await write(`held/.svc/agents/h${n}.yaml`, bare.replace('triage', `h${n}`));
  await ok('repo', 'add', 'held', '--path', path, '--wait');
  await rm(join(path, '.svc/agents'), { recursive: true });
  await mkdir(join(path, '.svc/agents'));
  const held = await svc('repo', 'sync', 'held', '--wait');
  assert.equal(held.code, 1);
  const [, id = ''] = /look at the changes, then: svc repo approve held (\S+)/.exec(held.stderr) ?? [];
  assert.match(await ok('reconcile', 'list', '--repo', 'held'), new RegExp(` held .* 7 to delete +${id}$`, 'm'));
  assert.match(await ok('reconcile', 'logs', '--repo', 'held'), / \(7 created\) +\+h1 \+h2 \+h3 and 4 more /);
  const { stdout: approved } = await svc('repo', 'approve', 'held', id, '--wait', '-o', 'json');
  const by = JSON.parse(approved).id;
  const shown = await ok('reconcile', 'show', id);
  assert.match(shown, new RegExp(`^detail: +approved: run ${by}$`, 'm'));
  assert.doesNotMatch(shown, /svc repo approve/);
  assert.match(await ok('reconcile', 'list', '--repo', 'held'), / applied .* manual \(approve\) .* 7 deleted /);
  await ok('repo', 'remove', 'held', '--yes');
});

/** What is asked for, the exit code, and what is said. */
const answers: readonly (readonly [line: string, code: number, words: RegExp])[] = [
  [
    'repo add a --url git@github.com:acme/widgets.git',
    1,
    /ssh is not read: try https:\/\/github\.com\/acme\/widgets\.git/,
  ],
  ['repo add away --path /nope/nope --suspend', 0, /warning: there is no \/nope\/nope\n.*`svc repo resume away/],
  ['session archive ..', 1, /There is no such session/],
  ['repo probe http://127.0.0.1:9/x.git', 1, /reachable: +false\ncondition: +unreachable/],
  ['repo remove away --yes', 0, /^removed away/],
  [
    'audit list --action repository.create',
    2,
    /no entry has the action repository\.create\ndid you mean repository\.created\?/,
  ],
  ['audit list --action nothing.of.the.kind', 0, /^no such entries$/m],
  ['audit list --help', 0, /such as secret\.revealed$/m],
  ['session list --agent nope', 1, /there is no agent nope/],
  ['session list --project nope', 1, /looked in project nope of organization default/],
  ['project create old', 0, /old/],
  ['project archive old --yes', 0, /old/],
  ['project list', 0, /^SLUG .* ARCHIVED\n(?:.*\n)*old .* (?:now|ago)$/m],
  ['secret list', 0, /^idle .* 30d unused /m],
  ['get', 2, /KIND is missing: agents, repos/],
  ['get all', 2, /there is no kind "all"\none of agents, repos, /],
  ['ls agents', 0, /^triage /m],
  ['agnet list', 2, /unknown command "agnet"\ndid you mean `svc agent`\?/],
  ['agents', 2, /did you mean `svc agent list`\?/],
  ['agent show', 2, /NAME is missing: the name of the agent\nusage: svc agent show NAME/],
  ['secret show nope', 1, /There is no secret nope, or it is not visible to you/],
  ['trigger show triage', 2, /AGENT#ORDINAL: triage has triage#0, triage#1\n/],
  ['get trigger triage#0', 0, /^triage +0 /m],
  ['describe trigger triage#1', 0, /^through: +reports$/m],
  ['trigger list -o name', 0, /^trigger\/triage#0\ntrigger\/triage#1$/m],
  ['keys list -o name', 0, /^keys\/1$/m],
  ['event list --key codehost.psh', 0, /no known source emits codehost\.psh: did you mean codehost\.push\?/],
  ['repo approve x nope', 1, /^svc: reconcileId: Expected the id of a reconcile/m],
];

test('what newcomers and operators asked for is answered with what helps', async () => {
  await callSvc(place, ['secret', 'set', 'idle', '--idle-expiry', '30d', '--from-file', '-'], {
    env: env(),
    stdin: 'v',
  });
  for (const [line, code, words] of answers) {
    const ran = await svc(...line.split(' '));
    const said = ran.stdout + ran.stderr;
    assert.equal(ran.code, code, `${line}\n${said}`);
    assert.match(said, words, line);
  }
});

test('a reader that leaves is no failure, and an output that cannot be written is one, told in a line', async (t) => {
  const run = (line: string) =>
    promisify(execFile)('bash', ['-c', line], { env: shellEnv() }).catch((error: { stderr: string }) => error);
  const left = await run('svc event list -o json | head -1; echo "${PIPESTATUS[0]}"');
  assert.deepEqual(left, { stdout: '{\n0\n', stderr: '' });
  if (spawnSync('test', ['-c', '/dev/full']).status !== 0) {
    t.diagnostic('no device is always full here: a full disk was not tried');
    return;
  }
  const full = await run('svc agent list > /dev/full');
  assert.match(full.stderr, /^svc: the output cannot be written: ENOSPC: [^\n]*\n$/);
});

test('git runs the hook: a broken tree is not committed, a right one is', async () => {
  const repository = join(place, 'repository');
  const page = await readFile(join(root, 'docs/checks-before-merge.md'), 'utf8');
  const [, hook = ''] = /^```sh hook\n([\s\S]*?)^```$/m.exec(page) ?? [];
  const git = (...args: string[]) =>
    promisify(execFile)('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      cwd: repository,
      env: { PATH: `${bin}:${process.env['PATH'] ?? ''}`, HOME: place, GIT_CONFIG_NOSYSTEM: '1' },
    });
  await mkdir(repository);
  await git('init', '-q');
  await writeFile(join(repository, '.git/hooks/pre-commit'), hook, { mode: 0o755 });
  await write('repository/.svc/agents/a.yaml', agent.replace('harness-a', 'harness-z'));
  await git('add', '-A');
  const refused = await git('commit', '-m', 'Add an agent').then(
    () => assert.fail('it was committed'),
    (error: { stderr: string }) => error.stderr,
  );
  assert.match(refused, /\.svc\/agents\/a\.yaml:2:10: error/);
  await write('repository/.svc/agents/a.yaml', agent);
  await git('add', '-A');
  await git('commit', '-q', '-m', 'Add an agent');
  assert.match((await git('log', '--format=%s')).stdout, /Add an agent/);
  // What pre-commit would run of the hook that this repository offers, as it runs it: without file names, at the root.
  const offered = await readFile(join(root, '.pre-commit-hooks.yaml'), 'utf8');
  const entry = /entry: (.+)/.exec(offered)?.[1] ?? '';
  assert.match(offered, /pass_filenames: false/);
  const options = { cwd: repository, env: { PATH: `${bin}:${process.env['PATH'] ?? ''}`, HOME: place } };
  await promisify(execFile)('sh', ['-c', entry], options);
});

/** What is typed, and what stands there after a tab. Names have a beginning: other tests here add agents, and a shell takes none of several. */
const typed: readonly (readonly [line: string, whole: string])[] = [
  ['svc agent show tri', 'svc agent show triage'],
  ['svc get agents tr', 'svc get agents triage'],
  ['svc session list --agent tri', 'svc session list --agent triage'],
  ['svc session list --state wait', 'svc session list --state waiting_permission'],
  ['svc event list --key codehost.pus', 'svc event list --key codehost.push'],
  ['svc repo rel', 'svc repo release'],
  ['svc event list -o ya', 'svc event list -o yaml'],
  ['svc session logs -f --js', 'svc session logs -f --json'],
];

function isThere(shell: string, t: { diagnostic(text: string): void; skip(text: string): void }): boolean {
  if (spawnSync(shell, ['-c', 'true']).error === undefined) return true;
  t.skip(`${shell} is not installed here: its completion was not tried`);
  return false;
}
const shellEnv = () => ({ PATH: `${bin}:${process.env['PATH'] ?? ''}`, HOME: place, TERM: 'dumb', ...env() });

test('zsh completes names and values', async (t) => {
  if (!isThere('zsh', t)) return;
  const script = await write('svc.zsh', await ok('completion', 'zsh'));
  const drive = await write(
    'drive.zsh',
    String.raw`zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "bindkey -e; unset zle_bracketed_paste; PS1='' PS2=''; autoload -U compinit; compinit -u -D; source $1; compdef _svc svc; stty -echo; echo RE''ADY"
zpty -r z out '*READY*'
shift
for line in "$@"; do
  zpty -w -n z "$line"$'\t'$'\C-a'"print -r -- got "$'\n'
  zpty -w z "echo EN''D"
  zpty -r z out '*END*'
  print -r -- "$out" | tr -d '\r' | sed -n 's/^.*got \(svc .*\)$/\1/p' | tail -1
done
`,
  );
  const lines = typed.map(([line]) => line);
  const { stdout } = await promisify(execFile)('zsh', ['-f', drive, script, ...lines], { env: shellEnv() });
  assert.deepEqual(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.trim()),
    typed.map(([, whole]) => whole),
  );
});

test('fish completes names and values', async (t) => {
  if (!isThere('fish', t)) return;
  const script = await write('svc.fish', await ok('completion', 'fish'));
  for (const [line, whole] of typed) {
    const { stdout } = await promisify(execFile)('fish', ['-N', '-c', `source '${script}'; complete -C '${line}'`], {
      env: shellEnv(),
    });
    const offered = stdout
      .trim()
      .split('\n')
      .map((one) => one.split('\t')[0]);
    assert.ok(offered.includes(whole.split(' ').at(-1)), `${line}: ${offered.join(' ')}`);
  }
  // Each word once: behind a kind come its names, and no more kinds.
  const kinds = ['-N', '-c', `source '${script}'; complete -C 'svc get -o json agents '`];
  const { stdout } = await promisify(execFile)('fish', kinds, { env: shellEnv() });
  assert.ok(!stdout.includes('sessions') && stdout.includes('triage'), stdout);
});
