// `sandboxes.setupCache` of the SVC_CONFIG file (docs/reference/configuration.md): where daemons share what setup steps
// left. A key of the store is never written into the file: it is named, as an environment variable or a file.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import { isHttpAddress } from './section.ts';

const EnvName = v.pipe(v.string(), v.regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'the name of an environment variable'));

const s3Schema = v.strictObject({
  /** `https://host[:port]`; buckets are named in the path. */
  endpoint: v.pipe(v.string(), v.maxLength(4096), v.check(isHttpAddress, 'not an http or https address')),
  bucket: v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'no name of a bucket')),
  region: v.optional(v.pipe(v.string(), v.regex(/^[A-Za-z0-9-]{1,64}$/)), 'us-east-1'),
  /** In front of the name of every object. */
  prefix: v.optional(
    v.pipe(v.string(), v.regex(/^[A-Za-z0-9._/-]{0,256}$/, 'at most 256 characters of A-Za-z0-9._/-')),
    '',
  ),
  accessKeyIdEnv: v.optional(EnvName, 'AWS_ACCESS_KEY_ID'),
  secretAccessKeyEnv: v.optional(EnvName, 'AWS_SECRET_ACCESS_KEY'),
  sessionTokenEnv: v.optional(EnvName, 'AWS_SESSION_TOKEN'),
  /** A file that holds the secret key, in place of the variable. */
  secretAccessKeyFile: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(4096))),
});

export const SetupCacheSection = v.pipe(
  v.strictObject({
    /** One that all daemons see. */
    directory: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(4096))),
    s3: v.optional(s3Schema),
    /** Of one archive. */
    maxEntryMB: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(4_096)), 2_048),
    /** Of all that is shared; the longest unused go first. */
    maxGB: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(102_400)), 50),
  }),
  v.check(({ directory, s3 }) => (directory === undefined) !== (s3 === undefined), 'it takes a directory or s3'),
);

export type SetupCacheSettings = v.InferOutput<typeof SetupCacheSection>;

/** Relative paths count from `base`. */
export function setupCacheSettings(section: SetupCacheSettings, base: string): SetupCacheSettings {
  const placed = (path: string): string => (isAbsolute(path) ? path : resolve(base, path));
  const { directory, s3, ...limits } = section;
  const file = s3?.secretAccessKeyFile;
  return {
    ...limits,
    ...(directory !== undefined && { directory: placed(directory) }),
    ...(s3 !== undefined && { s3: { ...s3, ...(file !== undefined && { secretAccessKeyFile: placed(file) }) } }),
  };
}
