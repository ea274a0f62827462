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
  const text = `labels: {t: "{{ $t }}"}\nnotes: ${'x'.repeat(1_000_000)}\n`;
  const files: { [path: string]: string } = { 'fragments/f.yaml': text };
  for (let index = 100; index < 200; index++)
    files[`agents/a${index}.yaml`] = agent(
      `a${index}`,
      `imports: ../fragments/f.yaml\nvariables: {t: ${index}}\nremove: {env: X}\n`,
    );
  const cache = createCompileCache();
  const few = Object.fromEntries(Object.entries(files).filter(([path]) => path < 'agents/a150' || path > 'f'));
  assert.deepEqual(errors(run(few, cache)), []);
  const cold = run(files);
  assert.deepEqual(
    cold.diagnostics.filter(({ severity }) => severity === 'error'),
    [
      {
        severity: 'error',
        code: 'tree-too-large',
        message: 'The agents up to this file are too large together, with all that they import',
        file: '.svc/agents/a185.yaml',
        hint: 'Import smaller files, list fewer events in one trigger, or split the tree into several repositories.',
      },
    ],
  );
  // Of the file that is too much nothing else is told.
  assert.deepEqual(
    cold.diagnostics.filter(({ file = '' }) => file >= '.svc/agents/a185').map(({ code }) => code),
    ['tree-too-large'],
  );
  assert.equal(JSON.stringify(run(files, cache)), JSON.stringify(cold));
});

const tokens = 'labels: {t: "{{ $t }}"}\n';
/** A fragment of five files is paid for once, or by each of the agents that gives it another variable. */
const shares: readonly (readonly [
  what: string,
  fragment: string,
  variable: (index: number) => string,
  file: string,
])[] = [
  ['without variables', '', (index) => String(index), 'a133'],
  ['with the same variables', tokens, () => 'same', 'a133'],
  ['with variables of their own', tokens, (index) => String(index), 'a117'],
];
for (const [what, fragment, variable, file] of shares) {
  test(`what agents import ${what} is paid for as often as it is merged`, () => {
    const files: { [path: string]: string } = {};
    const names = ['a', 'b', 'c', 'd', 'e'];
    for (const name of names) files[`fragments/${name}.yaml`] = `${fragment}notes-${name}: ${'x'.repeat(1_000_000)}\n`;
    const imports = `imports: [${names.map((name) => `../fragments/${name}.yaml`).join(', ')}]\n`;
    for (let index = 100; index < 140; index++)
      files[`agents/a${index}.yaml`] = agent(`a${index}`, `${imports}variables: {t: ${variable(index)}}\n`);
    const found = run(files).diagnostics.filter(({ code }) => code === 'tree-too-large');
    assert.deepEqual(
      found.map((one) => one.file),
      [`.svc/agents/${file}.yaml`],
    );
  });
}

test('imports that are too many to merge are told at the one that is too much, and no more are read', () => {
  const appended = repeat(40, () => '- ../fragments/more.yaml\n');
  const output = run({
    'agents/a.yaml': agent('a', `imports:\n- ../fragments/text.yaml\n${appended}`),
    'fragments/text.yaml': `systemPrompt: ${'x'.repeat(1_000_000)}\n`,
    'fragments/more.yaml': 'systemPrompt: {append: y}\n',
  });
  const found = output.diagnostics.filter(({ code }) => code === 'imports-too-large');
  assert.deepEqual(
    found.map(({ severity, line, message, hint }) => [severity, line, message, hint]),
    [['error', 37, 'The imports up to this one are too much to merge', 'Import smaller files, or fewer of them.']],
  );
});

test('a trigger pays for what it says with each of its events, and what hundreds of agents import with each of them', () => {
  const listed = (count: number, of: string): string =>
    repeat(count, (index) => `${index === 0 ? '' : ', '}${of}${index}`);
  const told = (events: number, values: number): string[] => {
    const where = `{"$.a": {in: [${listed(values, 'value-')}]}}`;
    const event = `{events: [${listed(events, 'webhook.x')}], endpoint: e, auth: {kind: none}, routing: {kind: spawn}, where: ${where}}`;
    return errors(run({ 'agents/a.yaml': agent('a', `triggers: [${event}]\n`) }));
  };
  assert.deepEqual(told(1_000, 100), []);
  assert.deepEqual(told(100, 1_000), []);
  const tooLarge = ['.svc/agents/a.yaml:undefined:undefined tree-too-large'];
  assert.deepEqual(told(1_000, 1_000), tooLarge);
  const trigger = (index: number): string =>
    `- {event: webhook.x${index}, endpoint: e, auth: {kind: none}, routing: {kind: spawn}}\n`;
  const fragment = `triggers:\n${repeat(500, trigger)}`;
  const importing = (count: number): { readonly [path: string]: string } => ({
    'fragments/f.yaml': fragment,
    'agents/a.yaml': repeat(count, (index) => `${agent(`a${index}`, 'imports: ../fragments/f.yaml\n')}---\n`),
  });
  assert.deepEqual(errors(run(importing(10))), []);
  assert.deepEqual(errors(run(importing(100))), tooLarge);
});

test('the documents of one file each pay for what they merge', () => {
  const imports = `imports:\n- ../fragments/text.yaml\n${repeat(31, () => '- ../fragments/more.yaml\n')}`;
  const documents = (count: number): string =>
    Array.from({ length: count }, (_, index) => agent(`a${index}`, `systemPrompt: short\n${imports}`)).join('---\n');
  const fragments = {
    'fragments/text.yaml': `systemPrompt: ${'x'.repeat(1_000_000)}\n`,
    'fragments/more.yaml': 'systemPrompt: {append: y}\n',
  };
  const told = (count: number): string[] => errors(run({ ...fragments, 'agents/a.yaml': documents(count) }));
  assert.deepEqual(told(16), []);
  assert.deepEqual(told(17), ['.svc/agents/a.yaml:undefined:undefined tree-too-large']);
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

/** Agent files with so many errors each, and before each so many files that are ignored. */
function faulty(agents: number, errors: number, ignored = 0): { [path: string]: string } {
  const files: { [path: string]: string } = {};
  // The last first: they are read by their names.
  for (let k = 99 + agents; k >= 100; k--) {
    files[`agents/a${k}.yaml`] = Array.from({ length: errors }, (_, n) => `${n}: x`).join('\n');
    for (let n = 0; n < ignored; n++) files[`agents/a${k}-${n}.txt`] = 'x';
  }
  return files;
}
const unmatched = `remove: {env: [${Array.from({ length: 100 }, (_, n) => `E${n}`).join(', ')}]}\n`;
const warned = Object.fromEntries(
  Array.from({ length: 22 }, (_, k) => [`agents/a${k}.yaml`, agent(`a${k}`, unmatched)]),
);

/** What is told where findings are many: the first diagnostic, how many there are, and the file of the last of each code. */
const many: readonly (readonly [
  what: string,
  files: { readonly [path: string]: string },
  first: readonly [severity: string, code: string, message: string],
  counts: { readonly [code: string]: readonly [count: number, last: string | undefined] },
])[] = [
  [
    'findings past the bound are counted, and warnings give way to errors',
    faulty(30, 50, 50),
    ['error', 'too-many-findings', '1000 more findings are not shown'],
    {
      'too-many-findings': [1, undefined],
      'ignored-file': [500, '.svc/agents/a109-9.txt'],
      'non-string-key': [1_500, '.svc/agents/a129.yaml'],
    },
  ],
  [
    'files behind thousands of errors are not read, and it is said how many',
    faulty(100, 100),
    ['error', 'too-many-findings', '40 more findings are not shown; 60 agent files were not read after so many errors'],
    { 'too-many-findings': [41, '.svc/agents/a139.yaml'], 'non-string-key': [1_960, '.svc/agents/a139.yaml'] },
  ],
  [
    'as many as may be are told and read on behind',
    faulty(42, 50),
    ['error', 'too-many-findings', '50 more findings are not shown; 1 agent file was not read after so many errors'],
    { 'too-many-findings': [1, undefined], 'non-string-key': [2_000, '.svc/agents/a139.yaml'] },
  ],
  [
    'as many as may be are all told',
    faulty(40, 50),
    ['error', 'non-string-key', 'Keys are strings; this is the key 0'],
    { 'non-string-key': [2_000, '.svc/agents/a139.yaml'] },
  ],
  [
    'warnings alone keep no file from being read',
    warned,
    ['warning', 'too-many-findings', '200 more findings are not shown'],
    { 'too-many-findings': [1, undefined], 'remove-unmatched': [2_000, '.svc/agents/a7.yaml'] },
  ],
];
for (const [what, files, first, counts] of many) {
  test(what, () => {
    const { ok, diagnostics } = run(files);
    const [{ severity, code, message } = assert.fail('nothing is told')] = diagnostics;
    assert.deepEqual([severity, code, message, ok], [...first, severity === 'warning']);
    const grouped = Map.groupBy(diagnostics, (one) => one.code);
    const seen = Object.fromEntries([...grouped].map(([one, all]) => [one, [all.length, all.at(-1)?.file]]));
    assert.deepEqual(seen, counts);
  });
}

test('large files with an error each are not all read, and those without one of their own are no part of that', () => {
  const large = (name: string, more = ''): string => {
    const text = agent(name, `imports: ../fragments/wrong.yaml\n${more}`);
    return `${text}notes: ${'x'.repeat(1024 * 1024 - text.length - 8)}\n`;
  };
  const files: { [path: string]: string } = { 'fragments/wrong.yaml': 'manages: 5\n' };
  for (let k = 10; k < 17; k++) {
    files[`agents/a${k}.yaml`] = large(`a${k}`, 'concurrency: 2\n');
    files[`agents/a${k}b.yaml`] = large(`b${k}`);
  }
  const output = run(files);
  const errors = output.diagnostics.filter(({ severity }) => severity === 'error');
  assert.deepEqual(
    errors.map(({ file, message }) => file ?? message),
    [
      '5 agent files were not read after so many errors',
      ...Array.from({ length: 5 }, (_, k) => `.svc/agents/a${k + 10}.yaml`),
      '.svc/fragments/wrong.yaml',
    ],
  );
});

test('a document of nothing but errors is given up after many, and what may be in it is not missed elsewhere', () => {
  const told = (errors: number): readonly (readonly [file: string, severity: string, count: number])[] => {
    const list = `triggers: [${'1,'.repeat(errors)}]\nsystemPrompt: "{{ $x }}"\n`;
    const { ok, diagnostics } = run({
      'agents/a.yaml': `name: default\n${list}`,
      'agents/b.yaml': 'name: b\nharness: harness-a\nenvironment: nowhere\n',
    });
    assert.equal(ok, false);
    const grouped = Map.groupBy(diagnostics, (one) => `${one.file} ${one.severity}`);
    return [...grouped.values()].map((all) => [all[0]?.file ?? '', all[0]?.severity ?? '', all.length]);
  };
  assert.deepEqual(told(2_000), [
    ['.svc/agents/a.yaml', 'error', 1_000],
    ['.svc/agents/b.yaml', 'error', 1],
  ]);
  assert.deepEqual(told(2_001), [['.svc/agents/a.yaml', 'error', 1_000]]);
});
