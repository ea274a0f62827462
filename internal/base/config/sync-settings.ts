// The `sync` section of the SVC_CONFIG file: how the reconciler keeps time.

import * as v from 'valibot';
import { ConfigError, type ConfigFile } from './file.ts';

const Section = v.strictObject({
  /** How often a repository is compared as a whole with what is stored, changed or not. */
  resyncSeconds: v.optional(v.pipe(v.number(), v.integer(), v.minValue(10), v.maxValue(86_400)), 600),
});
export type SyncSettings = v.InferOutput<typeof Section>;

/** Throws ConfigError naming the key that cannot be used. */
export function syncSettings(file: ConfigFile): SyncSettings {
  const parsed = v.safeParse(Section, file.sync ?? {});
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const path = v.getDotPath(issue);
  throw new ConfigError(path === null ? 'sync' : `sync.${path}`, `cannot be used: ${issue.message}`);
}
