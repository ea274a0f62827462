// A description → the JSON Schema that an editor reads (draft-07). It is the schema of what one file may hold before imports
// make it whole: nearly every field may be absent, the root is open, a `{{ $name }}` token may stand in any text. Groups that
// one key tells apart are chosen by it (`if`, `then`), so that a mistake is one error and not one a group.

import type { Json } from '../internal/domain/json.ts';
import type { AnyEither, AnyGroup, AnyList, AnyVariants, Choice, Desc, Text } from './grammar.ts';

/** How a description is turned into a schema at one place. */
interface Place {
  /** True at the root of an agent document, where a bare `key:` counts as not written. */
  readonly nullable?: boolean;
  /** True where no import can bring what is missing: in items of lists that do not merge. */
  readonly isWhole?: boolean;
}

const token = '\\{\\{';
/** A pattern that spaces around the text, or a token in it, may pass. */
const tolerant = (pattern: string): string => `^\\s*(?:${pattern})\\s*$|${token}`;
const namePattern = '[A-Za-z0-9_.-]{1,128}';

/** What is said of every value: for hovers and completion. */
function about(desc: Desc): Schema {
  const { description, rule, otherwise, example } = desc;
  const said = [description, rule, otherwise === undefined ? undefined : `Where absent: ${otherwise}.`].filter(Boolean);
  return {
    description: said.join(' '),
    ...(desc.default === undefined ? {} : { default: desc.default }),
    ...(example === undefined ? {} : { examples: [example] }),
    ...(desc.legacyOf === undefined ? {} : { deprecated: true }),
  };
}

const typed = (type: string, place: Place): Schema => ({ type: place.nullable === true ? [type, 'null'] : type });

function schemaOf(desc: Desc, place: Place): Schema {
  switch (desc.kind) {
    case 'text':
      return textSchema(desc, place);
    case 'name':
      return { ...typed('string', place), pattern: tolerant(namePattern) };
    case 'choice':
      return choiceSchema(desc, place);
    case 'whole':
      return {
        ...typed('integer', place),
        minimum: desc.least,
        ...(desc.most === undefined ? {} : { maximum: desc.most }),
      };
    case 'flag':
      return typed('boolean', place);
    case 'scalar':
      return {
        not: { anyOf: ['object', 'array', ...(desc.notNull === true ? ['null'] : [])].map((type) => ({ type })) },
      };
    case 'free':
      return typed('object', { nullable: desc.orNull === true || place.nullable === true });
    case 'list':
      return listSchema(desc, place);
    case 'record':
      return {
        ...typed('object', place),
        patternProperties: {
          [desc.pattern === undefined ? '[\\s\\S]' : `^(?:${desc.pattern})$|${token}`]: valueSchema(desc.value, {
            isWhole: place.isWhole === true,
          }),
        },
        additionalProperties: false,
      };
    case 'group':
      return groupSchema(desc, place);
    case 'variants':
      return variantsSchema(desc, place);
    case 'either':
      return eitherSchema(desc, place);
  }
}

const valueSchema = (desc: Desc, place: Place): Schema => ({ ...about(desc), ...schemaOf(desc, place) });

function textSchema(desc: Text, place: Place): Schema {
  const plain: Schema = {
    ...typed('string', place),
    ...(desc.least === 0 ? {} : { minLength: desc.least }),
    ...(desc.most === undefined ? {} : { maxLength: desc.most }),
    ...(desc.pattern === undefined ? {} : { pattern: tolerant(desc.pattern) }),
    ...(desc.suggestions === undefined ? {} : { examples: desc.suggestions }),
  };
  if (desc.fileBacked === undefined) return plain;
  const file = { type: 'string', minLength: 1, description: 'Path of a file of text, relative to this one.' };
  const append = { type: 'string', description: 'Put behind the imported base, without a separator.' };
  const forms = {
    type: 'object',
    properties: { file, append },
    additionalProperties: false,
    minProperties: 1,
    maxProperties: 1,
  };
  return { if: { type: 'object' }, then: forms, else: plain };
}

function choiceSchema(desc: Choice, place: Place): Schema {
  const values = [...desc.values, ...(desc.legacy ?? [])];
  const type = typeof values[0] === 'number' ? 'integer' : 'string';
  return { ...typed(type, place), enum: [...values, ...(place.nullable === true ? [null] : [])] };
}

const mergedItems: ReadonlySet<string> = new Set(['a list of mounts', 'a list of triggers']);

function listSchema(desc: AnyList, place: Place): Schema {
  const isWhole = place.isWhole === true || !mergedItems.has(desc.what ?? '');
  return {
    ...typed('array', place),
    items: valueSchema(desc.item, { isWhole }),
    ...(desc.least === 0 ? {} : { minItems: desc.least }),
    ...(desc.most === undefined ? {} : { maxItems: desc.most }),
  };
}

/** The fields of a group with what must be there; `also` are fields beside them. */
function fieldsSchema(desc: AnyGroup, place: Place): Schema {
  const within = { isWhole: place.isWhole === true };
  const properties = Object.fromEntries(
    Object.entries(desc.fields).map(([key, field]) => [
      key,
      valueSchema(field, desc.open ? { nullable: true } : within),
    ]),
  );
  const required = Object.entries(desc.fields).flatMap(([key, field]) => (field.required === true ? [key] : []));
  return {
    properties,
    ...(place.isWhole === true && required.length > 0 ? { required } : {}),
    ...(desc.open ? {} : { additionalProperties: false }),
  };
}

const groupSchema = (desc: AnyGroup, place: Place): Schema => ({
  ...typed('object', place),
  ...fieldsSchema(desc, place),
});

const chosen = (by: string, values: readonly string[]): Schema => ({
  properties: { [by]: values.length === 1 ? { const: values[0] ?? '' } : { enum: values } },
  required: [by],
});

function variantsSchema(desc: AnyVariants, place: Place): Schema {
  const { by, variants, legacy = {} } = desc;
  const names = Object.keys(variants);
  const spellings = (name: string): string[] => [name, ...Object.keys(legacy).filter((one) => legacy[one] === name)];
  const branches = Object.entries(variants).map(([name, variant]): Schema => {
    const inner = variant.kind === 'group' ? fieldsSchema(variant, place) : variantsSchema(variant, place);
    return { if: chosen(by, spellings(name)), then: inner };
  });
  const all = names.flatMap(spellings);
  const undecided = {
    properties: { ...anyField(desc), [by]: { type: 'string', enum: all } },
    additionalProperties: false,
  };
  const lacking = place.isWhole === true && desc.absent === undefined ? { ...undecided, required: [by] } : undecided;
  return { ...typed('object', place), allOf: [...branches, { if: chosen(by, all), else: lacking }] };
}

/** The fields of all variants, for a map that does not say which it is; one that they have different is not judged. */
function anyField(desc: AnyVariants): { [key: string]: Schema } {
  const found: { [key: string]: Schema } = {};
  for (const variant of Object.values(desc.variants)) {
    const fields: { [key: string]: Schema } = variant.kind === 'variants' ? anyField(variant) : {};
    if (variant.kind === 'group')
      for (const [key, field] of Object.entries(variant.fields)) fields[key] = valueSchema(field, {});
    for (const [key, schema] of Object.entries(fields)) {
      const other = found[key];
      found[key] = other === undefined || JSON.stringify(other) === JSON.stringify(schema) ? schema : {};
    }
  }
  return found;
}

function eitherSchema(desc: AnyEither, place: Place): Schema {
  const parts: Desc = desc.parts;
  const type = parts.kind === 'list' ? 'array' : 'object';
  // A clause of `where` has exactly one operator.
  const alone = desc.single.kind === 'scalar' ? { minProperties: 1, maxProperties: 1 } : {};
  const single: Desc = desc.single;
  const otherwise = single.kind === 'scalar' ? { not: { type: 'array' } } : schemaOf(single, place);
  return { if: { type }, then: { ...schemaOf(parts, { isWhole: place.isWhole === true }), ...alone }, else: otherwise };
}

/** The schema of a document. */
export function editorSchema(desc: AnyGroup, title: string): Schema {
  const schema = valueSchema(desc, {});
  return hoistDefinitions({ $schema: 'http://json-schema.org/draft-07/schema#', title, ...schema });
}

// What a schema says several times is said once, under `definitions`, so that the file is small and an editor reads it once.

export type Schema = { readonly [keyword: string]: Json | Schema | readonly (Json | Schema)[] };

/** Schemas shorter than this stay where they are. */
const lengthMin = 160;

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The schemas directly inside one, each with the name of the property that it stands under. */
function* inner(schema: Schema): Generator<{ readonly name: string; readonly schema: Schema }> {
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === 'properties' || keyword === 'patternProperties') {
      for (const [name, one] of Object.entries(value as Schema)) if (isSchema(one)) yield { name, schema: one };
    } else if (keyword === 'allOf') {
      for (const one of value as readonly Schema[]) yield { name: '', schema: one };
    } else if ((keyword === 'items' || keyword === 'then' || keyword === 'else') && isSchema(value)) {
      yield { name: '', schema: value };
    }
  }
}

/** The same schema, with what it repeats under `definitions`, each named after the field where it stands first. */
export function hoistDefinitions(root: Schema): Schema {
  const counts = new Map<string, { count: number; name: string }>();
  const visit = (schema: Schema, name: string): void => {
    for (const one of inner(schema)) {
      const own = /^[A-Za-z]/.test(one.name) ? one.name : name;
      const text = JSON.stringify(one.schema);
      const kept = counts.get(text);
      if (kept === undefined) counts.set(text, { count: 1, name: own });
      else kept.count += 1;
      // What is inside a repeated one is counted with its first appearance.
      if (kept === undefined) visit(one.schema, own);
    }
  };
  visit(root, 'root');
  const definitions: { [name: string]: Schema } = {};
  const names = new Map<string, string>();
  const rebuilt = (schema: Schema): Schema => {
    const made: { [keyword: string]: unknown } = {};
    for (const [keyword, value] of Object.entries(schema)) {
      if (keyword === 'properties' || keyword === 'patternProperties')
        made[keyword] = Object.fromEntries(
          Object.entries(value as Schema).map(([key, one]) => [key, isSchema(one) ? placed(one) : one]),
        );
      else if (keyword === 'allOf') made[keyword] = (value as readonly Schema[]).map(placed);
      else if ((keyword === 'items' || keyword === 'then' || keyword === 'else') && isSchema(value))
        made[keyword] = placed(value);
      else made[keyword] = value;
    }
    return made as Schema;
  };
  const placed = (schema: Schema): Schema => {
    const text = JSON.stringify(schema);
    const kept = counts.get(text);
    if (kept === undefined || kept.count < 2 || text.length < lengthMin || !('type' in schema || 'if' in schema))
      return rebuilt(schema);
    let name = names.get(text);
    if (name === undefined) {
      name = kept.name;
      for (let suffix = 2; name in definitions; suffix++) name = `${kept.name}${suffix}`;
      names.set(text, name);
      definitions[name] = schema;
      definitions[name] = rebuilt(schema);
    }
    return { $ref: `#/definitions/${name}` };
  };
  const schema = rebuilt(root);
  return Object.keys(definitions).length === 0 ? schema : { ...schema, definitions };
}
