// One real harness against the stub model and a real tool server: started as the session host starts it, by the same
// plan and the same client. What a check needs of it, and nothing of how it is checked.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { setTimeout as wait } from 'node:timers/promises';
import { connectHarness, type HarnessConnection, planLaunch, resolveHarness } from '../adapters/harness/harness.ts';
import {
  createHome,
  type RecordingListener,
  recordingListener,
  startProcess,
  type TestHome,
  type TestProcess,
} from '../adapters/harness/harness-testkit.ts';
import type { LaunchInput, OpenRequest, PromptOptions, TurnOutcome } from '../adapters/harness/types.ts';
import { createLog } from '../base/log/log.ts';
import type { Harness } from '../domain/spec.ts';
import { startToolServer, type ToolServer } from '../../testdata/scripted-agent/tool-server.ts';
import { startStubModel, type StubModel } from './stub-model.ts';

/** Unknown to every catalogue, so that no model's own way of calling tools comes between. */
export const modelName = 'stub-model-1';
export const systemPrompt = 'Answer as a gardener would. Marker 7f3a.';
const effort = 'low';

export interface Live {
  readonly process: TestProcess;
  readonly connection: HarnessConnection;
  readonly listener: RecordingListener;
  readonly request: OpenRequest;
  readonly sessionId: string;
}

export interface Scene {
  readonly harness: Harness;
  readonly effort: string;
  readonly model: StubModel;
  readonly tools: ToolServer;
  readonly home: TestHome;
  /** A new process over the same home: a new session, or `sessionId` resumed. Ended with the scene. */
  start(sessionId?: string, more?: Partial<LaunchInput>): Promise<Live>;
  end(): Promise<void>;
}

/** Waits for something that comes by itself; fails with `what` where it does not. */
export async function eventually(what: string, isSo: () => boolean, limitMs = 10_000): Promise<void> {
  for (let waitedMs = 0; !isSo(); waitedMs += 20) {
    assert.ok(waitedMs < limitMs, `${what} within ${limitMs} ms`);
    await wait(20);
  }
}

/** The text of an outcome for a failed assertion. */
export const shown = (outcome: TurnOutcome, live: Live): string =>
  `${JSON.stringify(outcome)}; it said: ${live.listener.text().slice(-500)}; stderr: ${
    outcome.kind === 'lost' ? outcome.failure.stderrTail : ''
  }`;

/** Prepares a scene; nothing is started yet but the two servers. */
export async function createScene(harness: Harness, dataDir: string): Promise<Scene> {
  const found = await resolveHarness({ harness, dataDir, configured: undefined, nodePath: process.execPath });
  if ('message' in found) throw new Error(found.message);
  const [model, tools, home] = await Promise.all([startStubModel(), startToolServer(), createHome()]);
  const running: TestProcess[] = [];
  const start = async (sessionId?: string, more: Partial<LaunchInput> = {}): Promise<Live> => {
    const plan = planLaunch({
      harness,
      model: { provider: harness === 'harness-a' ? 'provider-a' : 'provider-b', id: modelName, baseUrl: model.url },
      effort: effort,
      systemPrompt: systemPrompt,
      approvals: 'bypass',
      home: home.home,
      asRoot: process.getuid?.() === 0,
      isolated: false,
      installed: true,
      toolsToken: tools.token,
      ...more,
    });
    for (const directory of plan.directories) await mkdir(directory, { recursive: true });
    const started = startProcess(found.argv, { PATH: process.env['PATH'], ...plan.env }, home.work);
    running.push(started);
    const listener = recordingListener();
    const connection = await connectHarness({ process: started, plan, listener, log: createLog('silent') });
    const headers = { authorization: plan.toolsAuthorization };
    const request: OpenRequest = { cwd: home.work, mcpServers: [{ name: 'svc', url: tools.url, headers }] };
    const listed = tools.lists();
    const session = sessionId === undefined ? connection.open(request) : connection.resume(sessionId, request);
    const opened = await session;
    await eventually('the harness lists its tools', () => tools.lists() > listed);
    return { process: started, connection, listener, request, sessionId: opened.sessionId };
  };
  return {
    harness,
    effort: effort,
    model,
    tools,
    home,
    start,
    end: async () => {
      await Promise.all(running.map((one) => one.end()));
      await Promise.all([model.close(), tools.close()]);
      await home.remove();
    },
  };
}

const turnMs = 30_000;

/** One turn with an end: a harness that never comes back fails the check instead of holding it up. */
export async function turnOf(live: Live, text: string, options: PromptOptions = {}): Promise<TurnOutcome> {
  const stop = new AbortController();
  const late = wait(turnMs, undefined, { signal: stop.signal }).then(
    () =>
      assert.fail(
        `"${text}" did not end within ${turnMs} ms; the last updates: ${JSON.stringify(live.listener.updates.slice(-5))}`,
      ),
    () => new Promise<never>(() => undefined),
  );
  try {
    return await Promise.race([live.connection.prompt([text], options), late]);
  } finally {
    stop.abort();
  }
}
