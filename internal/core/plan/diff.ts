// Field-level differences of two JSON values, in a fixed order: members by name, items by index.

import type { Json, JsonObject } from '../../domain/json.ts';
import type { Change } from './types.ts';

const isObject = (value: Json | undefined): value is JsonObject =>
  value !== null && typeof value === 'object' && !Array.isArray(value);

/** The JSON path of a member: `triggers[0].where["$.a.b"]`. */
export function memberPath(path: string, key: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_-]*$/.test(key)) return `${path}[${JSON.stringify(key)}]`;
  return path === '' ? key : `${path}.${key}`;
}

/** Changes that turn `from` into `to`; a side that has no value at a path is null there. Texts are kept whole. */
export function diffJson(from: Json | undefined, to: Json | undefined, path = ''): Change[] {
  if (isObject(from) && isObject(to)) return diffObjects(from, to, path);
  if (Array.isArray(from) && Array.isArray(to)) {
    const changes: Change[] = [];
    for (let index = 0; index < Math.max(from.length, to.length); index += 1) {
      changes.push(...diffJson(from[index] as Json, to[index] as Json, `${path}[${index}]`));
    }
    return changes;
  }
  return from === to ? [] : [{ path, from: from ?? null, to: to ?? null }];
}

function diffObjects(from: JsonObject, to: JsonObject, path: string): Change[] {
  const keys = new Set([...Object.keys(from), ...Object.keys(to)]);
  const changes: Change[] = [];
  for (const key of [...keys].sort()) {
    const before = Object.hasOwn(from, key) ? from[key] : undefined;
    const after = Object.hasOwn(to, key) ? to[key] : undefined;
    changes.push(...diffJson(before, after, memberPath(path, key)));
  }
  return changes;
}
