// The `providers.chat` and `providers.tracker` sections of the SVC_CONFIG file: where these providers answer.

import * as v from 'valibot';
import { Address, HostEntry } from './address.ts';
import type { ConfigFile } from './file.ts';
import { providerSection, readSection, requirePublic } from './section.ts';

const Sections = {
  chat: v.strictObject({
    apiUrl: v.optional(Address, 'https://slack.com/api'),
    fileHosts: v.optional(v.array(HostEntry), ['files.slack.com']),
  }),
  tracker: v.strictObject({ apiUrl: v.optional(Address, 'https://api.linear.app') }),
};
export interface ChatSettings {
  readonly chat: v.InferOutput<typeof Sections.chat>;
  readonly tracker: v.InferOutput<typeof Sections.tracker>;
}

/** Throws ConfigError naming the key that cannot be used. */
export function chatSettings(config: {
  readonly file: ConfigFile;
  readonly allowPrivateNetwork: boolean;
}): ChatSettings {
  const read = <K extends keyof typeof Sections>(name: K): v.InferOutput<(typeof Sections)[K]> => {
    const section = readSection(Sections[name], providerSection(config.file, name), `providers.${name}`);
    requirePublic(config, `providers.${name}.apiUrl`, section.apiUrl);
    return section;
  };
  return { chat: read('chat'), tracker: read('tracker') };
}
