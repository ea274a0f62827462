import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sha256 } from '../../base/hash.ts';
import { defaultCatalog } from '../../base/config/default-catalog.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import { compile, createCompileCache } from './compile.ts';
import type { CompileCache, CompileOutput } from './types.ts';

type Files = readonly (readonly [path: string, bytes: Uint8Array])[];

function run(files: Files, cache?: CompileCache): CompileOutput {
  const entries = new Map<string, BundleEntry>(
    files.map(([path, bytes]) => [path, { path, kind: 'file', oid: sha256(bytes), bytes }]),
  );
  const bundle = { entries, absent: new Set<string>(), hasSvc: true };
  const more = cache === undefined ? {} : { cache };
  return compile({ bundle, context: { v: 'value' }, catalog: defaultCatalog, templates: new Map(), sha256, ...more });
}

const paths = [
  'agents/a.yaml',
  'agents/b.json',
  'agents/c.yml',
  'fragments/x.yaml',
  'fragments/y.yaml',
  'fragments/t.md',
  'other.txt',
];
const path = fc.constantFrom(...paths.map((one) => `.svc/${one}`));

test('any bytes whatever in .svc give an answer', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(path, fc.uint8Array({ maxLength: 200 })), { maxLength: 5 }), (files) => {
      const output = run(files);
      assert.equal(
        output.ok,
        output.diagnostics.every(({ severity }) => severity !== 'error'),
      );
    }),
    { numRuns: 300 },
  );
});

/** Lines that agents are made of, well and badly. */
const linesList = [
  'name: a',
  'name: default',
  'name: b',
  'name:',
  'harness: harness-a',
  'harness: 7',
  'imports: ../fragments/x.yaml',
  'imports: [../fragments/x.yaml, ../fragments/y.yaml]',
  'imports: [y.yaml, x.yaml]',
  'imports: "@a/b@1/c.yaml"',
  'import: [1, ~]',
  'environment: {name: box, image: {kind: preset, name: base}}',
  'environment: box',
  'environment: []',
  'systemPrompt: text {{ $v }}',
  'systemPrompt: {append: more}',
  'systemPrompt: {file: t.md}',
  'systemPrompt: {file: ../fragments/t.md}',
  'variables: {v: 1, w: [x]}',
  'remove: {tools: x, triggers: [codehost.push], env: A}',
  'remove: {mounts: x}',
  'env: {A: b, "{{ $v }}": "{{ $nope }}"}',
  'triggers: [{event: codehost.push, routing: {kind: spawn}}, {kind: heartbeat, cron: 0 9 * * *, routing: {kind: spawn}}, 7]',
  'triggers: {a: b}',
  'mounts: [{mountPath: /x}, {kind: git, repository: a/b, mountPath: /x}]',
  'labels: {__proto__: x, constructor: y}',
  'kind: Agent',
  'spec: {}',
  'model: &m {id: x}',
  'identity: *m',
  'session: ~',
  '---',
  '...',
  '# comment',
  '<<: {a: b}',
  'a: [',
  '{{ $v }}: {{ $1 }}',
];
const text = fc
  .array(fc.constantFrom(...linesList), { maxLength: 7 })
  .map((lines) => new TextEncoder().encode(`${lines.join('\n')}\n`));
const tree = fc.uniqueArray(fc.tuple(path, text), { selector: ([one]) => one, maxLength: 7 });

test('the answer is the same whatever the order of the files', () => {
  fc.assert(
    fc.property(tree, fc.infiniteStream(fc.nat()), (files, order) => {
      const weights = new Map(files.map(([one]) => [one, order.next().value ?? 0]));
      const shuffled = files.toSorted(([a], [b]) => (weights.get(a) ?? 0) - (weights.get(b) ?? 0));
      assert.equal(JSON.stringify(run(shuffled)), JSON.stringify(run(files)));
    }),
    { numRuns: 300 },
  );
});

test('a cache that has seen other trees gives the same answer as none', () => {
  const cache = createCompileCache();
  fc.assert(
    fc.property(tree, (files) => assert.equal(JSON.stringify(run(files, cache)), JSON.stringify(run(files)))),
    { numRuns: 500 },
  );
});
