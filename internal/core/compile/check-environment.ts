// The inline environment object (docs/reference/compile.md#environments), compiled into a generated resource.

import type { Catalog } from '../../domain/catalog.ts';
import type { Range } from '../../domain/diagnostic.ts';
import { overLimits } from '../../domain/limits.ts';
import { programTextBytesMax } from '../../domain/program-text.ts';
import type { EnvironmentSpec } from '../../domain/spec.ts';
import { environment, image, resources, setupStep } from '../../../schemas/environment.ts';
import { keysOf, without } from '../../../schemas/grammar.ts';
import { envMap } from './check-env.ts';
import { readFields, reading } from './read-field.ts';
import type { Check, MapRef, NodeRef, Reader } from './read.ts';
import { compact, faultAt, field, items, pathOf, required, strict, suggest, wrong } from './read.ts';
import { Once } from './read-once.ts';
import { resourceName } from './resource-name.ts';

/** A resource that an agent document generates, and where it is declared. */
export interface Generated<Spec> {
  readonly name: string;
  readonly spec: Spec;
  readonly range: Range;
  /** The key that the inline object stands under; another file's than `range` where layers merged. */
  readonly key: Range;
  readonly path: string;
}

/** All but the name, which is read first: without it there is no environment. */
const unnamed = without(environment.fields, 'name');

/** What an inline environment says, wherever it stands. */
type Said = Pick<Generated<EnvironmentSpec>, 'name' | 'spec' | 'range'>;

const once = new Once<Said>();

/** The environment, with its defaults; undefined where anything in it is wrong. */
export function checkEnvironment(check: Check, spot: MapRef, catalog: Catalog): Generated<EnvironmentSpec> | undefined {
  const said = once.read(check, spot.node, [catalog], () => readEnvironment(check, spot, catalog));
  return said && { ...said, key: spot.key, path: pathOf(spot.trail) };
}

function readEnvironment(check: Check, spot: MapRef, catalog: Catalog): Said | undefined {
  const before = check.errors;
  strict(check, spot, keysOf(environment));
  const name = required(check, spot, 'name', resourceName);
  const read = readFields(check, spot, unnamed, {
    image: (_check, at) => checkImage(check, at, catalog),
    env: envMap,
    resources: checkResources,
    steps: checkSteps,
    setup: checkSetup,
  });
  checkLimits(check, spot, read as Partial<Pick<EnvironmentSpec, 'image' | 'resources'>>, catalog);
  if (check.errors > before) return undefined;
  // Nothing of it was wrong, so that what is required is there.
  const spec = read as EnvironmentSpec;
  const { range } = (field(spot, 'name') as NodeRef).node;
  return { name: name as string, spec, range };
}

/** What is asked for beyond the ceiling of the preset would be refused at the launch. */
function checkLimits(
  check: Check,
  found: MapRef,
  read: Partial<Pick<EnvironmentSpec, 'image' | 'resources'>>,
  catalog: Catalog,
): void {
  const limits = read.image && catalog.presetLimits?.[read.image.name];
  for (const { key, most, value } of overLimits(read.resources, limits)) {
    const at = field(field(found, 'resources') as MapRef, key) as NodeRef;
    const message = `${key} ${value} is over the limit of preset ${read.image?.name}, ${most}`;
    faultAt(check, 'resources-over-limit', message, at);
  }
}

function checkImage(check: Check, spot: NodeRef, catalog: Catalog): EnvironmentSpec['image'] | undefined {
  const found = strict(check, spot, keysOf(image));
  if (found === undefined) return undefined;
  const preset: Reader<string> = (_, at) => {
    const value = reading(image.fields.name)(check, at);
    if (value === undefined) return undefined;
    if (catalog.presets.includes(value)) return withImage(check, at, value, catalog);
    const near = suggest(check, value, catalog.presets);
    const hint = near === undefined ? `Configured presets: ${catalog.presets.join(', ')}.` : `Did you mean ${near}?`;
    return wrong(check, at, 'a configured environment preset', { code: 'environment-preset', hint });
  };
  const { kind, name } = readFields(check, found, image.fields, { name: preset });
  return kind === undefined || name === undefined ? undefined : { kind, name };
}

/** Its sessions run on an engine, which has nothing to make a box from. The words are those of a launch. */
function withImage(check: Check, spot: NodeRef, preset: string, catalog: Catalog): string | undefined {
  if (catalog.presetsWithoutImage?.includes(preset) !== true) return preset;
  const message = `Preset ${preset} has no image: set sandboxes.presets.${preset}.image`;
  return faultAt(check, 'preset-image', message, spot);
}

const checkResources: Reader<NonNullable<EnvironmentSpec['resources']>> = (check, spot) => {
  const read = reading(resources)(check, spot);
  if (read === undefined || spot.node.kind !== 'map') return undefined;
  if (spot.node.entries.has('cpuCount') || spot.node.entries.has('memoryMB')) return read;
  return faultAt(check, 'missing-field', `${pathOf(spot.trail)} needs cpuCount, memoryMB or both`, spot);
};

type Step = EnvironmentSpec['setup'][number];

/** Each is one word of a shell's argument list. */
function checkCommands(check: Check, spot: NodeRef, commands: readonly string[]): void {
  const long = commands.findIndex((command) => Buffer.byteLength(command) >= programTextBytesMax);
  if (long === -1) return;
  const place = items(check, spot, 'a list of commands')?.[long] ?? spot;
  const message = `${pathOf(place.trail)} is longer than the ${programTextBytesMax - 1} bytes that a command may have`;
  faultAt(check, 'invalid-value', message, place, { hides: place.node.range });
}

const checkSteps: Reader<readonly string[]> = (check, spot) => {
  const steps = reading(environment.fields.steps)(check, spot);
  if (steps !== undefined) checkCommands(check, spot, steps);
  return steps;
};

const checkSetup: Reader<readonly Step[]> = (check, spot) => {
  const names = new Set<string>();
  const steps: Step[] = [];
  for (const item of items(check, spot, environment.fields.setup.what) ?? []) {
    const found = strict(check, item, keysOf(setupStep));
    if (found === undefined) continue;
    const { name, commands, cache } = readFields(check, found, setupStep.fields);
    if (name !== undefined) {
      const at = field(found, 'name') as NodeRef;
      const message = `${pathOf(at.trail)} repeats the setup name ${name}; each needs its own`;
      if (names.has(name)) faultAt(check, 'invalid-value', message, at);
      names.add(name);
    }
    if (commands !== undefined) checkCommands(check, field(found, 'commands') as NodeRef, commands);
    // Where one of the two is missing, nothing of the environment is used.
    steps.push(compact<Step>({ name, commands, cache } as Step));
  }
  return steps;
};
