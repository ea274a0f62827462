// The `sync` and `sources` sections of the SVC_CONFIG file: how the reconciler keeps time, and what it may read.

import { isAbsolute } from 'node:path';
import * as v from 'valibot';
import type { ConfigFile } from './file.ts';
import { readSection } from './section.ts';

const SyncSection = v.strictObject({
  /** How often a repository is compared as a whole with what is stored, changed or not. */
  resyncSeconds: v.optional(v.pipe(v.number(), v.integer(), v.minValue(10), v.maxValue(86_400)), 600),
});
export type SyncSettings = v.InferOutput<typeof SyncSection>;

const SourcesSection = v.strictObject({
  /** Roots below which folders may be watched; without it only who administers the first organization may add one. */
  folders: v.optional(v.array(v.pipe(v.string(), v.check(isAbsolute, 'Expected an absolute path'), v.maxLength(4096)))),
  /** One read of a source has so many seconds in all. */
  readSeconds: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(3_600)), 60),
});
export type SourceSettings = v.InferOutput<typeof SourcesSection> & {
  readonly folders?: readonly string[] | undefined;
};

/** Throws ConfigError naming the key that cannot be used. */
export function syncSettings(file: ConfigFile): SyncSettings {
  return readSection(SyncSection, file.sync, 'sync');
}

/** Throws ConfigError naming the key that cannot be used. */
export function sourceSettings(file: ConfigFile): SourceSettings {
  return readSection(SourcesSection, file.sources, 'sources');
}
