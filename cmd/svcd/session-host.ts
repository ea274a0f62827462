// What a daemon with role `session` runs its sessions through.

import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { access, constants, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { resolveHarness } from '../../internal/adapters/harness/harness.ts';
import { DockerEngine, EngineError } from '../../internal/adapters/engine/engine.ts';
import { PresetStore } from '../../internal/adapters/presets/presets.ts';
import { type EngineChoice, Mirrors, openSandboxes } from '../../internal/adapters/sandbox/sandbox.ts';
import { errorCode } from '../../internal/adapters/store/store.ts';
import { type Config, ConfigError } from '../../internal/base/config/config.ts';
import { modelSettings } from '../../internal/base/config/model-settings.ts';
import {
  namedProviders,
  type SandboxesSettings,
  sandboxesSettings,
} from '../../internal/base/config/sandbox-settings.ts';
import { sessionSettings } from '../../internal/base/config/session-settings.ts';
import { pathInRoot } from '../../internal/base/root-path.ts';
import type { Runtime } from '../../internal/base/runtime.ts';
import { within } from '../../internal/base/waits.ts';
import {
  createListings,
  type HarnessProgram,
  type HostPorts,
  type Preset,
} from '../../internal/flows/session-host/session-host.ts';
import { Fault } from '../../internal/domain/fault.ts';
import type { Harness } from '../../internal/domain/spec.ts';
import { isUuid } from '../../internal/domain/uuid.ts';
import { addressOf, clusterOf, doorOf, isAnywhere } from './cluster.ts';
import { openSetupCaches } from './setup-cache.ts';

const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const isProgram = (file: string): Promise<boolean> =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  );

async function placeSettings({ file, fileDir, dataDir }: Config) {
  const { max, perProject, unloadAfterSeconds, turnSeconds, fenced } = sessionSettings(file);
  const [unloadAfterMs, turnMs] = [unloadAfterSeconds * 1_000, turnSeconds * 1_000];
  const { allow } = sandboxesSettings(file, fileDir);
  return { home: await homeOf(dataDir), maxSessions: max, perProject, unloadAfterMs, turnMs, fenced, allow };
}

/** Throws ConfigError for a file of certificates that cannot be read. */
function dockerOf(config: Config): EngineChoice | undefined {
  const { docker, lostSeconds } = sandboxesSettings(config.file, config.fileDir);
  if (docker === undefined) return undefined;
  const { socket, host, tls, runtime, fence } = docker;
  const engine = new DockerEngine({
    ...(socket !== undefined && { socket }),
    ...(host !== undefined && { host }),
    ...(tls !== undefined && { tls: { ca: pem('ca', tls.ca), cert: pem('cert', tls.cert), key: pem('key', tls.key) } }),
    ...(runtime !== undefined && { runtime }),
  });
  return { engine, setting: 'sandboxes.docker', fence, isLocal: socket !== undefined, lostSeconds };
}

function pem(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new ConfigError(
      `sandboxes.docker.tls.${name}`,
      `cannot be used: ${file} cannot be read (${errorCode(error)})`,
    );
  }
}

type Presets = SandboxesSettings['presets'];

/** How long a start waits for an engine, and a stop: whoever is in no need of it does not. */
const engineMs = 2_000;

/** Two containers may have one path for two directories: each is known by an id of its own, which lies in it. */
async function homeOf(dataDir: string): Promise<string> {
  const file = join(dataDir, 'sandbox-home');
  const known = await readFile(file, 'utf8').catch((error: unknown) => {
    if (errorCode(error) !== 'ENOENT') throw error;
    return '';
  });
  const id = isUuid(known) ? known : randomUUID();
  // Renamed into place: nobody ever reads half of it.
  if (id !== known) {
    await writeFile(`${file}.new`, id, { mode: 0o600 });
    await rename(`${file}.new`, file);
  }
  return `${id} ${dataDir}`;
}

/** Throws ConfigError for a provider that a setting names and that does not work here, but for an engine that is away. */
async function tryNamed(
  config: Config,
  presets: Presets,
  sandboxes: (name?: Config['sandbox']) => Promise<unknown>,
  log: Runtime['log'],
): Promise<void> {
  const tries = namedProviders(config.sandbox, presets).map(async ([key, provider]) => {
    const away = (reason: string): void => log.warn({ setting: key, reason }, 'sandboxes.engine_awaited');
    const tried = sandboxes(provider).then(
      () => undefined,
      (error: unknown) => {
        if (error instanceof Fault) throw new ConfigError(key, `cannot be used: ${error.message}`);
        // Sessions wait for an engine that does not answer yet, and say so.
        if (error instanceof EngineError) return away(`${error.code}: ${error.message}`);
        throw error;
      },
    );
    if ((await within(tried, engineMs)) !== undefined) return;
    away(`no answer within ${engineMs} ms`);
    // Sessions that want it fail by what it says, and a person is to hear of it here too.
    tried.catch((error: unknown) => log.error({ setting: key, err: error }, 'sandboxes.engine_unusable'));
  });
  await Promise.all(tries);
}

/** What the configuration says of a preset, and what `svc preset build` made of its name. */
function presetsOf(config: Config): HostPorts['preset'] {
  const { presets } = sandboxesSettings(config.file, config.fileDir);
  const store = new PresetStore(config.dataDir);
  return async (name) => {
    const said = Object.hasOwn(presets, name) ? presets[name] : undefined;
    const { provider, image, rootfs, harnesses = {} } = said ?? {};
    const built = rootfs === undefined ? await store.find(name) : undefined;
    const found = rootfs === undefined ? undefined : await store.directory(rootfs);
    return {
      name,
      provider,
      image,
      harnesses,
      rootfs: built === undefined ? found : { path: built.rootfs, digest: built.digest },
    };
  };
}

/** A word of a command as it is where the program runs. */
const isInside = async (preset: Preset | undefined, word: string): Promise<boolean> =>
  preset?.rootfs !== undefined && isAbsolute(word) && (await pathInRoot(preset.rootfs.path, word)) !== null;

async function programOf(
  config: Config,
  presets: Presets,
  harness: Harness,
  preset: Preset | undefined,
): Promise<HarnessProgram> {
  const own = preset?.harnesses[harness];
  // It lies in the image, where only the engine can look.
  const isEngine = preset !== undefined && ['docker', 'kubernetes'].includes(preset.provider ?? config.sandbox);
  if (isEngine && own !== undefined) return { argv: own, readOnlyPaths: [], installed: false };
  const configured = own ?? { 'harness-a': config.harnessACommand, 'harness-b': config.harnessBCommand }[harness];
  // What lies in the root file system is there already.
  const inside = own === undefined ? [] : await Promise.all(own.map((word) => isInside(preset, word)));
  const found = await resolveHarness({
    harness,
    dataDir: config.dataDir,
    configured,
    nodePath: process.execPath,
    inside: (index) => inside[index] === true,
  });
  if (!('argv' in found)) {
    const [some] = preset === undefined ? Object.values(presets).flatMap((one) => one.harnesses?.[harness] ?? []) : [];
    // Whether a session's own preset has it is seen when it is launched.
    if (some !== undefined) return { argv: [some], readOnlyPaths: [], installed: false };
    return { missing: found.message };
  }
  const { argv, readOnlyPaths, state } = found;
  const [file = ''] = argv;
  // One without a path is looked up inside the sandbox, by its PATH.
  if (isAbsolute(file) && inside[0] !== true && !(await isProgram(file))) {
    return { missing: `the command of ${harness}, ${file}, is no program that can be run here` };
  }
  return { argv, readOnlyPaths, installed: state === 'installed' };
}

/** Null where the operator wants none. */
async function openMirrors({ file, fileDir, dataDir }: Config, log: Runtime['log']): Promise<Mirrors | null> {
  const { maxGB, days } = sandboxesSettings(file, fileDir).mirrors;
  if (maxGB === 0) return null;
  return Mirrors.open(dataDir, {
    maxBytes: maxGB * 1024 ** 3,
    keepMs: days * 86_400_000,
    now: Date.now,
    onTrouble: (error) => log.warn({ err: error }, 'mounts.no_spare'),
  });
}

/** An engine keeps boxes and volumes also of a data directory that is gone, as that of a pod is with it. */
async function hasLeftovers(config: Config, providers: HostPorts['providers']): Promise<boolean> {
  if ([config.sandbox, ...providers].some((name) => name === 'docker' || name === 'kubernetes')) return true;
  const found = await readdir(join(config.dataDir, 'sandboxes')).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  });
  return found.length > 0;
}

/** Each provider is opened when it is first asked for, and again where its engine did not answer. */
function openedOnce(inUse: Config['sandbox'], open: (name: Config['sandbox']) => ReturnType<typeof openSandboxes>) {
  const opening = new Map<string, ReturnType<typeof open>>();
  const sandboxes = (name: Config['sandbox'] = inUse) => {
    const found = opening.get(name) ?? open(name);
    opening.set(name, found);
    found.catch((error: unknown) => {
      if (error instanceof EngineError && opening.get(name) === found) opening.delete(name);
    });
    return found;
  };
  return { opening, sandboxes };
}

/**
 * The ports of a host of sessions. Sandboxes are tried when the first session needs one, so that a start does not wait
 * for it; one that is asked for by name is tried at once. `installation` reads the id of the database. Throws ConfigError for one that does not work here.
 */
export async function openHostPorts(
  config: Config,
  url: string,
  log: Runtime['log'],
  installation: () => Promise<string>,
): Promise<{ readonly ports: HostPorts; stop(): Promise<void> }> {
  const { PATH: path = defaultPath, HOME, XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS } = process.env;
  const { keys } = modelSettings(config.file, config.fileDir);
  const door = await doorOf(config);
  const keyFiles = Object.values(keys).flatMap((place) => (place.kind === 'file' ? [place.path] : []));
  const open = (sandbox: Config['sandbox']) =>
    openSandboxes({
      dataDir: config.dataDir,
      installation,
      sandbox,
      engineOf: (name) => (name === 'kubernetes' ? clusterOf(config, door, url) : dockerOf(config)),
      command: sessionSettings(config.file).command,
      host: { PATH: path, HOME, XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS },
      privateFiles: [config.masterKeyFile, ...keyFiles],
    });
  const { opening, sandboxes } = openedOnce(config.sandbox, open);
  const { presets } = sandboxesSettings(config.file, config.fileDir);
  const providers = [...new Set(Object.values(presets).flatMap(({ provider }) => provider ?? []))];
  await tryNamed(config, presets, sandboxes, log);
  const caches = openSetupCaches(config, log);
  let mirrors: Promise<Mirrors | null> | undefined;
  const { hostname, port } = new URL(url);
  const ports: HostPorts = {
    address: addressOf(new URL(url)),
    sandboxes,
    setupCache: caches.open,
    mirrors: () => (mirrors ??= openMirrors(config, log)),
    hasLeftovers: () => hasLeftovers(config, providers),
    listings: createListings(),
    places: new Map(),
    inputs: new Map(),
    tools: () => ({ host: isAnywhere(hostname) ? '127.0.0.1' : hostname, port: Number(port) }),
    providers,
    preset: presetsOf(config),
    program: (harness, preset) => programOf(config, presets, harness, preset),
    path,
    ...(await placeSettings(config)),
    startsAtOnce: Math.max(4, 2 * availableParallelism()),
  };
  return {
    ports,
    async stop() {
      await caches.close();
      const kept = await mirrors?.catch(() => null);
      await kept?.close();
      for (const one of opening.values()) {
        // One that could not be opened has nothing to close, nor has one whose engine has not answered yet.
        const opened = await within(one, engineMs).catch(() => undefined);
        await opened?.value.provider.close();
      }
      await door?.close();
    },
  };
}
