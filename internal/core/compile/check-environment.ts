// The inline environment object (spec, Environment; decisions 48 and 49), compiled into a generated resource.

import type { Catalog } from '../../domain/catalog.ts';
import type { Range } from '../../domain/diagnostic.ts';
import type { EnvironmentSpec } from '../../domain/spec.ts';
import { envMap } from './check-env.ts';
import type { Check, Reader, NodeRef } from './read.ts';
import {
  compact,
  fault,
  faultAt,
  field,
  integer,
  items,
  listOf,
  missing,
  oneOf,
  optional,
  pathOf,
  required,
  resourceName,
  strict,
  string,
  stringMap,
  suggest,
  text,
  wrong,
} from './read.ts';

/** A resource that an agent document generates, and where it is declared. */
export interface Generated<Spec> {
  readonly name: string;
  readonly spec: Spec;
  readonly range: Range;
  /** The key that the inline object stands under; another file's than `range` where layers merged. */
  readonly key: Range;
  readonly path: string;
}

const KEYS = [
  'name',
  'labels',
  'annotations',
  'image',
  'env',
  'resources',
  'steps',
  'setup',
  'setupCache',
  'approvals',
];

/** The environment, with its defaults; undefined where anything in it is wrong. */
export function checkEnvironment(
  check: Check,
  spot: NodeRef,
  catalog: Catalog,
): Generated<EnvironmentSpec> | undefined {
  const before = check.errors;
  const found = strict(check, spot, KEYS, 'the name of an environment or an inline environment');
  if (found === undefined) return undefined;
  const name = required(check, found, 'name', resourceName);
  const labels = optional(check, found, 'labels', stringMap);
  const annotations = optional(check, found, 'annotations', stringMap);
  const image = required(check, found, 'image', (_, at) => checkImage(check, at, catalog));
  const env = optional(check, found, 'env', envMap) ?? {};
  const resources = optional(check, found, 'resources', checkResources);
  const steps =
    optional(
      check,
      found,
      'steps',
      listOf((c, at) => string(c, at), 'a list of commands'),
    ) ?? [];
  const setup = optional(check, found, 'setup', checkSetup) ?? [];
  const setupCache = optional(check, found, 'setupCache', checkSetupCache);
  const approvals = optional(check, found, 'approvals', oneOf(['bypass', 'prompt'] as const)) ?? 'bypass';
  if (check.errors > before || name === undefined || image === undefined) return undefined;
  const spec = compact<EnvironmentSpec>({
    labels,
    annotations,
    image,
    env,
    resources,
    steps,
    setup,
    setupCache,
    approvals,
  });
  const range = field(found, 'name')?.node.range ?? spot.node.range;
  return { name, spec, range, key: spot.key, path: pathOf(spot.trail) };
}

function checkImage(check: Check, spot: NodeRef, catalog: Catalog): EnvironmentSpec['image'] | undefined {
  const found = strict(check, spot, ['kind', 'name']);
  if (found === undefined) return undefined;
  const kind = required(check, found, 'kind', oneOf(['preset'] as const));
  const name = required(check, found, 'name', (_, at) => {
    const value = string(check, at, 'the name of a preset');
    if (value === undefined || catalog.presets.includes(value)) return value;
    const near = suggest(check, value, catalog.presets);
    const hint = near === undefined ? `Configured presets: ${catalog.presets.join(', ')}.` : `Did you mean ${near}?`;
    return wrong(check, at, 'a configured environment preset', { code: 'environment-preset', hint });
  });
  return kind === undefined || name === undefined ? undefined : { kind, name };
}

const checkResources: Reader<NonNullable<EnvironmentSpec['resources']>> = (check, spot) => {
  const found = strict(check, spot, ['cpuCount', 'memoryMB']);
  if (found === undefined) return undefined;
  const most = Number.MAX_SAFE_INTEGER;
  const cpuCount = optional(check, found, 'cpuCount', integer(1, most, 'a whole number of at least 1'));
  const memoryMB = optional(check, found, 'memoryMB', integer(128, most, 'a whole number of at least 128'));
  if (!found.node.entries.has('cpuCount') && !found.node.entries.has('memoryMB')) {
    return faultAt(check, 'missing-field', `${pathOf(spot.trail)} needs cpuCount, memoryMB or both`, spot);
  }
  return compact<NonNullable<EnvironmentSpec['resources']>>({ cpuCount, memoryMB });
};

type Step = EnvironmentSpec['setup'][number];

const checkSetup: Reader<readonly Step[]> = (check, spot) => {
  const names = new Set<string>();
  const steps: Step[] = [];
  for (const item of items(check, spot, 'a list of setup steps') ?? []) {
    const found = strict(check, item, ['name', 'commands', 'cache']);
    if (found === undefined) continue;
    const name = required(check, found, 'name', resourceName);
    const commands = required(check, found, 'commands', listOf(text({ what: 'a command' }), 'a list of commands', 1));
    const cache = optional(check, found, 'cache', checkCache);
    if (name !== undefined && names.has(name)) {
      const at = field(found, 'name') as NodeRef;
      faultAt(check, 'invalid-value', `${pathOf(at.trail)} repeats the setup name ${name}; each needs its own`, at);
    }
    if (name !== undefined) names.add(name);
    if (name === undefined || commands === undefined) continue;
    steps.push(compact<Step>({ name, commands, cache }));
  }
  return steps;
};

const isInside = (path: string): boolean => path.split('/').every((segment) => segment !== '..');
const HOME = '/home/user';

const relativePath: Reader<string> = (check, spot) => {
  const value = string(check, spot, 'a relative path');
  if (value === undefined) return undefined;
  if (value !== '' && !value.startsWith('/') && !/^[A-Za-z]:/.test(value) && isInside(value)) return value;
  return wrong(check, spot, 'a relative path without .. segments');
};
const homePath: Reader<string> = (check, spot) => {
  const value = string(check, spot, 'an absolute path');
  if (value === undefined) return undefined;
  if ((value === HOME || value.startsWith(`${HOME}/`)) && isInside(value)) return value;
  return wrong(check, spot, `an absolute path under ${HOME} without .. segments`);
};

const checkCache: Reader<NonNullable<Step['cache']>> = (check, spot) => {
  const found = strict(check, spot, ['key', 'files', 'paths']);
  if (found === undefined) return undefined;
  const key = optional(check, found, 'key', resourceName);
  const files = optional(check, found, 'files', listOf(relativePath, 'a list of relative paths'));
  const paths = optional(check, found, 'paths', listOf(homePath, `a list of paths under ${HOME}`));
  return compact<NonNullable<Step['cache']>>({ key, files, paths });
};

const checkSetupCache: Reader<{ readonly ttl: string }> = (check, spot) => {
  const found = strict(check, spot, ['ttl']);
  if (found === undefined) return undefined;
  const at = field(found, 'ttl');
  if (at === undefined) return missing(check, found, 'ttl', 'Write a duration such as 24h.');
  const ttl = string(check, at, 'a duration such as 24h');
  if (ttl === undefined) return undefined;
  if (/^[1-9][0-9]*[smhd]$/.test(ttl)) return { ttl };
  return fault(
    check,
    'invalid-value',
    `${pathOf(at.trail)} must be a number and s, m, h or d, such as 24h`,
    at.node.range,
    pathOf(at.trail),
  );
};
