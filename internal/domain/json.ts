// JSON as a type, and its one canonical text: keys sorted by code unit, no white space.

export type JsonScalar = string | number | boolean | null;
export type Json = JsonScalar | readonly Json[] | { readonly [key: string]: Json | undefined };
export type JsonObject = { readonly [key: string]: Json | undefined };

/** Canonical JSON: equal values give equal text whatever the order of their keys; undefined members are left out. */
export function canonicalJson(value: Json | undefined): string {
  if (value === undefined) return 'null';
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  let text = '';
  if (Array.isArray(value)) {
    for (const item of value) text += text === '' ? canonicalJson(item) : `,${canonicalJson(item)}`;
    return `[${text}]`;
  }
  const record = value as JsonObject;
  for (const key of sortedKeys(record)) {
    const member = record[key];
    if (member === undefined) continue;
    const name = plainKey.test(key) ? `"${key}"` : JSON.stringify(key);
    text += text === '' ? `${name}:${canonicalJson(member)}` : `,${name}:${canonicalJson(member)}`;
  }
  return `{${text}}`;
}

/** A key that JSON writes as it is. */
const plainKey = /^[\w.$-]*$/;

/** Of more keys than this the engine's own sort is quicker. */
const fewKeys = 24;

/** Keys by code unit. Most records have a few, nearly in order. */
function sortedKeys(record: JsonObject): readonly string[] {
  const keys = Object.keys(record);
  if (keys.length > fewKeys) return keys.sort();
  for (let next = 1; next < keys.length; next += 1) {
    const key = keys[next] as string;
    let at = next;
    for (; at > 0 && (keys[at - 1] as string) > key; at -= 1) keys[at] = keys[at - 1] as string;
    keys[at] = key;
  }
  return keys;
}
