// Checked readers over positioned nodes: each gives a plain value or reports what is wrong, what is accepted and where,
// and gives undefined. A reader never stops the ones beside it, so that all independent errors come out of one run.

import type { DiagnosticCode } from '../../domain/codes.ts';
import { maskCredentials } from '../../domain/credential.ts';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import type { Json, JsonObject, JsonScalar } from '../../domain/json.ts';
import { completed, nearest } from '../../domain/nearest.ts';
import { longerThan } from '../../domain/text.ts';
import type { MapNode, Node, PathStep } from '../source/node.ts';
import { printPath, scalarOf } from '../source/node.ts';
import { exampleAt } from './examples.ts';
import type { Report } from './types.ts';
import { variantLayer } from './variant-layer.ts';

/** A path as a chain from leaf to root: made on the way down at no cost, printed only when something is wrong. */
export interface PathChain {
  readonly parent: PathChain | null;
  readonly step: PathStep;
  /** The map that holds the value, where it was reached as one of its fields. */
  readonly holder?: MapNode;
}
/** A value, its place, and the place of the key or item that holds it. */
export interface NodeRef<N extends Node = Node> {
  readonly node: N;
  readonly key: Range;
  readonly trail: PathChain | null;
}
export type MapRef = NodeRef<MapNode>;

/** What one document's readers share. `errors` counts what was reported as an error. */
export interface Check {
  readonly report: Report;
  errors: number;
}

export interface Extra {
  readonly hint?: string;
  readonly hides?: Range;
  readonly related?: NonNullable<Finding['related']>;
}

export const createCheck = (report: Report): Check => ({ report, errors: 0 });

function stepsOf(trail: PathChain | null, more: readonly PathStep[]): PathStep[] {
  const steps: PathStep[] = [];
  for (let at = trail; at !== null; at = at.parent) steps.push(at.step);
  steps.reverse();
  for (const step of more) steps.push(step);
  return steps;
}

/** Prints a trail, with further steps behind it: `triggers[0].routing.kind`. */
export const pathOf = (trail: PathChain | null, ...more: PathStep[]): string => printPath(stepsOf(trail, more));

const references: ReadonlySet<PathStep> = new Set(['$secret', 'secretRef', 'token']);

/** True where the name of a secret belongs: what an author put there instead may be the secret itself. */
export function isReference(trail: PathChain | null): boolean {
  for (let at = trail; at !== null; at = at.parent) {
    if (references.has(at.step) || at.parent?.step === 'env') return true;
  }
  return false;
}

/** How a value is named in a message; never a credential, and never a text longer than 40 characters. */
export function show(node: Node): string {
  if (node.kind === 'seq') return 'a list';
  if (node.kind === 'map') return 'a map';
  if (node.value === null) return 'nothing';
  if (typeof node.value !== 'string') return String(node.value);
  const whole = maskCredentials(node.value.slice(0, 4096));
  return JSON.stringify(whole.length > 40 ? `${whole.slice(0, 40).toWellFormed()}…` : whole);
}

/** A document with more errors than this gets no further suggestions: what finds them costs more than what reads. */
const suggestionsMax = 200;

/** The known word nearest to what was written, for a hint. */
export function suggest(check: Check, word: string, known: readonly string[], limit = 2): string | undefined {
  // Of a short word, half of it changed is another word.
  const most = Math.min(limit, Math.max(1, Math.floor(word.length / 2)));
  return check.errors > suggestionsMax ? undefined : nearest(word, known, most);
}

/** Reports an error at a range. */
export function fault(
  check: Check,
  code: DiagnosticCode,
  message: string,
  range: Range,
  path: string,
  extra: Extra = {},
): undefined {
  check.errors += 1;
  check.report({ severity: 'error', code, message, range, path, ...extra });
  return undefined;
}

/** Reports an error at a value. */
export function faultAt(
  check: Check,
  code: DiagnosticCode,
  message: string,
  spot: NodeRef,
  extra: Extra = {},
): undefined {
  return fault(check, code, message, spot.node.range, pathOf(spot.trail), extra);
}

/** Reports that a value is not what its field accepts: `path must be …, not …`. */
export function wrong(
  check: Check,
  spot: NodeRef,
  expected: string,
  extra: Extra & { code?: DiagnosticCode } = {},
): undefined {
  const { code = 'invalid-value', ...rest } = extra;
  const message = `${pathOf(spot.trail)} must be ${expected}`;
  if (isReference(spot.trail)) return faultAt(check, code, message, spot, { ...rest, hides: spot.node.range });
  if (spot.trail?.step === 'env') {
    // Values of variables, in another form than a map: `- TOKEN=…`.
    const what = spot.node.kind === 'scalar' ? message : `${message}, not ${show(spot.node)}`;
    return faultAt(check, code, what, spot, { ...rest, hides: spot.node.range });
  }
  return faultAt(check, code, `${message}, not ${show(spot.node)}`, spot, rest);
}

/** How the field is written where it is right, for a hint. */
const example = (check: Check, trail: PathChain | null, ...more: PathStep[]): string | undefined =>
  check.errors > suggestionsMax ? undefined : exampleAt(stepsOf(trail, more));

function wrongType(check: Check, spot: NodeRef, expected: string, advice?: string): undefined {
  const hint = advice ?? example(check, spot.trail);
  return wrong(check, spot, expected, hint === undefined ? { code: 'invalid-type' } : { code: 'invalid-type', hint });
}

/** The value under a key, or undefined where the map does not have it. */
export function field(spot: MapRef, name: string): NodeRef | undefined {
  const entry = spot.node.entries.get(name);
  if (entry === undefined) return undefined;
  return { node: entry.value, key: entry.keyRange, trail: { parent: spot.trail, step: name, holder: spot.node } };
}

/** Reads a field where the map has it. */
export function optional<T>(check: Check, spot: MapRef, name: string, read: Reader<T>): T | undefined {
  const found = field(spot, name);
  return found === undefined ? undefined : read(check, found);
}

/** Reads a field that must be there; a missing one is reported where the map begins. */
export function required<T>(check: Check, spot: MapRef, name: string, read: Reader<T>, hint?: string): T | undefined {
  const found = field(spot, name);
  if (found !== undefined) return read(check, found);
  return missing(check, spot, name, hint);
}

/** Reports that a field is not there, where the map begins; `advice` in place of an example of the field. */
export function missing(check: Check, spot: MapRef, name: string, advice?: string): undefined {
  const hint = advice ?? example(check, spot.trail, name);
  const first = spot.node.entries.values().next().value;
  const path = pathOf(spot.trail, name);
  const range = first?.keyRange ?? spot.node.range;
  return fault(check, 'missing-field', `${path} is required`, range, path, hint === undefined ? {} : { hint });
}

export type Reader<T> = (check: Check, spot: NodeRef) => T | undefined;

/** A map of any keys. */
export function map(check: Check, spot: NodeRef, what = 'a map', advice?: string): MapRef | undefined {
  if (spot.node.kind === 'map') return spot as MapRef;
  return wrongType(check, spot, what, advice);
}

/** A map of known keys: every other key is one error at that key, with the nearest known one. */
export function strict(
  check: Check,
  spot: NodeRef,
  known: readonly string[],
  what?: string,
  advice?: string,
): MapRef | undefined {
  if (spot.node.kind !== 'map') {
    const keys = `a map with the ${known.length === 1 ? 'key' : 'keys'} ${known.join(', ')}`;
    return map(check, spot, what ?? keys, advice);
  }
  const found = spot as MapRef;
  for (const [key, entry] of found.node.entries) {
    if (!known.includes(key)) unknownKey(check, found, key, entry.keyRange, known);
  }
  return found;
}

/** Reports a key that is none of `known`, with the nearest of them; where a secret may have been written as the key, it is not quoted. */
export function unknownKey(check: Check, spot: MapRef, key: string, range: Range, known: readonly string[]): void {
  // One that the file has there already would be there twice; one of another file would be overridden.
  const open = known.filter((one) => spot.node.entries.get(one)?.keyRange.file !== range.file);
  const near = suggest(check, key, open) ?? completed(key, open);
  const hint = near === undefined ? `Accepted here: ${known.join(', ')}.` : `Did you mean ${near}?`;
  const where = spot.trail === null ? 'the agent' : pathOf(spot.trail);
  if (near === undefined && isReference(spot.trail)) {
    // The key may be the secret itself, put where `{ $secret: <name> }` belongs.
    fault(check, 'unknown-key', `Unknown key in ${where}`, range, pathOf(spot.trail), { hint, hides: spot.node.range });
    return;
  }
  const name = JSON.stringify(key.slice(0, 80).toWellFormed());
  const layer = variantLayer(spot, range.file);
  const hides = isReference(spot.trail) ? spot.node.entries.get(key)?.value.range : undefined;
  const extra = hides === undefined ? { hint } : { hint, hides };
  fault(check, 'unknown-key', `Unknown key ${name} in ${where}${layer}`, range, pathOf(spot.trail, key), extra);
}

/** Items past the bound of a list that are still read. */
const surplusMax = 100;

/** How many items a list may have, inclusive, and the code of the error where it has more or less. */
export interface ListRules {
  readonly least?: number | undefined;
  readonly most?: number | undefined;
  readonly code?: DiagnosticCode | undefined;
}

/** The items of a list. */
export function items(
  check: Check,
  spot: NodeRef,
  what: string,
  { least = 0, most = Number.POSITIVE_INFINITY, code = 'invalid-value' }: ListRules = {},
): readonly NodeRef[] | undefined {
  if (spot.node.kind === 'map') return wrongType(check, spot, what, 'Begin each entry of the list with "- ".');
  if (spot.node.kind !== 'seq') return wrongType(check, spot, what);
  const count = spot.node.items.length;
  const isShort = count < least;
  if (isShort || count > most) {
    const bound = isShort ? `at least ${least}` : `at most ${most}`;
    const noun = (isShort ? least : most) === 1 ? 'entry' : 'entries';
    faultAt(check, code, `${pathOf(spot.trail)} must have ${bound} ${noun}, not ${count}`, spot);
    // What is in a list that is too long is judged all the same, as far as a list may be long.
    if (isShort || count > most + surplusMax) return undefined;
  }
  return spot.node.items.map((node, step) => ({ node, key: node.range, trail: { parent: spot.trail, step } }));
}

/** A list read item by item; undefined where the list or one of its items is wrong. */
export function listOf<T>(read: Reader<T>, what: string, rules: ListRules = {}): Reader<readonly T[]> {
  return (check, spot) => all(items(check, spot, what, rules), (item) => read(check, item));
}

function all<T>(
  spots: readonly NodeRef[] | undefined,
  read: (spot: NodeRef) => T | undefined,
): readonly T[] | undefined {
  if (spots === undefined) return undefined;
  const values: T[] = [];
  for (const spot of spots) {
    const value = read(spot);
    if (value !== undefined) values.push(value);
  }
  return values.length === spots.length ? values : undefined;
}

/** What is meant to be no text was written as one, or a variable put it in. */
const unquoted = (what: string): string =>
  `Write ${what} without quotes; what a variable puts in is always text, so it cannot stand here.`;

/** `true` or `false`; a text or a word of YAML 1.1 that means one is an error that says so. */
export function boolean(check: Check, spot: NodeRef): boolean | undefined {
  const value = scalarOf(spot.node);
  if (typeof value === 'boolean') return value;
  const no = /^(?:no|off|n|false)$/i.test(String(value)) ? 'false' : undefined;
  const meant = /^(?:yes|on|y|true)$/i.test(String(value)) ? 'true' : no;
  return wrongType(
    check,
    spot,
    'true or false',
    meant && (value === meant ? unquoted(meant) : `Write ${meant}: ${value} is a text.`),
  );
}

/** A whole number between two bounds, inclusive. */
export function integer(least: number, most: number, what: string): Reader<number> {
  return (check, spot) => {
    const value = scalarOf(spot.node);
    if (typeof value !== 'number') {
      const digits = /^\s*-?\d+\s*$/.test(String(value));
      return wrongType(check, spot, what, digits ? unquoted('the number') : undefined);
    }
    return Number.isSafeInteger(value) && value >= least && value <= most ? value : wrong(check, spot, what);
  };
}

export interface ChoiceRules {
  /** Spellings that are accepted beside the values. */
  readonly legacy?: readonly string[];
  readonly code?: DiagnosticCode;
  /** What is wanted, where it is not said by the list of values. */
  readonly form?: string;
  /** What to write instead, where no value is near. */
  readonly hint?: string;
}

/** One of a closed list of values. */
export function oneOf<T extends string>(values: readonly T[], rules: ChoiceRules = {}): Reader<T> {
  // A legacy spelling is given as it is written; who takes it normalizes it.
  const accepted = rules.legacy === undefined ? values : ([...values, ...rules.legacy] as unknown as readonly T[]);
  const expected = rules.form ?? (accepted.length === 1 ? String(accepted[0]) : `one of ${accepted.join(', ')}`);
  const isText = typeof accepted[0] === 'string';
  return (check, spot) => {
    const value = scalarOf(spot.node);
    const found = accepted.find((one) => one === value);
    if (found !== undefined) return found;
    const near = isText && typeof value === 'string' ? suggest(check, value, accepted) : undefined;
    const hint = typeof value === 'string' && !isText ? unquoted('the number') : rules.hint;
    const code = rules.code ?? (typeof value === 'string' ? 'invalid-value' : 'invalid-type');
    return wrong(check, spot, expected, compact({ code, hint: near === undefined ? hint : `Did you mean ${near}?` }));
  };
}

export interface TextRules {
  readonly most?: number;
  /** True: trimmed, as the spec says of the field; the trimmed text is what counts and what is kept. */
  readonly trim: boolean;
  /** False: not of space alone either, though nothing is trimmed. */
  readonly blank?: false;
  readonly what?: string;
}

/** A text of at least one character. */
export function text({ most = Number.POSITIVE_INFINITY, trim, blank, what }: TextRules): Reader<string> {
  return (check, spot) => {
    const raw = string(check, spot, what);
    if (raw === undefined) return undefined;
    const value = trim ? raw.trim() : raw;
    const path = () => pathOf(spot.trail);
    if (value === '' || (blank === false && value.trim() === ''))
      return faultAt(check, 'invalid-value', `${path()} must not be empty`, spot, {
        hint: 'Write a text; a field that is not needed is left out.',
      });
    if (!longerThan(value, most)) return value;
    const message = `${path()} must have at most ${most.toLocaleString('en-US')} characters`;
    return faultAt(check, 'invalid-value', message, spot);
  };
}

const quoteIt = 'Put the value in quotes.';

/** Any string, empty ones included. */
export function string(check: Check, spot: NodeRef, what = 'a text'): string | undefined {
  const value = scalarOf(spot.node);
  if (typeof value === 'string') return value;
  const quotable = value !== undefined && value !== null;
  return wrongType(check, spot, what, quotable ? quoteIt : undefined);
}

/** A map of any non-empty keys, each value read alike. Keys may be `__proto__`: the result has no prototype. */
export function recordOf<T>(
  read: (check: Check, spot: NodeRef, key: string) => T | undefined,
  what: string,
): Reader<{ readonly [key: string]: T }> {
  return (check, spot) => {
    const found = map(check, spot, what);
    if (found === undefined) return undefined;
    const record: { [key: string]: T } = Object.create(null);
    for (const [key, entry] of found.node.entries) {
      const value = read(
        check,
        { node: entry.value, key: entry.keyRange, trail: { parent: spot.trail, step: key } },
        key,
      );
      if (value !== undefined) record[key] = value;
    }
    return record;
  };
}

/** A scalar that JSON has: NaN and infinities are refused. */
export const scalar: Reader<JsonScalar> = (check, spot) => {
  if (spot.node.kind !== 'scalar') return wrongType(check, spot, 'a text, number, true, false or null');
  const value = spot.node.value;
  return typeof value !== 'number' || Number.isFinite(value) ? value : wrong(check, spot, 'a finite number');
};

/** Free-form JSON. */
export const json: Reader<Json> = (check, spot) => {
  if (spot.node.kind === 'scalar') return scalar(check, spot);
  if (spot.node.kind === 'map') return jsonObject(check, spot);
  return all(items(check, spot, 'a list'), (item) => json(check, item));
};
export const jsonObject: Reader<JsonObject> = (check, spot) => recordOf<Json>(json, 'a JSON object')(check, spot);

/** Leaves out what is undefined, so that a canonical record holds only what is set; keeps the order given. */
export function compact<T extends object>(record: { [K in keyof T]: T[K] | undefined }): T {
  const given = record as Record<string, unknown>;
  const kept: Record<string, unknown> = {};
  for (const key of Object.keys(given)) if (given[key] !== undefined) kept[key] = given[key];
  return kept as T;
}
