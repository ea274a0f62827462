// For kill tests of sessions in boxes of a real engine: the engine, daemons that use it, and what it shows of a session's
// boxes and volume. Only tests import this.

import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync, readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { startEngine, type TestEngine, testImage } from '../../adapters/engine/engine-testkit.ts';
import { scriptedAgent } from '../../adapters/harness/harness-testkit.ts';
import { type Box, running } from './boxes-testkit.ts';
import { type CrashBench, createCrashBench, eventually, heardIn } from './host-crash-testkit.ts';
import { Line } from './line-testkit.ts';

export interface EngineBench {
  readonly engine: TestEngine;
  readonly bench: CrashBench;
  boxesOf(session: string): Promise<Box[]>;
  /** Boxes of any session that run. */
  running(): Promise<string[]>;
  /** Waits until no box of a session runs. */
  hasEnded(session: string): Promise<void>;
  /** Waits until the engine has nothing of a session, not even a volume. */
  isGone(session: string): Promise<void>;
  /** Where the volume of a session lies on this machine. */
  volumeOf(session: string): Promise<string>;
  /** What the scripted agent of a session was told. */
  heard(session: string): Promise<string[]>;
  /** Kills the engine; gives what starts it again as it was. */
  killEngine(): () => Promise<void>;
  /** Cuts all that daemons and engine speak with each other, once. */
  cut(): void;
  /** As `cut`, and nothing gets through until it is mended by what this gives. */
  cutOff(): () => void;
  /** Settings with which a box waits for its daemon as long as it does by default. */
  readonly patient: string;
  /** Pairs of boxes of one session that were seen to run at the same time. */
  readonly twins: readonly string[];
  stop(): Promise<void>;
}

interface Listed {
  readonly Id: string;
  readonly State: string;
  readonly Labels: Readonly<Record<string, string>>;
}

const labelled = (session: string): string => encodeURIComponent(JSON.stringify({ label: [`svc/session=${session}`] }));

/** What the engine shows of sessions. */
function viewOf({ api }: TestEngine) {
  const list = async (query: string): Promise<readonly Listed[]> =>
    (await api('GET', `/v1.41/containers/json?${query}`)).body as Listed[];
  const boxesOf = async (session: string): Promise<Box[]> => {
    const found = await list(`all=true&filters=${labelled(session)}`);
    return found.map(({ Id, State, Labels }) => ({
      name: Id,
      epoch: Number(Labels['svc/epoch']),
      runs: State === 'running',
    }));
  };
  const volumeOf = async (session: string): Promise<string> => {
    const { body } = await api('GET', `/v1.41/volumes?filters=${labelled(session)}`);
    return (body as { Volumes: { Mountpoint: string }[] | null }).Volumes?.[0]?.Mountpoint ?? '';
  };
  const hasNothing = async (session: string): Promise<boolean> =>
    (await boxesOf(session)).length === 0 && (await volumeOf(session)) === '';
  return {
    ...{ boxesOf, volumeOf },
    running: async () => (await list('')).map(({ Id }) => Id),
    sessions: async () => (await list('')).map(({ Labels }) => Labels['svc/session'] ?? ''),
    hasEnded: (session: string) =>
      eventually('its box has ended', async () => (await running(boxesOf, session)).length === 0),
    isGone: (session: string) => eventually('nothing of it is left', () => hasNothing(session)),
    heard: async (session: string) => heardIn(join(await volumeOf(session), 'user', '.scripted-agent')),
  };
}

/** Looks for sessions with two boxes that run, until it is stopped. An engine that was killed shows nothing. */
function watchTwins(sessions: () => Promise<string[]>): { readonly twins: readonly string[]; stop(): void } {
  const twins: string[] = [];
  const look = async (): Promise<void> => {
    const all = await sessions().catch((): string[] => []);
    twins.push(...all.filter((one, at) => one !== '' && all.indexOf(one) !== at));
  };
  const timer = setInterval(() => void look(), 200);
  return { twins, stop: () => clearInterval(timer) };
}

/** What Docker runs its boxes with, where it has started that itself. */
function containerdOf({ name, socket }: TestEngine): number[] {
  if (name !== 'docker') return [];
  return [Number(readFileSync(join(dirname(socket), 'exec', 'containerd', 'containerd.pid'), 'utf8'))];
}

/** `sandboxes`: more settings of the daemons; `env`: more variables. */
export async function createEngineBench(
  name: 'docker' | 'podman',
  { sandboxes = {}, env = {} }: { readonly sandboxes?: object; readonly env?: { readonly [name: string]: string } },
): Promise<EngineBench> {
  const engine = await startEngine(name);
  const config = join(dirname(engine.socket), 'svc.json');
  const presets = { base: { image: testImage } };
  const socket = join(dirname(engine.socket), 'line.sock');
  const line = await Line.at(socket, engine.socket);
  await writeFile(config, JSON.stringify({ sandboxes: { docker: { socket }, presets, ...sandboxes } }));
  const patient = join(dirname(engine.socket), 'patient.json');
  await writeFile(patient, JSON.stringify({ sandboxes: { docker: { socket }, presets } }));
  const harness = JSON.stringify(scriptedAgent);
  const bench = await createCrashBench('docker', { SVC_CONFIG: config, SVC_HARNESS_B_COMMAND: harness, ...env });
  const view = viewOf(engine);
  const watch = watchTwins(view.sessions);
  let second: ChildProcess | undefined;
  const logFile = join(dirname(engine.socket), 'log');
  const log = openSync(logFile, 'a');
  const answers = (): Promise<boolean> =>
    engine.api('GET', '/version').then(
      ({ status }) => status === 200,
      () => false,
    );
  return {
    ...{ engine, bench, patient, twins: watch.twins, ...view },
    cut() {
      line.cut();
      line.isCut = false;
    },
    cutOff() {
      line.cut();
      return () => {
        line.isCut = false;
      };
    },
    killEngine() {
      const pid = second?.pid ?? engine.pid;
      const [file = '', ...args] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
      const cwd = readlinkSync(`/proc/${pid}/cwd`);
      const kept = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').slice(0, -1);
      const own = Object.fromEntries(kept.map((pair) => pair.split(/=(.*)/s).slice(0, 2)));
      const pids = [pid, ...containerdOf(engine)];
      process.kill(pid, 'SIGKILL');
      return async () => {
        // One that finds the process of its pid file ends at once; one that finds the containerd of the one before, which
        // dies with it and a little later, takes that for its own, waits for it in vain, and ends too.
        await eventually('the engine is gone', () => pids.every((one) => !existsSync(`/proc/${one}`)));
        const next = spawn(file, args, { cwd, env: own, stdio: ['ignore', log, log] });
        second = next;
        await eventually('the engine answers', async () => {
          if (next.exitCode === null) return answers();
          throw new Error(`the engine ended with ${next.exitCode}: ${readFileSync(logFile, 'utf8').slice(-2_000)}`);
        });
      };
    },
    async stop() {
      watch.stop();
      await bench.remove();
      await line.stop();
      second?.kill('SIGKILL');
      closeSync(log);
      await engine.stop();
    },
  };
}
