import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sha256 } from '../../base/hash.ts';
import { defaultCatalog } from '../../base/config/default-catalog.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import { compile, createCompileCache } from './compile.ts';
import type { CompileCache, CompileOutput } from './types.ts';

function run(files: { readonly [path: string]: string }, cache?: CompileCache): CompileOutput {
  const entries = new Map<string, BundleEntry>();
  for (const [below, text] of Object.entries(files)) {
    const path = `.svc/${below}`;
    entries.set(path, { path, kind: 'file', oid: sha256(text), bytes: new TextEncoder().encode(text) });
  }
  const bundle = { entries, absent: new Set<string>(), hasSvc: true };
  const more = cache === undefined ? {} : { cache };
  return compile({ bundle, context: {}, catalog: defaultCatalog, templates: new Map(), sha256, ...more });
}

const errors = ({ diagnostics }: CompileOutput): string[] =>
  diagnostics
    .filter(({ severity }) => severity === 'error')
    .map(({ file, line, column, code }) => `${file}:${line}:${column} ${code}`);
const repeat = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join('');
const agent = (name: string, more = ''): string =>
  `name: ${name}\nharness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\n${more}`;
const variables = (count: number, prefix = 'K'): string =>
  `env:\n${repeat(count, (index) => `  ${prefix}${index}: v\n`)}`;

test('imports that take too much to merge are refused at the import that is one too many', () => {
  const imports = `imports:\n${repeat(100, () => '- ../fragments/f.yaml\n')}`;
  const output = run({ 'agents/a.yaml': agent('a', imports), 'fragments/f.yaml': variables(30_000) });
  assert.deepEqual(errors(output), ['.svc/agents/a.yaml:38:3 imports-too-large']);
});

test('a fragment that is too much to merge is told once, however many agents import it', () => {
  const files: { [path: string]: string } = {
    'fragments/f.yaml': variables(30_000),
    'fragments/g.yaml': `imports:\n${repeat(100, () => '- f.yaml\n')}`,
  };
  for (const name of ['a', 'b', 'c']) files[`agents/${name}.yaml`] = agent(name, 'imports: ../fragments/g.yaml\n');
  assert.deepEqual(errors(run(files)), ['.svc/fragments/g.yaml:35:3 imports-too-large']);
});

test('hundreds of agents that share one small fragment of many imports stay within bounds', () => {
  const files: { [path: string]: string } = {
    'fragments/all.yaml': `imports:\n${repeat(50, (index) => `- f${index}.yaml\n`)}`,
  };
  for (let index = 0; index < 50; index++) files[`fragments/f${index}.yaml`] = variables(20, `F${index}_`);
  for (let index = 0; index < 300; index++)
    files[`agents/a${index}.yaml`] = agent(`a${index}`, 'imports: ../fragments/all.yaml\nenv: {OWN: v}\n');
  const output = run(files);
  assert.deepEqual(errors(output), []);
  assert.equal(output.resources.length, 301);
});

test('a tree that is too large in all is refused at the same file, with a cache as without', () => {
  const files: { [path: string]: string } = { 'fragments/f.yaml': `notes: ${'x'.repeat(1_000_000)}\n` };
  for (let index = 100; index < 300; index++)
    files[`agents/a${index}.yaml`] = agent(`a${index}`, 'imports: ../fragments/f.yaml\n');
  const cache = createCompileCache();
  const few = Object.fromEntries(Object.entries(files).filter(([path]) => path < 'agents/a150' || path > 'f'));
  assert.deepEqual(errors(run(few, cache)), []);
  const cold = run(files);
  assert.match(errors(cold).join('\n'), /^\.svc\/agents\/a\d+\.yaml:undefined:undefined tree-too-large$/);
  assert.equal(JSON.stringify(run(files, cache)), JSON.stringify(cold));
});

test('layers that two agents share are not changed by merging over them', () => {
  const files = {
    'fragments/a.yaml':
      'env: {A: a}\nlabels: {a: a}\ntriggers: [{name: t, event: codehost.push, routing: {kind: spawn}}]\n',
    'fragments/b.yaml': 'env: {A: b, B: b}\nlabels: {a: b}\ntriggers: [{name: t, message: b}]\n',
    'fragments/both.yaml': 'imports: [a.yaml, b.yaml]\n',
    'agents/1.yaml': agent(
      'one',
      'imports: [../fragments/both.yaml, ../fragments/b.yaml]\nremove: {env: B, triggers: t}\n',
    ),
    'agents/2.yaml': agent('two', 'imports: [../fragments/both.yaml, ../fragments/a.yaml]\nlabels: {own: x}\n'),
    'agents/3.yaml': agent('three', 'imports: ../fragments/both.yaml\n'),
    'agents/4.yaml': agent('four', 'imports: ../fragments/a.yaml\n'),
  };
  const alone = (path: keyof typeof files) => {
    const rest = Object.entries(files).filter(([one]) => one === path || one.startsWith('fragments/'));
    return run(Object.fromEntries(rest)).resources.filter(({ kind }) => kind === 'Agent');
  };
  const together = run(files).resources.filter(({ kind }) => kind === 'Agent');
  const apart = (['agents/4.yaml', 'agents/1.yaml', 'agents/3.yaml', 'agents/2.yaml'] as const).flatMap(alone);
  assert.deepEqual(together, apart);
});
