// What setup steps left, kept by this daemon and, where the configuration says so, shared with the others.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DirectoryStore, type ObjectStore, S3Store, SharedArchives } from '../../internal/adapters/objects/objects.ts';
import { SetupCache } from '../../internal/adapters/sandbox/sandbox.ts';
import { errorCode } from '../../internal/adapters/store/store.ts';
import { type Config, ConfigError } from '../../internal/base/config/config.ts';
import { sandboxesSettings, type SandboxesSettings } from '../../internal/base/config/sandbox-settings.ts';
import type { Runtime } from '../../internal/base/runtime.ts';
import type { HostPorts } from '../../internal/flows/session-host/session-host.ts';
import { makeDirectory } from '../../internal/base/files.ts';

type Settings = NonNullable<SandboxesSettings['setupCache']>;
type Sealing = Parameters<HostPorts['setupCache']>[0];

export interface SetupCaches {
  /** Opened by who asks first. */
  open(sealing: Sealing): Promise<SetupCache>;
  /** Waits for what is on its way to the store. */
  close(): Promise<void>;
}

function keyFromFile(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw new ConfigError(
      'sandboxes.setupCache.s3.secretAccessKeyFile',
      `cannot be used: ${file} cannot be read (${errorCode(error)})`,
    );
  }
}

/** Throws ConfigError for keys that are not there. */
function storeOf({ directory, s3 }: Settings, { secretEnv }: Config): ObjectStore | undefined {
  if (directory !== undefined) return new DirectoryStore(directory, Date.now);
  if (s3 === undefined) return undefined;
  const { accessKeyIdEnv, secretAccessKeyEnv, sessionTokenEnv, secretAccessKeyFile, ...where } = s3;
  const named = (key: string, name: string): string => {
    const value = secretEnv?.(name);
    if (value !== undefined && value !== '') return value;
    throw new ConfigError(`sandboxes.setupCache.s3.${key}`, `cannot be used: ${name} is not set`);
  };
  const keys = {
    accessKeyId: named('accessKeyIdEnv', accessKeyIdEnv),
    secretAccessKey:
      secretAccessKeyFile === undefined
        ? named('secretAccessKeyEnv', secretAccessKeyEnv)
        : keyFromFile(secretAccessKeyFile),
    sessionToken: secretEnv?.(sessionTokenEnv) || undefined,
  };
  return new S3Store({ ...where, keys, now: Date.now });
}

/** Throws ConfigError. */
export function openSetupCaches(config: Config, log: Runtime['log']): SetupCaches {
  const { setupCache } = sandboxesSettings(config.file, config.fileDir);
  const store = setupCache === undefined ? undefined : storeOf(setupCache, config);
  let opened: Promise<SetupCache> | undefined;
  let shared: SharedArchives | undefined;
  const share = async ({ sealer }: Sealing, { maxGB }: Settings, of: ObjectStore): Promise<SharedArchives> => {
    const directory = join(config.dataDir, 'setup-cache');
    await makeDirectory(directory);
    // One for all daemons: whose an archive is stands in its name, which is a digest of project and environment too.
    const bindingOf = (name: string) => ({ orgId: 'installation', name, use: 'setup-archive' }) as const;
    return new SharedArchives({
      store: of,
      sealer: {
        seal: (key, name) => sealer.seal(key, bindingOf(name)),
        open: (sealed, name) => sealer.open(sealed, bindingOf(name)),
      },
      directory,
      maxTotalBytes: maxGB * 1024 ** 3,
      now: Date.now,
      onTrouble: (error) => log.warn({ err: error, store: of.where }, 'setup_cache.not_shared'),
    });
  };
  const open = async (sealing: Sealing): Promise<SetupCache> => {
    if (setupCache !== undefined && store !== undefined) shared = await share(sealing, setupCache, store);
    const maxEntryBytes = (setupCache?.maxEntryMB ?? 2_048) * 1024 ** 2;
    return SetupCache.open(config.dataDir, { maxEntryBytes, shared });
  };
  return {
    open: (sealing) => (opened ??= open(sealing)),
    async close() {
      await opened?.catch(() => undefined); // Whoever asked for it has heard.
      await (shared ?? store)?.close();
    },
  };
}
