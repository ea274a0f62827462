// The `sessions` section of the SVC_CONFIG file: how many sessions a host runs, and in what sandboxes.

import * as v from 'valibot';
import type { ConfigFile } from './file.ts';
import { readSection } from './section.ts';

const mebibyte = 1_048_576;

const Section = v.strictObject({
  /** Sessions that one daemon runs at a time; the others wait in `queued`. */
  max: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(10_000)), 200),
  /** Places that sessions of one project may hold in the whole installation; absent: any number. */
  perProject: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(10_000))),
  /** A session has rested so long before its place may be asked back; while nobody waits none is. */
  unloadAfterSeconds: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(86_400)), 60),
  /** A turn that takes longer is interrupted and ended; time in which a person is asked does not count. */
  turnSeconds: v.optional(v.pipe(v.number(), v.minValue(1), v.maxValue(604_800)), 3_600),
  /** What one session may spawn: how deep below the first, how many that live, how many within a minute. */
  spawn: v.optional(
    v.strictObject({
      depth: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000)), 8),
      live: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(100_000)), 100),
      perMinute: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(100_000)), 60),
    }),
    { depth: 8, live: 100, perMinute: 60 },
  ),
  /** Sandboxes have no network of their own where they can be without: model, tools and nothing else. */
  fenced: v.optional(v.boolean(), false),
  /** What one push out of a session's mount may send. */
  pushMaxBytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(64 * 1024 ** 3)), 256 * 1024 ** 2),
  /** Bytes of UTF-8 that a message to a session may have; what is rendered beyond it is cut (docs/reference/http-api.md#errors). */
  messageMaxBytes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(256), v.maxValue(mebibyte)), mebibyte),
  /** The operator's program of SVC_SANDBOX=command, and what ends what it may have left (adapters/sandbox). */
  command: v.optional(v.strictObject({ run: v.array(v.string()), remove: v.optional(v.array(v.string())) })),
});
export type SessionSettings = v.InferOutput<typeof Section>;

/** A file is read once and never changes. */
const read = new WeakMap<ConfigFile, SessionSettings>();

/** Throws ConfigError naming the key that cannot be used. */
export function sessionSettings(file: ConfigFile): SessionSettings {
  const known = read.get(file);
  if (known !== undefined) return known;
  const settings = readSection(Section, file.sessions, 'sessions');
  read.set(file, settings);
  return settings;
}
