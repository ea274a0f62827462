// The `retention` section of the SVC_CONFIG file: how long what has happened is kept.

import * as v from 'valibot';
import type { ConfigFile } from './file.ts';
import { readSection } from './section.ts';

const days = (most: number) => v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(most));
const Section = v.strictObject({
  /** Events that are routed; at most a week longer, since their bodies go by the week. */
  eventsDays: v.optional(days(36_500), 30),
  /** Sessions with their transcripts, and checks, after their end. */
  sessionsDays: v.optional(days(36_500), 90),
  /** Runs of repositories, and revisions of agents; the latest of each stay. */
  reconcilesDays: v.optional(days(36_500), 90),
  /** Calls of models in the ledger, and its sums by day. This month and the one before stay: caps are of a month. */
  usageDays: v.optional(v.pipe(v.number(), v.integer(), v.minValue(62), v.maxValue(36_500)), 400),
});
type RetentionSettings = v.InferOutput<typeof Section>;

/** Throws ConfigError naming the key that cannot be used. */
export function retentionSettings(file: ConfigFile): RetentionSettings {
  return readSection(Section, file.retention, 'retention');
}
