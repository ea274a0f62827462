// For tests of this room and of those above it: the scripted agent as a real process with a home of its own, and a
// listener that keeps what it hears.

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type {
  HarnessListener,
  HarnessProcess,
  HarnessUpdate,
  LaunchPlan,
  PermissionDecision,
  PermissionRequest,
} from './types.ts';

/** argv of the scripted agent, for `SVC_HARNESS_A_COMMAND` and `SVC_HARNESS_B_COMMAND`. */
export const scriptedAgent: readonly string[] = [
  process.execPath,
  join(import.meta.dirname, '../../../testdata/scripted-agent/agent.mjs'),
];

export interface TestProcess extends HarnessProcess {
  readonly pid: number;
  readonly kill: (signal: NodeJS.Signals) => void;
  /** Kills it, with everything it started in its process group, and waits for its end. */
  readonly end: () => Promise<void>;
}

/** Starts a program in a process group of its own. */
export function startProcess(
  argv: readonly string[],
  env: { readonly [name: string]: string | undefined },
  cwd: string,
): TestProcess {
  const [program = '', ...args] = argv;
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(program, args, {
    env: { ...env },
    cwd,
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
    child.once('error', () => resolve({ code: 127, signal: null }));
  });
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited,
    pid: child.pid ?? 0,
    kill: (signal) => void child.kill(signal),
    end: async () => {
      endQuietly(-(child.pid ?? 0));
      await exited;
    },
  };
}

export interface TestHome {
  readonly home: string;
  readonly work: string;
  /** Processes that the scripted agent left behind on purpose. */
  orphans(): Promise<number[]>;
  /** Ends the orphans too. */
  remove(): Promise<void>;
}

async function orphansOf(home: string): Promise<number[]> {
  const text = await readFile(join(home, '.scripted-agent', 'orphans'), 'utf8').catch(() => '');
  return text.split('\n').filter(Boolean).map(Number);
}

function endQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It is gone already.
  }
}

export async function createHome(): Promise<TestHome> {
  const root = await mkdtemp(join(tmpdir(), 'svc-harness-'));
  await mkdir(join(root, 'work'));
  return {
    home: root,
    work: join(root, 'work'),
    orphans: () => orphansOf(root),
    remove: async () => {
      for (const pid of await orphansOf(root)) endQuietly(pid);
      await rm(root, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** The scripted agent with a plan's environment; `traps` as its own head lists them. */
export function startScriptedAgent(plan: LaunchPlan, at: TestHome, traps: readonly string[] = []): TestProcess {
  return startProcess(
    scriptedAgent,
    { PATH: '/usr/local/bin:/usr/bin:/bin', ...plan.env, SCRIPTED_AGENT_TRAPS: traps.join(',') },
    at.work,
  );
}

export interface RecordingListener extends HarnessListener {
  readonly updates: HarnessUpdate[];
  readonly requests: PermissionRequest[];
  /** All text of the agent so far. */
  text(): string;
  /** Resolves when an update of this kind has been heard, now or later. */
  heard(kind: HarnessUpdate['kind']): Promise<void>;
  /** Resolves when a permission was asked for. */
  asked(): Promise<void>;
}

/** Keeps everything; permission requests are answered by `decide`. */
export function recordingListener(
  decide: (request: PermissionRequest, signal: AbortSignal) => Promise<PermissionDecision> = async () => 'reject',
): RecordingListener {
  const updates: HarnessUpdate[] = [];
  const requests: PermissionRequest[] = [];
  const waiting: { readonly isMet: () => boolean; readonly resolve: () => void }[] = [];
  const until = (isMet: () => boolean): Promise<void> =>
    isMet() ? Promise.resolve() : new Promise((resolve) => waiting.push({ isMet, resolve }));
  const wake = (): void => {
    for (const entry of waiting.filter(({ isMet }) => isMet())) {
      waiting.splice(waiting.indexOf(entry), 1);
      entry.resolve();
    }
  };
  return {
    updates,
    requests,
    text: () => updates.map((update) => (update.kind === 'text' ? update.text : '')).join(''),
    heard: (kind) => until(() => updates.some((update) => update.kind === kind)),
    asked: () => until(() => requests.length > 0),
    onUpdate: (update) => {
      updates.push(update);
      wake();
    },
    onPermission: (request, signal) => {
      requests.push(request);
      wake();
      return decide(request, signal);
    },
  };
}
