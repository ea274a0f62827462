// Fields by path, in words: what `svc explain` prints and what the reference is made of. A path is that of a diagnostic or a
// shorter one: an index or an alias may be left out, and the name of a variant (`triggers.routing.bind`) picks it.

import type { Json } from '../internal/domain/json.ts';
import { nearest } from '../internal/domain/nearest.ts';
import { agent } from './agent.ts';
import { type AnyGroup, type AnyVariants, choice, type Desc, grouped } from './grammar.ts';

/** A field in words. */
export interface Explained {
  readonly path: string;
  /** Where several variants have the field: which one this is, as `kind: spawn`. */
  readonly when?: string;
  readonly type: string;
  readonly required: boolean | 'merged';
  readonly default?: Json;
  /** What holds where it is absent, where no default is stored. */
  readonly otherwise?: string;
  /** Bounds and forms, one a line. */
  readonly limits: readonly string[];
  readonly description: string;
  readonly rule?: string;
  readonly legacy?: readonly string[];
  readonly merge?: string;
  readonly example?: Json;
  /** The fields inside, in order. */
  readonly fields?: readonly {
    readonly name: string;
    readonly type: string;
    readonly required: boolean;
    readonly description: string;
  }[];
  /** Where a key tells kinds apart: each kind, and the path that explains it. */
  readonly kinds?: readonly { readonly name: string; readonly path: string; readonly description: string }[];
}

interface Found {
  readonly desc: Desc;
  readonly path: readonly string[];
  readonly when: readonly string[];
}

const isOpenStep = (step: string): boolean => /^(?:\*|\d+|<.*>)$/.test(step);
/** A key in brackets and quotes is one step, whatever dots it has. */
const stepPattern = /\["((?:[^"\\]|\\.)*)"\]|[^.[\]]+/g;
const stepsOf = (path: string): string[] => [...path.matchAll(stepPattern)].map(([step, key]) => key ?? step);

/** Every field that a path may mean. */
function find(desc: Desc, steps: readonly string[], at: Found): readonly Found[] {
  if (steps.length === 0) return [{ ...at, desc }];
  const [step = '', ...rest] = steps;
  switch (desc.kind) {
    case 'list':
      return find(desc.item, isOpenStep(step) ? rest : steps, { ...at, path: [...at.path, '[]'] });
    case 'record': {
      const within = { ...at, path: [...at.path, desc.key] };
      const direct = isOpenStep(step)
        ? []
        : find(desc.value, steps, within).filter(({ desc: one }) => one !== desc.value);
      return direct.length > 0 ? direct : find(desc.value, rest, within);
    }
    case 'either':
      return find(desc.parts, steps, at);
    case 'group':
      return inGroup(desc, steps, at);
    case 'variants':
      return inVariants(desc, steps, at);
    default:
      return [];
  }
}

/** Keys of a group may have dots, such as `codehost.pull_request`. */
function inGroup(desc: AnyGroup, steps: readonly string[], at: Found): readonly Found[] {
  for (let count = steps.length; count > 0; count--) {
    const key = steps.slice(0, count).join('.');
    const field = Object.hasOwn(desc.fields, key) ? desc.fields[key] : undefined;
    if (field !== undefined) return find(field, steps.slice(count), { ...at, path: [...at.path, key] });
  }
  return [];
}

function inVariants(desc: AnyVariants, steps: readonly string[], at: Found): readonly Found[] {
  const [step = '', ...rest] = steps;
  if (step === desc.by && rest.length === 0) return [{ ...at, desc: chooser(desc), path: [...at.path, step] }];
  const spelt = desc.legacy?.[step] ?? step;
  const lists = Object.entries(desc.variants).map(([name, variant]) => ({ name, found: find(variant, steps, at) }));
  const named = Object.hasOwn(desc.variants, spelt) ? desc.variants[spelt] : undefined;
  const chosen = named === undefined ? [] : find(named, rest, { ...at, when: [...at.when, `${desc.by}: ${spelt}`] });
  const [first] = lists;
  // A field that all variants share is one field.
  const isShared = lists.every(
    ({ found }) =>
      found.length === first?.found.length && found.every((one, index) => one.desc === first.found[index]?.desc),
  );
  if (isShared && first !== undefined) return [...first.found, ...chosen];
  return [...byVariant(desc.by, lists, at.when), ...chosen];
}

/** A field that some variants share is one field, of those. */
function byVariant(
  by: string,
  lists: readonly { readonly name: string; readonly found: readonly Found[] }[],
  when: readonly string[],
) {
  const places = new Map<Desc, { readonly one: Found; readonly names: string[] }>();
  for (const { name, found } of lists) {
    for (const one of found) {
      const kept = places.get(one.desc);
      if (kept === undefined) places.set(one.desc, { one, names: [name] });
      else kept.names.push(name);
    }
  }
  return [...places.values()].map(({ one, names }) => ({
    ...one,
    when: [...when, `${by}: ${names.join(' or ')}`, ...one.when.slice(when.length)],
  }));
}

const choosers = new WeakMap<AnyVariants, Desc>();

/** The key that tells variants apart, as a field. */
export function chooser(desc: AnyVariants): Desc {
  const kept = choosers.get(desc);
  if (kept !== undefined) return kept;
  const names = Object.keys(desc.variants);
  const made: Desc = choice(names, `Which of these it is: ${names.join(', ')}.`, {
    required: desc.absent === undefined,
    ...(desc.absent === undefined ? {} : { otherwise: desc.absent }),
    ...(desc.legacy === undefined ? {} : { legacy: Object.keys(desc.legacy) }),
  });
  choosers.set(desc, made);
  return made;
}

/** The type of a field, in words. */
export function typeOf(desc: Desc): string {
  switch (desc.kind) {
    case 'text':
      return desc.fileBacked === undefined ? 'text' : 'text, { file: path } or { append: text }';
    case 'name':
      return 'name';
    case 'choice':
      return desc.values.length === 1 ? String(desc.values[0]) : `one of ${desc.values.join(', ')}`;
    case 'whole':
      return 'whole number';
    case 'flag':
      return 'true or false';
    case 'scalar':
      return desc.notNull === true ? 'text, number, true or false' : 'text, number, true, false or null';
    case 'free':
      return 'JSON object';
    case 'list':
      return `list of: ${typeOf(desc.item)}`;
    case 'record':
      return `map from ${desc.key} to: ${typeOf(desc.value)}`;
    case 'group':
      return 'map';
    case 'variants':
      return `map, by ${desc.by}: ${Object.keys(desc.variants).join(', ')}`;
    case 'either':
      return `${typeOf(desc.single)}, or ${typeOf(desc.parts)}`;
  }
}

const range = (least: number, most: number | undefined, unit: string): string[] => {
  if (most === undefined && unit === 'characters') return ['not empty'];
  if (most === undefined) return least === 0 ? [] : [`at least ${grouped(least)} ${unit}`.trim()];
  return [least === most ? `${grouped(least)} ${unit}` : `${grouped(least)} to ${grouped(most)} ${unit}`.trim()];
};

/** Bounds and forms of a field. */
export function limitsOf(desc: Desc): readonly string[] {
  switch (desc.kind) {
    case 'text': {
      const length = desc.least === 1 || desc.most !== undefined ? range(desc.least, desc.most, 'characters') : [];
      return [
        ...length.map((one) => (desc.trim ? `${one}, space around it not counted` : one)),
        ...(desc.pattern === undefined ? [] : [desc.form ?? `matches ${desc.pattern}`]),
      ];
    }
    case 'name':
      return ['1 to 128 of the characters A-Z a-z 0-9 _ . -'];
    case 'whole':
      return range(desc.least, desc.most, '');
    case 'list':
      return range(desc.least, desc.most, 'entries');
    case 'record':
      return [desc.form ?? (desc.pattern === undefined ? 'keys are not empty' : `keys match ${desc.pattern}`)];
    default:
      return [];
  }
}

/** What may stand in a field beside plain values. */
export function placeholdersOf(desc: Desc): string | undefined {
  if (desc.kind !== 'text' || desc.tokens === undefined) return undefined;
  return desc.tokens === 'payload'
    ? '{{ path }} tokens, read from the event’s payload'
    : '{{ payload.path }} tokens, read from the session’s input';
}

const innerOf = (desc: Desc): Desc =>
  desc.kind === 'list' ? desc.item : desc.kind === 'record' ? desc.value : desc.kind === 'either' ? desc.parts : desc;

const fieldsOf = (desc: Desc): Explained['fields'] => {
  const inner = innerOf(desc);
  if (inner.kind !== 'group') return undefined;
  return Object.entries(inner.fields).map(([name, field]) => ({
    name,
    type: typeOf(field),
    required: field.required !== undefined && field.required !== false,
    description: field.description,
  }));
};

const kindsOf = (desc: Desc, path: readonly string[]): Explained['kinds'] => {
  const inner = innerOf(desc);
  if (inner.kind !== 'variants') return undefined;
  const typed = path.filter((step) => step !== '[]' && !isOpenStep(step)).join('.');
  return Object.entries(inner.variants).map(([name, { description }]) => ({
    name,
    path: `${typed}.${name}`,
    description,
  }));
};

function describe({ desc, path, when }: Found): Explained {
  const printed = path.join('.').replaceAll('.[]', '[]');
  const fields = fieldsOf(desc);
  const kinds = kindsOf(desc, path);
  const tokens = placeholdersOf(desc);
  const legacy = desc.kind === 'choice' ? desc.legacy : undefined;
  return {
    path: printed,
    ...(when.length === 0 ? {} : { when: when.join(', ') }),
    type: typeOf(desc),
    required: desc.required ?? false,
    ...(desc.default === undefined ? {} : { default: desc.default }),
    ...(desc.otherwise === undefined ? {} : { otherwise: desc.otherwise }),
    limits: [...limitsOf(desc), ...(tokens === undefined ? [] : [`may hold ${tokens}`])],
    description: desc.description,
    ...(desc.rule === undefined ? {} : { rule: desc.rule }),
    ...(legacy === undefined ? {} : { legacy }),
    ...(desc.legacyOf === undefined ? {} : { legacy: [desc.legacyOf] }),
    ...(desc.merge === undefined || desc.merge === 'none' ? {} : { merge: desc.merge }),
    ...(desc.example === undefined ? {} : { example: desc.example }),
    ...(fields === undefined ? {} : { fields }),
    ...(kinds === undefined ? {} : { kinds }),
  };
}

/** Every field that the path may mean, the document itself for an empty one; empty where there is none. */
export function explain(path: string): readonly Explained[] {
  return find(agent, stepsOf(path), { desc: agent, path: [], when: [] }).map(describe);
}

/** Every path of the table, once. */
export const fieldPaths = (): string[] => [...new Set(allPaths(agent, [], 0))].sort();

/** A path of the table that is nearly that one: whole, else step by step, each the nearest of its place. */
export function nearestPath(path: string): string | undefined {
  const steps = stepsOf(path);
  const every = allPaths(agent, [], 0);
  const near = nearest(steps.join('.'), every, Math.max(2, Math.floor(path.length / 5)));
  if (near !== undefined) return near;
  let at = '';
  for (const step of steps) {
    const prefix = at === '' ? '' : `${at}.`;
    const names = every.filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
    const below = [...new Set(names.map((one) => one.split('.', 1)[0] ?? ''))];
    const name = below.includes(step) ? step : nearest(step, below, Math.max(1, Math.floor(step.length / 3)));
    if (name === undefined) return undefined;
    at = `${prefix}${name}`;
  }
  return at;
}

/** The longest beginning of a path that is a field with fields of its own; undefined where only the document is. */
export function knownPart(path: string): string | undefined {
  const steps = stepsOf(path);
  for (let count = steps.length - 1; count > 0; count--) {
    const part = steps.slice(0, count).join('.');
    if (explain(part).some(({ fields, kinds }) => fields !== undefined || kinds !== undefined)) return part;
  }
  return undefined;
}

function allPaths(desc: Desc, path: readonly string[], depth: number): string[] {
  const here = path.length === 0 ? [] : [path.join('.')];
  if (depth > 8) return here;
  const below = (one: Desc, step?: string): string[] =>
    allPaths(one, step === undefined ? path : [...path, step], depth + 1);
  switch (desc.kind) {
    case 'list':
      return [...here, ...below(desc.item)];
    case 'record':
      return [...here, ...below(desc.value)];
    case 'either':
      return [...here, ...below(desc.parts)];
    case 'group':
      return [...here, ...Object.entries(desc.fields).flatMap(([key, field]) => below(field, key))];
    case 'variants':
      return [
        ...here,
        [...path, desc.by].join('.'),
        ...Object.values(desc.variants).flatMap((variant) => below(variant)),
      ];
    default:
      return here;
  }
}
