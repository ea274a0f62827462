// Holds objects against the published API of Kubernetes (fields.json) and against the schema of agent-sandbox's claims.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';

const read = (name: string): unknown => JSON.parse(readFileSync(join(import.meta.dirname, name), 'utf8'));
const { types } = read('fields.json') as { types: { readonly [type: string]: { readonly [field: string]: string } } };

/** What is wrong with a value of a type of fields.json, by path: what is unknown, missing, or of another kind. */
export function wrongs(value: unknown, type: string, path: string): string[] {
  const list = /^Array<(.+)>$/.exec(type)?.[1];
  if (list !== undefined)
    return Array.isArray(value)
      ? value.flatMap((one, at) => wrongs(one, list, `${path}[${at}]`))
      : [`${path} is no list`];
  const map = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1];
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (map !== undefined)
    return isObject
      ? Object.entries(value).flatMap(([key, one]) => wrongs(one, map, `${path}.${key}`))
      : [`${path} is no map`];
  const fields = types[type];
  if (fields === undefined) {
    const isRight =
      type === 'IntOrString'
        ? ['string', 'number'].includes(typeof value)
        : type === 'any' || type === 'object' || typeof value === (type === 'Date' ? 'string' : type);
    return isRight ? [] : [`${path} is no ${type}`];
  }
  if (!isObject) return [`${path} is no ${type}`];
  const missing = Object.entries(fields).flatMap(([name, one]) =>
    one.startsWith('!') && !(name in value) ? [`${path} has no ${name}`] : [],
  );
  const found = Object.entries(value).flatMap(([name, one]) => {
    const of = fields[name];
    return of === undefined ? [`${path}.${name} is unknown`] : wrongs(one, of.replace(/^!/, ''), `${path}.${name}`);
  });
  return [...missing, ...found];
}

/** A server that decodes strictly refuses what the schema does not name. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const found = Object.fromEntries(Object.entries(schema).map(([key, one]) => [key, closed(one)]));
  const isOpen = !('properties' in found) || 'additionalProperties' in found;
  return isOpen ? found : { ...found, additionalProperties: false };
}

const { schema } = read('sandboxclaim.json') as { schema: { readonly properties: object } };
const open = closed(schema) as { properties: object };
const claim = new Ajv({ strict: false, allErrors: true, validateFormats: false }).compile({
  ...open,
  // The server itself knows the metadata of every object.
  properties: { ...open.properties, metadata: { type: 'object' } },
});

/** What is wrong with a SandboxClaim. */
export function claimWrongs(value: unknown): string[] {
  if (claim(value)) return [];
  return (claim.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}
