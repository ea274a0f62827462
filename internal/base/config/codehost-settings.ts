// The `providers.codehost` section of the SVC_CONFIG file: where the code host answers, and what is downloaded from it.

import * as v from 'valibot';
import { Address, HostEntry } from './address.ts';
import type { ConfigFile } from './file.ts';
import { providerSection, readSection, requirePublic } from './section.ts';

const Section = v.strictObject({
  apiUrl: v.optional(Address, 'https://api.github.com'),
  webUrl: v.optional(Address, 'https://github.com'),
  /** The provider's own tool server, for reading what the service does not serve itself. */
  mcpUrl: v.optional(Address),
  attachmentHosts: v.optional(v.array(HostEntry), [
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
  const section = readSection(Section, providerSection(config.file, 'codehost'), 'providers.codehost');
  for (const key of ['apiUrl', 'webUrl', 'mcpUrl'] as const) {
    requirePublic(config, `providers.codehost.${key}`, section[key]);
  }
  return section;
}
