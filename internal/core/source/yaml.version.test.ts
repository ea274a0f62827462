// The reader bounds the work on a file of nothing but errors by standing in for a function that the YAML library keeps to
// itself. Nothing but this test tells when an upgrade changes that function: it names the version that was looked at.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Composer, type CST, Parser } from 'yaml';
import { readSource } from './source.ts';

const lookedAt = '2.9.1';

test('the YAML library is the one whose inside was looked at', () => {
  const manifest = createRequire(import.meta.url).resolve('yaml/package.json');
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
  assert.equal(version, lookedAt, 'read bounded() in yaml.ts against the new composer, then change the version here');
});

test('the composer reports through onError of its own, and keeps the open document in doc', () => {
  const composer = new Composer() as unknown as {
    onError: (...what: unknown[]) => void;
    errors: { readonly message: string }[];
    doc: unknown;
    next(token: CST.Token): Iterable<unknown>;
  };
  assert.ok(Object.hasOwn(composer, 'onError') && typeof composer.onError === 'function');
  assert.ok(Object.hasOwn(composer, 'doc') && Array.isArray(composer.errors));
  const seen: unknown[][] = [];
  const note = composer.onError;
  composer.onError = (...what) => {
    seen.push(what);
    note(...what);
  };
  const tokens = [...new Parser().parse('a: [\nb: ]\n@\n')];
  const documents = tokens.flatMap((token) => [...composer.next(token)]);
  assert.ok(seen.length > 0, 'a replaced onError is called');
  assert.equal(documents.length, 0, 'the last document is handed on at the end alone');
  assert.ok(composer.doc !== null, 'and stands in doc until then');
});

test('a file of nothing but errors is given up early, and says how many more there are', () => {
  const { findings } = readSource('a.yaml', new TextEncoder().encode('a: @x\n'.repeat(50_000)));
  assert.ok(findings.length <= 201, `${findings.length} findings`);
  assert.ok(findings.some(({ code }) => code === 'too-many-findings'));
});
