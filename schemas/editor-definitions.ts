// What a schema says several times is said once, under `definitions`, so that the file is small and an editor reads it once.

import type { Json } from '../internal/domain/json.ts';

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
export function hoisted(root: Schema): Schema {
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
