// Reads a value by its description (schemas/grammar.ts): type, limits, keys, defaults and messages come from there. A check
// that spans fields, or that needs the catalog, stands in the file of its part, and takes what is read here.

import type { Desc, Fields, Value } from '../../../schemas/grammar.ts';
import { type AnyGroup, type AnyVariants, keysOf, type Text, whatOf } from '../../../schemas/grammar.ts';
import type { Check, MapSpot, Reader } from './read.ts';
import {
  boolean,
  field,
  integer,
  jsonObject,
  listOf,
  map,
  missing,
  oneOf,
  recordOf,
  resourceName,
  scalar,
  strict,
  string,
  text,
  wrong,
} from './read.ts';

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
      return oneOf(desc.values as readonly string[], desc.code);
    case 'whole':
      return integer(desc.least, desc.most ?? Number.MAX_SAFE_INTEGER, whatOf(desc) ?? '');
    case 'flag':
      return boolean;
    case 'scalar':
      return scalar;
    case 'free':
      return jsonObject;
    case 'list':
      return listOf(reading(desc.item), desc.what ?? 'a list', desc.least, desc.most, desc.code);
    case 'record': {
      const read = reading(desc.value);
      return recordOf((check, spot) => read(check, spot), desc.what ?? 'a map');
    }
    case 'group':
      return (check, spot) => {
        const before = check.errors;
        const found = strict(check, spot, keysOf(desc), desc.what);
        const fields = found && readFields(check, found, desc.fields);
        return check.errors > before ? undefined : fields;
      };
    case 'variants':
      return (check, spot) => {
        const found = map(check, spot, desc.what);
        const variant = found && variantOf(check, found, desc);
        return variant === undefined ? undefined : reading(variant)(check, spot);
      };
    case 'either': {
      const [single, parts] = [reading(desc.single), reading(desc.parts)];
      const type = desc.parts.kind === 'list' ? 'seq' : 'map';
      return (check, spot) => (spot.node.kind === type ? parts : single)(check, spot);
    }
  }
}

function textReader(desc: Text): Reader<string> {
  const { least, most, trim, pattern, what, code } = desc;
  const rules = { trim, ...(most === undefined ? {} : { most }), ...(what === undefined ? {} : { what }) };
  const read: Reader<string> = least === 0 ? (check, spot) => string(check, spot, what) : text(rules);
  if (pattern === undefined) return read;
  const whole = new RegExp(`^(?:${pattern})$`, 'u');
  const expected = what ?? `a text that matches ${pattern}`;
  return (check, spot) => {
    const value = read(check, spot);
    if (value === undefined || whole.test(value)) return value;
    return wrong(check, spot, expected, code === undefined ? {} : { code });
  };
}

/** The group that a map says it is; one that it cannot be is reported. */
export function variantOf(check: Check, spot: MapSpot, desc: AnyVariants): AnyGroup | AnyVariants | undefined {
  const at = field(spot, desc.by);
  if (at === undefined && desc.absent !== undefined) return desc.variants[desc.absent];
  if (at === undefined) return missing(check, spot, desc.by);
  const value = oneOf(Object.keys(desc.variants), desc.code)(check, at);
  return value === undefined ? undefined : desc.variants[value];
}

/** What stands in place of a field's own reader, where a rule needs more than the field. */
type Own<F extends Fields> = { readonly [K in keyof F]?: Reader<unknown> };
type Read<F extends Fields> = { -readonly [K in keyof F]: Value<F[K]> | undefined };

/**
 * The fields of a group, in the order of its table: defaults filled in, authoring-only ones left out, undefined what is absent
 * or wrong. A required field that is missing is reported. What is not in the table has been, by whoever read the map.
 */
export function readFields<F extends Fields>(check: Check, spot: MapSpot, fields: F, own: Own<F> = {}): Read<F> {
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

function absent(check: Check, spot: MapSpot, key: string, desc: Desc): unknown {
  if (desc.required === true) return missing(check, spot, key, hintFor(desc));
  return desc.default;
}

/** What to write where a required field is missing, where it is not plain. */
const hintFor = (desc: Desc): string | undefined =>
  desc.kind === 'text' && desc.what?.startsWith('a duration') ? 'Write a duration such as 24h.' : undefined;
