// The JSON Schemas as an editor uses them: read by a validator of their own, against every document of a tree that compiles.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ajv, type ValidateFunction } from 'ajv';
import { readSource } from '../source/source.ts';
import { toPlain } from '../source/node.ts';
import { jsonSchema, type SchemaKind } from '../../../schemas/json-schema.ts';

const rootDir = fileURLToPath(new URL('../../../testdata/compile', import.meta.url));
const validator = (kind: SchemaKind): ValidateFunction =>
  new Ajv({ strict: true, allErrors: true }).compile(jsonSchema(kind));
const agent = validator('agent');

function documentsOf(folder: string): [file: string, value: unknown][] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && ['.yaml', '.yml', '.json'].includes(extname(entry.name)))
    .map((entry) => join(entry.parentPath, entry.name));
  return files.flatMap((file) =>
    readSource(basename(file), readFileSync(file)).documents.map(({ root }): [string, unknown] => [
      file,
      JSON.parse(JSON.stringify(toPlain(root))),
    ]),
  );
}

test('an editor finds nothing wrong with the documents of the trees that compile', () => {
  let count = 0;
  for (const name of readdirSync(rootDir)) {
    const { ok } = JSON.parse(readFileSync(join(rootDir, name, 'expected.json'), 'utf8'));
    for (const [file, value] of ok === true ? documentsOf(join(rootDir, name, 'in')) : []) {
      assert.ok(agent(value), `${file}: ${JSON.stringify(agent.errors)}`);
      count++;
    }
  }
  assert.ok(count > 50, `${count} documents`);
});

const mistakes: readonly (readonly [SchemaKind, unknown])[] = [
  ['agent', { model: { id: 'x', temperature: 1 } }],
  ['agent', { triggers: [{ kind: 'heartbeat', connection: 'x' }] }],
  ['agent', { triggers: [{ where: { a: { equals: 1 } } }] }],
  ['agent', { triggers: [{ where: { 'a.b': 1 } }] }],
  ['agent', { triggers: [{ auth: { kind: 'basic' } }] }],
  ['agent', { triggers: [{ checks: [{ name: 'x', displayName: 'X', description: 'x', foo: 1 }] }] }],
  ['agent', { env: { A: 1 } }],
  ['agent', { env: { '1A': 'x' } }],
  ['agent', { tools: { t: { kind: 'mcp' } } }],
  ['agent', { mounts: [{ auth: { kind: 'codehostApp', capabilities: { foo: 'read' } } }] }],
  ['agent', { session: { x: 1 } }],
  ['agent', { spendCaps: { dailyUsd: 3 } }],
  ['agent', { variables: { a: [1] } }],
  ['agent', { variables: { a: null } }],
  ['environment', { name: 'e', image: { kind: 'dockerfile', name: 'base' } }],
  ['environment', { setupCache: { ttl: '1w' } }],
  ['identity', { displayname: 'x' }],
  ['config', { listne: 'x' }],
];

test('an editor shows clear mistakes: unknown keys of strict objects, values outside a list, wrong types', () => {
  for (const [kind, value] of mistakes) assert.ok(!validator(kind)(value), JSON.stringify(value));
});

test('a mistake is one error: what chooses among groups of fields adds none of its own', () => {
  for (const [kind, value] of mistakes.filter(([one]) => one !== 'config')) {
    const validate = validator(kind);
    validate(value);
    const told = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'if');
    assert.equal(told.length, 1, `${JSON.stringify(value)}: ${JSON.stringify(told)}`);
  }
});
