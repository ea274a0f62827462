// What can go wrong on the wire, with real processes: each is one typed failure, at once and without a leak.

import assert from 'node:assert/strict';
import { setTimeout as wait } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { connectHarness, type HarnessConnection, HarnessFailure, planLaunch } from './harness.ts';
import { createHome, recordingListener, startProcess } from './harness-testkit.ts';
import { connected, inputFor, log, opened, started } from './scene-testkit.ts';
import type { HarnessFailureKind, Limits } from './types.ts';

/** Connects to a shell script that stands where a harness should. */
async function connectTo(t: TestContext, script: string, limits: Partial<Limits> = {}): Promise<HarnessFailure> {
  const home = await createHome();
  const plan = planLaunch(inputFor(home, {}));
  const process = startProcess(['/bin/sh', '-c', script], { PATH: '/usr/bin:/bin', ...plan.env }, home.work);
  t.after(async () => {
    await process.end();
    await home.remove();
  });
  const made = connectHarness({ process, plan, log, limits, listener: recordingListener() });
  return made
    .then((connection) => connection.open({ cwd: home.work, mcpServers: [] }))
    .then(
      () => assert.fail('opened'),
      (error: unknown) => {
        assert.ok(error instanceof HarnessFailure, String(error));
        return error;
      },
    );
}

const answer = (result: string): string => `read line; echo '{"jsonrpc":"2.0","id":0,"result":${result}}'; sleep 60`;

const capable = '{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}';
const initialized = `read line; echo '{"jsonrpc":"2.0","id":0,"result":${capable}}'`;

const starts: readonly (readonly [string, string, HarnessFailureKind, RegExp])[] = [
  ['prints a banner', 'echo Welcome to the harness; sleep 60', 'garbage', /Welcome to the harness/],
  ['prints JSON that is no message', 'echo "[1,2]"; sleep 60', 'garbage', /\[1,2\]/],
  ['exits at once', 'echo it is broken >&2; exit 7', 'exited', /ended with status 7/],
  ['is not there', 'exec /nowhere/harness', 'exited', /status 127/],
  ['stops in the middle of a message', `printf '{"jsonrpc":'; exit 0`, 'exited', /ended|middle/],
  ['closes its output and lives on', 'exec 1>&-; sleep 60', 'exited', /closed its output/],
  ['never answers', 'sleep 60', 'timeout', /initialize within 200 ms/],
  ['answers something else', answer('null'), 'incompatible', /version null/],
  ['speaks another version', answer('{"protocolVersion":2}'), 'incompatible', /version 2/],
  ['has no tools over HTTP', answer('{"protocolVersion":1,"agentCapabilities":{}}'), 'incompatible', /HTTP/],
  [
    'refuses',
    `read l; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"no licence"}}'; sleep 60`,
    'refused',
    /no licence/,
  ],
  [
    'refuses at length',
    `read l; printf '{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"%050000d"}}\\n' 0; sleep 60`,
    'refused',
    /^the harness refused initialize: 0{1000,2000}$/,
  ],
  [
    'says no more than that there is an error, and why beside it',
    `${initialized}; read l; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":{"details":"failed to load configuration of $ANTHROPIC_BASE_URL"}}}' | sed "s#[$]ANTHROPIC_BASE_URL#$ANTHROPIC_BASE_URL#"; sleep 60`,
    'refused',
    /^the harness refused session\/new: Internal error: failed to load configuration of \[redacted\] \(-32603\)$/,
  ],
  [
    'opens a session without an id',
    `${initialized}; read l; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; sleep 60`,
    'refused',
    /without an id/,
  ],
  [
    'opens a session with a long id',
    `${initialized}; read l; printf '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"%01025d"}}\\n' 0; sleep 60`,
    'refused',
    /without an id of at most 1,024 bytes/,
  ],
  ['answers what nobody asked', `echo '{"jsonrpc":"2.0","id":99,"result":{}}'; sleep 60`, 'timeout', /within/],
  [
    'writes at length what is no message of JSON-RPC',
    `printf '{"id":1,"method":{"of":"%070000d"}}\\n' 0; sleep 60`,
    'garbage',
    /"method":\{"of":"0+/,
  ],
  [
    'tells at length of a session, in no message of JSON-RPC, which the library is not given',
    `printf '{"method":"session/update","params":{"of":"%070000d"}}\\n' 0; sleep 60`,
    'timeout',
    /within/,
  ],
  ['writes a little of what is none', `echo '{"id":1,"method":{"of":7}}'; sleep 60`, 'timeout', /within/],
  [
    'writes a message without an end',
    `head -c 200000 /dev/zero | tr '\\0' x; sleep 60`,
    'frame_too_large',
    /100000 bytes/,
  ],
];

for (const [what, script, kind, message] of starts) {
  test(`a program that ${what} is a failure of kind ${kind}`, async (t) => {
    const wantsTimeout = kind === 'timeout';
    const limits = { maxFrameBytes: 100_000, ...(wantsTimeout && { initializeMs: 200 }), drainMs: 200 };
    const failure = await connectTo(t, script, limits);
    assert.equal(failure.kind, kind, failure.message);
    assert.match(failure.message, message);
  });
}

test('a failure carries the end of stderr, without secrets and without control characters', async (t) => {
  const failure = await connectTo(t, 'printf "\\033[31mno route to $ANTHROPIC_BASE_URL/x\\033[0m" >&2; exit 1');
  assert.equal(failure.stderrTail, 'no route to [redacted]/x');
});

test('much on stderr neither blocks the program nor stays in memory', async (t) => {
  const failure = await connectTo(t, 'yes noise | head -c 3000000 >&2; echo the end >&2; exit 1');
  assert.ok(failure.stderrTail.length <= 8 * 1024);
  assert.match(failure.stderrTail, /the end$/);
});

test('an agent that never opens a session is a timeout', async (t) => {
  const { connection, request } = await connected(t, { traps: ['never-open'], limits: { openMs: 200 } });
  await assert.rejects(
    connection.open(request),
    (error) => error instanceof HarnessFailure && error.kind === 'timeout',
  );
  assert.equal((await connection.ended).kind, 'timeout');
});

for (const [trap, kind] of [
  ['never-initialize', 'timeout'],
  ['old-protocol', 'incompatible'],
  ['no-http', 'incompatible'],
] as const) {
  test(`the trap ${trap} is a failure of kind ${kind}`, async (t) => {
    const scene = await started(t, { traps: [trap] });
    const limits = { initializeMs: kind === 'timeout' ? 300 : 20_000 };
    await assert.rejects(
      connectHarness({ ...scene, log, limits }),
      (error) => error instanceof HarnessFailure && error.kind === kind,
    );
  });
}

for (const [directive, kind] of [
  ['!garbage', 'garbage'],
  ['!half', 'exited'],
  ['!exit 0', 'exited'],
  ['!big 200000', 'frame_too_large'],
] as const) {
  test(`a turn that does ${directive} is lost, of kind ${kind}, and never a good one`, async (t) => {
    const { connection } = await opened(t, { limits: { maxFrameBytes: 100_000, drainMs: 200 } });
    const outcome = await connection.prompt([directive]);
    assert.ok(outcome.kind === 'lost' && outcome.failure.kind === kind, JSON.stringify(outcome));
    assert.equal(await connection.cancel(), 'idle');
    await connection.close();
  });
}

test('a child that keeps the pipe open does not keep a dead agent alive', async (t) => {
  const { connection, process, home } = await opened(t, { traps: ['orphan-stdout'], limits: { drainMs: 200 } });
  const turn = connection.prompt(['!sleep 60000']);
  process.kill('SIGKILL');
  const outcome = await turn;
  const [orphan = 0] = await home.orphans();
  assert.ok(globalThis.process.kill(orphan, 0), 'the orphan lives, so that the test shows something');
  assert.ok(outcome.kind === 'lost' && outcome.failure.kind === 'exited', JSON.stringify(outcome));
});

test('an agent that ignores SIGTERM ends by SIGKILL', async (t) => {
  const { connection, process } = await opened(t, { traps: ['ignore-sigterm'] });
  process.kill('SIGTERM');
  assert.equal((await connection.prompt(['still here'])).kind, 'finished');
  process.kill('SIGKILL');
  assert.equal((await connection.ended).exit?.signal, 'SIGKILL');
});

test('a slow listener holds the agent back, and hears everything in order', async (t) => {
  const listener = recordingListener();
  let heard = 0;
  const release: (() => void)[] = [];
  const slow = {
    ...listener,
    onUpdate: async (update: Parameters<typeof listener.onUpdate>[0]) => {
      heard += 1;
      if (heard === 1) await new Promise<void>((resolve) => release.push(resolve));
      return listener.onUpdate(update);
    },
  };
  const { connection } = await opened(t, { listener: slow, limits: { maxPendingUpdates: 4 } });
  const turn = connection.prompt(['!flood 3000']);
  while (release.length === 0) await wait(5);
  await wait(300);
  assert.equal(heard, 1);
  release[0]?.();
  assert.equal((await turn).kind, 'finished');
  const expected = Array.from({ length: 3000 }, (_, index) => `chunk ${index + 1} `).join('');
  assert.equal(listener.text(), expected);
});

test('a listener that fails ends the connection: what cannot be kept is not gone on with', async (t) => {
  const listener = { ...recordingListener(), onUpdate: () => Promise.reject(new Error('no longer the owner')) };
  const { connection } = await opened(t, { listener });
  const outcome = await connection.prompt(['!say x\n!sleep 60000']);
  assert.ok(outcome.kind === 'lost' && outcome.failure.kind === 'listener_failed', JSON.stringify(outcome));
  assert.match(String(outcome.failure.cause), /no longer the owner/);
});

test('close ends a turn as lost, twice is once, and nothing is accepted afterwards', async (t) => {
  const { connection, process } = await opened(t);
  const turn = connection.prompt(['!sleep 60000']);
  await connection.close();
  await connection.close();
  const outcome = await turn;
  assert.ok(outcome.kind === 'lost' && outcome.failure.kind === 'closed');
  // Its input has ended, and with it the agent.
  assert.deepEqual(await process.exited, { code: 0, signal: null });
  assert.equal((await connection.prompt(['more'])).kind, 'lost');
});

/** Asks for leave, goes by the answer, and ends its turn without another word. */
const asking = `
  const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }));
  const answers = { 'initialize': ${capable}, 'session/new': { sessionId: 's' } };
  let prompt;
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (id === 'leave') say({ id: prompt, result: { stopReason: 'end_turn' } });
    else if (method === 'session/prompt') {
      prompt = id;
      const options = [{ optionId: 'yes', name: 'Yes', kind: 'allow_once' }];
      const params = { sessionId: 's', toolCall: { toolCallId: 't', title: 'deploy' }, options };
      say({ id: 'leave', method: 'session/request_permission', params });
    } else if (id !== undefined) say({ id, result: answers[method] ?? {} });
  });`;

test('a turn in which a harness was given leave is not silent: it would do the same again', async (t) => {
  const home = await createHome();
  const plan = planLaunch(inputFor(home, {}));
  const process = startProcess([globalThis.process.execPath, '-e', asking], plan.env, home.work);
  t.after(async () => {
    await process.end();
    await home.remove();
  });
  const connection = await connectHarness({ process, plan, log, listener: recordingListener() });
  await connection.open({ cwd: home.work, mcpServers: [] });
  assert.equal((await connection.prompt(['deploy'])).kind, 'finished');
});

test('a question that is taken back is answered once it is closed', async (t) => {
  const home = await createHome();
  const plan = planLaunch(inputFor(home, { harness: 'harness-b', approvals: 'prompt' }));
  const takesBack = `${asking}
    setInterval(() => prompt && say({ method: '$/cancel_request', params: { requestId: 'leave' } }), 20);`;
  const process = startProcess([globalThis.process.execPath, '-e', takesBack], plan.env, home.work);
  t.after(async () => {
    await process.end();
    await home.remove();
  });
  const seen: string[] = [];
  const listener = recordingListener(async (_request, signal) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    await wait(100);
    seen.push('closed');
    return 'cancelled';
  });
  const connection = await connectHarness({ process, plan, log, listener });
  await connection.open({ cwd: home.work, mcpServers: [] });
  assert.equal((await connection.prompt(['deploy'])).kind, 'finished');
  assert.deepEqual(seen, ['closed']);
});

/** Ends as soon as it has answered. */
const parting = `
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
  const answers = { 'initialize': ${capable}, 'session/new': { sessionId: 's' } };
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method } = JSON.parse(line);
    if (method !== 'session/prompt') return say({ id, result: answers[method] ?? {} });
    const update = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'pushed' } };
    say({ method: 'session/update', params: { sessionId: 's', update } });
    say({ id, result: { stopReason: 'end_turn' } });
    process.exit(0);
  });`;

test('a turn that was answered has ended, though its harness is gone before all that it told is kept', async (t) => {
  const home = await createHome();
  const plan = planLaunch(inputFor(home, {}));
  const process = startProcess([globalThis.process.execPath, '-e', parting], plan.env, home.work);
  t.after(async () => {
    await process.end();
    await home.remove();
  });
  let connection: HarnessConnection | undefined;
  const listener = recordingListener();
  const slow = {
    ...listener,
    onUpdate: async (update: Parameters<typeof listener.onUpdate>[0]) => {
      await connection?.ended;
      return listener.onUpdate(update);
    },
  };
  connection = await connectHarness({ process, plan, log, listener: slow, limits: { drainMs: 200 } });
  await connection.open({ cwd: home.work, mcpServers: [] });
  assert.equal((await connection.prompt(['deploy'])).kind, 'finished');
  assert.equal(listener.text(), 'pushed');
  assert.equal((await connection.prompt(['more'])).kind, 'lost');
});
