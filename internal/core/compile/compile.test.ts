import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sha256 } from '../../base/hash.ts';
import { defaultCatalog } from '../../base/config/default-catalog.ts';
import type { BundleEntry, ResolvedTemplate } from '../../domain/bundle.ts';
import { compile, createCompileCache, needRoundsMax } from './compile.ts';
import type { CompileInput, CompileOutput } from './types.ts';

const entry = (path: string, text: string): BundleEntry => ({
  path,
  kind: 'file',
  oid: sha256(text),
  bytes: new TextEncoder().encode(text),
});

function input(files: { readonly [path: string]: string }, more: Partial<CompileInput> = {}): CompileInput {
  const entries = new Map(Object.entries(files).map(([path, text]) => [path, entry(path, text)]));
  const bundle = { entries, absent: new Set<string>(), hasSvc: true };
  return { bundle, context: {}, catalog: defaultCatalog, templates: new Map(), sha256, ...more };
}

const box = 'harness: harness-a\nenvironment: {name: box, image: {kind: preset, name: base}}\n';
const agent = (name: string, imports: string, more = ''): string => `name: ${name}\nimports: ${imports}\n${more}`;
const codes = (output: CompileOutput): string[] => output.diagnostics.map(({ code }) => code);
const specOf = (output: CompileOutput, name: string): Record<string, unknown> => {
  assert.deepEqual(output.diagnostics, []);
  const found = output.resources.find((resource) => resource.kind === 'Agent' && resource.name === name);
  return JSON.parse(JSON.stringify(found?.spec ?? assert.fail(`no agent ${name}`)));
};

test('a path outside .svc that nobody has asked for is a need, and nothing else is said of it', () => {
  const files = {
    '.svc/agents/a.yaml': agent('a', '[../../z.yaml, ../../b/c.yaml]', 'systemPrompt: {file: ../../p.md}\n'),
  };
  const output = compile(input(files));
  assert.deepEqual(output.needs, { paths: ['b/c.yaml', 'p.md', 'z.yaml'], templates: [] });
  assert.deepEqual([output.ok, output.resources, output.assets, output.diagnostics], [false, [], [], []]);
  assert.deepEqual(output.outside, ['b/c.yaml', 'p.md', 'z.yaml']);
});

test('of too many imports and of too many that are misspelt not all are looked at', () => {
  const imports = (count: number): string => `[${'../fragments/f.yaml, '.repeat(count)}../../out.yaml]`;
  const told = (count: number) => {
    const files = { '.svc/agents/a.yaml': agent('a', imports(count)), '.svc/fragments/f.yaml': box };
    const { diagnostics, needs } = compile(input(files));
    const found = diagnostics.filter(({ severity }) => severity === 'error');
    return [
      needs.paths,
      found.map(({ code, message, line, column, path }) => `${line}:${column} ${path} ${code} ${message}`),
    ];
  };
  assert.deepEqual(told(999), [['out.yaml'], []]);
  assert.deepEqual(told(1_000), [[], ['2:10 imports import-invalid "imports" has more than 1000 entries']]);
  const misspelt = `[${'../fragments/fragmnt.yaml, '.repeat(101)}]`;
  const { diagnostics } = compile(
    input({
      '.svc/agents/a.yaml': agent('a', misspelt),
      '.svc/agents/b.yaml': agent('b', misspelt),
      '.svc/fragments/fragment.yaml': box,
    }),
  );
  const hinted = diagnostics.filter(({ hint }) => hint === 'Did you mean ../fragments/fragment.yaml?');
  assert.equal(hinted.length, 200);
});

test('a need that does not exist becomes an error at the import', () => {
  const given = input({ '.svc/agents/a.yaml': agent('a', '../../z.yaml') });
  const output = compile({ ...given, bundle: { ...given.bundle, absent: new Set(['z.yaml']) } });
  assert.deepEqual([codes(output), output.needs.paths], [['import-missing'], []]);
});

test('template specifiers are needs with their version, and what they resolved to is in the lock', () => {
  const files = { '.svc/agents/a.yaml': agent('a', '["@acme/kit/box.yaml", "@acme/kit@^1 <2/box.yaml"]') };
  const waiting = compile(input(files));
  assert.deepEqual(waiting.needs.templates, ['@acme/kit@^1 <2', '@acme/kit@latest']);
  assert.deepEqual([waiting.ok, waiting.templateLock], [false, {}]);
  const templates = new Map<string, ResolvedTemplate>();
  for (const [requested, version] of [
    ['latest', '2.0.0'],
    ['^1 <2', '1.9.0'],
  ] as const) {
    const specifier = `@acme/kit@${requested}`;
    const kit = new Map([['box.yaml', entry('box.yaml', box)]]);
    templates.set(specifier, {
      specifier,
      name: '@acme/kit',
      requested,
      version,
      integrity: `sha512-${version}`,
      files: kit,
    });
  }
  const output = compile(input(files, { templates }));
  assert.equal(output.ok, true);
  assert.deepEqual(output.templateLock, {
    '@acme/kit@^1 <2': { version: '1.9.0', integrity: 'sha512-1.9.0' },
    '@acme/kit@latest': { version: '2.0.0', integrity: 'sha512-2.0.0' },
  });
  assert.deepEqual(Object.keys(output.templateLock), ['@acme/kit@^1 <2', '@acme/kit@latest']);
});

/** A chain of fragments f0 → f1 → … → f(length - 1), which holds the box. */
function chain(length: number): { [path: string]: string } {
  const files: { [path: string]: string } = {};
  for (let k = 0; k < length; k++) {
    files[`.svc/fragments/f${k}.yaml`] = k === length - 1 ? box : `imports: f${k + 1}.yaml\n`;
  }
  return files;
}

test('imports may be nested a hundred levels and no deeper, whoever else imports the same files', () => {
  assert.equal(compile(input({ ...chain(100), '.svc/agents/a.yaml': agent('a', '../fragments/f0.yaml') })).ok, true);
  const deep = { ...chain(101), '.svc/agents/b.yaml': agent('b', '../fragments/f0.yaml') };
  const alone = compile(input(deep));
  assert.deepEqual(
    alone.diagnostics.map((d) => [d.code, d.file]),
    [['import-too-deep', '.svc/fragments/f99.yaml']],
  );
  const together = compile(input({ ...deep, '.svc/agents/a.yaml': agent('a', '../fragments/f60.yaml') }));
  assert.deepEqual(together.diagnostics, alone.diagnostics);
  // What was cut there is whole for others, who are blamed for what they lack.
  const after = compile(input({ ...deep, '.svc/agents/c.yaml': 'imports: ../fragments/f60.yaml\n' }));
  assert.deepEqual(codes(after), ['missing-field', 'import-too-deep']);
  assert.equal(needRoundsMax, 101);
});

test('a fan-out of imports that doubles at each level costs no more than its files', () => {
  const files: { [path: string]: string } = {
    '.svc/agents/a.yaml': agent('a', '../fragments/l0.yaml'),
    '.svc/fragments/l40.yaml': box,
  };
  for (let k = 0; k < 40; k++) {
    files[`.svc/fragments/l${k}.yaml`] = `imports: [m${k}.yaml, n${k}.yaml]\n`;
    for (const side of ['m', 'n'])
      files[`.svc/fragments/${side}${k}.yaml`] = `imports: l${k + 1}.yaml\nlabels: {k${k}: ${side}}\n`;
  }
  assert.deepEqual((specOf(compile(input(files)), 'a')['labels'] as Record<string, string>)['k7'], 'n');
});

test('files that all import each other end in cycles, not in an endless walk', () => {
  const names = Array.from({ length: 25 }, (_, k) => `f${k}.yaml`);
  const files: { [path: string]: string } = { '.svc/agents/a.yaml': agent('a', '../fragments/f0.yaml') };
  for (const name of names) files[`.svc/fragments/${name}`] = `imports: [${names.join(', ')}]\n`;
  assert.deepEqual([...new Set(codes(compile(input(files))))], ['import-cycle']);
});

test('appends, lists and variables that grow without end are refused where they grow', () => {
  const grow = (field: string): { [path: string]: string } => {
    const files: { [path: string]: string } = {
      '.svc/fragments/g0.yaml': field,
      '.svc/fragments/box.yaml': `${box}systemPrompt: x\n`,
    };
    for (let k = 1; k < 40; k++) files[`.svc/fragments/g${k}.yaml`] = `imports: [g${k - 1}.yaml, g${k - 1}.yaml]\n`;
    return { ...files, '.svc/agents/a.yaml': agent('a', '[../fragments/box.yaml, ../fragments/g39.yaml]') };
  };
  const errors = (files: { [path: string]: string }): Set<string> =>
    new Set(
      compile(input(files))
        .diagnostics.filter((d) => d.severity === 'error')
        .map((d) => d.message.replace(/[^a-zA-Z ].*/, '')),
    );
  assert.ok(errors(grow('systemPrompt: {append: "0123456789"}\n')).has('systemPrompt grows past '));
  assert.ok(errors(grow('mounts: [{kind: git, repository: a/b}]\n')).has('mounts grows past '));
  const tokens = '{{ $big }}'.repeat(40);
  const files = {
    '.svc/agents/a.yaml': agent(
      'a',
      '[../fragments/box.yaml, ../fragments/t.yaml]',
      `variables: {big: ${'x'.repeat(50_000)}}\n`,
    ),
    '.svc/fragments/box.yaml': box,
    '.svc/fragments/t.yaml': `systemPrompt: "${tokens}"\n`,
  };
  assert.ok(errors(files).has('Substitution makes too much text here'));
});

test('a fragment without variables is one for all agents, and one with variables is each agent’s own', () => {
  const files = {
    '.svc/fragments/box.yaml': box,
    '.svc/fragments/outer.yaml': 'imports: inner.yaml\n',
    '.svc/fragments/inner.yaml': 'labels: {team: "{{ $team }}"}\n',
    '.svc/agents/a.yaml': agent(
      'a',
      '[../fragments/box.yaml, ../fragments/outer.yaml]',
      'variables: {team: "{{ $team }}"}\n',
    ),
    '.svc/agents/b.yaml': agent('b', '[../fragments/box.yaml, ../fragments/outer.yaml]', 'variables: {team: blue}\n'),
  };
  const output = compile(input(files));
  assert.deepEqual(specOf(output, 'a')['labels'], { team: '{{ $team }}' });
  assert.deepEqual(specOf(output, 'b')['labels'], { team: 'blue' });
});

test('one unknown variable in a fragment is one error, though two agents have different scopes', () => {
  const files = {
    '.svc/fragments/f.yaml': `${box}labels: {team: "{{ $team }}"}\n`,
    '.svc/agents/a.yaml': agent('a', '../fragments/f.yaml', 'variables: {x: 1}\n'),
    '.svc/agents/b.yaml': agent('b', '../fragments/f.yaml', 'variables: {y: 1}\n'),
  };
  const output = compile(input(files, { context: { z: '1' } }));
  assert.deepEqual(
    output.diagnostics.map((d) => d.message),
    ['The variable $team is not in scope; in scope: x, z'],
  );
});

test('context variables lie beneath the declared ones', () => {
  const files = {
    '.svc/fragments/f.yaml': `${box}labels: {a: "{{ $a }}", b: "{{ $b }}"}\n`,
    '.svc/agents/a.yaml': agent('a', '../fragments/f.yaml', 'variables: {a: declared}\n'),
  };
  const output = compile(input(files, { context: { a: 'context', b: 'context' } }));
  assert.deepEqual(specOf(output, 'a')['labels'], { a: 'declared', b: 'context' });
});

test('more files outside .svc than the limit are an error of the tree', () => {
  const named = (count: number) => {
    const paths = Array.from({ length: count }, (_, k) => `../../o${k}.yaml`);
    const given = input({ '.svc/agents/a.yaml': agent('a', `[${paths.join(', ')}]`) });
    const absent = new Set(paths.map((path) => path.slice(6)));
    const { diagnostics } = compile({ ...given, bundle: { ...given.bundle, absent } });
    return diagnostics.filter(({ code }) => code === 'too-many-files');
  };
  assert.deepEqual(named(100), []);
  assert.deepEqual(named(101), [
    {
      severity: 'error',
      code: 'too-many-files',
      message: 'The tree names 101 files outside .svc/; at most 100 are read',
      hint: 'Move shared files into .svc/fragments/.',
    },
  ]);
});

test('files that the source refused, submodules and links are named, and the rest is compiled', () => {
  const given = input({
    '.svc/agents/a.yaml': agent('a', '[../fragments/box.yaml, ../fragments/big.yaml]'),
    '.svc/fragments/box.yaml': box,
  });
  const entries = new Map(given.bundle.entries);
  const refuse = (path: string, kind: BundleEntry['kind'], tooLarge?: true): void => {
    entries.set(path, { path, kind, oid: '0', ...(tooLarge === undefined ? {} : { tooLarge }) });
  };
  refuse('.svc/agents/big.yaml', 'file', true);
  refuse('.svc/fragments/big.yaml', 'file', true);
  refuse('.svc/vendor', 'submodule');
  const output = compile({ ...given, bundle: { ...given.bundle, entries } });
  assert.deepEqual(
    output.diagnostics.map((d) => [d.code, d.file]),
    [
      ['file-too-large', '.svc/agents/a.yaml'],
      ['file-too-large', '.svc/agents/big.yaml'],
      ['submodule-refused', '.svc/vendor'],
    ],
  );
});

test('a tree that is a symbolic link is refused as one', () => {
  const given = input({});
  const entries = new Map<string, BundleEntry>([['.svc', { path: '.svc', kind: 'symlink', oid: '0' }]]);
  assert.deepEqual(codes(compile({ ...given, bundle: { entries, absent: new Set(), hasSvc: false } })), [
    'symlink-refused',
  ]);
});

test('a cache answers with what a fresh compile gives after every kind of change', () => {
  const cache = createCompileCache();
  const before = {
    '.svc/agents/a.yaml': agent('a', '[../fragments/box.yaml, ../fragments/p.yaml]'),
    '.svc/agents/b.yaml': agent('b', '[../fragments/p.yaml, ../fragments/box.yaml, "@acme/kit@1/x.yaml"]'),
    '.svc/fragments/box.yaml': box,
    '.svc/fragments/p.yaml': 'systemPrompt: {file: p.md}\nlabels: {team: "{{ $team }}"}\n',
    '.svc/fragments/p.md': 'one',
  };
  const kit = (version: string): CompileInput['templates'] => {
    const specifier = '@acme/kit@1';
    const files = new Map([['x.yaml', entry('x.yaml', `annotations: {kit: "v${version}"}\n`)]]);
    return new Map([[specifier, { specifier, name: '@acme/kit', requested: '1', version, integrity: version, files }]]);
  };
  const context = { team: 'red' };
  const steps: CompileInput[] = [
    input(before, { context, templates: kit('1.0.0') }),
    input({ ...before, '.svc/fragments/p.md': 'two' }, { context, templates: kit('1.0.0') }),
    input(
      { ...before, '.svc/fragments/box.yaml': box.replace('harness-a', 'harness-b') },
      { context, templates: kit('1.0.0') },
    ),
    input(before, { context: { team: 'blue' }, templates: kit('1.0.0') }),
    input(before, { context, templates: kit('1.1.0') }),
    input(before, { context, templates: kit('1.0.0'), catalog: { ...defaultCatalog, presets: [] } }),
    input({ ...before, '.svc/fragments/p.md': '\0' }, { context, templates: kit('1.0.0') }),
    input({ ...before, '.svc/agents/c.yaml': before['.svc/agents/a.yaml'] }, { context, templates: kit('1.0.0') }),
    input(before, { context, templates: kit('1.0.0') }),
  ];
  for (const step of steps) {
    const fresh = JSON.stringify(compile(step));
    assert.equal(JSON.stringify(compile({ ...step, cache })), fresh);
    assert.equal(JSON.stringify(compile({ ...step, cache })), fresh);
  }
});

test('a path with an unknown variable is one error: nothing is said of a file by that name', () => {
  const files = {
    '.svc/agents/a.yaml': agent('a', '../fragments/f.yaml'),
    '.svc/fragments/f.yaml': `${box}imports: "{{ $x }}.yaml"\nsystemPrompt: {file: "../../{{ $y }}.md"}\n`,
  };
  const output = compile(input(files));
  assert.deepEqual([codes(output), output.needs.paths], [['variable-unknown', 'variable-unknown'], []]);
});

test('a path that goes through a link is refused, in the tree and outside .svc', () => {
  const given = input({
    '.svc/agents/a.yaml': agent('a', '../../shared/x.yaml', 'systemPrompt: {file: ../../one.md}\n'),
  });
  const entries = new Map(given.bundle.entries);
  entries.set('shared', { path: 'shared', kind: 'submodule', oid: '0' });
  entries.set('one.md', { path: 'one.md', kind: 'symlink', oid: '0' });
  const output = compile({ ...given, bundle: { ...given.bundle, entries } });
  assert.deepEqual(
    output.diagnostics.map((d) => [d.code, d.path]),
    [
      ['submodule-refused', 'imports'],
      ['symlink-refused', 'systemPrompt'],
    ],
  );
});

test('a value with an unknown variable is one error, whatever else it is not', () => {
  const files = {
    '.svc/agents/a.yaml': agent('a', '../fragments/f.yaml'),
    '.svc/fragments/f.yaml': `${box}env: {"{{ $key }}": x}\nmounts: [{kind: git, repository: a/b, mountPath: "{{ $root }}"}]\n`,
  };
  assert.deepEqual(codes(compile(input(files))), ['variable-unknown', 'variable-unknown']);
});

test('a text that is missing leaves its own field alone open, and hides no other mistake', () => {
  const files = {
    '.svc/agents/a.yaml':
      'name: a\nimports: ../fragments/f.yaml\nonReplace: {file: gone.md}\ninitialPrompt: {append: more}\nsystemPrompt: {append: more}\nremove: {env: X}\n',
    '.svc/agents/b.yaml': `name: b\n${box}systemPrompt: {file: /gone.md}\nreplace: auto\nenv: {K: {optional: true}}\n`,
    '.svc/fragments/f.yaml': 'initialPrompt: {file: gone.md}\n',
  };
  const told = compile(input(files)).diagnostics.map(({ file, line, code }) => `${file?.slice(5)}:${line} ${code}`);
  assert.deepEqual(told, [
    'agents/a.yaml:1 missing-environment',
    'agents/a.yaml:1 missing-harness',
    'agents/a.yaml:3 file-missing',
    'agents/a.yaml:5 append-without-base',
    'agents/a.yaml:6 remove-unmatched',
    'agents/b.yaml:4 file-reference',
    'agents/b.yaml:5 replace-requires-concurrency',
    'agents/b.yaml:6 missing-field',
    'fragments/f.yaml:1 file-missing',
  ]);
});
