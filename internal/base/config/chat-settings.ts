// The `providers.chat` and `providers.tracker` sections of the SVC_CONFIG file: where these providers answer.

import * as v from 'valibot';
import { hostFault } from '../net/net.ts';
import { Address } from './address.ts';
import { ConfigError, type ConfigFile } from './file.ts';

const Sections = {
  chat: v.strictObject({
    apiUrl: v.optional(Address, 'https://slack.com/api'),
    /** host, or host:port */
    fileHosts: v.optional(v.array(v.pipe(v.string(), v.regex(/^[a-z0-9.-]+(:\d{1,5})?$/, 'host or host:port'))), [
      'files.slack.com',
    ]),
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
  const { providers } = config.file;
  const isMap = typeof providers === 'object' && providers !== null && !Array.isArray(providers);
  const sections = (isMap ? providers : {}) as { readonly [key: string]: unknown };
  const read = <K extends keyof typeof Sections>(name: K): v.InferOutput<(typeof Sections)[K]> => {
    const parsed = v.safeParse(Sections[name], sections[name] ?? {});
    if (!parsed.success) {
      const [issue] = parsed.issues;
      const path = v.getDotPath(issue);
      const key = path === null ? `providers.${name}` : `providers.${name}.${path}`;
      throw new ConfigError(key, `cannot be used: ${issue.message}`);
    }
    const url = new URL(parsed.output.apiUrl);
    const isPublic = url.protocol === 'https:' && hostFault(url.hostname) === null;
    if (!isPublic && !config.allowPrivateNetwork) {
      const why = 'is not a public https address (SVC_ALLOW_PRIVATE_NETWORK allows it)';
      throw new ConfigError(`providers.${name}.apiUrl`, why);
    }
    return parsed.output as v.InferOutput<(typeof Sections)[K]>;
  };
  return { chat: read('chat'), tracker: read('tracker') };
}
