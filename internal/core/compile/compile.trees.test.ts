// What compiling a small tree tells and gives, word by word, in testdata/messages/trees.txt: every diagnostic with its place, what
// it adds, and what is still needed; of agents that asked for it, where each value comes from. A row is a tree.

import { join } from 'node:path';
import { test } from 'node:test';
import type { ResolvedTemplate, UnresolvedTemplate } from '../../domain/bundle.ts';
import { compile } from './compile.ts';
import { agentHead } from './testkit.ts';
import type { Files, Row } from './trees-testkit.ts';
import {
  agent,
  agentFile,
  failing,
  findingOf,
  fragment,
  importing,
  inputOf,
  lacking,
  list,
  template,
  toldOf,
} from './trees-testkit.ts';

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

const rows: readonly Row[] = [
  ['files that nothing reads', { ...agent(''), ...Object.fromEntries(misplaced.map((name) => [`.svc/${name}`, 'x'])) }],
  [
    'what is imported though it lies elsewhere',
    importing('../other/t.yaml', { '.svc/other/t.yaml': 'labels: {a: b}\n' }),
  ],
  [
    'entries of a fragment that are lost under those of the agent',
    fragment(
      'env: [A=b]\ntriggers:\n  event: codehost.issue.opened\n  routing: {kind: spawn}\n',
      'env: {C: d}\ntriggers: [{event: codehost.push, routing: {kind: spawn}}]\n',
    ),
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
  ...[
    '../other/lists.yaml/',
    '../fragments/plain.yaml',
    '../fragments/',
    '"  "',
    '../fragments/mx/y.yaml',
    '../fragments/queues.yaml',
    '../fragments/lists.md.yaml',
  ].map(
    (text): Row => [
      `imports: [${text}]`,
      importing(text, {
        '.svc/fragments/m': { kind: 'submodule' },
        '.svc/zoo/queues.json': 'x',
        '.svc/other/Queues.yml': 'x',
        '.svc/other/plain': 'x',
        '.svc/other/lists.md.json': 'x',
        '.svc/other/lists.yaml': 'x',
      }),
    ],
  ),
  ...['too-large', 'two documents', 'text'].map(
    (what): Row => [
      `what cannot be imported is used all the same: ${what}`,
      importing('../other/t.yaml', {
        '.svc/other/t.yaml': what === 'too-large' ? { tooLarge: true } : what === 'text' ? 'x' : 'a: 1\n---\nb: 1\n',
      }),
    ],
  ),
  ...[120, 121].map((count): Row => [`a path of ${count} characters`, importing(`/${'x'.repeat(count - 1)}`)]),
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
  ['one without space', fragment('imports: "{{$x}}.yaml"\nsystemPrompt: {file: "{{$x}}.md"}\n')],
  ['a variable in an import of a fragment', fragment('imports: "{{ $x }}.yaml"\n', 'variables: {x: g}\n')],

  ...['"@@a/b@1/c.yaml"', '"@a/b@1/c\\nd"', '"@a/b@1//c.yaml"', '"@a/b@1/."', '"@a/b@1@2/c.yaml"'].map(
    (text): Row => [`the template ${text}`, importing(text)],
  ),
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
  ...(
    [
      ['11.22.33', '11.22.34'],
      ['x1.0.0', '2.0.0'],
      ['1.0.0x', '2.0.0'],
      ['1.0.0-a', '2.0.0'],
      ['1.0.0+ab', '1.0.0+cd'],
    ] as const
  ).map(
    ([requested, version]): Row => [
      `the version ${version} of a template, where ${requested} is asked for`,
      importing(`"@a/b@${requested}/c.yaml"`),
      { templates: template(version, requested) },
    ],
  ),
  [
    'a mistake in the second of two templates',
    importing('"@a/b@1.0.0/c.yaml", "@d/e@1/f.yaml"'),
    {
      templates: new Map<string, ResolvedTemplate | UnresolvedTemplate>([
        ...failing('corrupt', 'x'),
        ...template('1.0.0', '1.0.0'),
        ...[...template('1.0.0', '1').values()].map((one) => {
          const entry = { path: 'f.yaml', kind: 'file', oid: 'f', bytes: Buffer.from('\nmanages: 5\n') } as const;
          const specifier = '@d/e@1';
          return [specifier, { ...one, specifier, name: '@d/e', files: new Map([['f.yaml', entry]]) }] as const;
        }),
      ]),
    },
  ],
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
  [
    'a prompt in a file of an agent of its own has no variables',
    {
      ...agent('systemPrompt: {file: ../p.md}\nvariables: {x: 1}\ninitialPrompt: {file: "../{{ $x }}.md"}\n'),
      '.svc/p.md': 'You sort {{ $x }}.\n',
    },
  ],
  [
    'a prompt of its own with a variable in it',
    { ...agent('systemPrompt: {file: ../p.md}\nvariables: {x: 1}\n'), '.svc/p.md': 'You sort {{ $x }}.\n' },
  ],
  [
    'a prompt in a file that a fragment loads has the variables of each agent',
    {
      ...fragment('systemPrompt: {file: ../p.md}\n', 'variables: {x: 1}\n'),
      '.svc/agents/b.yaml': `${agentHead.replace('name: a', 'name: b')}imports: ../fragments/f.yaml\nvariables: {x: 2}\n`,
      '.svc/p.md': 'You sort {{ $x }}.\n',
    },
  ],
  ['a prompt in a file without a name', agent('systemPrompt: {file: ""}\ninitialPrompt: {file: "  "}\n')],
  ['a prompt in a submodule', { ...agent('systemPrompt: {file: ../m}\n'), '.svc/m': { kind: 'submodule' } }],
  [
    'a prompt that cannot be read hides nothing else that is lacking',
    { [agentFile]: 'name: a\nsystemPrompt: {file: ../p.md}\nremove: {env: X}\n', '.svc/p.md': 'a\0b' },
  ],
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
  ['an envelope without a spec', { [agentFile]: 'apiVersion: v1\nmetadata: {name: a}\n' }],
  ['a spec without an envelope', { [agentFile]: `${agentHead}spec: {a: b}\n` }],
  ['the default agent', { [agentFile]: 'name: " default "\n', '.svc/agents/b.yaml': 'name: 5\n' }],
  ['variables of a fragment that are none', fragment('variables:\nlabels: {a: b}\n')],
  ['variables of a fragment', fragment('variables: {a: b}\nlabels: {a: b}\n')],
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
