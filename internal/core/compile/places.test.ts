import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compile, createCompileCache } from './compile.ts';
import { inputWith } from './testkit.ts';

const bytesOf = (texts: { readonly [path: string]: string }): { readonly [path: string]: Uint8Array } =>
  Object.fromEntries(Object.entries(texts).map(([path, text]) => [path, Buffer.from(text)]));

const files = {
  '.svc/agents/a.yaml': `name: a
imports: ../fragments/base.yaml
identity: elsewhere
env:
  PLAIN: x
  TOKEN: { $secret: token }
triggers:
  - events: [codehost.push, codehost.commit_comment.created]
    connection: gh
    routing: { kind: spawn }
  - kind: heartbeat
    cron: "0 9 * * *"
    routing: { kind: spawn }
`,
  '.svc/fragments/base.yaml': `harness: harness-a
environment:
  name: node
  image: { kind: preset, name: base }
  env:
    KEY: { $secret: key }
tools:
  search:
    kind: mcp_remote
    url: https://search.example/mcp
    auth: { kind: bearer, token: { $secret: search } }
  link: { kind: connection, provider: slack, connection: two }
  talk:
    kind: local
    implementation: chat
    auth:
      kind: connections
      connections:
        - { provider: slack, connection: one }
triggers:
  - event: webhook.received
    endpoint: in
    auth: { kind: hmac_sha256, secretRef: hook }
    routing: { kind: spawn }
`,
};

test('what only an apply can check keeps its place, in the file that declares it', () => {
  const cache = createCompileCache();
  const input = { ...inputWith(bytesOf(files)), cache };
  const output = compile(input);
  assert.deepEqual(
    output.diagnostics.filter((item) => item.severity === 'error'),
    [],
  );
  const shown = (resource: string): { [path: string]: string } =>
    Object.fromEntries(
      Object.entries(output.places?.[resource] ?? {}).map(([path, { file, line, column }]) => [
        path,
        `${file.split('/').at(-1)}:${line}:${column}`,
      ]),
    );
  assert.deepEqual(shown('Agent/a'), {
    '': 'a.yaml:1:7',
    'env.TOKEN': 'a.yaml:6:10',
    identity: 'a.yaml:3:11',
    'tools.search.auth': 'base.yaml:11:11',
    'tools.search.auth.token': 'base.yaml:11:34',
    'tools.link.connection': 'base.yaml:12:58',
    'tools.talk.auth': 'base.yaml:17:7',
    'tools.talk.auth.connections[0].connection': 'base.yaml:19:42',
    'triggers[0]': 'base.yaml:21:12',
    'triggers[0].auth': 'base.yaml:23:11',
    'triggers[0].auth.secretRef': 'base.yaml:23:43',
    'triggers[0].endpoint': 'base.yaml:22:15',
    'triggers[1]': 'a.yaml:8:14',
    'triggers[1].connection': 'a.yaml:9:17',
    'triggers[2]': 'a.yaml:8:29',
    'triggers[2].connection': 'a.yaml:9:17',
    'triggers[3]': 'a.yaml:12:11',
  });
  assert.deepEqual(shown('Environment/node'), { '': 'base.yaml:3:9', 'env.KEY': 'base.yaml:6:10' });
  assert.deepEqual(compile(input), output, 'and a kept record gives the same');
});

test('an identity has its place and that of its avatar; a tree with an error has none', () => {
  const text = `name: a
harness: harness-a
environment: { name: n, image: { kind: preset, name: base } }
identity:
  displayName: A
  avatar: { asset: .svc/assets/a.png, sha256: ${'a'.repeat(64)} }
`;
  const at = (body: string) => compile(inputWith(bytesOf({ '.svc/agents/a.yaml': body })));
  const { places } = at(text);
  assert.equal(places?.['Identity/a']?.['']?.line, 5);
  assert.equal(places?.['Identity/a']?.['avatar']?.line, 6);
  assert.equal(at(`${text}concurrency: 2\n`).places, undefined);
});

test('what a provider is asked about of a model, and what a tool names, keep their places', () => {
  const head = (name: string): string =>
    `name: ${name}\nharness: harness-b\nenvironment: { name: n, image: { kind: preset, name: base } }\n`;
  const agents = {
    '.svc/agents/a.yaml': `${head('a')}model: { provider: provider-c, id: v/m, gateway: { models: [v/n, v/o] } }
tools:
  issues: { kind: mcp_remote, url: "https://x.test", auth: { kind: mcp_oauth, connection: one } }
`,
    '.svc/agents/b.yaml': `${head('b')}model: { provider: provider-c, id: v/m, fallbacks: [{ id: v/p }] }\n`,
    '.svc/agents/c.yaml': `${head('c')}model: { id: beta-1 }\n`,
  };
  const { diagnostics, places } = compile(inputWith(bytesOf(agents)));
  assert.deepEqual(
    diagnostics.filter(({ severity }) => severity === 'error'),
    [],
  );
  const shown = (resource: string): string[] =>
    Object.entries(places?.[resource] ?? {}).map(([path, { line, column }]) => `${path} ${line}:${column}`);
  assert.deepEqual(shown('Agent/a'), [
    ' 1:7',
    'model.id 4:36',
    'model.gateway.models[0] 4:61',
    'model.gateway.models[1] 4:66',
    'tools.issues.auth 6:60',
    'tools.issues.auth.connection 6:91',
  ]);
  assert.deepEqual(shown('Agent/b'), [' 1:7', 'model.id 4:36', 'model.fallbacks[0].id 4:59']);
  assert.deepEqual(shown('Agent/c'), [' 1:7']);
});
