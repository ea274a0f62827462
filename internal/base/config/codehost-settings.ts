// The `providers.codehost` section of the SVC_CONFIG file: where the code host answers, and what is downloaded from it.

import * as v from 'valibot';
import { hostFault } from '../net/net.ts';
import { Address } from './address.ts';
import { ConfigError, type ConfigFile } from './file.ts';

const Section = v.strictObject({
  apiUrl: v.optional(Address, 'https://api.github.com'),
  webUrl: v.optional(Address, 'https://github.com'),
  /** The provider's own tool server, for reading what the service does not serve itself. */
  mcpUrl: v.optional(Address),
  /** host, or host:port */
  attachmentHosts: v.optional(v.array(v.pipe(v.string(), v.regex(/^[a-z0-9.-]+(:\d{1,5})?$/, 'host or host:port'))), [
    'github.com',
    'private-user-images.githubusercontent.com',
    'user-images.githubusercontent.com',
  ]),
  /** Writes to one installation go out so far apart; 0: at once. */
  writeSpacingMs: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(60_000)), 1_000),
});
export type CodehostSettings = v.InferOutput<typeof Section>;

/** Throws ConfigError naming the key that cannot be used. */
export function codehostSettings(config: {
  readonly file: ConfigFile;
  readonly allowPrivateNetwork: boolean;
}): CodehostSettings {
  const { providers } = config.file;
  const isMap = typeof providers === 'object' && providers !== null && !Array.isArray(providers);
  const section = isMap ? (providers as { readonly [key: string]: unknown })['codehost'] : undefined;
  const parsed = v.safeParse(Section, section ?? {});
  if (!parsed.success) {
    const [issue] = parsed.issues;
    const path = v.getDotPath(issue);
    const name = path === null ? 'providers.codehost' : `providers.codehost.${path}`;
    throw new ConfigError(name, `cannot be used: ${issue.message}`);
  }
  for (const key of ['apiUrl', 'webUrl', 'mcpUrl'] as const) {
    const text = parsed.output[key];
    if (text === undefined || config.allowPrivateNetwork) continue;
    const url = new URL(text);
    if (url.protocol === 'https:' && hostFault(url.hostname) === null) continue;
    throw new ConfigError(
      `providers.codehost.${key}`,
      'is not a public https address (SVC_ALLOW_PRIVATE_NETWORK allows it)',
    );
  }
  return parsed.output;
}
