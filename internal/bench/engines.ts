// Sandboxes in boxes of an engine against the engine by itself: the same image created, started and given one program over
// the API, in turns. What is more is ours: the volume, the wire, the tries of the fence. Then a stream through a channel, a
// wire that is cut, many at once, and a setup that is kept.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { DockerEngine } from '../adapters/engine/engine.ts';
import type { BoxRef } from '../adapters/engine/types.ts';
import { lacking, startEngine, testImage, type TestEngine } from '../adapters/engine/engine-testkit.ts';
import {
  openSandboxes,
  runSetup,
  type Sandbox,
  type SandboxProvider,
  SetupCache,
} from '../adapters/sandbox/sandbox.ts';
import { type Bench, type Bencher, median, medianMs, ms, runProgram, timed } from './harness.ts';

const rounds = 5;
const atOnce = 50;
const streams = 9;
/** In turns with the same without us. */
const relayRounds = 3;
const chunks = 200;
const gapMs = 5;
const limitMs = 120_000;
/** What tells that a program of the image's Node runs. */
export const program = ['node', '-e', 'console.log("up")'];

type Api = TestEngine['api'];

async function expect(api: Api, method: string, path: string, body?: object): Promise<{ readonly Id: string }> {
  const answer = await api(method, `/v1.41${path}`, body);
  if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body as { Id: string };
}

/** Creates and starts a box and runs the program in it to its end, by the engine's API alone; ends it. */
async function bare(api: Api): Promise<number> {
  let id = '';
  const took = await timed(async () => {
    const box = {
      Image: testImage,
      Entrypoint: ['/bin/sh'],
      Cmd: ['-c', 'sleep 600'],
      HostConfig: { NetworkMode: 'none' },
    };
    ({ Id: id } = await expect(api, 'POST', '/containers/create', box));
    await expect(api, 'POST', `/containers/${id}/start`);
    await bareExec(api, id);
  });
  await expect(api, 'DELETE', `/containers/${id}?force=true`);
  return took;
}

async function bareExec(api: Api, id: string): Promise<void> {
  const made = await expect(api, 'POST', `/containers/${id}/exec`, { Cmd: program, AttachStdout: true });
  await expect(api, 'POST', `/exec/${made.Id}/start`, { Detach: false });
}

let count = 0;
export async function launched(provider: SandboxProvider, more: object = {}): Promise<Sandbox> {
  count += 1;
  const sandbox = await provider.create({ id: `bench${count}`, image: testImage, ...more });
  const { output } = await sandbox.run({ command: program, timeoutMs: limitMs });
  if (output !== 'up\n') throw new Error(`the program said ${JSON.stringify(output)}`);
  return sandbox;
}

async function launch(provider: SandboxProvider): Promise<number> {
  let sandbox: Sandbox | undefined;
  const took = await timed(async () => {
    sandbox = await launched(provider);
  });
  await sandbox?.destroy();
  return took;
}

/**
 * Answers in chunks at a beat, at a socket and at a port of loopback, which it tells. A program of its own, as a model is:
 * what the relay takes of this one's time does not slow the beat.
 */
const serverText = String.raw`
const http = require('node:http');
const answer = async ({ url }, response) => {
  for (let n = url === '/warm' ? ${chunks - 5} : 0; n < ${chunks}; n += 1) {
    response.write('data: ' + 'word '.repeat(8) + '\n\n');
    await new Promise((resolve) => setTimeout(resolve, ${gapMs}));
  }
  response.end();
};
const open = (where, then) => { const server = http.createServer((request, response) => void answer(request, response));
  server.listen(where, () => then(server.address())); };
open(process.argv[1], () => open({ port: 0, host: '127.0.0.1' }, ({ port }) => console.log(port)));`;

/** Milliseconds of one answer of a server, told by a program that reads it to its end. */
const clientText = String.raw`
const [where, turns] = JSON.parse(process.argv[1]);
const http = require('node:http');
const one = (path) => new Promise((done) => { const start = performance.now();
  http.get(where + path, (answer) => answer.resume().on('end', () => done(performance.now() - start))); });
(async () => { const all = []; await one('warm'); while (all.length < turns) all.push(await one(''));
  console.log(JSON.stringify(all)); })();`;

/** `open`: makes a sandbox. */
type Open = (more?: object) => Promise<Sandbox>;

export async function relay(bench: Bencher, name: string, open: Open): Promise<void> {
  const sandbox = await open({ channels: [{ name: 'model', port: 4401 }] });
  const server = spawn(process.execPath, ['-e', serverText, sandbox.socketOf('model')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  bench.atEnd(() => void server.kill('SIGKILL'));
  const [port] = (await once(server.stdout.setEncoding('utf8'), 'data')) as [string];
  const ask = async (where: string, run: (argv: string[]) => Promise<string>): Promise<number[]> =>
    JSON.parse(await run(['node', '-e', clientText, JSON.stringify([where, streams / relayRounds])])) as number[];
  const directly = async ([, ...args]: string[]): Promise<string> => (await runProgram(process.execPath, args)).stdout;
  const within = async (command: string[]): Promise<string> =>
    (await sandbox.run({ command, timeoutMs: limitMs })).output;
  const [alone, inside]: [number[], number[]] = [[], []];
  for (let round = 0; round < relayRounds; round += 1) {
    alone.push(...(await ask(`http://127.0.0.1:${Number(port)}/`, directly)));
    inside.push(...(await ask('http://127.0.0.1:4401/', within)));
  }
  bench.ratio(
    `${name}: ${chunks} chunks over a second through the wire, p50 / directly`,
    ms(median(inside)),
    medianMs(alone),
    1.05,
  );
  await sandbox.destroy();
  server.kill('SIGKILL');
}

/** The stream that the newest wire has taken over from its box. */
let ownStreams: Duplex | undefined;
class Watched extends DockerEngine {
  override async attach(ref: BoxRef): Promise<Duplex> {
    ownStreams = await super.attach(ref);
    return ownStreams;
  }
}

/** Until a wire whose program inside was killed carries a program again. */
async function reattach(provider: SandboxProvider): Promise<number[]> {
  const sandbox = await launched(provider);
  const times: number[] = [];
  const kill = `for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q "@svc-wire *$" && kill -9 \${p#/proc/}; done; true`;
  let mended: (() => void) | undefined;
  let cutAt = 0;
  sandbox.onWire?.((state) => {
    if (state === 'lost') cutAt = performance.now();
    if (state === 'ok') mended?.();
  });
  // First its box's own streams, of which there is no second.
  for (let round = -1; round < rounds; round += 1) {
    const again = new Promise<void>((resolve) => {
      mended = resolve;
    });
    if (round < 0) ownStreams?.destroy();
    else await sandbox.run({ command: kill, timeoutMs: limitMs });
    await again;
    if (round >= 0) times.push(performance.now() - cutAt);
  }
  await sandbox.destroy();
  return times;
}

/** A box that its daemon has left with a program in it: from asking for it until the program answers again. */
export async function takenOver(provider: SandboxProvider, open: Open): Promise<number[]> {
  const left = await open();
  let sandbox: Sandbox = left;
  let program = await left.spawn({ argv: ['cat'], lasts: true });
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const [held, id] = [sandbox.held?.(), program.lasting?.id];
    if (held === undefined || held === null || id === undefined) throw new Error('the box does not outlive its daemon');
    await sandbox.leave?.();
    const began = performance.now();
    const asked = { id, outBytes: round, inBytes: round, prepare: async () => undefined };
    const found = await provider.takeOver?.(left.id, held, asked);
    if (found === undefined || found === null) throw new Error('the box was not taken over');
    ({ sandbox, process: program } = found);
    program.stdin.write('.');
    await once(program.stdout, 'data');
    times.push(performance.now() - began);
    program.lasting?.release(round + 1);
  }
  await sandbox.destroy();
  return times;
}

/** A setup step of some seconds, first run and then kept. */
async function setups(bench: Bencher, name: string, provider: SandboxProvider): Promise<void> {
  const cache = await SetupCache.open(await bench.directory());
  const make = 'sleep 5; mkdir -p tools; for n in $(seq 1000); do echo $n > tools/$n; done';
  const setup = [
    { name: 'tools', commands: [`cd $HOME && ${make}`], cache: { key: 'k', paths: ['/home/user/tools'] } },
  ];
  const run = async (): Promise<number> => {
    const sandbox = await launched(provider);
    const took = await timed(() => runSetup(sandbox, { cache, scope: 'bench', now: new Date(), setup }));
    await sandbox.destroy();
    return took;
  };
  const cold = await run();
  const kept: number[] = [];
  for (let round = 0; round < rounds; round += 1) kept.push(await run());
  bench.ratio(`${name}: a setup of five seconds and a thousand files, kept / run`, ms(median(kept)), ms(cold), 0.5);
}

async function run(bench: Bencher, name: 'docker' | 'podman'): Promise<void> {
  const missing = lacking(name);
  if (missing !== null) return bench.skipped(`${name}: launches`, `no engine (${missing})`);
  const engine = await startEngine(name);
  bench.atEnd(() => engine.stop());
  const dataDir = await bench.directory();
  const { provider } = await openSandboxes({
    dataDir: join(dataDir, 'data'),
    sandbox: 'docker',
    host: { PATH: process.env['PATH'] ?? '' },
    engineOf: () => ({
      engine: new Watched({ socket: engine.socket }),
      setting: 'sandboxes.docker',
      fence: 'required',
      isLocal: true,
    }),
  });
  bench.atEnd(() => provider.close());
  const [alone, ours]: [number[], number[]] = [[], []];
  for (let round = -1; round < rounds; round += 1) {
    const times = [await bare(engine.api), await launch(provider)] as const;
    if (round < 0) continue;
    alone.push(times[0]);
    ours.push(times[1]);
  }
  bench.ratio(`${name}: launch / create, start and exec alone`, medianMs(ours), medianMs(alone), 1.5);
  const box = await expect(engine.api, 'POST', '/containers/create', {
    Image: testImage,
    Cmd: ['/bin/sh', '-c', 'sleep 600'],
  });
  await expect(engine.api, 'POST', `/containers/${box.Id}/start`);
  const execs: number[] = [];
  for (let round = 0; round < rounds; round += 1) execs.push(await timed(() => bareExec(engine.api, box.Id)));
  await expect(engine.api, 'DELETE', `/containers/${box.Id}?force=true`);
  bench.ratio(`${name}: a cut wire mended / one exec alone`, medianMs(await reattach(provider)), medianMs(execs), 3);
  bench.ratio(
    `${name}: a box taken over / one exec alone`,
    medianMs(await takenOver(provider, (more) => launched(provider, more))),
    medianMs(execs),
    3,
  );
  await relay(bench, name, (more) => launched(provider, more));
  await setups(bench, name, provider);
  const many = (work: () => Promise<unknown>): Promise<number> =>
    timed(() => Promise.all(Array.from({ length: atOnce }, work)));
  const manyAloneMs = await many(() => bare(engine.api));
  const manyMs = await many(() => launch(provider));
  bench.ratio(`${name}: ${atOnce} launches at once / as many alone`, ms(manyMs), ms(manyAloneMs), 1.5);
}

const benchOf = (name: 'docker' | 'podman'): Bench => ({
  name: `engine-${name}`,
  title: `sessions' boxes against ${name} alone`,
  run: (bench) => run(bench, name),
});

export const docker = benchOf('docker');
export const podman = benchOf('podman');
