// Reading what came from outside by a schema, at a price that does not grow with how much of it is wrong.

import * as v from 'valibot';

/** Of a value with more parts than this, the first mistake is told: the library keeps an object for each, with its path. */
const partsMax = 2_000;

/** As the library's `safeParse`, with every mistake of a value of at most two thousand parts, and the first of a larger one. */
export function parseOutside<S extends v.GenericSchema>(schema: S, value: unknown): v.SafeParseResult<S> {
  const first = v.safeParse(schema, value, { abortEarly: true });
  return first.success || hasMoreParts(value) ? first : v.safeParse(schema, value);
}

function hasMoreParts(value: unknown): boolean {
  let parts = 0;
  const open = [value];
  while (open.length > 0) {
    const one = open.pop();
    if (typeof one !== 'object' || one === null) continue;
    const inner = Array.isArray(one) ? one : Object.values(one);
    parts += inner.length;
    if (parts > partsMax) return true;
    open.push(...inner);
  }
  return false;
}

/** Names that the schema library leaves out of every map, for fear of whoever assigns them. */
const leftOut = ['__proto__', 'constructor', 'prototype'];

interface Looked {
  typed: boolean;
  value: object;
  issues?: [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]] | undefined;
}
type KeySchema = v.BaseSchema<string, string, v.BaseIssue<unknown>>;

/** The schema of a map in which such a name is one as any other: what it has is held against the same rules, and kept. */
export function mapOf<const K extends KeySchema, const V extends v.GenericSchema>(
  key: K,
  value: V,
): v.RecordSchema<K, V, undefined> {
  const schema = v.record(key, value);
  return {
    ...schema,
    '~run': (dataset: v.UnknownDataset, config: v.Config<v.BaseIssue<unknown>>) => {
      const input = dataset.value as { readonly [name: string]: unknown };
      const read = schema['~run'](dataset, config);
      const looked = read as Looked;
      for (const name of typeof input === 'object' && input !== null ? leftOut : []) {
        if (!Object.hasOwn(input, name) || (looked.issues !== undefined && config.abortEarly === true)) continue;
        const held = {
          key: key['~run']({ value: name }, config),
          value: value['~run']({ value: input[name] }, config),
        };
        for (const origin of ['key', 'value'] as const) {
          const at = { type: 'object', origin, input, key: name, value: input[name] } as const;
          for (const { path = [], ...issue } of held[origin].issues ?? []) {
            looked.issues = [...(looked.issues ?? []), { ...issue, path: [at, ...path] }] as NonNullable<
              Looked['issues']
            >;
          }
          looked.typed &&= held[origin].typed;
        }
        // An assignment would set what the name means to the language.
        const member = { value: held.value.value, enumerable: true, writable: true, configurable: true };
        Object.defineProperty(looked.value, name, member);
      }
      return read;
    },
  };
}

/**
 * The schema of a map, which takes at most so many keys. One with more is refused before any of them is looked at, for what
 * looks at a key is slower than what sent it.
 */
export function withKeysMax<S extends v.GenericSchema>(schema: S, keysMax: number, what: string): S {
  const refusal = v.pipe(
    v.unknown(),
    v.check(() => false, `Expected at most ${keysMax} ${what}`),
  );
  const hasMore = (value: unknown): boolean =>
    typeof value === 'object' && value !== null && Object.keys(value).length > keysMax;
  return {
    ...schema,
    '~run': (dataset: v.UnknownDataset, config: v.Config<v.BaseIssue<unknown>>) =>
      (hasMore(dataset.value) ? refusal : schema)['~run'](dataset, config),
  };
}
