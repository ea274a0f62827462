import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compile, createCompileCache } from './compile.ts';
import { inputWith } from './testkit.ts';

const files = {
  '.svc/agents/a.yaml': `name: a
imports: [../fragments/base.yaml, ../fragments/house.yaml]
variables: { team: ops }
model: { id: alpha-1 }
env:
  OWN: x
triggers:
  - events: [codehost.push, codehost.commit_comment.created]
    connection: gh
    where: { "$.a.b": 1 }
    routing: { kind: spawn }
  - event: codehost.pull_request.opened
    routing: { kind: bind, target: codehost.pull_request, onUnmatched: spawn, lifecycle: manual }
`,
  '.svc/fragments/base.yaml': `harness: harness-a
systemPrompt: You sort.
initialPrompt: "Look at {{ $repo }}."
displayTitle: "For {{ $team }}"
environment:
  name: node
  image: { kind: preset, name: base }
env:
  FROM_BASE: y
`,
  '.svc/fragments/house.yaml': `systemPrompt:
  append: " Be brief."
`,
  '.svc/agents/default.yaml': `name: default
`,
};
const input = (origins?: 'all' | readonly string[]) => ({
  ...inputWith(Object.fromEntries(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]))),
  context: { repo: 'acme/web' },
  ...(origins !== undefined && { origins }),
});
const shown = (
  origins: NonNullable<ReturnType<typeof compile>['origins']>[string] | undefined,
  path: string,
): string => {
  const { layer, file, line } = origins?.[path] ?? {};
  return file === null ? String(layer) : `${layer} ${String(file).replace('.svc/', '')}:${line}`;
};

test('each value of a spec is told with the file, the line and the layer that it comes from', () => {
  const output = compile(input('all'));
  assert.deepEqual(
    output.diagnostics.filter(({ severity }) => severity === 'error'),
    [],
  );
  const a = output.origins?.['a'];
  for (const [path, origin] of [
    ['harness', 'import fragments/base.yaml:1'],
    ['systemPrompt', 'append fragments/house.yaml:2'],
    ['initialPrompt', 'context fragments/base.yaml:3'],
    // A variable that the document declares is no context.
    ['displayTitle', 'import fragments/base.yaml:4'],
    ['environment', 'import fragments/base.yaml:6'],
    ['env.OWN', 'document agents/a.yaml:6'],
    ['env.FROM_BASE', 'import fragments/base.yaml:9'],
    ['model.id', 'document agents/a.yaml:4'],
    ['model.provider', 'default'],
    ['session', 'default'],
    ['tools', 'default'],
    ['triggers[0].event', 'document agents/a.yaml:8'],
    ['triggers[1].event', 'document agents/a.yaml:8'],
    ['triggers[1].where["$.a.b"]', 'document agents/a.yaml:10'],
    ['triggers[1].fallback', 'default'],
    ['triggers[1].routing.kind', 'document agents/a.yaml:11'],
    ['triggers[2]', 'document agents/a.yaml:12'],
    ['bindings["codehost.pull_request"].lifecycle', 'document agents/a.yaml:13'],
    ['bindings["codehost.pull_request"].continuity', 'default'],
  ] as const)
    assert.equal(shown(a, path), origin, path);
  const base = output.origins?.['default'];
  assert.deepEqual([shown(base, 'harness'), shown(base, 'environment')], ['default', 'default']);
});

test('what an agent made of a map, inherited or wrote in another way is told where its value stands', () => {
  const text = `imports: ../fragments/f.yaml
harness: harness-a
environment:
  image: { kind: preset, name: base }
  name: e
identity:
  displayName: A
  name: i
labels:
  a: b
  name: c
bindings:
  codehost.issue:
    lifecycle: held
    eventContext:
      bound: { phase: one }
triggers:
  - event: codehost.issue.opened
    where:
      event: ~
    routing:
      kind: bind
      target: codehost.issue
      continuity: agent
      release: true
  - kind: heartbeat
    cron: "0 3 * * *"
    routing: { kind: spawn }
  - event: codehost.pull_request.opened
    routing:
      kind: spawn
      bind:
        target: codehost.pull_request
        lifecycle: manual
        context: { phase: two }
`;
  const files = {
    '.svc/agents/a.yaml': Buffer.from(text),
    '.svc/fragments/f.yaml': Buffer.from('systemPrompt: a\nmanages:\n  - b\nname: a\n'),
  };
  const { origins, diagnostics } = compile({ ...inputWith(files), origins: 'all' });
  assert.deepEqual(
    diagnostics.filter(({ severity }) => severity === 'error'),
    [],
  );
  const told = Object.keys(origins?.['a'] ?? {}).map((path) => `${path}: ${shown(origins?.['a'], path)}`);
  assert.deepEqual(
    told.filter((line) => !line.endsWith(': default')).map((line) => line.replace('document agents/a.yaml:', '')),
    [
      'labels: 10',
      'labels.a: 10',
      'labels.name: 11',
      'harness: 2',
      'systemPrompt: import fragments/f.yaml:1',
      'environment: 5',
      'identity: 8',
      'triggers: 18',
      'triggers[0]: 18',
      'triggers[0].event: 18',
      'triggers[0].where: 20',
      'triggers[0].where.event: 20',
      'triggers[0].routing: 22',
      'triggers[0].routing.kind: 22',
      'triggers[0].routing.target: 23',
      'triggers[0].routing.release: 25',
      'triggers[0].routing.release.context: 25',
      'triggers[1]: 26',
      'triggers[1].kind: 26',
      'triggers[1].cron: 27',
      'triggers[1].routing: 28',
      'triggers[1].routing.kind: 28',
      'triggers[2]: 29',
      'triggers[2].event: 29',
      'triggers[2].routing: 31',
      'triggers[2].routing.kind: 31',
      'triggers[2].routing.bind: 33',
      'triggers[2].routing.bind.target: 33',
      'triggers[2].routing.bind.context: 35',
      'triggers[2].routing.bind.context.phase: 35',
      'manages: import fragments/f.yaml:3',
      'manages[0]: import fragments/f.yaml:3',
      'bindings: 13',
      'bindings["codehost.pull_request"]: 34',
      'bindings["codehost.pull_request"].lifecycle: 34',
      'bindings["codehost.issue"]: 14',
      'bindings["codehost.issue"].lifecycle: 14',
      'bindings["codehost.issue"].continuity: 24',
      'bindings["codehost.issue"].eventContext: 16',
      'bindings["codehost.issue"].eventContext.bound: 16',
      'bindings["codehost.issue"].eventContext.bound.phase: 16',
    ],
  );
});

test('of an agent with an error, or without a name, nothing is told', () => {
  const box = 'harness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\n';
  const agents = { a: `name: a\n${box}`, b: `name: b\n${box}manages: 5\n`, c: box };
  const bytes = Object.entries(agents).map(([name, text]) => [`.svc/agents/${name}.yaml`, Buffer.from(text)]);
  const { origins } = compile({ ...inputWith(Object.fromEntries(bytes)), origins: 'all' });
  assert.deepEqual(Object.keys(origins ?? {}), ['a']);
});

test('only the files that are asked for are compiled, a cache or not, and nobody pays who does not ask', () => {
  const cache = createCompileCache();
  assert.equal(compile({ ...input(), cache }).origins, undefined);
  const some = compile({ ...input(['.svc/agents/a.yaml']), cache });
  assert.deepEqual(Object.keys(some.origins ?? {}), ['a']);
  assert.equal(shown(some.origins?.['a'], 'env.OWN'), 'document agents/a.yaml:6');
});
