// Where a session's programs run: bubblewrap (namespaces, fenced from the network where asked), process (no isolation, said
// plainly) or command (an operator's program). It decides how a program is started so that no secret shows in an argument
// list or lies in a file, which files of the host it sees, and that nothing of a sandbox outlives it. It clones mounts
// outside, so that no token enters, and runs setup steps with their cache inside. It never decides who may run what, reads no
// secret by itself, and writes no table. Implements docs/reference/sessions.md#sandboxes and #environment,
// docs/reference/compile.md#environments and #mounts, and what docs/reference/configuration.md#settings says of sandboxes.

import { Fault } from '../../domain/fault.ts';
import { bubblewrapKind, findProgram, probeBubblewrap } from './bubblewrap.ts';
import { probeGroups } from './cgroups.ts';
import { commandKind, type SandboxCommand } from './command.ts';
import { Layout } from './layout.ts';
import { type Kind, LocalProvider } from './local.ts';
import { type HostEnvironment, processKind } from './process.ts';
import { type ManagerEnvironment, probeLimiter } from './resources.ts';
import { EngineError, type EngineFacts } from '../engine/engine.ts';
import type { Engine } from '../engine/types.ts';
import { EngineProvider } from './engine-provider.ts';
import type { SandboxCapabilities, SandboxName, SandboxProvider } from './types.ts';
import { type Place, textOf, type WireDoor } from './wire-door.ts';

export { findProgram } from './bubblewrap.ts';
export type { SandboxCommand } from './command.ts';
export { type MountResult, mountRepository } from './mounts.ts';
export type { MountOptions, MountRequest } from './mount-types.ts';
export { buildImage, type ImageRequest, runSetup, SetupFailed, type SetupRequest, type StepReport } from './setup.ts';
export { packPart, restoreParts, type SnapshotPart, snapshotParts } from './snapshot.ts';
export { cannotStart } from './child.ts';
export { isSystemPath } from './layout.ts';
export { Mirrors } from './mirrors.ts';
export { SetupCache } from './setup-cache.ts';
export { WireDoor } from './wire-door.ts';
export type {
  Channel,
  Exit,
  HeldSandbox,
  NotEnforced,
  RootFileSystem,
  RunOptions,
  RunResult,
  Sandbox,
  SandboxCapabilities,
  SandboxChanges,
  SandboxName,
  SandboxProcess,
  SandboxProvider,
  SandboxSpec,
  SandboxStage,
  SandboxWatch,
  SpawnOptions,
} from './types.ts';

/** An engine as the configuration has it. */
export interface EngineChoice {
  readonly engine: Engine;
  /** The key that named it, for messages: `sandboxes.docker`. */
  readonly setting: string;
  readonly fence: 'preferred' | 'required';
  /** Whether it sees this machine's files. */
  readonly isLocal: boolean;
  /** After so much silence a box ends itself, and its wire is given up. Default 60. */
  readonly lostSeconds?: number;
  /** Where boxes come to (`wire: dial`); absent: the wire is a stream into them. */
  readonly door?: WireDoor;
  /** Addresses of this daemon that no box may reach. */
  readonly around?: readonly Place[];
}

export interface SandboxSettings {
  readonly dataDir: string;
  /** Reads the id of the daemon's database, which labels on an engine are made of; absent: there is none. */
  readonly installation?: () => Promise<string>;
  /** Of SVC_SANDBOX=docker and the like; undefined: none is configured. */
  readonly engineOf?: (name: SandboxName) => EngineChoice | undefined;
  /** SVC_SANDBOX. */
  readonly sandbox: 'auto' | SandboxName;
  /** `sessions.command` of the configuration file, for `command`. */
  readonly command?: SandboxCommand | undefined;
  /** Of the daemon's own environment: PATH, HOME, and how the user's service manager is reached. */
  readonly host: HostEnvironment & ManagerEnvironment;
  /** Files of the daemon that no sandbox may show, beside its data directory: keys. */
  readonly privateFiles?: readonly string[];
}

/** What is in use, and why. */
export interface SandboxFacts {
  readonly inUse: SandboxName;
  readonly why: string;
  readonly capabilities: SandboxCapabilities;
  /** Why `resources` are or are not enforced. */
  readonly resources: string;
  /** Of the program that isolates, where there is one. */
  readonly version: string | undefined;
  /** Of an engine. */
  readonly engine?: EngineFacts;
}

/**
 * The provider of SVC_SANDBOX, tried and ready. Throws Fault `unprocessable` where one was asked for by name and does
 * not work here; its message says why not. Throws EngineError for an engine that may answer later.
 */
export async function openSandboxes(
  settings: SandboxSettings,
): Promise<{ readonly provider: SandboxProvider; readonly facts: SandboxFacts }> {
  const layout = await Layout.open(settings.dataDir);
  if (settings.sandbox === 'docker' || settings.sandbox === 'kubernetes')
    return openEngine(settings, layout, settings.sandbox);
  const chosen = await choose(settings, layout);
  const provider = new LocalProvider(layout, chosen.kind);
  const { name: inUse, capabilities } = provider;
  const { why, resources, version } = chosen;
  return { provider, facts: { inUse, why, capabilities, resources, version } };
}

async function openEngine(
  settings: SandboxSettings,
  layout: Layout,
  name: SandboxName,
): Promise<{ readonly provider: SandboxProvider; readonly facts: SandboxFacts }> {
  const chosen = settings.engineOf?.(name);
  if (chosen === undefined) throw new Fault('unprocessable', 'sandbox-unusable', `it needs sandboxes.${name}`);
  const { engine, setting, ...more } = chosen;
  let facts: EngineFacts;
  try {
    facts = await engine.probe();
  } catch (error) {
    await engine.close();
    if (!(error instanceof EngineError)) throw error;
    // It may be there later, and what it is asked for waits until then.
    if (error.isWaiting) throw error;
    throw new Fault('unprocessable', 'sandbox-unusable', `${setting}: ${error.code}: ${error.message}`, {
      cause: error,
    });
  }
  const privateFiles = settings.privateFiles ?? [];
  const installation = await settings.installation?.();
  const labels = installation !== undefined && { installation };
  const provider = new EngineProvider({ engine, facts, layout, privateFiles, ...labels, ...more });
  const { memory, cpu } = facts.limits;
  const unlimited = [memory, cpu].filter((why) => why !== null).join(' and ');
  const resources = unlimited === '' ? `enforced by ${facts.version}` : `not enforced: ${unlimited}`;
  const runtime = facts.runtime === null ? '' : ` with ${facts.runtime}`;
  const dialed = chosen.door === undefined ? '' : `; pods dial ${textOf(chosen.door.place)}`;
  const why = `${facts.version}${runtime} answers at ${setting}${dialed}`;
  const { capabilities } = provider;
  return { provider, facts: { inUse: name, why, capabilities, resources, version: facts.version, engine: facts } };
}

interface Choice {
  readonly version?: string;
  readonly kind: Kind;
  readonly why: string;
  readonly resources: string;
}

async function choose(settings: SandboxSettings, layout: Layout): Promise<Choice> {
  const { sandbox, host } = settings;
  const none = 'not enforced: the process sandbox has no limits';
  if (sandbox === 'process') {
    return { kind: processKind(host), why: 'SVC_SANDBOX=process: nothing is isolated', resources: none };
  }
  if (sandbox === 'command') {
    if (settings.command === undefined) {
      throw new Fault(
        'unprocessable',
        'sandbox-unusable',
        'SVC_SANDBOX=command needs sessions.command in the file of SVC_CONFIG',
      );
    }
    const kind = await commandKind(settings.command, host, (name) => findProgram(name, host.PATH ?? ''));
    const why = `SVC_SANDBOX=command: ${settings.command.run[0]} isolates, or does not`;
    return { kind, why, resources: 'not enforced by the service: they are the command’s matter' };
  }
  const found = await probeBubblewrap(host.PATH ?? '');
  if (found.works) {
    const scopes = await probeLimiter(await findProgram('systemd-run', host.PATH ?? ''), host);
    const limiter = scopes.works ? scopes : ((await probeGroups(layout.tag)) ?? scopes);
    return {
      kind: await bubblewrapKind(found, layout, limiter, settings.privateFiles ?? []),
      version: found.version,
      why: `${found.version} works here`,
      resources: limiter.works ? `enforced by ${limiter.why}` : `not enforced: ${limiter.why}`,
    };
  }
  if (sandbox === 'auto') {
    return { kind: processKind(host), why: `${found.why}; nothing is isolated`, resources: none };
  }
  throw new Fault('unprocessable', 'sandbox-unusable', `SVC_SANDBOX=bubblewrap cannot be used: ${found.why}`);
}
