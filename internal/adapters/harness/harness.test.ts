import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { startToolServer, type ToolServer } from '../../../testdata/scripted-agent/tool-server.ts';
import { HarnessFailure } from './harness.ts';
import { recordingListener } from './harness-testkit.ts';
import { connected as connectedTo, opened as openedOn, type SceneOptions } from './scene-testkit.ts';

let tools: ToolServer;
before(async () => {
  tools = await startToolServer();
});
after(() => tools.close());

const connected = (t: TestContext, options: SceneOptions = {}) => connectedTo(t, { tools, ...options });
const opened = (t: TestContext, options: SceneOptions = {}) => openedOn(t, { tools, ...options });

const failureKind = (kind: HarnessFailure['kind']) => (error: unknown) =>
  error instanceof HarnessFailure && error.kind === kind;

test('a scripted agent says that it is one, and echoes a prompt', async (t) => {
  const { connection, listener } = await opened(t);
  assert.match(connection.agent.name, /scripted agent, for tests and demonstrations/);
  assert.equal(connection.agent.resume, 'resume');
  const outcome = await connection.prompt(['hello', 'again']);
  assert.equal(outcome.kind, 'finished');
  assert.equal(listener.text(), 'echo 1/2: hello\necho 2/2: again');
  assert.ok(outcome.kind === 'finished' && (outcome.usage?.totalTokens ?? 0) > 0);
});

for (const harness of ['harness-a', 'harness-b'] as const) {
  test(`the scripted agent as ${harness} is told model, effort, system prompt and directory`, async (t) => {
    const { connection, listener, home } = await opened(t, { harness });
    assert.equal((await connection.prompt(['!config\n!system'])).kind, 'finished');
    const config = JSON.parse(listener.text().replace('Be brief.', ''));
    assert.equal(config.model, 'test-model');
    assert.equal(config.effort, 'high');
    assert.equal(config.cwd, home.work);
    assert.equal(config.mode, harness === 'harness-a' ? 'bypassPermissions' : 'agent-full-access');
    assert.match(listener.text(), /Be brief\.$/);
  });
}

test('tools are listed before the first prompt, and a call goes to a real server and back', async (t) => {
  const listed = tools.lists();
  const { connection, listener } = await opened(t);
  assert.equal(tools.lists(), listed + 1);
  assert.equal((await connection.prompt(['!call svc svc_ping {"n":1}\n!call svc broken'])).kind, 'finished');
  assert.equal(tools.calls.at(-2), 'svc_ping {"n":1}');
  const kinds = listener.updates.filter(({ kind }) => kind.startsWith('tool'));
  assert.deepEqual(
    kinds.map((update) => [update.kind, 'status' in update ? update.status : '', 'text' in update ? update.text : '']),
    [
      ['tool_started', 'in_progress', ''],
      ['tool_finished', 'completed', 'pong {"n":1}'],
      ['tool_started', 'in_progress', ''],
      ['tool_finished', 'failed', 'this tool always fails'],
    ],
  );
});

test('cancel ends a sleeping turn at once, and the next prompt is taken', async (t) => {
  const { connection, listener } = await opened(t);
  const turn = connection.prompt(['!say before\n!sleep 60000\n!say after']);
  await listener.heard('text');
  assert.equal(connection.busy, true);
  assert.equal(await connection.cancel(), 'ended');
  assert.deepEqual(await turn, { kind: 'cancelled', byClient: true });
  assert.equal(listener.text(), 'before');
  assert.equal(await connection.cancel(), 'idle');
  assert.equal((await connection.prompt(['next'])).kind, 'finished');
});

test('cancel during a tool call reaches the tool', async (t) => {
  const { connection, listener } = await opened(t);
  const turn = connection.prompt(['!call svc slow {"ms":60000}']);
  await listener.heard('tool_started');
  assert.equal(await connection.cancel(), 'ended');
  assert.equal((await turn).kind, 'cancelled');
  // The notification may still be under way when the turn has ended.
  for (let tries = 0; tools.cancelled.length === 0 && tries < 3_000; tries += 1) await wait(20);
  assert.deepEqual(tools.cancelled, ['slow']);
});

test('a cancel that is not heard is overdue, and ending the process ends the turn as lost', async (t) => {
  const { connection, process, listener } = await opened(t, { limits: { cancelGraceMs: 50 } });
  const turn = connection.prompt(['!say on\n!hang']);
  await listener.heard('text');
  assert.equal(await connection.cancel(), 'overdue');
  process.kill('SIGKILL');
  const outcome = await turn;
  assert.ok(outcome.kind === 'lost' && outcome.failure.kind === 'exited' && outcome.failure.exit?.signal === 'SIGKILL');
});

test('a second prompt while one runs is our bug, not a queue', async (t) => {
  const { connection } = await opened(t);
  const turn = connection.prompt(['!sleep 60000']);
  await assert.rejects(connection.prompt(['second']), /in flight/);
  await connection.cancel();
  assert.equal((await turn).kind, 'cancelled');
});

test('a crash in the middle of a turn is lost; a new process resumes with the history', async (t) => {
  const first = await opened(t);
  assert.equal((await first.connection.prompt(['one'])).kind, 'finished');
  const outcome = await first.connection.prompt(['!say two\n!crash']);
  assert.ok(outcome.kind === 'lost' && outcome.failure.exit?.signal === 'SIGKILL', JSON.stringify(outcome));
  assert.equal((await first.connection.ended).kind, 'exited');
  await assert.rejects(first.connection.open(first.request), failureKind('exited'));

  for (const traps of [[], ['load-only']]) {
    const next = await connected(t, { home: first.home, traps });
    const session = await next.connection.resume(first.sessionId, next.request);
    assert.equal(session.how, traps.length === 0 ? 'resumed' : 'loaded');
    assert.deepEqual(next.listener.updates, [], 'a replay is not told again');
    assert.equal((await next.connection.prompt(['!history'])).kind, 'finished');
    assert.match(next.listener.text(), /"role":"user","text":"one".*"role":"user","text":"!say two\\n!crash"/);
    await next.process.end();
  }
});

test('a session that the agent does not know cannot be resumed', async (t) => {
  const unknown = await connected(t);
  await assert.rejects(unknown.connection.resume('nobody', unknown.request), failureKind('cannot_resume'));
  const none = await connected(t, { traps: ['no-resume'] });
  assert.equal(none.connection.agent.resume, 'none');
  await assert.rejects(none.connection.resume('nobody', none.request), failureKind('cannot_resume'));
});

const failures: readonly (readonly [string, string, string])[] = [
  ['!fail refusal', 'refused', ''],
  ['!fail max_tokens', 'cut', ''],
  ['!fail end_turn', 'failed', 'server'],
  ['!fail silent', 'failed', 'silent'],
  ['!fail auth', 'failed', 'authentication'],
  ['!fail rate_limit', 'failed', 'rate_limit'],
  ['!fail nonsense', 'failed', 'unknown'],
  ['!fail cancelled', 'cancelled', ''],
];
test('no failed turn is taken for a good one', async (t) => {
  const { connection } = await opened(t);
  for (const [text, kind, cause] of failures) {
    const outcome = await connection.prompt([text]);
    assert.equal(outcome.kind, kind, text);
    if (outcome.kind === 'failed') assert.equal(outcome.cause, cause, text);
    if (outcome.kind === 'cancelled') assert.equal(outcome.byClient, false);
  }
});

test('a failure told as a normal end with text is found by the gateway’s evidence', async (t) => {
  const { connection, listener } = await opened(t, { traps: ['failure-as-end'] });
  const outcome = await connection.prompt(['!fail end_turn'], { evidence: () => ({ calls: 1, lastStatus: 402 }) });
  assert.ok(outcome.kind === 'failed' && outcome.cause === 'spend_cap' && !outcome.retryable);
  assert.match(listener.text(), /^Error: /);
});

test('under approvals: prompt a person decides; a rejection ends the turn', async (t) => {
  for (const decision of ['allow', 'reject'] as const) {
    const listener = recordingListener(async () => decision);
    const { connection } = await opened(t, { harness: 'harness-b', approvals: 'prompt', listener });
    const outcome = await connection.prompt(['!ask rm -rf build\n!say done']);
    assert.equal(listener.requests[0]?.title, 'rm -rf build');
    assert.equal(listener.requests[0]?.input, '{"command":"rm -rf build"}');
    if (decision === 'allow') assert.equal(listener.text(), 'permission oncedone');
    else assert.deepEqual(outcome, { kind: 'cancelled', byClient: false });
    await connection.close();
  }
});

test('bypass allows without asking, and so does harness-a under prompt', async (t) => {
  for (const options of [{ harness: 'harness-b' }, { harness: 'harness-a', approvals: 'prompt' }] as const) {
    const { connection, listener } = await opened(t, options);
    assert.equal((await connection.prompt(['!ask x'])).kind, 'finished');
    assert.equal(listener.text(), 'permission once');
    assert.deepEqual(listener.requests, []);
    await connection.close();
  }
});

test('cancelling a turn that waits for permission answers the question as cancelled', async (t) => {
  let stopped = false;
  const listener = recordingListener(
    (_request, signal) => new Promise(() => signal.addEventListener('abort', () => (stopped = true))),
  );
  const { connection } = await opened(t, { harness: 'harness-b', approvals: 'prompt', listener });
  const turn = connection.prompt(['!ask x\n!say never']);
  await listener.asked();
  assert.equal(await connection.cancel(), 'ended');
  assert.deepEqual(await turn, { kind: 'cancelled', byClient: true });
  assert.equal(stopped, true);
  assert.doesNotMatch(listener.text(), /never/);
});

test('a request that we do not know is refused and the turn goes on', async (t) => {
  const { connection, listener } = await opened(t);
  assert.equal((await connection.prompt(['!unknown\n!say on'])).kind, 'finished');
  assert.equal(listener.text(), 'refused -32601on');
});

test('the agent’s own environment is what it was given', async (t) => {
  const { connection, listener, home } = await opened(t);
  await connection.prompt(['!env HOME\n!env SVC_TOKEN\n!write note.txt hi\n!read note.txt\n!exec cat note.txt']);
  assert.equal(listener.text(), `HOME=${home.home}SVC_TOKEN is not setwrote note.txthi\nhi\nexit 0`);
});
