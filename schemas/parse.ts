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
