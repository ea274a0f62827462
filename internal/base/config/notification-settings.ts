// The `notifications` section of the SVC_CONFIG file: whom the installation tells of what happens in its projects.

import { resolve } from 'node:path';
import * as v from 'valibot';
import { hostFault } from '../net/net.ts';
import { ConfigError, type ConfigFile } from './file.ts';
import { readSection, secretInFile } from './section.ts';

const name = v.pipe(v.string(), v.regex(/^[A-Za-z0-9_.-]{1,128}$/, '1 to 128 characters of A-Za-z0-9_.-'));
const common = { name, conditions: v.optional(v.array(v.string())) };
const Section = v.strictObject({
  receivers: v.optional(
    v.array(
      v.variant('kind', [
        v.strictObject({
          ...common,
          kind: v.literal('chat'),
          /** `organization/project`, whose connection it is. */
          project: v.pipe(v.string(), v.regex(/^[a-z0-9-]{1,63}\/[a-z0-9-]{1,63}$/, 'organization/project')),
          connection: name,
          channel: v.pipe(v.string(), v.minLength(1), v.maxLength(200)),
        }),
        v.strictObject({ ...common, kind: v.literal('webhook'), url: v.string(), secretFile: v.optional(v.string()) }),
      ]),
    ),
    [],
  ),
});
export type InstallationReceiver = NonNullable<v.InferOutput<typeof Section>['receivers']>[number] & {
  /** Of a webhook: what it is signed with. */
  readonly key?: string;
};

/** Throws ConfigError naming the key that cannot be used; `known` are the conditions that there are. */
export function notificationSettings(
  config: { readonly file: ConfigFile; readonly fileDir: string; readonly allowPrivateNetwork: boolean },
  known: readonly string[],
): readonly InstallationReceiver[] {
  const { receivers } = readSection(Section, config.file.notifications, 'notifications');
  const seen = new Set<string>();
  return receivers.map((one, at) => {
    const key = `notifications.receivers.${at}`;
    if (seen.has(one.name)) throw new ConfigError(`${key}.name`, 'is taken by another receiver');
    seen.add(one.name);
    const strange = one.conditions?.find((condition) => !known.includes(condition));
    if (strange !== undefined) throw new ConfigError(`${key}.conditions`, `takes ${known.join(', ')}`);
    if (one.kind === 'chat') return one;
    const url = URL.parse(one.url);
    const isWeb = url !== null && ['http:', 'https:'].includes(url.protocol) && `${url.username}${url.password}` === '';
    const isPublic = isWeb && url.protocol === 'https:' && hostFault(url.hostname) === null;
    if (!isWeb || !(isPublic || config.allowPrivateNetwork)) {
      throw new ConfigError(`${key}.url`, 'is not a public https address (SVC_ALLOW_PRIVATE_NETWORK allows others)');
    }
    if (one.secretFile === undefined) return one;
    const secret = secretInFile(resolve(config.fileDir, one.secretFile));
    if (secret === undefined) throw new ConfigError(`${key}.secretFile`, 'cannot be read, or is empty');
    return { ...one, key: secret };
  });
}
