// Engines of this machine for tests: dockerd and podman of the distribution's packages, started here on sockets of their
// own and ended by their process ids; and an image made without a registry from busybox, the Node that runs the tests, and
// what it links to. Where a program is missing, what would need it is skipped and says so.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';

export const testImage = 'svc-test:latest';
const startMs = 60_000;
const paths = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const limits = ['nofile=4096:4096', 'nproc=4096:4096'];

export interface TestEngine {
  readonly name: 'docker' | 'podman';
  readonly socket: string;
  readonly pid: number;
  /** `127.0.0.1:<port>` where it was started with TLS. */
  readonly host?: string;
  /** Makes a small image that holds nothing but a text. */
  importText(name: string, text: string): Promise<void>;
  /** Gives an image another name. */
  tag(image: string, as: string): Promise<void>;
  /** Sends an image to the registry that its name begins with. */
  push(image: string): Promise<void>;
  removeImage(name: string): Promise<void>;
  /** Of the engine's own API. */
  api(method: string, path: string, body?: object): Promise<{ readonly status: number; readonly body: unknown }>;
  stop(): Promise<void>;
}

const programOf = (name: string): string | null =>
  paths
    .split(':')
    .map((dir) => join(dir, name))
    .find((file) => existsSync(file)) ?? null;

/** Why tests of an engine cannot run here; null where they can. */
export function lacking(name: 'docker' | 'podman' | 'gvisor'): string | null {
  const engines = { docker: ['dockerd'], podman: ['podman'], gvisor: ['dockerd', 'runsc'] };
  const needed = [...engines[name], 'runc', 'busybox', 'docker-registry'];
  const missing = needed.filter((one) => programOf(one) === null);
  if (process.getuid?.() !== 0) return 'engines are started by root alone';
  return missing.length === 0 ? null : `${missing.join(', ')} not installed (make test-engines installs)`;
}

export interface TestEngineOptions {
  /** `host:port` of one on loopback, which needs no TLS. */
  readonly registry?: string;
  /** Of Docker: listens on loopback too, for clients with a certificate of this authority. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string };
}

/** Starts an engine with the test image in it. Its state is in a directory of its own, removed by `stop`. */
export async function startEngine(name: 'docker' | 'podman', options: TestEngineOptions = {}): Promise<TestEngine> {
  const dir = mkdtempSync(join(tmpdir(), `svc-${name}-`));
  const socket = join(dir, 'engine.sock');
  const host = options.tls === undefined ? undefined : `127.0.0.1:${30_000 + (process.pid % 2_000)}`;
  const [file, args, env] = name === 'docker' ? dockerd(dir, socket, options, host) : podman(dir, socket, options);
  const log = join(dir, 'log');
  const child = spawn('/bin/sh', ['-c', 'exec "$@" >"$0" 2>&1', log, file, ...args], {
    // One of them leaves files where it is.
    cwd: dir,
    env: { PATH: paths, HOME: dir, ...env },
    stdio: 'ignore',
  });
  const agent = new Agent({ connect: { socketPath: socket }, headersTimeout: 0, bodyTimeout: 0 });
  const api: TestEngine['api'] = async (method, path, body) => {
    const answer = await agent.request({
      origin: 'http://engine',
      path,
      method: method as 'GET',
      ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    const text = await answer.body.text();
    return { status: answer.statusCode, body: text.startsWith('{') || text.startsWith('[') ? parsed(text) : text };
  };
  const stop = async (): Promise<void> => {
    await removeAll(api).catch(() => undefined); // Ended all the same, with what it holds.
    await agent.destroy();
    if (child.exitCode === null) {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await Promise.race([ended, sleep(20_000)]);
      child.kill('SIGKILL');
    }
    await removeMounted(dir);
  };
  try {
    await answered(api, child, log);
    await load(agent);
  } catch (error) {
    await stop();
    throw error;
  }
  return { name, socket, pid: child.pid ?? 0, ...(host !== undefined && { host }), api, stop, ...imagesOf(agent, api) };
}

type Api = TestEngine['api'];

function imagesOf(agent: Agent, api: Api): Pick<TestEngine, 'importText' | 'tag' | 'push' | 'removeImage'> {
  const expect = async (method: string, path: string): Promise<void> => {
    const { status, body } = await api(method, `/v1.41${path}`);
    if (status >= 300) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`);
  };
  const tag = (image: string, as: string): Promise<void> => {
    const [, repo = '', text = ''] = /^(.*):([^:/]+)$/.exec(as) ?? [];
    return expect('POST', `/images/${image}/tag?${new URLSearchParams({ repo, tag: text })}`);
  };
  return {
    tag,
    async importText(name, text) {
      const folder = mkdtempSync(join(tmpdir(), 'svc-text-'));
      writeFileSync(join(folder, 'text'), text);
      const archive = execFileSync('tar', ['-C', folder, '-cf', '-', '.']);
      rmSync(folder, { recursive: true });
      // One of the engines takes no tag with an import.
      const whole = name.replace(/:[^:/]+$/, ':latest');
      await imported(agent, whole, archive);
      await tag(whole, name);
      await expect('DELETE', `/images/${whole}`);
    },
    async push(image) {
      const [, repo = '', text = ''] = /^(.*):([^:/]+)$/.exec(image) ?? [];
      const answer = await agent.request({
        origin: 'http://engine',
        path: `/v1.41/images/${repo}/push?tag=${text}&tlsVerify=false`,
        method: 'POST',
        headers: { 'x-registry-auth': Buffer.from('{}').toString('base64') },
      });
      const told = await answer.body.text();
      if (answer.statusCode !== 200 || /"error/.test(told))
        throw new Error(`${image} is not taken: ${told.slice(-500)}`);
    },
    removeImage: (name) => expect('DELETE', `/images/${name}?force=true`),
  };
}

type Start = readonly [string, readonly string[], Readonly<Record<string, string>>];

function dockerd(dir: string, socket: string, { tls }: TestEngineOptions, host: string | undefined): Start {
  const net = ['--iptables=false', '--ip6tables=false', '--bridge=none'];
  const files =
    tls === undefined
      ? []
      : ([
          ['cacert', tls.ca],
          ['cert', tls.cert],
          ['key', tls.key],
        ] as const);
  const secure = files.flatMap(([name, pem]) => {
    writeFileSync(join(dir, `${name}.pem`), pem, { mode: 0o600 });
    return [`--tls${name}`, join(dir, `${name}.pem`)];
  });
  const listens = tls === undefined ? [] : ['--tlsverify', ...secure, '-H', `tcp://${host}`];
  const where = ['--data-root', join(dir, 'root'), '--exec-root', join(dir, 'exec'), '--pidfile', join(dir, 'pid')];
  return [
    'dockerd',
    [
      ...[...net, ...where, ...limits.flatMap((limit) => ['--default-ulimit', limit])],
      ...['--add-runtime', `gvisor=${gvisor(dir)}`, '-H', `unix://${socket}`, ...listens],
    ],
    {},
  ];
}

/** Another kernel, in user space, under the engine. */
function gvisor(dir: string): string {
  const file = join(dir, 'runsc');
  writeFileSync(file, '#!/bin/sh\nexec runsc --network=none --platform=ptrace "$@"\n', {
    mode: 0o755,
  });
  return file;
}

function podman(dir: string, socket: string, { registry }: TestEngineOptions): Start {
  const quoted = limits.map((limit) => `"${limit}"`).join(', ');
  writeFileSync(
    join(dir, 'containers.conf'),
    `[containers]\ndefault_ulimits = [${quoted}]\n[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n`,
  );
  const storage = ['--root', join(dir, 'root'), '--runroot', join(dir, 'run'), '--tmpdir', join(dir, 'tmp')];
  const registries = join(dir, 'registries.conf');
  writeFileSync(registries, registry === undefined ? '' : `[[registry]]\nlocation = "${registry}"\ninsecure = true\n`);
  const env = { CONTAINERS_CONF: join(dir, 'containers.conf'), CONTAINERS_REGISTRIES_CONF: registries };
  return ['podman', [...storage, 'system', 'service', '--time=0', `unix://${socket}`], env];
}

async function answered(
  api: TestEngine['api'],
  child: { readonly exitCode: number | null },
  log: string,
): Promise<void> {
  for (let waitedMs = 0; waitedMs < startMs && child.exitCode === null; waitedMs += 100) {
    const version = await api('GET', '/version').catch(() => null);
    if (version?.status === 200) return;
    await sleep(100);
  }
  throw new Error(`the engine does not come up: ${readFileSync(log, 'utf8').slice(-2_000)}`);
}

/** Imports the image as an archive of its root. */
const load = (agent: Agent): Promise<void> => imported(agent, testImage, imageArchive());

async function imported(agent: Agent, name: string, archive: Buffer): Promise<void> {
  const [, repo = '', tag = ''] = /^(.*):([^:/]+)$/.exec(name) ?? [];
  const answer = await agent.request({
    origin: 'http://engine',
    path: `/images/create?${new URLSearchParams({ fromSrc: '-', repo, tag })}`,
    method: 'POST',
    headers: { 'content-type': 'application/x-tar' },
    body: archive,
  });
  const text = await answer.body.text();
  if (answer.statusCode !== 200 || /"error"/.test(text))
    throw new Error(`the image is not taken: ${text.slice(0, 500)}`);
}

let archive: Buffer | undefined;
function imageArchive(): Buffer {
  if (archive !== undefined) return archive;
  const root = mkdtempSync(join(tmpdir(), 'svc-image-'));
  for (const dir of ['bin', 'usr/bin', 'etc', 'tmp', 'proc', 'sys', 'dev', 'lib64', 'root'])
    mkdirSync(join(root, dir), { recursive: true });
  cpSync(programOf('busybox') as string, join(root, 'bin/busybox'));
  const applets = execFileSync(join(root, 'bin/busybox'), ['--list'], { encoding: 'utf8' }).trim().split('\n');
  for (const applet of applets) if (applet !== 'busybox') symlinkSync('busybox', join(root, 'bin', applet));
  cpSync(realpathSync(process.execPath), join(root, 'usr/bin/node'));
  for (const file of gitFiles()) {
    mkdirSync(join(root, dirname(file)), { recursive: true });
    cpSync(realpathSync(file), join(root, file));
  }
  for (const program of [process.execPath, ...gitFiles()]) {
    const linked = execFileSync('ldd', [program], { encoding: 'utf8' }).matchAll(/(\/\S+) \(0x/g);
    for (const [, file = ''] of linked) {
      mkdirSync(join(root, dirname(file)), { recursive: true });
      if (!existsSync(join(root, file))) cpSync(realpathSync(file), join(root, file));
    }
  }
  chmodSync(join(root, 'tmp'), 0o1777);
  writeFileSync(join(root, 'etc/os-release'), 'NAME=svc-test\nID=svc-test\n');
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n');
  archive = execFileSync('tar', ['-C', root, '--numeric-owner', '--owner=0', '--group=0', '-cf', '-', '.'], {
    maxBuffer: 1 << 29,
  });
  rmSync(root, { recursive: true });
  return archive;
}

/** What a clone, a fetch and a push over HTTP are made of. */
function gitFiles(): string[] {
  const core = execFileSync('git', ['--exec-path'], { encoding: 'utf8' }).trim();
  return [programOf('git') ?? '/usr/bin/git', join(core, 'git-remote-http'), join(core, 'git')];
}

async function removeAll(api: TestEngine['api']): Promise<void> {
  const { body } = await api('GET', '/v1.41/containers/json?all=true');
  for (const { Id } of body as { Id: string }[]) await api('DELETE', `/v1.41/containers/${Id}?force=true&v=true`);
}

/** What ends a box of an engine behind it mounts its storage once more: such a program is waited for. */
async function removeMounted(dir: string): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    unmountBelow(dir);
    try {
      return rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
    } catch (error) {
      if (tries === 40) throw error;
      await sleep(250);
    }
  }
}

/** What an engine that was killed has left mounted below its directory. */
function unmountBelow(dir: string): void {
  const mounted = readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '');
  for (const path of mounted.filter((one) => one.startsWith(`${dir}/`)).toReversed()) {
    try {
      execFileSync('umount', ['-l', path], { stdio: 'ignore' });
    } catch {
      // Gone with its container meanwhile.
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
