// What of a payload its table does not list; for tests of whoever makes payloads. Only tests import this.

import { objectAt } from './fields.ts';
import type { JsonObject } from './json.ts';
import { mayHave, payloadPaths } from './payloads.ts';

/** Paths of a payload that the table of its event's payload has not; all of them where there is no table. */
export function unlistedPaths(key: string, payload: JsonObject): string[] {
  const listed = payloadPaths(key) ?? [];
  const found: string[] = [];
  const walk = (value: JsonObject, before: string): void => {
    for (const [name, part] of Object.entries(value)) {
      const path = `${before}${name}`;
      if (!mayHave(listed, path)) found.push(path);
      else if (path !== 'raw') walk(objectAt(part), `${path}.`);
    }
  };
  walk(payload, '');
  return found;
}
