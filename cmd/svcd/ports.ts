// Makes the ports of a daemon from its configuration: sources, compiler, templates, sealed values, the network's rules
// and the budget of connections. Everything here is shared by all repositories of the process.

import { join } from 'node:path';
import { startCompiler } from '../../internal/adapters/compiler/compiler.ts';
import { mintInstallationToken } from '../../internal/adapters/providers/codehost/codehost.ts';
import { createSlugs } from '../../internal/adapters/providers/model/model.ts';
import { folderCache, resolveTemplates } from '../../internal/adapters/providers/templates/templates.ts';
import { createHostCache, openRepositoriesWith, probeRepository } from '../../internal/adapters/repo/repo.ts';
import type { NetworkSettings } from '../../internal/adapters/repo/types.ts';
import { openKeyRing } from '../../internal/adapters/crypto/crypto.ts';
import { type Config, makesMasterKey } from '../../internal/base/config/config.ts';
import { compileSettings } from '../../internal/base/config/compile-settings.ts';
import { modelSettings } from '../../internal/base/config/model-settings.ts';
import { sourceSettings, syncSettings } from '../../internal/base/config/sync-settings.ts';
import type { Runtime } from '../../internal/base/runtime.ts';
import { canonicalJson, type Json } from '../../internal/domain/json.ts';
import { createLimiter } from '../../internal/base/concurrency.ts';
import type { CatalogPorts, SealingPorts, SyncPorts, TokenPorts } from '../../internal/flows/ports.ts';
import { createCompiledAnswers } from '../../internal/flows/compiled.ts';
import { LargeReads } from '../../internal/flows/large-reads.ts';
import { sha256 } from '../../internal/base/hash.ts';

/** Reads of sources at a time: in all, and of one server. They wait more than they work. */
const reads = { total: 512, host: 4 } as const;
/** Applies at a time: each holds a connection to the database, and one of a project has its lock. */
const applies = { total: 4, project: 1 } as const;

/** The ports of flows that are made from the configuration, as the context has them. */
export interface Ports {
  readonly catalog: CatalogPorts;
  readonly sealing: SealingPorts;
  readonly installations: TokenPorts;
  readonly sync: SyncPorts;
}

/** Reads the key file and the rich sections of the configuration. Throws ConfigError naming what cannot be used. */
export async function startPorts(
  config: Config,
  runtime: Runtime,
): Promise<{ readonly ports: Ports; stop(): Promise<void> }> {
  const settings = compileSettings(config.file, config.fileDir, config.sandbox);
  const keyRing = await openKeyRing(config.masterKeyFile, { mayBeMissing: makesMasterKey(config) });
  const compiler = startCompiler();
  const { catalog } = settings;
  const text = canonicalJson(catalog as unknown as Json);
  return {
    ports: {
      catalog: { catalog, catalogHash: sha256(text) },
      sealing: { sealer: keyRing.sealer, keyRing, noted: new Map() },
      installations: {
        mintToken: (request) => mintInstallationToken({ ...request, allowPrivate: config.allowPrivateNetwork }),
        tokens: new Map(),
      },
      sync: syncPorts(config, runtime, settings, compiler),
    },
    stop: () => compiler.stop(),
  };
}

function syncPorts(
  config: Config,
  runtime: Runtime,
  { catalog, templateSources: sources }: ReturnType<typeof compileSettings>,
  compiler: ReturnType<typeof startCompiler>,
): SyncPorts {
  const { resyncSeconds } = syncSettings(config.file);
  const { readSeconds, folders } = sourceSettings(config.file);
  const { allowPrivateNetwork: allowPrivate } = config;
  const network: NetworkSettings = { allowPrivate, userAgent: 'svc', totalTimeoutMs: readSeconds * 1000 };
  const shared = { network, hostCache: createHostCache(), now: runtime.now };
  const cache = folderCache(join(config.dataDir, 'templates'));
  return {
    resyncSeconds,
    limited: createLimiter(reads.total, reads.host),
    largeReads: new LargeReads(),
    applying: createLimiter(applies.total, applies.project),
    readSeconds,
    folders,
    openSource: openRepositoriesWith(shared),
    probe: (url, options) => probeRepository(url, { ...shared, ...options }),
    compile: compiler.withCatalog(catalog),
    warmCompiler: compiler.warm,
    compiled: createCompiledAnswers(),
    listedSlugs: listedSlugs(config, runtime),
    resolveTemplates: (specifiers, { lock, secret }) =>
      resolveTemplates(specifiers, {
        sources,
        cache,
        network: { allowPrivate },
        token: secret,
        ...(lock !== undefined && { lock }),
      }),
  };
}

/** Where no key is set for the provider that takes any slug, no session reaches it, and it is not asked either. */
function listedSlugs(config: Config, { log }: Runtime): SyncPorts['listedSlugs'] {
  const { addresses, keys } = modelSettings(config.file, config.fileDir);
  const place = keys['provider-c'];
  const isUsed = place.kind !== 'env' || (config.secretEnv?.(place.name) ?? '') !== '';
  if (!isUsed) return undefined;
  const unread = (error: unknown): void => log.debug({ err: error }, 'model.list_unread');
  return createSlugs({ addresses, allowPrivate: config.allowPrivateNetwork, unread });
}
