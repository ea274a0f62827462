// Makes the ports of a daemon from its configuration: sources, compiler, templates, sealed values, the network's rules
// and the budget of connections. Everything here is shared by all repositories of the process.

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { startCompiler } from '../../adapters/compiler/compiler.ts';
import { mintInstallationToken } from '../../adapters/providers/codehost/codehost.ts';
import { folderCache, resolveTemplates } from '../../adapters/providers/templates/templates.ts';
import { createHostCache, openRepository, probeRepository } from '../../adapters/repo/repo.ts';
import type { NetworkSettings } from '../../adapters/repo/types.ts';
import { openKeyRing } from '../../adapters/crypto/crypto.ts';
import { type Config, makesMasterKey } from '../../base/config/config.ts';
import { compileSettings } from '../../base/config/compile-settings.ts';
import { sourceSettings, syncSettings } from '../../base/config/sync-settings.ts';
import type { Runtime } from '../../base/runtime.ts';
import { canonicalJson, type Json } from '../../domain/json.ts';
import { createLimiter } from '../limits.ts';
import type { SyncPorts } from '../ports.ts';
import { createCompiledAnswers } from '../compiled.ts';

/** Reads of sources at a time: in all, and of one server. They wait more than they work. */
const reads = { total: 512, host: 4 } as const;
/** Applies at a time: each holds a connection to the database, and one of a project has its lock. */
const applies = { total: 4, project: 1 } as const;

/** Reads the key file and the rich sections of the configuration. Throws ConfigError naming what cannot be used. */
export async function startSyncPorts(config: Config, runtime: Runtime): Promise<SyncPorts> {
  const { catalog, templateSources: sources } = compileSettings(config.file, config.fileDir);
  const { resyncSeconds } = syncSettings(config.file);
  const { readSeconds, folders } = sourceSettings(config.file);
  const keyRing = await openKeyRing(config.masterKeyFile, { mayBeMissing: makesMasterKey(config) });
  const network: NetworkSettings = {
    allowPrivate: config.allowPrivateNetwork,
    userAgent: 'svc',
    totalTimeoutMs: readSeconds * 1000,
  };
  const hostCache = createHostCache();
  const cache = folderCache(join(config.dataDir, 'templates'));
  const compiler = startCompiler();
  const shared = { network, hostCache, now: runtime.now };
  return {
    catalog,
    catalogHash: createHash('sha256')
      .update(canonicalJson(catalog as unknown as Json))
      .digest('hex'),
    resyncSeconds,
    sealer: keyRing.sealer,
    keyRing,
    noted: new Map(),
    network,
    hostCache,
    tokens: new Map(),
    limited: createLimiter(reads.total, reads.host),
    applying: createLimiter(applies.total, applies.project),
    readSeconds,
    folders,
    openSource: (target, options) => openRepository(target, { ...shared, ...options }),
    probe: (url, credentials) => probeRepository(url, { ...shared, ...(credentials && { credentials }) }),
    compile: (input) => compiler.compile({ ...input, catalog }),
    warmCompiler: compiler.warm,
    compiled: createCompiledAnswers(),
    resolveTemplates: (specifiers, { lock, secret }) =>
      resolveTemplates(specifiers, {
        sources,
        cache,
        network: { allowPrivate: config.allowPrivateNetwork },
        token: secret,
        ...(lock !== undefined && { lock }),
      }),
    mintToken: (request) => mintInstallationToken({ ...request, allowPrivate: config.allowPrivateNetwork }),
    stop: () => compiler.stop(),
  };
}
