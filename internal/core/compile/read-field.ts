// Reads a value by its description (schemas/grammar.ts): type, limits, keys, defaults and messages come from there. A check
// that spans fields, or that needs the catalog, stands in the file of its part, and takes what is read here.

import type {
  AnyEither,
  AnyGroup,
  AnyKeyed,
  AnyVariants,
  Choice,
  Desc,
  Fields,
  Text,
  Value,
} from '../../../schemas/grammar.ts';
import { keysOf, whatOf } from '../../../schemas/grammar.ts';
import type { JsonObject, JsonScalar } from '../../domain/json.ts';
import { type Node, scalarOf } from '../source/node.ts';
import { noPayloadPrefix } from './check-prompts.ts';
import type { Check, ChoiceRules, Extra, MapRef, NodeRef, Reader, TextRules } from './read.ts';
import {
  boolean,
  compact,
  fault,
  faultAt,
  field,
  integer,
  jsonObject,
  listOf,
  map,
  missing,
  oneOf,
  pathOf,
  recordOf,
  scalar,
  strict,
  string,
  suggest,
  text,
  unknownKey,
  wrong,
} from './read.ts';
import { layerOf } from './variant-layer.ts';
import { resourceName } from './resource-name.ts';

/** The reader of a description; undefined where anything in the value is wrong, which has been reported. */
export function reading<D extends Desc>(desc: D): Reader<Value<D>> {
  const kept = readers.get(desc);
  if (kept !== undefined) return kept as Reader<Value<D>>;
  const made = makeReader(desc);
  readers.set(desc, made);
  return made as Reader<Value<D>>;
}
const readers = new WeakMap<Desc, Reader<unknown>>();

function makeReader(desc: Desc): Reader<unknown> {
  switch (desc.kind) {
    case 'text':
      return textReader(desc);
    case 'name':
      return resourceName;
    case 'choice':
      return choiceReader(desc);
    case 'whole':
      return integer(desc.least, desc.most ?? Number.MAX_SAFE_INTEGER, whatOf(desc) ?? '');
    case 'flag':
      return boolean;
    case 'scalar':
      return desc.exact === true ? exactScalar : scalar;
    case 'free':
      return desc.orNull === true ? jsonObjectOrNull : jsonObject;
    case 'list':
      return listOf(reading(desc.item), desc.what ?? 'a list', desc);
    case 'record':
      return recordReading(desc, reading(desc.value));
    case 'group':
      return desc.alone === undefined ? groupReader(desc) : aloneReader(desc, desc.alone);
    case 'variants':
      return (check, spot) => {
        const before = check.errors;
        const found = readVariant(check, spot, desc);
        return check.errors > before ? undefined : found?.fields;
      };
    case 'either':
      return eitherReader(desc);
  }
}

const groupReader =
  (desc: AnyGroup): Reader<unknown> =>
  (check, spot) => {
    const before = check.errors;
    const found = strict(check, spot, keysOf(desc), desc.what, desc.hint);
    const fields = found && readFields(check, found, desc.fields);
    return check.errors > before ? undefined : fields;
  };

function eitherReader(desc: AnyEither): Reader<unknown> {
  const [single, parts] = [reading(desc.single), reading(desc.parts)];
  const type = desc.parts.kind === 'list' ? 'seq' : 'map';
  const { what, hint } = desc;
  const isSingle = (node: Node): boolean => {
    if (node.kind !== 'scalar') return false;
    if (desc.single.kind === 'flag') return typeof node.value === 'boolean';
    return desc.single.kind === 'scalar' || typeof node.value === 'string';
  };
  return (check, spot) => {
    if (spot.node.kind === type) return parts(check, spot);
    if (what === undefined || isSingle(spot.node)) return single(check, spot);
    return wrong(check, spot, what, { code: 'invalid-type', ...(hint === undefined ? {} : { hint }) });
  };
}

/** A dot path without what no path has: empty segments, and whitespace around one. */
function plainPath(key: string, prefix: string): string {
  const isPrefixed = key.trimStart().startsWith(prefix);
  const segments = (isPrefixed ? key.trimStart().slice(prefix.length) : key).split('.').map((part) => part.trim());
  const named = segments.filter((part) => part !== '');
  return named.length > 1 || isPrefixed ? `${prefix}${named.join('.')}` : named.join('');
}

/** A map of keys that the author chooses; the value under a key that cannot be one is judged all the same. */
export function recordReading<T>(desc: AnyKeyed, read: Reader<T>): Reader<{ readonly [key: string]: T }> {
  const whole = new RegExp(desc.pattern === undefined ? '^[^]' : `^(?:${desc.pattern})$`, 'u');
  const message = desc.keyMessage ?? '{path}: a key must not be empty';
  return recordOf((check, spot, key) => {
    if (whole.test(key)) return read(check, spot);
    const path = pathOf(spot.trail);
    const shown = key.slice(0, 80).toWellFormed();
    const prefixed = desc.keyPrefix !== undefined && whole.test(desc.keyPrefix + key);
    const plain =
      desc.keyPrefix === undefined ? shown.replaceAll(/[^A-Za-z0-9_]/g, '_') : plainPath(shown, desc.keyPrefix);
    const mended = prefixed
      ? `Write ${desc.keyPrefix}${shown}`
      : whole.test(plain)
        ? `Did you mean ${plain}?`
        : undefined;
    const extra = mended === undefined ? {} : { hint: mended };
    const said = filled(message, { path, key: JSON.stringify(shown) });
    fault(check, desc.keyCode ?? 'invalid-value', said, spot.key, path, extra);
    read(check, spot);
    return undefined;
  }, desc.what ?? 'a map');
}

const filled = (message: string, words: { readonly [name: string]: string }): string =>
  message.replaceAll(/\{(\w+)\}/g, (token, name: string) => words[name] ?? token);

/** A scalar as events compare with it: a number that a double cannot hold by its digits (docs/reference/http-api.md#conventions). */
const exactScalar: Reader<JsonScalar> = (check, spot) =>
  spot.node.kind === 'scalar' && spot.node.exact !== undefined ? spot.node.exact : scalar(check, spot);

const jsonObjectOrNull: Reader<JsonObject | null> = (check, spot) =>
  spot.node.kind === 'scalar' && spot.node.value === null ? null : jsonObject(check, spot);

function choiceReader(desc: Choice): Reader<unknown> {
  const { legacy, code, form, hint } = desc;
  return oneOf(desc.values as readonly string[], compact<ChoiceRules>({ legacy, code, form, hint }));
}

function textReader(desc: Text): Reader<string> {
  const { least, most, trim, pattern, what, code, hint, blank, tokens } = desc;
  const isEscaped = desc.counted === 'escaped';
  const rules = compact<TextRules>({ trim, most: isEscaped ? undefined : most, what, blank });
  const read: Reader<string> = least === 0 ? (check, spot) => string(check, spot, what) : text(rules);
  const further: ((check: Check, spot: NodeRef, value: string) => void)[] = [];
  if (pattern !== undefined) {
    const whole = new RegExp(`^(?:${pattern})$`, 'u');
    const expected = desc.form ?? what ?? `a text that matches ${pattern}`;
    const extra = compact<NonNullable<Parameters<typeof wrong>[3]>>({ code, hint });
    further.push((check, spot, value) => {
      if (!whole.test(value)) wrong(check, spot, expected, extra);
    });
  }
  if (isEscaped) further.push(escapedRule(desc, most ?? Number.POSITIVE_INFINITY));
  if (tokens === 'payload') further.push(noPayloadPrefix);
  return (check, spot) => {
    const value = read(check, spot);
    if (value === undefined) return undefined;
    const before = check.errors;
    for (const rule of further) {
      rule(check, spot, trim ? value.trim() : value);
      if (check.errors > before) return undefined;
    }
    return value;
  };
}

/** Length in JSON-escaped form: `"`, `\`, `/` count 2, non-ASCII 6 a UTF-16 unit, control characters as JSON escapes them. */
export function escapedLength(value: string): number {
  let length = 0;
  for (let index = 0; index < value.length; index++) {
    const unit = value.charCodeAt(index);
    if (unit === 0x22 || unit === 0x5c || unit === 0x2f) length += 2;
    else if (unit < 0x20) length += '\b\t\n\f\r'.includes(value.charAt(index)) ? 2 : 6;
    else length += unit < 0x80 ? 1 : 6;
  }
  return length;
}

const escapedRule =
  ({ code = 'invalid-value', hint }: Text, most: number) =>
  (check: Check, spot: NodeRef, value: string): void => {
    const length = escapedLength(value);
    if (length <= most) return;
    const message = `${pathOf(spot.trail)} must have at most ${most} characters in JSON-escaped form, not ${length}`;
    faultAt(check, code, message, spot, compact<Extra>({ hint }));
  };

/** A map with exactly one of the keys, such as a clause with its operator. */
function aloneReader(desc: AnyGroup, { noun, code }: NonNullable<AnyGroup['alone']>): Reader<unknown> {
  const known = keysOf(desc);
  return (check, spot) => {
    const found = map(check, spot, desc.what);
    if (found === undefined) return undefined;
    const before = check.errors;
    const path = (): string => pathOf(spot.trail);
    let first: { readonly key: string; readonly desc: Desc; readonly spot: NodeRef } | undefined;
    for (const [key, { value, keyRange }] of found.node.entries) {
      const trail = { parent: spot.trail, step: key };
      const chosen = Object.hasOwn(desc.fields, key) ? desc.fields[key] : undefined;
      if (chosen === undefined) {
        const near = suggest(check, key, known);
        const hint =
          near === undefined
            ? `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s: ${known.join(', ')}.`
            : `Did you mean ${near}?`;
        const name = JSON.stringify(key.slice(0, 80).toWellFormed());
        fault(check, code, `Unknown ${noun} ${name} in ${path()}`, keyRange, pathOf(trail), { hint });
      } else if (first !== undefined) {
        const message = `${path()} must have exactly one ${noun}; ${key} is a further one`;
        fault(check, code, message, keyRange, pathOf(trail), { hint: 'Keep one of them.' });
      } else {
        first = { key, desc: chosen, spot: { node: value, key: keyRange, trail } };
      }
    }
    if (found.node.entries.size === 0)
      fault(check, code, `${path()} must have exactly one ${noun}: ${known.join(', ')}`, spot.node.range, path());
    if (check.errors > before || first === undefined) return undefined;
    const value = reading(first.desc)(check, first.spot);
    return value === undefined ? undefined : { [first.key]: value };
  };
}

/** The group that a map says it is; one that it cannot be is reported. */
export function variantOf(check: Check, spot: MapRef, desc: AnyVariants): AnyGroup | AnyVariants | undefined {
  const at = field(spot, desc.by);
  if (at === undefined && desc.absent !== undefined) return desc.variants[desc.absent];
  if (at === undefined) {
    const choose = desc.choose ?? `Write one of ${Object.keys(desc.variants).join(', ')}.`;
    return missing(check, spot, desc.by, choose);
  }
  const written = String(scalarOf(at.node));
  const legacy = desc.legacy !== undefined && Object.hasOwn(desc.legacy, written) ? desc.legacy[written] : undefined;
  if (legacy !== undefined) return desc.variants[legacy];
  const value = kindReader(desc)(check, at);
  return value === undefined ? undefined : desc.variants[value];
}

/** Of the field that says which group it is; made once for each description, which is asked of every document. */
function kindReader(desc: AnyVariants): Reader<string> {
  const kept = kindReaders.get(desc);
  if (kept !== undefined) return kept;
  const made = oneOf(Object.keys(desc.variants), compact<ChoiceRules>({ code: desc.code }));
  kindReaders.set(desc, made);
  return made;
}
const kindReaders = new WeakMap<AnyVariants, Reader<string>>();

/** A map that is one of several groups: which one, where it stands, and its fields, as `readFields` gives them. */
export interface VariantRead {
  readonly desc: AnyGroup;
  readonly spot: MapRef;
  readonly fields: { readonly [key: string]: unknown };
}

/** The group that a map says it is, with its fields; undefined where it does not say it, which has been reported. */
export function readVariant(
  check: Check,
  spot: NodeRef,
  desc: AnyVariants,
  own: Own<Fields> = {},
): VariantRead | undefined {
  const found = map(check, spot, desc.what, desc.hint);
  if (found === undefined) return undefined;
  const variant = variantOf(check, found, desc);
  if (variant === undefined) return undefined;
  if (variant.kind === 'variants') return readVariant(check, spot, variant, own);
  strictVariant(check, found, desc, variant);
  return { desc: variant, spot: found, fields: readFields(check, found, variant.fields, own) };
}

/** Keys that a group does not have: unknown ones, and those that another group of its variants has. */
function strictVariant(check: Check, spot: MapRef, desc: AnyVariants, group: AnyGroup): void {
  const known = keysOf(group);
  for (const [key, entry] of spot.node.entries) {
    if (known.includes(key)) continue;
    const owners = Object.entries(desc.variants).flatMap(([name, other]) => {
      const field = other.kind === 'group' && Object.hasOwn(other.fields, key) ? other.fields[key] : undefined;
      return field === undefined ? [] : [{ name, field }];
    });
    const [owner] = owners;
    const said = owner && (owner.field.misplaced ?? group.others);
    if (said === undefined) {
      unknownKey(check, spot, key, entry.keyRange, known);
      continue;
    }
    const by = field(spot, desc.by);
    const words = {
      key,
      path: pathOf(spot.trail, key),
      own: by === undefined ? '' : String(scalarOf(by.node)),
      owners: owners.map(({ name }) => name).join(' and '),
    };
    const message = filled(said.message, words) + layerOf(entry.keyRange.file, by, desc.by);
    fault(check, said.code, message, entry.keyRange, words.path);
  }
}

/** What stands in place of a field's own reader, where a rule needs more than the field. */
export type Own<F extends Fields> = { readonly [K in keyof F]?: Reader<unknown> };
export type Read<F extends Fields> = { -readonly [K in keyof F]: Value<F[K]> | undefined };

/**
 * The fields of a group, in the order of its table: defaults filled in, authoring-only ones left out, undefined what is absent
 * or wrong. A required field that is missing is reported. What is not in the table has been, by whoever read the map.
 */
export function readFields<F extends Fields>(check: Check, spot: MapRef, fields: F, own: Own<F> = {}): Read<F> {
  const values: { [key: string]: unknown } = {};
  for (const row of rowsOf(fields)) {
    const { key, desc } = row;
    const at = field(spot, key);
    const value =
      at === undefined ? absent(check, spot, key, desc) : (own[key] ?? (row.read ??= reading(desc)))(check, at);
    if (value !== undefined && desc.stored !== false) values[key] = value;
  }
  // Each value was read by its own field's reader.
  return values as Read<F>;
}

interface Row {
  readonly key: string;
  readonly desc: Desc;
  read: Reader<unknown> | undefined;
}

/** The fields of a table, which are walked for every document, as a list. */
function rowsOf(fields: Fields): readonly Row[] {
  const kept = rows.get(fields);
  if (kept !== undefined) return kept;
  const made = Object.entries(fields).map(([key, desc]): Row => ({ key, desc, read: undefined }));
  rows.set(fields, made);
  return made;
}
const rows = new WeakMap<Fields, readonly Row[]>();

function absent(check: Check, spot: MapRef, key: string, desc: Desc): unknown {
  if (desc.required === true) return missing(check, spot, key, desc.lacking);
  return desc.default;
}
