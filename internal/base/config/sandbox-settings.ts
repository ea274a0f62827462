// The `sandboxes` section of the SVC_CONFIG file (docs/reference/sessions.md#presets): the presets of environments
// as the operator's data, and what the network of all sessions reaches.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import { mapOf } from '../../../schemas/parse.ts';
import type { ResourceLimits } from '../../domain/catalog.ts';
import { entryShape, isEntry, entriesMax } from '../../domain/host-entry.ts';
import { isLoopback } from '../../domain/loopback.ts';
import { type SandboxProviderName, sandboxProviders } from '../../domain/sandbox.ts';
import { harnessNames, resourceNamePattern } from '../../domain/spec.ts';
import { hasPort } from './address.ts';
import type { ConfigFile } from './file.ts';
import { KubernetesSection, type KubernetesSettings, kubernetesSettings } from './kubernetes-settings.ts';
import { isHttpAddress, readSection } from './section.ts';
import { SetupCacheSection, type SetupCacheSettings, setupCacheSettings } from './setup-cache-settings.ts';

const Name = v.pipe(v.string(), v.regex(resourceNamePattern, '1 to 128 characters of A-Za-z0-9_.-'));
const Path = v.pipe(v.string(), v.minLength(1), v.maxLength(4096));
const Limits = v.strictObject({
  cpuCount: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  memoryMB: v.optional(v.pipe(v.number(), v.integer(), v.minValue(128))),
});
const Argv = v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.minLength(1));
const Preset = v.strictObject({
  /** Which provider its sessions run on; default the one of SVC_SANDBOX. */
  provider: v.optional(v.picklist(sandboxProviders)),
  /** Of a container engine; the providers of this machine do not use it. */
  image: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(512))),
  /** A directory that holds a root file system, for bubblewrap; one that `svc preset build` made needs no entry. */
  rootfs: v.optional(Path),
  /** The program of a harness inside it, in place of the machine's. */
  harnesses: v.optional(v.strictObject(v.entriesFromList(harnessNames, v.optional(Argv)))),
  /** Ceilings of what an environment may ask for. */
  limits: v.optional(Limits),
});
const Docker = v.pipe(
  v.strictObject({
    socket: v.optional(v.pipe(Path, v.check(isAbsolute, 'not an absolute path'))),
    host: v.optional(
      v.pipe(
        v.string(),
        v.regex(/^(\[[0-9a-f:]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, 'not host:port'),
        v.check(hasPort, 'not host:port'),
      ),
    ),
    /** Files with PEM. */
    tls: v.optional(v.strictObject({ ca: Path, cert: Path, key: Path })),
    runtime: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(255))),
    fence: v.optional(v.picklist(['preferred', 'required']), 'preferred'),
  }),
  v.check(({ socket, host }) => (socket === undefined) !== (host === undefined), 'it takes a socket or a host'),
  v.check(({ socket, tls }) => socket === undefined || tls === undefined, 'a socket takes no tls'),
  v.check(
    ({ host, tls }) => host === undefined || tls !== undefined || isLoopback(host.replace(/:\d+$/, '')),
    'a host that is not on loopback needs tls',
  ),
);
const Section = v.strictObject({
  presets: v.optional(mapOf(Name, Preset), {}),
  /** Where mounts without a connection are cloned from: `<base>/<owner>/<name>.git`; default the code host. */
  gitBaseUrl: v.optional(v.pipe(v.string(), v.maxLength(4096), v.check(isHttpAddress, 'not an http or https address'))),
  /**
   * Home and work of sessions that are not loaded, for another daemon: at most so many megabytes each, packed (0: none), and
   * so many days.
   */
  snapshots: v.optional(
    v.strictObject({
      maxMB: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(10_240)), 256),
      days: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(3_650)), 14),
    }),
    { maxMB: 256, days: 14 },
  ),
  /** A box whose daemon is silent for so many seconds ends itself, and its session is launched again. */
  lostSeconds: v.optional(v.pipe(v.number(), v.integer(), v.minValue(3), v.maxValue(60)), 60),
  /** Docker or Podman. */
  docker: v.optional(Docker),
  kubernetes: v.optional(KubernetesSection),
  /** Large repositories that were mounted: at most so many gigabytes of all (0: none), and so many days after the last use. */
  mirrors: v.optional(
    v.strictObject({
      maxGB: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(10_240)), 20),
      days: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(3_650)), 14),
    }),
    { maxGB: 20, days: 14 },
  ),
  /** Where daemons share what setup steps left; absent: each keeps its own. */
  setupCache: v.optional(SetupCacheSection),
  network: v.optional(
    v.strictObject({
      allow: v.pipe(v.array(v.pipe(v.string(), v.check(isEntry, `not ${entryShape}`))), v.maxLength(entriesMax)),
    }),
  ),
});

export interface PresetSettings {
  readonly provider?: SandboxProviderName;
  readonly image?: string;
  /** Absolute. */
  readonly rootfs?: string;
  readonly harnesses?: { readonly [harness: string]: readonly string[] };
  readonly limits?: ResourceLimits;
}
export type DockerSettings = v.InferOutput<typeof Docker>;
export interface SandboxesSettings {
  readonly docker?: DockerSettings;
  readonly kubernetes?: KubernetesSettings;
  readonly presets: { readonly [name: string]: PresetSettings };
  /** What every session's network reaches at most; absent: sessions are fenced where `sessions.fenced` says so. */
  readonly allow?: readonly string[];
  readonly gitBaseUrl?: string;
  readonly lostSeconds: number;
  readonly snapshots: { readonly maxMB: number; readonly days: number };
  readonly mirrors: { readonly maxGB: number; readonly days: number };
  readonly setupCache?: SetupCacheSettings;
}

/** Relative files count from `base`. */
function withFiles({ tls, ...docker }: DockerSettings, base: string): DockerSettings {
  if (tls === undefined) return docker;
  return { ...docker, tls: { ca: resolve(base, tls.ca), cert: resolve(base, tls.cert), key: resolve(base, tls.key) } };
}

/** A file is read once and never changes. */
const read = new WeakMap<ConfigFile, SandboxesSettings>();

/** Relative directories count from `base`, the directory of the file. Throws ConfigError naming the key that cannot be used. */
export function sandboxesSettings(file: ConfigFile, base: string): SandboxesSettings {
  const known = read.get(file);
  if (known !== undefined) return known;
  const section = readSection(Section, file.sandboxes, 'sandboxes');
  const { presets, network, gitBaseUrl, lostSeconds, snapshots, mirrors, docker, kubernetes, setupCache } = section;
  const placed = Object.entries(presets).map(([name, preset]) => {
    const { rootfs } = preset;
    return [name, rootfs === undefined || isAbsolute(rootfs) ? preset : { ...preset, rootfs: resolve(base, rootfs) }];
  });
  const settings = {
    presets: Object.fromEntries(placed) as SandboxesSettings['presets'],
    ...(network !== undefined && { allow: network.allow }),
    ...(gitBaseUrl !== undefined && { gitBaseUrl }),
    ...(docker !== undefined && { docker: withFiles(docker, base) }),
    ...(kubernetes !== undefined && {
      kubernetes: kubernetesSettings(kubernetes, base, (name) =>
        Object.hasOwn(presets, name) ? presets[name]?.image : undefined,
      ),
    }),
    lostSeconds,
    ...(setupCache !== undefined && { setupCache: setupCacheSettings(setupCache, base) }),
    snapshots,
    mirrors,
  };
  read.set(file, settings);
  return settings;
}

/** The providers that settings name, each with its setting: of the daemon, unless that is for it to choose, and of presets. */
export function namedProviders(
  sandbox: SandboxProviderName | 'auto',
  presets: SandboxesSettings['presets'],
): readonly (readonly [setting: string, provider: SandboxProviderName])[] {
  const named = Object.entries(presets).flatMap(([name, { provider }]) =>
    provider === undefined ? [] : [[`sandboxes.presets.${name}.provider`, provider] as const],
  );
  return sandbox === 'auto' ? named : [['SVC_SANDBOX', sandbox] as const, ...named];
}
