// What came in, why, and what runs: from a webhook to the transcript, as an operator reads it, against a real daemon that
// routes and has no harness, so that its sessions wait.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { callSvc, emptyHome, type Ran, runSvc, type RunOptions } from './testkit.ts';

const head = 'harness: harness-a\nenvironment: { name: node, image: { kind: preset, name: base } }';
const agents = (severity: string): string => `name: triage
${head}
initialPrompt: "Look at {{ issue }}"
displayTitle: "Issue {{ issue }}"
triggers:
  - event: webhook.received
    endpoint: in
    auth: { kind: none }
    where: { severity: ${severity} }
    routing: { kind: spawn }
  - event: webhook.received
    endpoint: in
    fallback: true
    routing: { kind: deliver, routeBy: { kind: allLiveSessions }, onUnmatched: warn }
---
name: one
${head}
concurrency: 1
`;

let home: Awaited<ReturnType<typeof emptyHome>>;
let daemon: TestDaemon;
let tree: string;
let ingest: string;
before(async () => {
  home = await emptyHome();
  daemon = await startTestDaemon({ config: { roles: ['api', 'route'] } });
  tree = await mkdtemp(join(tmpdir(), 'svc-tree-'));
  await mkdir(join(tree, '.svc/agents'), { recursive: true });
  await writeFile(join(tree, '.svc/agents/all.yaml'), agents('high'));
  assert.equal((await svc(['apply', tree])).code, 0);
  ingest = String((await daemon.api('GET', 'P/endpoints/in')).body['slug']);
});
after(async () => {
  await daemon?.stop();
  await home?.remove();
  await rm(tree, { recursive: true, force: true });
});

const svc = (args: readonly string[], options: RunOptions = {}): Promise<Ran> =>
  // Whatever a signal may end is a process of its own, as it is for people.
  (options.signal === undefined ? callSvc : runSvc)(home.path, args, {
    ...options,
    env: { SVC_DATA_DIR: daemon.dataDir, ...options.env },
  });
async function told(args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await svc(args, options);
  assert.equal(code, 0, stderr);
  return stdout;
}
type Row = Record<string, unknown>;
const items = async (...args: string[]): Promise<Row[]> => JSON.parse(await told([...args, '--json']))['items'];

/** Posts to the endpoint and waits until the event is routed. */
async function post(body: object | string): Promise<string> {
  const sent = await daemon.api('POST', `/api/v1/webhook-endpoints/${ingest}/events`, body, { token: null });
  assert.equal(sent.status, 202);
  const id = String(sent.body['eventRecordId']);
  for (;;) {
    const { body: event } = await daemon.api('GET', `P/events/${id}`);
    if (String(event['routerStatus']) !== 'pending') return id;
    await sleep(20);
  }
}

test('a webhook becomes a session, and the event says which, clause by clause', async () => {
  const early = await post({ severity: 'low' });
  const id = await post({ severity: 'high', issue: 7 });
  const [session] = await items('session', 'list');
  const sessionId = String(session?.['id']);
  assert.match(await told(['event', 'list']), new RegExp(`webhook\\.received +routed +- +triage#0 spawn +${id}$`, 'm'));
  assert.match(
    await told(['event', 'list', '--severity', 'warning']),
    /unmatched \(warning\) .* triage#1 unmatched-warn/,
  );
  const explained = await told(['event', 'explain', id]);
  assert.match(await told(['event', 'explain', id, '-o', 'name']), /^(trigger\/triage#\d+\n)+$/);
  assert.match(
    explained,
    new RegExp(
      `^triage#0 {2}✓ started session ${sessionId} \\[spawn\\]\\n {2}✓ severity is "high" {2}found "high"$`,
      'm',
    ),
  );
  assert.match(explained, /^triage#1 \(fallback\) {2}✗ stands back: triage#0 matched$/m);
  assert.match(
    await told(['event', 'explain', early]),
    /✗ severity is "high" {2}found "low"[^]*✓ found no session: a warning/,
  );
  assert.match(await told(['event', 'show', id]), /^what came of it\n {2}triage#0 {2}started session/m);
  const [first] = JSON.parse(await told(['event', 'explain', id, '--json']))['triggers'];
  assert.deepEqual([first.decision, first.sessionId, first.recorded], ['spawn', sessionId, true]);
});

test('a number that a double cannot hold keeps its digits in what is shown, explained and given as input', async () => {
  const digits = '9007199254740993';
  const id = await post(`{"severity":${digits},"parts":[1e400],"issue":1}`);
  const shown = await told(['event', 'show', id]);
  assert.match(shown, new RegExp(`^ {2}severity: ${digits}$`, 'm'));
  assert.match(shown, /^ {2}parts:\n {4}- 1e400$/m);
  assert.match(await told(['event', 'show', id, '--json']), new RegExp(`"severity": ${digits},`));
  assert.match(await told(['event', 'explain', id]), new RegExp(`✗ severity is "high" {2}found ${digits}$`, 'm'));
  const asked = ['trigger', 'explain', '--event', 'webhook.received', '--payload', '-'];
  assert.match(await told(asked, { stdin: `{"severity":${digits}}` }), new RegExp(`found ${digits}$`, 'm'));
  const start = ['agent', 'start', 'triage', '--input', '-', '--json'];
  const session = JSON.parse(await told(start, { stdin: `{"issue":${digits}}` }));
  assert.equal(session.displayTitle, `Issue ${digits}`);
  // Its own -o names a file, and where none is asked for the format of the list.
  assert.equal(await told(['session', 'files', session.id, '-o', 'yaml']), 'items: []\nnextCursor: null\n');
  await told(['session', 'archive', session.id]);
});

test('an event is replayed as a new one, which is routed anew', async () => {
  const id = await post({ severity: 'high', issue: 8 });
  const again = JSON.parse(await told(['event', 'replay', id, '--json']));
  assert.equal(again.replayOf, id);
  for (let turn = 0; ; turn += 1) {
    const { body } = await daemon.api('GET', `P/events/${again.eventRecordId}`);
    if (String(body['routerStatus']) === 'routed') break;
    assert.ok(turn < 3_000, 'it was never routed');
    await sleep(20);
  }
  assert.match(await told(['event', 'show', again.eventRecordId]), new RegExp(`^replay of: +${id}$`, 'm'));
  assert.equal((await items('session', 'list')).filter((one) => one['displayTitle'] === 'Issue 8').length, 2);
});

test('a session is addressed by a piece of its id, spoken to, followed to its end', async () => {
  const id = String(
    JSON.parse(await told(['agent', 'start', 'triage', '--input', '-', '--json'], { stdin: '{"issue":9}' })).id,
  );
  const piece = id.slice(-12);
  assert.match(await told(['session', 'show', piece]), /^session: +Issue 9\n[^]*^origin: +started by hand$/m);
  assert.match(
    await told(['session', 'list', '--agent', 'triage', '--live']),
    new RegExp(`triage +queued +- +Issue 9 +${id}`),
  );
  const leave = new AbortController();
  let archived = false;
  const following = svc(['session', 'logs', '-f', id], {
    signal: leave.signal,
    onStdout: (text) => {
      if (archived || !text.includes('hurry')) return;
      archived = true;
      void svc(['session', 'archive', piece]);
    },
  });
  assert.match(await told(['session', 'send', piece, 'Please\nhurry']), /^sent to /);
  const followed = await following;
  assert.equal(followed.code, 0, followed.stderr);
  assert.match(followed.stdout, /^── queued$/m);
  assert.match(followed.stdout, /operator administrator {2}\(waiting\)\n {4}Look at 9\n[^]*\n {4}Please\n {4}hurry\n/);
  assert.match(followed.stdout, /── archived: archived by administrator\n+$/);
  const late = await svc(['session', 'send', id, '-'], { stdin: 'x' });
  assert.equal(late.code, 1);
  assert.match(late.stderr, /The session is archived/);
  const logs = JSON.parse(await told(['session', 'logs', id, '--tail', '2', '--json']));
  assert.deepEqual(
    logs.items.map((one: Row) => one['role']),
    ['user', 'system'],
  );
  assert.equal((await svc(['session', 'send', id, ' '])).code, 2);
});

test('a capped agent is started once by hand, and the refusal names the session', async () => {
  const started = await told(['agent', 'start', 'one', '--message', 'Go']);
  const id = /^started session (\S+)$/m.exec(started)?.[1] ?? '';
  const blank = await svc(['agent', 'start', 'triage', '--message', ' ']);
  assert.deepEqual([blank.code, blank.stderr], [2, 'svc: --message is empty\n']);
  const refused = await svc(['agent', 'start', 'one']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, new RegExp(id));
});

test('what a harness asks is answered by hand', async () => {
  const [session] = await items('session', 'list', '--agent', 'one');
  const id = String(session?.['id']);
  await daemon.database.db.query(
    `insert into svc.permissions (id, session_id, epoch, title, request, created_at)
     select gen_random_uuid(), $1::uuid, 1, 'Run step ' || n, '{}', now() + n * interval '1 s' from generate_series(1, 2) n`,
    [id],
  );
  assert.match(await told(['session', 'show', id]), /^ {2}Run step 1 {2}\S+\n {2}Run step 2 /m);
  assert.equal(await told(['session', 'allow', id, '--always']), 'allowed: Run step 1\n');
  assert.equal(await told(['session', 'reject', id]), 'rejected: Run step 2\n');
  const none = await svc(['session', 'allow', id]);
  assert.deepEqual([none.code, none.stderr], [1, 'svc: the session asks for nothing\n']);
  const { rows } = await daemon.database.db.query<Row>('select state from svc.permissions order by created_at');
  assert.deepEqual(rows, [{ state: 'allow_always' }, { state: 'reject' }]);
});

test('a binding is listed and released by an operator', async () => {
  const { db } = daemon.database;
  const [session] = await items('session', 'list', '--agent', 'one');
  await db.query(
    `insert into svc.bindings (id, project_id, agent_id, agent, session_id, target_type, target_key, lifecycle, continuity,
       created_at, updated_at)
     select gen_random_uuid(), project_id, agent_id, agent, id, 'codehost.issue', 'o/r#1', 'held', 'session', now(), now()
       from svc.sessions where id = $1::uuid`,
    [session?.['id']],
  );
  assert.match(await told(['binding', 'list']), /one +codehost\.issue o\/r#1 +active +held +session/);
  const [binding] = await items('binding', 'list');
  assert.match(await told(['binding', 'release', String(binding?.['id'])]), /^released /);
  assert.equal(await told(['binding', 'list']), 'no bindings\n');
  assert.match(await told(['binding', 'list', '--all']), /released/);
});

test('a diff says which of the last days’ events would match otherwise', async () => {
  await writeFile(join(tree, '.svc/agents/all.yaml'), agents('low'));
  const diff = await told(['diff', tree]);
  assert.match(diff, /^events of the last 7 days \(\d+ events matched again\)$/m);
  assert.match(diff, /^ {2}agent triage trigger 0 \(webhook\.received\): 1 would newly match, 3 would stop matching$/m);
  const { eventImpact } = JSON.parse(await told(['apply', tree, '--dry-run', '--json']));
  assert.equal(eventImpact.triggers.length, 2);
});

test('a large integer that a double holds and prints otherwise is told with the digits that came', async () => {
  const digits = '1152921504606846976';
  const id = await post(`{"severity":"high","issue":${digits}}`);
  assert.match(await told(['event', 'show', id]), new RegExp(`^ {2}issue: ${digits}$`, 'm'));
  assert.ok((await items('session', 'list')).some((one) => one['displayTitle'] === `Issue ${digits}`));
});

test('an apply of it says the same a moment after it ended, and nothing of it before', async () => {
  const run = String(JSON.parse(await told(['apply', tree, '--json'])).applyId);
  const show = () => told(['reconcile', 'show', run]);
  let shown = await show();
  for (let tries = 0; tries < 600 && !shown.includes('events of the last 7 days'); tries += 1) {
    assert.match(shown, /^status: +applied$/m);
    await sleep(100);
    shown = await show();
  }
  assert.match(shown, /^ {2}agent triage trigger 0 \(webhook\.received\): 1 newly match, 4 stop matching$/m);
  const { consequences } = JSON.parse(await told(['reconcile', 'show', run, '--json']));
  assert.equal(consequences.eventImpact.triggers.length, 2);
});
