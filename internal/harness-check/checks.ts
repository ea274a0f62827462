// What must hold of a real harness. Each check is one entry; they run in order on one scene, and the first three share a
// process. A new one (fence, cap, deferral through the daemon) is one more entry.

import assert from 'node:assert/strict';
import { eventually, type Live, modelName, type Scene, shown, systemPrompt, turnOf } from './scene.ts';
import { toolCount } from './stub-model.ts';

export interface HarnessCheck {
  readonly name: string;
  /** Returns what it found worth printing. */
  run(scene: Scene, live: Live): Promise<string>;
}

type Fields = { readonly [key: string]: unknown };

/** The effort in a recorded request, where its wire carries it. */
export const effortOf = (body: Fields): unknown =>
  (Object(body['output_config']) as Fields)['effort'] ?? (Object(body['reasoning']) as Fields)['effort'];

const textTurn: HarnessCheck = {
  name: 'a turn answers, with model, effort and system prompt on the wire',
  run: async ({ model, effort }, live) => {
    const outcome = await turnOf(live, 'STUB TEXT roses are red');
    assert.equal(outcome.kind, 'finished', shown(outcome, live));
    assert.match(live.listener.text(), /roses are red/);
    const request = model.requests.find(
      ({ body }) => JSON.stringify(body).includes('STUB TEXT roses') && toolCount(body) > 0,
    );
    assert.ok(request, 'the request of the turn was recorded');
    assert.equal(request.body['model'], modelName);
    assert.equal(effortOf(request.body), effort);
    assert.ok(JSON.stringify(request.body).includes(systemPrompt), 'the system prompt is in the request');
    assert.ok(outcome.kind === 'finished' && outcome.usage !== undefined, 'tokens are reported');
    return `effort ${String(effortOf(request.body))}, ${outcome.usage.totalTokens} tokens`;
  },
};

const toolTurn: HarnessCheck = {
  name: 'a tool call goes to the tool server and back',
  run: async ({ tools }, live) => {
    const outcome = await turnOf(live, 'STUB TOOL svc_ping {"bed":3}');
    assert.equal(outcome.kind, 'finished', shown(outcome, live));
    assert.ok(tools.calls.includes('svc_ping {"bed":3}'), shown(outcome, live));
    assert.match(live.listener.text(), /the tool gave .*pong/);
    const finished = live.listener.updates.filter(({ kind }) => kind === 'tool_finished');
    assert.equal(finished.length, 1);
    return `${live.listener.updates.filter(({ kind }) => kind.startsWith('tool')).length} updates of the call`;
  },
};

const cancelStream: HarnessCheck = {
  name: 'a cancel while it speaks ends the turn and the model call, and the next prompt is taken',
  run: async ({ model }, live) => {
    const before = live.listener.text().length;
    const turn = live.connection.prompt(['STUB SLOW']);
    await eventually('the harness speaks', () => live.listener.text().length > before);
    const start = performance.now();
    assert.equal(await live.connection.cancel(), 'ended');
    const took = performance.now() - start;
    const outcome = await turn;
    assert.deepEqual([outcome.kind, outcome.kind === 'cancelled' && outcome.byClient], ['cancelled', true]);
    await eventually('the model call is given up', () => model.requests.some(({ leftEarly }) => leftEarly));
    const next = await turnOf(live, 'STUB TEXT after the cancel');
    assert.equal(next.kind, 'finished', shown(next, live));
    assert.match(live.listener.text(), /after the cancel/);
    return `${took.toFixed(0)} ms`;
  },
};

const cancelTool: HarnessCheck = {
  name: 'a cancel during a tool call ends the turn and reaches the tool',
  run: async ({ tools }, live) => {
    const turn = live.connection.prompt(['STUB TOOL slow {"ms":60000}']);
    await eventually('the tool is called', () => tools.calls.some((call) => call.startsWith('slow')));
    assert.equal(await live.connection.cancel(), 'ended');
    assert.equal((await turn).kind, 'cancelled');
    await eventually('the tool is cancelled', () => tools.cancelled.includes('slow'));
    return 'the tool was told';
  },
};

const failures: HarnessCheck = {
  name: 'a model that fails makes a failed turn, with and without the gateway’s word',
  run: async ({ model }, live) => {
    const seen: string[] = [];
    for (const status of [500, 402]) {
      model.refuse(status);
      const alone = await turnOf(live, `STUB TEXT never ${status}`);
      assert.ok(alone.kind === 'failed', shown(alone, live));
      assert.equal(alone.cause, status === 402 ? 'spend_cap' : 'server', shown(alone, live));
      const evidence = () => ({ calls: 1, lastStatus: status });
      const witnessed = await turnOf(live, `STUB TEXT never again ${status}`, { evidence });
      assert.ok(witnessed.kind === 'failed', shown(witnessed, live));
      assert.equal(witnessed.cause, status === 402 ? 'spend_cap' : 'server');
      seen.push(`${status}: ${alone.cause} (${alone.message.slice(0, 60)})`);
    }
    model.refuse(undefined);
    const outcome = await turnOf(live, 'STUB TEXT well again');
    assert.equal(outcome.kind, 'finished', shown(outcome, live));
    return seen.join('; ');
  },
};

const killAndResume: HarnessCheck = {
  name: 'after SIGKILL in the middle of a turn a new process resumes with the history',
  run: async (scene, live) => {
    const before = live.listener.text().length;
    const turn = live.connection.prompt(['STUB SLOW that is cut']);
    await eventually('the harness speaks', () => live.listener.text().length > before);
    await live.process.end();
    const outcome = await turn;
    assert.equal(outcome.kind, 'lost', shown(outcome, live));
    const next = await scene.start(live.sessionId);
    assert.deepEqual(
      next.listener.updates.filter(({ kind }) => kind === 'text'),
      [],
      'no old text is told again',
    );
    const count = scene.model.requests.length;
    const after = await turnOf(next, 'STUB TEXT back again');
    assert.equal(after.kind, 'finished', shown(after, next));
    assert.match(next.listener.text(), /back again/);
    const sent = JSON.stringify(scene.model.requests.slice(count).map(({ body }) => body));
    assert.match(sent, /roses are red/, 'the history is sent to the model');
    assert.ok(sent.includes(systemPrompt), 'the system prompt is sent after resuming');
    // Not asserted: a harness may die before it has written the message down, which is why a cut message is sent again.
    const kept = sent.includes('that is cut') ? 'kept' : 'not kept';
    const tool = await turnOf(next, 'STUB TOOL svc_ping {"bed":4}');
    assert.equal(tool.kind, 'finished', shown(tool, next));
    assert.ok(scene.tools.calls.includes('svc_ping {"bed":4}'));
    const efforts = scene.model.requests
      .slice(count)
      .filter(({ body }) => toolCount(body) > 0)
      .map(({ body }) => effortOf(body));
    assert.deepEqual([...new Set(efforts)], [scene.effort]);
    return `by session/${next.connection.agent.resume}, the cut message was ${kept}`;
  },
};

const approvals: HarnessCheck = {
  name: 'under approvals: prompt harness-b asks before it leaves its sandbox and harness-a does not; a rejection ends the turn',
  run: async (scene) => {
    const asking = await scene.start(undefined, { approvals: 'prompt' });
    if (scene.harness === 'harness-a') {
      const outcome = await turnOf(asking, 'STUB TOOL Bash {"command":"echo from the shell","description":"greets"}');
      assert.equal(outcome.kind, 'finished', shown(outcome, asking));
      assert.match(asking.listener.text(), /from the shell/);
      assert.deepEqual(asking.listener.requests, []);
      return 'nobody was asked';
    }
    const input = { cmd: 'echo out > dug', sandbox_permissions: 'require_escalated', justification: 'to dig' };
    const outcome = await turnOf(asking, `STUB TOOL exec_command ${JSON.stringify(input)}`);
    assert.deepEqual(
      [outcome.kind, 'byClient' in outcome && outcome.byClient],
      ['cancelled', false],
      shown(outcome, asking),
    );
    assert.match(asking.listener.requests[0]?.title ?? '', /echo out/);
    return `asked for: ${asking.listener.requests[0]?.title}`;
  },
};

export const checksList: readonly HarnessCheck[] = [
  textTurn,
  toolTurn,
  cancelStream,
  cancelTool,
  failures,
  killAndResume,
  approvals,
];
