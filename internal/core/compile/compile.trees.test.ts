// What compiling a small tree tells and gives, word by word, in testdata/messages/trees.txt: every diagnostic with its place, what
// it adds, and what is still needed; of agents that asked for it, where each value comes from. A row is a tree.

import { join } from 'node:path';
import { test } from 'node:test';
import type { BundleEntry, ResolvedTemplate, UnresolvedTemplate } from '../../domain/bundle.ts';
import type { Diagnostic } from '../../domain/diagnostic.ts';
import { compile, createCompileCache } from './compile.ts';
import { agentHead, inputWith } from './testkit.ts';
import type { CompileInput } from './types.ts';

type Files = { readonly [path: string]: string | Partial<BundleEntry> };
type Row = readonly [what: string, files: Files, more?: Partial<CompileInput>];

const agentFile = '.svc/agents/a.yaml';
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const inputOf = (files: Files): CompileInput =>
  inputWith(
    Object.fromEntries(Object.entries(files).map(([path, one]) => [path, typeof one === 'string' ? bytes(one) : one])),
  );
/** An agent that says this beside what each must. */
const agent = (body: string): Files => ({ [agentFile]: agentHead + body });
const importing = (text: string, more: Files = {}): Files => ({ ...agent(`imports: [${text}]\n`), ...more });
const fragment = (body: string, own = ''): Files => ({
  ...agent(`imports: ../fragments/f.yaml\n${own}`),
  '.svc/fragments/f.yaml': body,
});
const list = (count: number, one: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => one(index)).join('');

const template = (version: string, requested: string): ReadonlyMap<string, ResolvedTemplate> => {
  const specifier = `@a/b@${requested}`;
  const entry: BundleEntry = { path: 'c.yaml', kind: 'file', oid: 'c', bytes: bytes('labels: {t: c}\n') };
  const files = new Map([['c.yaml', entry]]);
  return new Map([[specifier, { specifier, name: '@a/b', requested, version, integrity: 'dir-x', files }]]);
};
const failing = (error: UnresolvedTemplate['error'], detail: string): ReadonlyMap<string, UnresolvedTemplate> =>
  new Map([['@a/b@1', { specifier: '@a/b@1', error, detail }]]);

const misplaced = [
  ...[
    'agents/x.txt',
    'agents/sub/y.yaml',
    'agents/.z.yaml',
    'w.yaml',
    'agent/v.yaml',
    'fragment/u.yaml',
    'other/t.yaml',
  ],
  ...[
    'config.yaml',
    'README.md',
    'a/b/c.yaml',
    'agents/s.yaml.txt',
    'fragments',
    'assets',
    's.json',
    '.r.yaml',
    'agents',
  ],
  ...['agnets/queue.yml', 'p.yamlx', 'agents/d.yaml/x.txt', 'agents/.git/x.yaml', 'agent/s.txt.yaml', 'x/.svc/q.yaml'],
];

/** Two agents, each of which lacks what the file may have that they import. */
const lacking = (file: string): Files => ({
  [agentFile]: `imports: ../fragments/${file}
replace: auto
bindings: {codehost.issue: {lifecycle: held}}
mounts: [{kind: git, repository: a/b, mountPath: /m}]
tools: {t: {kind: codehost, tools: [merge_pull_request]}}
triggers:
  - {routing: {kind: spawn}}
  - {event: codehost.push, routing: {kind: deliver}}
  - {event: codehost.pull_request.opened, routing: {kind: spawn}}
  - {event: codehost.pull_request.opened, routing: {kind: deliver, routeBy: {kind: attributedSessions}}}
`,
  '.svc/agents/b.yaml': `name: b\nimports: ../fragments/${file}\nonReplace: x\n`,
});

const rows: readonly Row[] = [
  ['files that nothing reads', { ...agent(''), ...Object.fromEntries(misplaced.map((name) => [`.svc/${name}`, 'x'])) }],
  [
    'what is imported though it lies elsewhere',
    importing('../other/t.yaml', { '.svc/other/t.yaml': 'labels: {a: b}\n' }),
  ],
  [
    'legacy directories',
    {
      ...agent(''),
      '.svc/sessions/a.yaml': '',
      '.svc/environments/b.yaml': '',
      '.svc/identities': '',
      '.svc/triggers/c': '',
    },
  ],
  ['links', { ...agent(''), '.svc/agents/l.yaml': { kind: 'symlink' }, '.svc/m': { kind: 'submodule' } }],
  ['no tree', {}, { bundle: { entries: new Map(), absent: new Set(), hasSvc: false } }],
  ['an empty tree', {}],

  ...[
    '""',
    '/abs.yaml',
    'C:/x.yaml',
    'https://x.test/a.yaml',
    '"..\\\\f.yaml"',
    '../../../x.yaml',
    '../fragments',
    '1',
  ].map((text): Row => [`imports: [${text}]`, importing(text, { '.svc/fragments/f.yaml': '{}' })]),
  ...[
    '../fragments/g.yaml',
    '../fragments/F.yaml',
    `../${'x'.repeat(121)}`,
    '../agents',
    '../../out.yaml',
    'a.txt',
  ].map(
    (text): Row => [`imports: [${text}]`, importing(text, { '.svc/fragments/f.yaml': '{}', '.svc/agents/a.txt': 'x' })],
  ),
  ...['../fragments/l.yaml', '../fragments/m/x.yaml', '../fragments/h.yaml'].map(
    (text): Row => [
      `imports: [${text}]`,
      importing(text, {
        '.svc/fragments/l.yaml': { kind: 'symlink' },
        '.svc/fragments/m': { kind: 'submodule' },
        '.svc/fragments/h.yaml': { tooLarge: true },
      }),
    ],
  ),
  ['an import of itself', importing('a.yaml')],
  [
    'imports in a circle',
    importing('../fragments/f.yaml', {
      '.svc/fragments/f.yaml': 'imports: g.yaml\n',
      '.svc/fragments/g.yaml': 'imports: f.yaml\n',
    }),
  ],
  [
    'imports that are too deep',
    {
      ...fragment('imports: f0.yaml\n'),
      ...Object.fromEntries(
        Array.from({ length: 101 }, (_, k) => [`.svc/fragments/f${k}.yaml`, `imports: f${k + 1}.yaml\n`]),
      ),
    },
  ],
  ['an import of a list', importing('../fragments/f.yaml', { '.svc/fragments/f.yaml': '- a\n' })],
  ['an import of two documents', importing('../fragments/f.yaml', { '.svc/fragments/f.yaml': 'a: 1\n---\nb: 1\n' })],
  ['an import of nothing', importing('../fragments/f.yaml', { '.svc/fragments/f.yaml': '# x\n' })],
  ['imports that are no list', agent('imports: {a: b}\n')],
  ['both spellings', agent('import: ../fragments/f.yaml\nimports: []\n')],
  ['a variable in an import', importing('"../{{ $x }}.yaml"')],
  ['a variable in an import of a fragment', fragment('imports: "{{ $x }}.yaml"\n', 'variables: {x: g}\n')],

  ...['@a', '@a/b', '@a/b@1', '@a/b@1/c.yaml', '@a/b/c.yaml', '@A b/c@1/d'].map(
    (text): Row => [`the template ${text}`, importing(`"${text}"`)],
  ),
  ['a template', importing('"@a/b@1.0.0/c.yaml"'), { templates: template('1.0.0', '1.0.0') }],
  [
    'a path by the name of a template',
    importing('"../../@a/b@1.0.0/c.yaml"'),
    {
      ...{ templates: template('1.0.0', '1.0.0') },
      bundle: {
        ...inputOf(importing('"../../@a/b@1.0.0/c.yaml"')).bundle,
        absent: new Set(['@a/b@1.0.0/c.yaml']),
      },
    },
  ],
  ['a template of a range', importing('"@a/b@^1/c.yaml"'), { templates: template('1.2.0', '^1') }],
  ['another version of a template', importing('"@a/b@1.0.0/c.yaml"'), { templates: template('1.0.1', '1.0.0') }],
  ['another build of a template', importing('"@a/b@1.0.0+x/c.yaml"'), { templates: template('1.0.0+y', '1.0.0+x') }],
  ['a file that a template has not', importing('"@a/b@1.0.0/d.yaml"'), { templates: template('1.0.0', '1.0.0') }],
  ...(
    [
      'unknown-source',
      'not-found',
      'no-such-version',
      'integrity-mismatch',
      'unreachable',
      'too-large',
      'corrupt',
    ] as const
  ).map(
    (error): Row => [
      `a template that is ${error}`,
      importing('"@a/b@1/c.yaml"'),
      { templates: failing(error, '@a/b: said so') },
    ],
  ),
  ['a template without a reason', importing('"@a/b@1/c.yaml"'), { templates: failing('corrupt', '') }],

  [
    'variables',
    fragment(
      'labels: {a: "{{ $x }}", "{{ $y }}": b}\ndisplayTitle: "{{ $x }} {{ $ctx }}"\n',
      'variables: {x: 1, y: k}\n',
    ),
    { context: { ctx: 'c' } },
  ],
  ['variables that are not in scope', fragment('labels: {a: "{{ $x }}", b: ["{{ $x }}"]}\n')],
  ['one of thirty', fragment('labels: {a: "{{ $x }}"}\n', `variables: {${list(30, (k) => `v${k}: a, `)}}\n`)],
  ['one of thirty-one', fragment('labels: {a: "{{ $x }}"}\n', `variables: {${list(31, (k) => `v${k}: a, `)}}\n`)],
  ['variables that are none', fragment('labels: {a: "{{ $1x }} {{ $ }} {{ $x y }} {{ x }}"}\n')],
  ['a long name', fragment(`labels: {a: "{{ $${'n'.repeat(61)} }}"}\n`)],
  ['what becomes too long', fragment('labels: {a: "{{ $x }}{{ $x }}"}\n', `variables: {x: ${'x'.repeat(600_000)}}\n`)],
  ['two keys that become one', fragment('labels: {a: b, "{{ $x }}": c}\n', 'variables: {x: a}\n')],
  ['declarations that are none', agent('variables: [a]\n')],
  ['declared values', agent('variables: {1a: b, a: [c], b: null, c: true, d: 1.50, e: "f"}\n')],

  ['what is appended', fragment('systemPrompt: a\n', 'systemPrompt: {append: " b"}\n')],
  [
    'what grows too long by it',
    fragment(`systemPrompt: ${'x'.repeat(600_000)}\n`, `systemPrompt: {append: ${'y'.repeat(600_000)}}\n`),
  ],
  ['what is appended to nothing', agent('systemPrompt: {append: " b"}\n')],
  ['what is appended to no text', fragment('systemPrompt: [a]\n', 'systemPrompt: {append: " b"}\n')],
  [
    'what no append is',
    agent('systemPrompt: {append: [a]}\ninitialPrompt: {append: a, file: b}\ndisplayTitle: {x: y}\n'),
  ],
  ['a prompt in a file', { ...agent('systemPrompt: {file: ../p.md}\n'), '.svc/p.md': 'You sort.\n' }],
  ['a prompt in a file that is not there', agent('systemPrompt: {file: ../q.md}\n')],
  ['a prompt in a file that is no text', { ...agent('systemPrompt: {file: ../p.md}\n'), '.svc/p.md': 'a\0b' }],
  ['a prompt in a file outside', agent('systemPrompt: {file: ../../p.md}\ninitialPrompt: {file: /p.md}\n')],
  [
    'what is removed',
    fragment('env: {A: a, B: b}\nlabels: {a: b}\nmanages: [x, y]\n', 'remove: {env: [A], manages: y, labels: a}\n'),
  ],
  [
    'what is removed and was not there',
    fragment('env: {A: a}\n', 'remove: {env: [B], tools: t, nothing: x, triggers: [a]}\n'),
  ],
  ['what no removal is', agent('remove: [a]\n')],
  ['what no removal names', agent('remove: {env: {A: b}, labels: [[a]], manages: 1}\n')],

  ['an envelope', { [agentFile]: 'apiVersion: v1\nkind: Agent\nmetadata: {name: a}\nspec: {}\n' }],
  ['an envelope without metadata', { [agentFile]: 'kind: Agent\nspec: {harness: harness-a}\n' }],
  ['a kind that is no envelope', { [agentFile]: 'kind: Agent\nspec: x\n' }],
  ['an agent that is too large', { [agentFile]: { tooLarge: true } }],
  [
    'two agents, one without what both need',
    {
      ...agent(''),
      '.svc/agents/b.yaml': 'name: b\nharness: harness-a\nenvironment: e\n',
      '.svc/agents/c.yaml': 'name: [\n',
    },
  ],
  [
    'who may refer to what could not be read',
    {
      '.svc/agents/b.yaml': 'name: b\nharness: harness-a\nenvironment: x\nidentity: y\n',
      '.svc/agents/c.yaml': 'name: [\n',
    },
  ],
  [
    'who may refer to what could not be read, and what is wrong all the same',
    {
      '.svc/agents/a.yaml': 'kind: Agent\nspec: {}\n',
      '.svc/agents/b.yaml': 'name: b\nharness: harness-a\nenvironment: x\n',
      '.svc/agents/c.yaml': 'name: b\nharness: harness-a\nenvironment: x\n',
    },
  ],
  [
    'who may refer to what is too large to be read',
    { [agentFile]: { tooLarge: true }, '.svc/agents/b.yaml': 'name: b\nharness: harness-a\nenvironment: x\n' },
  ],
  ['what an agent lacks', { ...lacking('f.yaml'), '.svc/fragments/f.yaml': '{}' }],
  ['what an agent lacks that an import which is not there may have', lacking('gone.yaml')],
  [
    'a value that could not be read is blamed once',
    agent('env: {A: *x, B: "a\\0b", C: "\\ud800"}\nlabels: {a: .inf}\nmanages: ["\\ud800"]\n'),
  ],
  [
    'what is wrong in two ways is told twice',
    fragment('systemPrompt: {append: a}\n', 'systemPrompt: 5\nlabels: {a: b}\n'),
  ],
  [
    'a variable that could not be put in is blamed once',
    fragment('reasoningEffort: "{{ $x }}"\nconcurrency: "{{ $1 }}"\n'),
  ],
];

const findingOf = ({ file, line, column, severity, code, path, message, hint, related = [] }: Diagnostic): string[] => [
  `  ${[file, line, column].filter((part) => part !== undefined).join(':')} ${severity} ${code} ${path ?? ''}: ${message}`,
  ...(hint === undefined ? [] : [`    ${hint}`]),
  ...related.map((other) => `    ${other.file}:${other.line}:${other.column} ${other.message}`),
];
const short = (text: string): string =>
  text.replace(/(.{1,9}?)\1{29,}/gs, (run, unit: string) => `${unit}×${run.length / unit.length}`);

/** Compiles twice with one cache, which must make no difference, and tells the second time. */
function toldOf([what, files, more]: Row): string[] {
  const input = { ...inputOf(files), ...more, cache: createCompileCache() };
  compile(input);
  const { ok, diagnostics, needs, resources, outside = [], templateLock } = compile(input);
  const specs = resources.flatMap(({ kind, name, spec }) =>
    kind === 'Agent' ? [`  ${name} ${JSON.stringify(spec)}`] : [],
  );
  return [
    `${what}${ok ? '' : ': refused'}`,
    ...diagnostics.flatMap(findingOf),
    ...(needs.paths.length + needs.templates.length === 0
      ? []
      : [`  needs ${[...needs.paths, ...needs.templates].join(' ')}`]),
    ...(outside.length === 0 ? [] : [`  outside ${outside.join(' ')}`]),
    ...Object.entries(templateLock).map(([name, lock]) => `  lock ${name} ${lock.version} ${lock.integrity}`),
    ...(what.includes('variables') || what.includes('removed') || what.includes('append') || what.includes('prompt')
      ? specs
      : []),
  ].map(short);
}

const kept = (name: string): string => join(import.meta.dirname, `../../../testdata/messages/${name}.txt`);

test('what a tree is told stands in these words', (t) => {
  t.assert.fileSnapshot(`${rows.flatMap(toldOf).join('\n')}\n`, kept('trees'), { serializers: [String] });
});

const full: Files = {
  [agentFile]: `name: a
variables: { other: x }
imports: ../fragments/f.yaml
identity: { name: u, username: u, displayName: U }
mounts: [{ kind: git, repository: a/b, mountPath: /m }]
bindings: { chat.thread: { lifecycle: manual }, codehost.pull_request: { continuity: agent, bind: onAttributedEvent } }
tools: { t: { kind: mcp_remote, url: "https://x.test" } }
triggers:
  - events: [codehost.push, codehost.commit_comment.created]
    routing: { kind: spawn }
    where: { $.a: 1, $.b: { in: [1, 2] } }
  - { kind: heartbeat, cron: "0 3 * * *", routing: { kind: spawn } }
  - { event: webhook.x, endpoint: e, auth: { kind: none }, routing: { kind: deliver, routeBy: { kind: attributedSessions } } }
`,
  '.svc/fragments/f.yaml': `harness: harness-a
environment: { name: e, image: { kind: preset, name: base }, env: { A: "{{ $ctx }}" } }
model: { id: alpha-1, fallbacks: [{ id: alpha-2 }] }
initialPrompt: "{{$ctx}} {{ title }}"
displayTitle: "{{  $ctx  }}"
systemPrompt: "{{ $other }}"
manages: [x, y]
`,
  '.svc/agents/b.yaml': 'name: b\nharness: harness-a\nenvironment: e\nidentity: u\n',
};
test('each value of an agent comes from where these lines say', (t) => {
  const { origins, diagnostics } = compile({ ...inputOf(full), context: { ctx: 'c' }, origins: 'all' });
  const lines = Object.entries(origins ?? {}).flatMap(([name, paths]) =>
    Object.entries(paths).map(
      ([path, { layer, file, line }]) => `${name} ${path}: ${layer} ${file ?? ''} ${line ?? ''}`,
    ),
  );
  const text = [...lines, ...diagnostics.flatMap(findingOf)].join('\n');
  t.assert.fileSnapshot(`${text}\n`, kept('origins'), { serializers: [String] });
});
