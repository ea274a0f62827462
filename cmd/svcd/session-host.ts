// What a daemon with role `session` runs its sessions through.

import { access, constants, readdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { resolveHarness } from '../../internal/adapters/harness/harness.ts';
import { openSandboxes, SetupCache } from '../../internal/adapters/sandbox/sandbox.ts';
import { errorCode } from '../../internal/adapters/store/store.ts';
import { type Config, ConfigError } from '../../internal/base/config/config.ts';
import { modelSettings } from '../../internal/base/config/model-settings.ts';
import { sandboxesSettings } from '../../internal/base/config/sandbox-settings.ts';
import { sessionSettings } from '../../internal/base/config/session-settings.ts';
import { createListings, type HostPorts } from '../../internal/flows/session-host/session-host.ts';
import { Fault } from '../../internal/domain/fault.ts';

const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const isProgram = (file: string): Promise<boolean> =>
  access(file, constants.X_OK).then(
    () => true,
    () => false,
  );

function placeSettings({ file, fileDir }: Config) {
  const { max, perProject, unloadAfterSeconds, turnSeconds, fenced } = sessionSettings(file);
  const [unloadAfterMs, turnMs] = [unloadAfterSeconds * 1_000, turnSeconds * 1_000];
  const { allow } = sandboxesSettings(file, fileDir);
  return { maxSessions: max, perProject, unloadAfterMs, turnMs, fenced, allow };
}

/**
 * The ports of a host of sessions. Sandboxes are tried when the first session needs one, so that a start does not wait
 * for it; one that is asked for by name is tried at once. Throws ConfigError for one that does not work here.
 */
export async function openHostPorts(
  config: Config,
  url: string,
): Promise<{ readonly ports: HostPorts; stop(): Promise<void> }> {
  const { PATH: path = DEFAULT_PATH, HOME, XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS } = process.env;
  const { keys } = modelSettings(config.file, config.fileDir);
  const keyFiles = Object.values(keys).flatMap((place) => (place.kind === 'file' ? [place.path] : []));
  const open = () =>
    openSandboxes({
      dataDir: config.dataDir,
      sandbox: config.sandbox,
      command: sessionSettings(config.file).command,
      host: { PATH: path, HOME, XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS },
      privateFiles: [config.masterKeyFile, ...keyFiles],
    });
  let opening: ReturnType<typeof open> | undefined;
  const sandboxes = () => (opening ??= open());
  if (config.sandbox !== 'auto') {
    await sandboxes().catch((error: unknown) => {
      if (error instanceof Fault) throw new ConfigError('SVC_SANDBOX', `cannot be used: ${error.message}`);
      throw error;
    });
  }
  let cache: Promise<SetupCache> | undefined;
  const { hostname, port } = new URL(url);
  const anywhere = hostname === '0.0.0.0' || hostname === '[::]';
  const commands = { 'harness-a': config.harnessACommand, 'harness-b': config.harnessBCommand };
  const ports: HostPorts = {
    sandboxes,
    setupCache: () => (cache ??= SetupCache.open(config.dataDir)),
    async hasLeftovers() {
      const found = await readdir(join(config.dataDir, 'sandboxes')).catch((error: unknown) => {
        if (errorCode(error) === 'ENOENT') return [];
        throw error;
      });
      return found.length > 0;
    },
    listings: createListings(),
    places: new Map(),
    inputs: new Map(),
    tools: () => ({ host: anywhere ? '127.0.0.1' : hostname, port: Number(port) }),
    async program(harness) {
      const found = await resolveHarness({
        harness,
        dataDir: config.dataDir,
        configured: commands[harness],
        nodePath: process.execPath,
      });
      if (!('argv' in found)) return { missing: found.message };
      const { argv, readOnlyPaths, state } = found;
      const [file = ''] = argv;
      // One without a path is looked up inside the sandbox, by its PATH.
      if (isAbsolute(file) && !(await isProgram(file))) {
        return { missing: `the command of ${harness}, ${file}, is no program that can be run here` };
      }
      return { argv, readOnlyPaths, installed: state === 'installed' };
    },
    path,
    ...placeSettings(config),
    startsAtOnce: Math.max(4, 2 * availableParallelism()),
  };
  return {
    ports,
    async stop() {
      // One that could not be opened has nothing to close.
      const opened = await opening?.catch(() => undefined);
      await opened?.provider.close();
    },
  };
}
