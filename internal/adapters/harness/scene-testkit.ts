// Scenes for the tests of this room: the scripted agent started, connected or with a session, and ended with the test.

import type { TestContext } from 'node:test';
import type { ToolServer } from '../../../testdata/scripted-agent/tool-server.ts';
import { createLog } from '../../base/log/log.ts';
import type { Harness } from '../../domain/spec.ts';
import { connectHarness, type HarnessConnection, planLaunch } from './harness.ts';
import {
  createHome,
  type RecordingListener,
  recordingListener,
  startScriptedAgent,
  type TestHome,
  type TestProcess,
} from './harness-testkit.ts';
import type { LaunchInput, LaunchPlan, Limits, OpenRequest } from './types.ts';

export const log = createLog('silent');

interface Scene {
  readonly home: TestHome;
  readonly plan: LaunchPlan;
  readonly process: TestProcess;
  readonly listener: RecordingListener;
  readonly connection: HarnessConnection;
  readonly request: OpenRequest;
}
export interface SceneOptions {
  readonly harness?: Harness;
  readonly approvals?: 'bypass' | 'prompt';
  readonly traps?: readonly string[];
  readonly limits?: Partial<Limits>;
  readonly listener?: RecordingListener;
  readonly tools?: ToolServer;
  /** A home of an earlier process. */
  readonly home?: TestHome;
}

export const inputFor = (home: TestHome, options: SceneOptions): LaunchInput => ({
  harness: options.harness ?? 'harness-a',
  model: {
    provider: options.harness === 'harness-b' ? 'provider-b' : 'provider-a',
    id: 'test-model',
    baseUrl: 'http://127.0.0.1:9/s/session-token-of-the-test',
  },
  effort: 'high',
  systemPrompt: 'Be brief.',
  approvals: options.approvals ?? 'bypass',
  home: home.home,
  asRoot: false,
  isolated: false,
  installed: false,
  toolsToken: 'tools-token-of-the-test',
});

/** A started program, before anything is said to it; ended with the test. */
export async function started(t: TestContext, options: SceneOptions = {}) {
  const home = options.home ?? (await createHome());
  const plan = planLaunch(inputFor(home, options));
  const process = startScriptedAgent(plan, home, options.traps);
  t.after(async () => {
    await process.end();
    await home.remove();
  });
  return { home, plan, process, listener: options.listener ?? recordingListener() };
}

/** Connected and initialized. */
export async function connected(t: TestContext, options: SceneOptions = {}): Promise<Scene> {
  const scene = await started(t, options);
  const connection = await connectHarness({ ...scene, log, ...(options.limits && { limits: options.limits }) });
  const { tools } = options;
  const mcpServers =
    tools === undefined ? [] : [{ name: 'svc', url: tools.url, headers: { authorization: `Bearer ${tools.token}` } }];
  return { ...scene, connection, request: { cwd: scene.home.work, mcpServers } };
}

/** With a session. */
export async function opened(t: TestContext, options: SceneOptions = {}): Promise<Scene & { sessionId: string }> {
  const scene = await connected(t, options);
  const { sessionId } = await scene.connection.open(scene.request);
  return { ...scene, sessionId };
}
