// The commands that hands know from elsewhere, in this process against a real daemon.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { parse } from 'yaml';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc, type Ran, type RunOptions, runSvc } from './testkit.ts';

let daemon: TestDaemon;
let place: string;
const logged: string[] = [];
before(async () => {
  place = await mkdtemp(join(tmpdir(), 'svc-everyday-'));
  daemon = await startTestDaemon({ log: pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) }) });
  await mkdir(join(place, 'fleet/.svc/agents'), { recursive: true });
  await write('You sort reports.');
});
after(async () => {
  await daemon?.stop();
  await rm(place, { recursive: true, force: true });
});

const write = (prompt: string): Promise<void> =>
  writeFile(
    join(place, 'fleet/.svc/agents/a.yaml'),
    `name: triage
labels: { team: web, tier: one }
harness: harness-a
environment: { name: node, image: { kind: preset, name: node24 } }
systemPrompt: ${prompt}
triggers:
  - event: webhook.received
    endpoint: reports
    auth: { kind: hmac_sha256, secretRef: key }
    routing: { kind: spawn }
---
name: other
labels: { team: data }
harness: harness-a
environment: { name: node, image: { kind: preset, name: node24 } }
triggers:
  - { kind: heartbeat, cron: '0 3 * * *', timezone: Europe/Berlin, routing: { kind: spawn } }
`,
  );

const listener = 'name: open\nharness: harness-a\nenvironment: { name: open, image: { kind: preset, name: base } }\n';

const svc = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  callSvc(place, args, { ...options, env: { SVC_DATA_DIR: daemon.dataDir, ...options.env } });

async function ok(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await svc(args);
  assert.equal(code, 0, stderr);
  return stdout;
}

test('add --wait shows the first run and ends with its outcome', async () => {
  assert.equal((await svc(['secret', 'set', 'key', '--from-file', '-'], { stdin: 'value' })).code, 0);
  const { code, stdout, stderr } = await svc(['repo', 'add', 'fleet', '--path', join(place, 'fleet'), '--wait']);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^✓ apply /m);
  assert.match(stdout, /^changes: \d+ created$/m);
  assert.match(await ok('repo', 'list'), /fleet .* synced /);
});

test('a folder that is not there is told at once', async () => {
  assert.match(await ok('repo', 'add', 'away', '--path', join(place, 'nowhere')), /^warning: there is no .*nowhere$/m);
  assert.match(await ok('repo', 'add', 'bare', '--path', place), /^warning: .* has no \.svc\/; `svc init`/m);
  for (const name of ['away', 'bare']) await ok('repo', 'remove', name, '--yes');
});

test('get lists every kind, finds one by name, and names what it does not know', async () => {
  assert.match(await ok('get', 'agents'), /^NAME +REVISION .*\nother .*\ntriage .*\n$/);
  for (const kind of ['repos', 'runs', 'triggers', 'ep', 'schedules', 'secrets', 'events', 'sessions', 'bindings']) {
    assert.equal((await svc(['get', kind])).code, 0, kind);
  }
  for (const kind of ['connections', 'projects', 'orgs', 'members', 'accounts', 'tokens', 'daemons', 'contexts']) {
    assert.equal((await svc(['get', kind, '--json'])).code, 0, kind);
  }
  assert.match(await ok('get', 'agent', 'triage'), /^NAME .*\ntriage .*\n$/);
  assert.match(await ok('get', 'agent/triage'), /^NAME .*\ntriage .*\n$/);
  assert.deepEqual(await svc(['get', 'agent', 'nobody']), {
    code: 1,
    stdout: '',
    stderr: 'svc: there is no agent nobody\n',
  });
  const unknown = await svc(['get', 'agnets']);
  assert.deepEqual([unknown.code, unknown.stderr], [2, 'svc: there is no kind "agnets"\ndid you mean agents?\n']);
  const described = await ok('describe', 'agent', 'triage');
  assert.match(described, /^agent: +triage$/m);
  // In the order of the reference at every depth, not in that of the database.
  assert.match(
    described,
    /- kind: event\n +event: webhook\.received\n +endpoint: reports\n +auth:\n +kind: hmac_sha256/,
  );
  assert.match(await ok('describe', 'endpoint', 'reports'), /^address: /m);
  const missing = await svc(['describe', 'agent', 'nobody']);
  assert.deepEqual([missing.code, /`svc get agents` lists/.test(missing.stderr)], [1, true]);
  assert.match(await ok('agent', 'ls'), /^triage /m);
});

test('every result is also a JSON or YAML document, names, or a table with nothing cut', async () => {
  const json = JSON.parse(await ok('get', 'agent', 'triage', '-o', 'json'));
  assert.equal(json.name, 'triage');
  assert.deepEqual(parse(await ok('get', 'agent', 'triage', '-oyaml')), json);
  assert.deepEqual(parse(await ok('agent', 'show', 'triage', '--output=yaml')), json);
  assert.equal(await ok('get', 'agents', '-o', 'name'), 'agent/other\nagent/triage\n');
  assert.equal(await ok('endpoint', 'list', '-o=name'), 'endpoint/reports\n');
  assert.match(await ok('get', 'agents', '-o', 'wide'), /LABELS .*\n.*\n.*team=web,tier=one/);
  const problem = await svc(['agent', 'show', 'nobody', '-o', 'json']);
  assert.equal(JSON.parse(problem.stderr).status, 404);
  assert.equal((await svc(['agent', 'list', '-o', 'xml'])).code, 2);
});

test('labels of agents select agents and what belongs to them', async () => {
  assert.equal(await ok('get', 'agents', '-l', 'team=web', '-o', 'name'), 'agent/triage\n');
  assert.equal(await ok('agent', 'list', '-l', 'team!=web', '-o', 'name'), 'agent/other\n');
  assert.equal(await ok('agent', 'list', '-l', '!tier', '-o', 'name'), 'agent/other\n');
  assert.equal(await ok('agent', 'list', '-l', 'team=web,tier=two'), 'no agents\n');
  assert.match(await ok('schedule', 'list', '-l', 'team=data'), /^other /m);
  assert.equal(await ok('schedule', 'list', '-l', 'team=web'), 'no schedules\n');
  assert.equal((await svc(['agent', 'list', '-l', '=web'])).code, 2);
});

test('events are listed by a pattern of keys', async () => {
  const keys = async (key: string): Promise<string[]> =>
    JSON.parse(await ok('event', 'list', '--key', key, '--json')).items.map((one: { key: string }) => one.key);
  const lifecycle = await keys('svc.*');
  assert.ok(lifecycle.length > 0);
  assert.ok(lifecycle.every((key) => key.startsWith('svc.')));
  assert.deepEqual(await keys('!svc.*'), []);
  assert.deepEqual(
    await keys(lifecycle[0] ?? ''),
    lifecycle.filter((key) => key === lifecycle[0]),
  );
  assert.deepEqual(await keys('s%c.*'), []);
});

test('what belongs to an agent that is not there is refused rather than empty', async () => {
  const { code, stderr } = await svc(['session', 'list', '--agent', 'triag']);
  assert.deepEqual([code, stderr], [1, 'svc: there is no agent triag\ndid you mean triage?\n']);
  assert.equal(await ok('session', 'list', '--agent', 'triage'), 'no sessions\n');
});

test('a project that is not there is named', async () => {
  const { code, stderr } = await svc(['session', 'list', '--project', 'nope']);
  assert.deepEqual([code, stderr.split('\n')[1]], [1, 'looked in project nope of organization default']);
});

test('two revisions of an agent, and two agents, are compared field by field', async () => {
  await write('You sort reports well.');
  await ok('repo', 'sync', 'fleet', '--wait');
  const text = 'triage@1 → triage@2\n      ~ systemPrompt: "You sort reports." → "You sort reports well."\n';
  assert.equal(await ok('agent', 'diff', 'triage'), text);
  assert.equal(await ok('agent', 'diff', 'triage', '1'), text);
  const coded = await svc(['agent', 'diff', 'triage@1', 'triage@2', '--exit-code', '--json']);
  assert.equal(coded.code, 1);
  assert.deepEqual(JSON.parse(coded.stdout).changes, [
    { path: 'systemPrompt', from: 'You sort reports.', to: 'You sort reports well.' },
  ]);
  assert.match(await ok('agent', 'diff', 'triage', 'other'), /~ labels\.team: "web" → "data"/);
  assert.equal((await svc(['agent', 'diff', 'triage', '9'])).code, 1);
});

test('a watched list tells what changes below the table, and ends at Ctrl-C', async () => {
  const stop = new AbortController();
  let made = false;
  const watched = svc(['get', 'secrets', '--watch'], {
    signal: stop.signal,
    onStdout: (text) => {
      if (!made && text.includes('key ')) {
        made = true;
        void svc(['secret', 'set', 'second', '--from-file', '-'], { stdin: 'v' });
      }
      if (/^second /m.test(text)) stop.abort();
    },
  });
  const { code, stdout } = await watched;
  assert.equal(code, 0);
  assert.match(stdout, /^NAME .*\nkey .*\nsecond /);
});

test('a secret that something uses is not deleted by the way', async () => {
  for (const more of [[], ['--yes']]) {
    const { code, stderr } = await svc(['secret', 'delete', 'key', ...more]);
    assert.equal(code, 1);
    assert.equal(stderr, 'svc: key is used by endpoint reports\n--force deletes it nevertheless\n');
  }
  await ok('secret', 'delete', 'second');
  await ok('secret', 'delete', 'key', '--force');
});

test('deliveries that prove nothing are told in the log once and by the doctor, by the endpoint that they came to', async () => {
  const { ingestUrl } = JSON.parse(await ok('endpoint', 'show', 'reports', '--json'));
  for (let turn = 0; turn < 3; turn++) {
    const answer = await fetch(ingestUrl, {
      method: 'POST',
      body: '{"a":1}',
      headers: { 'content-type': 'application/json' },
    });
    assert.equal(answer.status, 401);
  }
  const told = logged.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'delivery.rejected');
  // A second line with the number of the others comes ten seconds after the first.
  assert.deepEqual(
    [...new Set(told.map(({ endpoint, why }) => `${endpoint} ${/x-svc-signature-256/.test(why)}`))],
    ['reports true'],
  );
  const { stdout: doctor } = await svc(['doctor']);
  assert.match(doctor, /^! rejected .*endpoint reports refused at least 1 delivery within a day, the latest at 20/m);
  assert.match(doctor, /→ svc endpoint show reports says what a sender has to show; compare its secret$/m);
});

test('deliveries that cannot be read, or that nothing takes, are told in the log without what they say', async () => {
  const before = logged.length;
  const path = join(place, 'open');
  await mkdir(join(path, '.svc/agents'), { recursive: true });
  const trigger = 'event: webhook.received, endpoint: open, auth: { kind: none }, routing: { kind: spawn }';
  await writeFile(join(path, '.svc/agents/open.yaml'), `${listener}triggers: [{ ${trigger} }]\n`);
  await ok('apply', path);
  const { ingestUrl } = JSON.parse(await ok('endpoint', 'show', 'open', '--json'));
  const url = new URL(ingestUrl);
  const send = (to: string): Promise<Response> => fetch(to, { method: 'POST', body: '{"told": "nobody"' });
  assert.equal((await send(ingestUrl)).status, 400);
  assert.equal((await send(ingestUrl.replace('open-', 'gone-'))).status, 404);
  const away = '/api/v1/intake/codehost/00000000-0000-4000-8000-000000000000';
  const intake = await fetch(new URL(away, url), { method: 'POST', body: '{"told": "nobody"' });
  assert.equal(intake.status, 404);
  // Refused before anybody knows where it belongs: for its size, whether it says that or not, and for its encoding.
  const large = Buffer.alloc(1_100_000, 'x');
  assert.equal((await fetch(ingestUrl, { method: 'POST', body: large })).status, 413);
  const encoded = { 'content-encoding': 'gzip' };
  assert.equal((await fetch(ingestUrl, { method: 'POST', body: '{}', headers: encoded })).status, 415);
  // The name of what a large body came to is looked up after the answer.
  while (
    logged.slice(before).filter((line) => line.includes('delivery.rejected') && line.includes('"open"')).length < 3
  )
    await sleep(20);
  const lines = logged.slice(before);
  // The number of those that were refused before may be told by now.
  const told = lines
    .map((line) => JSON.parse(line))
    .filter(({ msg, endpoint }) => msg === 'delivery.rejected' && endpoint !== 'reports');
  assert.deepEqual(told.map(({ endpoint, intake: kind, why }) => `${endpoint ?? kind}: ${why}`).sort(), [
    'connection: there is no such connection',
    'endpoint: There is no such endpoint.',
    'open: Send the body without a Content-Encoding.',
    'open: The body is larger than this call accepts.',
    'open: The body is not JSON.',
  ]);
  assert.ok(lines.every((line) => !line.includes('nobody')));
  await ok('agent', 'delete', 'open', '--yes');
});

test('contexts name servers; one is in use, and what is given goes before it', async () => {
  assert.match(await ok('context', 'list'), /^\* +local +http/m);
  const add = await svc(['context', 'add', 'prod', '--url', `${daemon.url}/`, '--org', 'acme', '--from-file', '-'], {
    stdin: 'svc_x\n',
  });
  assert.equal(add.code, 0, add.stderr);
  assert.equal((await svc(['context', 'use', 'prd'])).stderr, 'svc: there is no context prd\ndid you mean prod?\n');
  await ok('context', 'use', 'prod');
  assert.equal((await svc(['repo', 'list'])).code, 1);
  assert.equal((await svc(['repo', 'list'], { env: { SVC_CONTEXT: 'local' } })).code, 0);
  assert.doesNotMatch(await ok('context', 'list', '--json'), /svc_x/);
  await ok('context', 'remove', 'prod');
  assert.equal((await svc(['repo', 'list'])).code, 0);
});

test('the daemons of the installation are listed with what they do', async () => {
  const { items } = JSON.parse(await ok('daemon', 'list', '--json'));
  assert.deepEqual(
    items.map(({ status, self, roles }: { status: string; self: boolean; roles: string[] }) => [
      status,
      self,
      roles.length,
    ]),
    [['live', true, 5]],
  );
});

test('init writes a tree that compiles, names the schema that the server serves, and writes over nothing', async () => {
  const made = await ok('init', 'first', '--name', 'helper', '--cron', '0 7 * * 1-5');
  assert.match(made, /^wrote \.svc\/agents\/helper\.yaml$/m);
  assert.deepEqual(await svc(['validate', 'first', '--strict']), {
    code: 0,
    stdout: 'ok: 1 agent, 1 environment\n',
    stderr: '',
  });
  const [line = ''] = (await readFile(join(place, 'first/.svc/agents/helper.yaml'), 'utf8')).split('\n');
  const url = /^# yaml-language-server: \$schema=(http\S+)$/.exec(line)?.[1] ?? '';
  const served = await fetch(url);
  assert.equal(served.headers.get('content-type'), 'application/schema+json; charset=utf-8');
  assert.equal(((await served.json()) as { $id: string }).$id, url);
  const again = await fetch(url, { headers: { 'if-none-match': served.headers.get('etag') ?? '' } });
  assert.equal(again.status, 304);
  assert.equal((await fetch(url.replace('agent.json', 'agent-v1.json'))).status, 200);
  assert.equal((await fetch(url.replace('agent.json', 'agent-v9.json'))).status, 404);
  assert.equal((await svc(['init', 'first', '--name', 'helper'])).code, 1);
  // What is to be typed next stands there as a shell takes it.
  assert.match(await ok('init', "it's $HOME"), /^svc validate 'it'\\''s \$HOME' /m);
  await ok('init', 'second', '--event', 'codehost.push', '--schema', 'https://example.com/agent.json');
  assert.equal((await svc(['validate', 'second', '--strict'])).code, 0);
  const alone = await callSvc(place, ['init', 'third']);
  assert.match(alone.stdout, /^wrote agent\.schema\.json$/m);
});

test('dev runs one agent of a tree here: what its trigger makes of an event, and nothing stays', async () => {
  const agent = `name: helper
harness: harness-a
environment: { name: base, image: { kind: preset, name: base } }
env: { TOKEN: { $secret: token } }
tools: { code: { kind: codehost } }
triggers:
  - event: webhook.received
    endpoint: reports
    auth: { kind: none }
    where: { $.severity: high }
    message: 'A report: {{ title }}'
    routing: { kind: spawn }
`;
  await mkdir(join(place, 'dev/.svc/agents'), { recursive: true });
  await mkdir(join(place, 'tmp'));
  await writeFile(join(place, 'dev/.svc/agents/helper.yaml'), agent);
  await writeFile(
    join(place, 'event.json'),
    '{"key":"webhook.received","payload":{"severity":"high","title":"disk full"}}',
  );
  const scripted = [process.execPath, join(import.meta.dirname, '../../testdata/scripted-agent/agent.mjs')];
  const env = { SVC_HARNESS_A_COMMAND: JSON.stringify(scripted), SVC_SANDBOX: 'process', TMPDIR: join(place, 'tmp') };
  const run = (...args: string[]): Promise<Ran> => runSvc(place, ['dev', ...args], { cwd: join(place, 'dev'), env });
  const { code, stdout, stderr } = await run('helper', '--event', '../event.json');
  assert.equal(code, 0, stderr);
  assert.match(stdout, /assistant\n {4}echo: A report: disk full$/m);
  assert.match(stderr, /^webhook\.received wakes trigger 0$/m);
  assert.match(stderr, /^without the tool code: it needs a connection$/m);
  assert.match(stderr, /^the secret token is not known here: a made-up value stands for it/m);
  assert.deepEqual(await readdir(join(place, 'tmp')), []);
  await writeFile(join(place, 'low.json'), '{"severity":"low"}');
  const low = await callSvc(place, ['dev', 'helper', '--event', '../low.json', '--key', 'webhook.received'], {
    cwd: join(place, 'dev'),
  });
  const why = 'svc: no trigger of helper takes this webhook.received: $.severity is "low", where "high" is asked\n';
  assert.deepEqual([low.code, low.stderr], [1, why]);
  const misspelt = await callSvc(place, ['dev', 'helpr', '--message', 'x'], { cwd: join(place, 'dev') });
  assert.equal(misspelt.stderr, 'svc: the tree has no agent helpr\ndid you mean helper?\n');
});

test('a shell completes names of things, values and fields', async () => {
  const bin = join(place, 'bin');
  await mkdir(bin);
  const main = join(import.meta.dirname, 'main.mjs');
  await writeFile(join(bin, 'svc'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`, { mode: 0o755 });
  const script = await ok('completion', 'bash');
  const lines = [
    ['agent', 'show', ''],
    ['get', 'ag'],
    ['get', 'agents', 'tr'],
    ['session', 'list', '--agent', 'o'],
    ['session', 'list', '--state', 'wait'],
    ['agent', 'list', '-o', 'y'],
    ['explain', 'triggers.wher'],
    ['repo', 'rel'],
    ['validate', '--format', 'sa'],
    ['event', 'list', '--key', 'codehost.pus'],
    ['token', 'revoke', ''],
    ['org', 'delete', ''],
  ];
  const tries = lines.map((words) => `try svc ${words.map((word) => `'${word}'`).join(' ')}`);
  const attempt = 'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=(); _svc; echo "${COMPREPLY[*]}"; }';
  const run = [script, attempt, ...tries].join('\n');
  // The daemon that is asked lives in this process.
  const { stdout } = await promisify(execFile)('bash', ['--norc', '-c', run], {
    env: { PATH: `${bin}:${process.env['PATH'] ?? ''}`, HOME: place, SVC_DATA_DIR: daemon.dataDir },
  });
  assert.deepEqual(stdout.split('\n').slice(0, lines.length), [
    'other triage',
    'agents',
    'triage',
    'other',
    'waiting_permission',
    'yaml',
    'triggers.where triggers.where.changedTo triggers.where.contains triggers.where.exists triggers.where.in triggers.where.notIn',
    'release',
    'sarif',
    'codehost.push',
    JSON.parse(await ok('token', 'list', '--json')).items[0].id,
    'default',
  ]);
  const version = await promisify(execFile)(process.execPath, [main, '--version']);
  assert.match(version.stdout, /^svc \d+\.\d+\.\d+ \(node 24/);
});
