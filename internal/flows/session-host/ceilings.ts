// What a session asks for against what it gets (docs/reference/sessions.md#presets): ceilings may have been lowered since
// its environment was applied, and what a sandbox cannot give is said.

import { isSystemPath } from '../../adapters/sandbox/sandbox.ts';
import type { Sandbox, SandboxCapabilities, SandboxProvider, SandboxSpec } from '../../adapters/sandbox/sandbox.ts';
import type { LaunchFacts } from '../../adapters/store/sessions/launch.ts';
import { Fault } from '../../domain/fault.ts';
import { lowerLimits, overLimits } from '../../domain/limits.ts';
import type { EnvironmentSpec } from '../../domain/spec.ts';
import { catalogOf, type FlowContext } from '../context.ts';
import type { Preset } from '../host-ports.ts';
import { isCloned } from './mounts.ts';

/** Of every installation; the machine's own programs, and nothing that it promises beyond them. */
const base = 'base';

/**
 * Throws Fault for an environment that asks for more than its preset or its project allows, or whose preset has no image for
 * the engine that its sessions run on.
 */
export function checkCeilings(ctx: FlowContext, { project }: LaunchFacts, environment: EnvironmentSpec): void {
  const { presetLimits, presetsWithoutImage } = catalogOf(ctx).catalog;
  const { name } = environment.image;
  // Before the engine is asked, which may be away: apply says the same.
  if (presetsWithoutImage?.includes(name) === true) throw noImage(name);
  const [first] = overLimits(environment.resources, lowerLimits(presetLimits?.[name], project.limits));
  if (first === undefined) return;
  const message = `The environment asks for ${first.key} ${first.value}; its preset and project allow ${first.most}.`;
  throw new Fault('unprocessable', 'resources-over-limit', message);
}

/** What was asked for and is not given, for the session's record. */
export function notEnforcedOf(of: {
  readonly sandbox: Sandbox;
  readonly gitUrl: string | undefined;
  readonly isInline: boolean;
  readonly preset: Preset;
  readonly capabilities: SandboxCapabilities;
}): string[] {
  const { sandbox, gitUrl, isInline, preset, capabilities } = of;
  // The operator's program may make of a preset what it likes; the others show the machine's own programs without one.
  const promises = preset.name !== base || preset.rootfs !== undefined;
  const hasImage = sandbox.image !== undefined || (capabilities.images && preset.rootfs !== undefined);
  const lacksImage = promises && !hasImage;
  return [
    ...sandbox.notEnforced,
    // Where its network is the machine's, so is the port of its git.
    ...(gitUrl !== undefined && !sandbox.fenced ? ['git'] : []),
    ...(isInline ? ['injection'] : []),
    ...(lacksImage && capabilities.isolation !== 'external' ? ['image'] : []),
  ];
}

/** What the session records of the image that its sandbox was made from. */
export function imageOf(
  preset: Preset,
  { images }: SandboxCapabilities,
  sandbox: Sandbox,
): { image?: string; digest?: string } {
  if (sandbox.image !== undefined) return { image: sandbox.image.name, digest: sandbox.image.digest };
  if (!images || preset.rootfs === undefined) return {};
  return { image: preset.image ?? preset.name, digest: preset.rootfs.digest };
}

/** Throws Fault for a preset that an engine has no image for. */
export function checkImage({ alwaysFenced }: SandboxProvider, { name, image }: Preset): void {
  if (alwaysFenced === true && image === undefined) throw noImage(name);
}

const noImage = (preset: string): Fault =>
  new Fault('unprocessable', 'preset-image', `Preset ${preset} has no image: set sandboxes.presets.${preset}.image`);

/** What a sandbox is made from, and which directories it needs when it is made. */
export function imageSpec(
  { capabilities, alwaysFenced }: SandboxProvider,
  { spec, environment }: LaunchFacts,
  { image, rootfs }: Preset,
): Partial<SandboxSpec> {
  if (alwaysFenced !== true) return rootfs !== undefined && capabilities.images ? { rootfs } : {};
  const { workingDirectory } = spec;
  const { steps = [], env = {} } = environment ?? {};
  const plain = Object.entries(env).filter((pair): pair is [string, string] => typeof pair[1] === 'string');
  const mounts = spec.mounts.filter(isCloned).map(({ mountPath }) => mountPath);
  const isAbsolute = workingDirectory?.startsWith('/') === true && !isSystemPath(workingDirectory);
  return {
    ...(image !== undefined && { image }),
    directories: [...mounts, ...(isAbsolute ? [workingDirectory] : [])],
    ...(steps.length > 0 && capabilities.commit && { build: { steps, env: Object.fromEntries(plain) } }),
  };
}
