import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultCapabilities } from '../../../schemas/mount.ts';
import { agentHead, toldOf, marked, specOf } from './testkit.ts';

const mount = (inner: string): string => `mounts: [{kind: git, repository: a/b, mountPath: /m${inner}}]\n`;
const app = (inner: string): string => mount(`, auth: {kind: codehostApp, ${inner}}`);
const tool = (inner: string): string => `tools: {t: {${inner}}}\n`;

const refused: readonly (readonly [body: string, codes: string, message?: string])[] = [
  ['mounts: [{§repository: a/b, mountPath: /m}]\n', 'missing-field'],
  ['mounts: [{§kind: git, mountPath: /m}]\n', 'missing-field'],
  ['mounts: [{§kind: git, repository: a/b}]\n', 'missing-field'],
  ['mounts: [{kind: §hg, repository: a/b, mountPath: /m}]\n', 'invalid-value'],
  ['mounts: [{kind: git, repository: §ab, mountPath: /m}]\n', 'invalid-value'],
  ['mounts: [{kind: git, repository: §" ", mountPath: /m}]\n', 'invalid-value'],
  ['mounts: [{kind: git, repository: a/b, mountPath: §m}]\n', 'invalid-value'],
  ...[
    '/',
    '//',
    '/a//b',
    '/a/./b',
    '/a/..',
    '/home/user',
    '/home/user/',
    '/etc',
    '/usr/local/x',
    '/tmp/',
    '/run/x',
    '/home',
    '/nix',
  ].map((path): [string, string] => [`mounts: [{kind: git, repository: a/b, mountPath: §${path}}]\n`, 'invalid-value']),
  ['mounts: [{kind: git, repository: §../b, mountPath: /m}]\n', 'invalid-value'],
  ['mounts: [{kind: git, repository: §a/., mountPath: /m}]\n', 'invalid-value'],
  ['mounts: [{kind: git, repository: a/b, mountPath: §"/srv/a:b"}]\n', 'invalid-value'],
  ['mounts: [{kind: git, repository: a/b, mountPath: §/library/x}]\n', 'invalid-value'],
  [`mounts: [{kind: git, repository: a/b, mountPath: §/srv/${'é'.repeat(128)}}]\n`, 'invalid-value'],
  [`mounts: [{kind: git, repository: a/b, mountPath: §${'/abc'.repeat(257)}}]\n`, 'invalid-value'],
  ...['a..b', '-x', 'x.lock', 'a b', '"@{1}"', '"a:b"'].map((ref): [string, string] => [
    `mounts: [{kind: git, repository: a/b, mountPath: /m, ref: §${ref}}]\n`,
    'invalid-value',
  ]),
  ['mounts: [§x]\n', 'invalid-type'],
  [mount(', depth: §0'), 'invalid-value'],
  [mount(', depth: §"1"'), 'invalid-type'],
  [mount(', ref: §1'), 'invalid-type'],
  [mount(', §branch: x'), 'unknown-key'],
  [mount(', auth: {§installationId: x}'), 'missing-field'],
  [mount(', auth: {kind: §token}'), 'invalid-value'],
  [mount(', auth: {kind: none, §capabilities: {}}'), 'mount-capabilities'],
  [app('installationId: §12'), 'invalid-type'],
  [app('commitAuthor: {name: §"", email: a@b}'), 'invalid-value'],
  [app('commitAuthor: {name: n, email: §ab}'), 'invalid-value'],
  [app('commitAuthor: {§name: n}'), 'missing-field'],
  [app('capabilities: {contents: §admin}'), 'mount-capabilities'],
  [app('capabilities: {merge: §read}'), 'mount-capabilities'],
  [app('capabilities: {§deployments: read}'), 'unknown-key'],
  [app('capabilities: §x'), 'invalid-type'],
  [app('capabilities: {contents: §admin, merge: write}'), 'mount-capabilities'],
  [app('capabilities: {contents: read, §merge: write}'), 'mount-capabilities'],
  [app('capabilities: {pullRequests: none, §merge: write}'), 'mount-capabilities'],
  [
    app('capabilities: {contents: read, issues: §all, §merge: write, §deploy: x}'),
    'mount-capabilities mount-capabilities unknown-key',
  ],
  [
    'mounts: [{kind: git, repository: a/b, mountPath: §/m}, {kind: git, repository: a/c, mountPath: §/m/}]\n',
    'mount-conflict',
  ],
  ['tools: {§workspace: {kind: local, implementation: ping}}\n', 'tool-alias-reserved'],
  [
    'tools: {§a.b: {kind: local, implementation: ping}, x: {kind: codehost}, §A_b: {kind: local, implementation: ping}}\n',
    'tool-alias-conflict',
  ],
  [
    'tools: {§a.b: {kind: local, implementation: ping, disabled: false}, §a_b: {kind: codehost, disabled: §"true"}}\n',
    'tool-alias-conflict tool-alias-conflict invalid-type',
  ],
  ['tools: {§"a b": {kind: local, implementation: ping}}\n', 'name-invalid'],
  ['tools: {t: §x}\n', 'invalid-type'],
  ['tools: {t: §{}}\n', 'missing-field'],
  [tool('kind: §mcp'), 'invalid-value'],
  [tool('§kind: mcp_remote'), 'missing-field'],
  [tool('kind: mcp_remote, url: §http://x.test'), 'invalid-value'],
  [tool('kind: mcp_remote, url: §"https://"'), 'invalid-value'],
  [tool('kind: mcp_remote, url: §xhttps://x.test'), 'invalid-value'],
  [tool('kind: mcp_remote, url: §1'), 'invalid-type'],
  [tool('kind: mcp_remote, url: §"https://a b"'), 'invalid-value'],
  [tool('kind: mcp_remote, url: https://x.test, transport: §sse'), 'invalid-value'],
  [tool('kind: mcp_remote, url: https://x.test, description: §""'), 'invalid-value'],
  [tool('kind: mcp_remote, url: https://x.test, §headers: {}'), 'unknown-key'],
  [tool('kind: mcp_remote, url: https://x.test, auth: {kind: §basic}'), 'invalid-value'],
  [tool('kind: mcp_remote, url: https://x.test, auth: {§kind: bearer}'), 'missing-field'],
  [tool('kind: mcp_remote, url: https://x.test, auth: {kind: bearer, token: §abc}'), 'invalid-type'],
  [
    tool('kind: mcp_remote, url: https://x.test, auth: {kind: bearer, token: {$secret: s, §optional: true}}'),
    'unknown-key',
  ],
  [tool('kind: mcp_remote, url: https://x.test, auth: {§kind: mcp_oauth}'), 'missing-field'],
  [tool('kind: mcp_remote, url: https://x.test, auth: {§kind: provider_oauth, connection: c}'), 'missing-field'],
  [tool('kind: mcp_remote, url: https://x.test, auth: {kind: none, §token: {$secret: s}}'), 'unknown-key'],
  [tool('kind: connection, provider: §"", connection: c'), 'invalid-value'],
  [tool(`kind: connection, provider: §${'x'.repeat(65)}, connection: c`), 'invalid-value'],
  [tool('kind: connection, provider: p, connection: §"c d"'), 'name-invalid'],
  [tool('kind: connection, provider: p, connection: c, disabled: §"true"'), 'invalid-type'],
  [tool('kind: connection, provider: errtrack, connection: c, tools: §[]'), 'invalid-value'],
  [tool('kind: connection, provider: errtrack, connection: c, tools: §list_projects'), 'invalid-type'],
  [tool('kind: connection, provider: errtrack, connection: c, tools: [list_projects, §update_issue]'), 'tool-unknown'],
  [tool('kind: connection, provider: errtrack, connection: c, tools: [§List_projects]'), 'tool-unknown'],
  [tool('kind: connection, provider: tracker, connection: c, §tools: []'), 'unknown-key'],
  [tool('kind: local, implementation: §shell'), 'invalid-value'],
  [tool('§kind: local'), 'missing-field'],
  [tool('kind: local, implementation: svc, capabilities: {billing: §all}'), 'invalid-value'],
  [tool('kind: local, implementation: svc, §auth: {}'), 'unknown-key'],
  [tool('kind: local, implementation: ping, §capabilities: {}'), 'unknown-key'],
  [tool('§kind: local, implementation: chat'), 'missing-field'],
  [tool('kind: local, implementation: chat, auth: {§kind: connection, provider: p}'), 'missing-field'],
  [tool('kind: local, implementation: chat, auth: {kind: connections, connections: §[]}'), 'invalid-value'],
  [
    tool('kind: local, implementation: chat, auth: {kind: connections, connections: [{§provider: p}]}'),
    'missing-field',
  ],
  [tool('kind: codehost, §auth: {kind: none}'), 'unknown-key'],
  [tool('kind: codehost, tools: §[]'), 'invalid-value'],
  [tool('kind: codehost, tools: [§pull_request_raed]'), 'tool-unknown'],
  [tool('kind: codehost, tools: [§constructor]'), 'tool-unknown'],
  [tool('kind: codehost, tools: [§merge_pull_request]'), 'tool-capability'],
  [tool('kind: codehost, tools: [§list_secrets, pull_request_read]'), 'tool-capability'],
  // What a mount grants is known where something else of it is wrong.
  [
    mount(', depth: §0, auth: {kind: codehostApp}') + tool('kind: codehost, tools: [§merge_pull_request]'),
    'invalid-value tool-capability',
  ],
  [mount(', §atuh: {kind: none}') + tool('kind: codehost, tools: [merge_pull_request]'), 'unknown-key'],
  [app('capabilities: {merge: §wirte}') + tool('kind: codehost, tools: [merge_pull_request]'), 'mount-capabilities'],
];
for (const [body, codes] of refused) {
  test(`refuses ${JSON.stringify(body.slice(0, 130))}`, () => {
    const { expected, found, messages } = marked(body, codes);
    assert.deepEqual(found, expected, messages.join('\n'));
  });
}
test('each of them is told in these words', (t) => {
  const file = join(import.meta.dirname, '../../../testdata/messages/check-tools.txt');
  t.assert.fileSnapshot(
    toldOf([
      ...refused.map(([body]) => [body] as const),
      ...[
        '/srv',
        '/srv/',
        '/homes',
        '/home/use',
        '/library',
        '/library/',
        '/sbin2',
        '/mybin',
        '/srv/lib',
        `/${'a'.repeat(255)}`,
        `/${'a'.repeat(256)}`,
      ].map((path) => [`mounts: [{kind: git, repository: a/b, mountPath: ${path}}]\n`] as const),
      ...['/abc'.repeat(256), `${'/abc'.repeat(256)}d`, '"/srv/\\u0001"'].map(
        (path) => [`mounts: [{kind: git, repository: a/b, mountPath: ${path}}]\n`] as const,
      ),
      [mount(', ref: ""')],
      [mount(', ref: "{{ x }}..y"')],
      ['mounts: [{kind: git, repository: ../b, mountPath: /m}, {kind: git, repository: a/.., mountPath: /n}]\n'],
      ['mounts: [{kind: git, repository: a/b, mountPath: /m}, {kind: git, repository: c/d, mountPath: /m/}]\n'],
      ['mounts: [{kind: git, repository: a/b, mountPath: /m}, {kind: git, repository: c/d, mountPath: 1}, x]\n'],
      ['mounts: [{kind: git, repository: a.b/c.d, mountPath: /m}]\n'],
      ['mounts: x\n'],
      [tool('kind: mcp_remote, url: "https://x.test/p@q", disabled: true')],
      [tool('kind: mcp_remote, url: "HTTPS://u@x.test", disabled: 1')],
      [tool('kind: mcp_remote, url: "https://:p@x.test"')],
      [tool('disabled: true')],
      [tool('kind: codehost, tools: [pull_request_read, [a], nothing]')],
      ['tools: {workspace: {kind: mcp_remote, url: "https://x.test", disabled: true}}\n'],
      ['tools: {t: x, u: {kind: y}}\n'],
      ...['{kind: none}', '{kind: codehostApp}', '{kind: codehostApp, capabilities: {secrets: read}}'].flatMap((auth) =>
        ['merge_pull_request', 'list_secrets', 'x'.repeat(41)].map(
          (name) => [`${mount(`, auth: ${auth}`)}${tool(`kind: codehost, tools: [${name}]`)}`] as const,
        ),
      ),
      [app('capabilities: {merge: write, contents: none}')],
      [app('capabilities: {merge: x, contents: none}')],
      [app('capabilities: {merge: none, contents: read}')],
    ]),
    file,
    { serializers: [String] },
  );
});

test('a mount carries its auth, a code-host mount every capability, and its name is not stored', () => {
  assert.deepEqual(specOf('mounts: [{name: m, kind: git, repository: " a/b ", mountPath: /m}]\n').mounts, [
    { kind: 'git', repository: 'a/b', mountPath: '/m', auth: { kind: 'none' } },
  ]);
  const full = app(
    'installationId: "7", commitAuthor: {name: n, email: n@x}, capabilities: {merge: write, secrets: read}',
  ).replace('/m,', '/m, ref: "{{ payload.a }}", depth: 3,');
  assert.deepEqual(specOf(full).mounts, [
    {
      kind: 'git',
      repository: 'a/b',
      mountPath: '/m',
      ref: '{{ payload.a }}',
      depth: 3,
      auth: {
        kind: 'codehostApp',
        installationId: '7',
        commitAuthor: { name: 'n', email: 'n@x' },
        capabilities: { ...defaultCapabilities, merge: 'write', secrets: 'read' },
      },
    },
  ]);
});

test('every kind of tool comes out canonical', () => {
  const tools = {
    a: [
      'kind: mcp_remote, url: "https://x.test/mcp"',
      { kind: 'mcp_remote', url: 'https://x.test/mcp', transport: 'streamable_http', auth: { kind: 'none' } },
    ],
    b: [
      'kind: mcp_remote, url: "https://x.test", auth: {kind: bearer, token: {$secret: s}}, disabled: true, description: d',
      {
        kind: 'mcp_remote',
        disabled: true,
        description: 'd',
        url: 'https://x.test',
        transport: 'streamable_http',
        auth: { kind: 'bearer', token: { $secret: 's' } },
      },
    ],
    c: [
      'kind: mcp_remote, url: "https://x.test", auth: {kind: mcp_oauth, connection: c, optional: true}',
      {
        kind: 'mcp_remote',
        url: 'https://x.test',
        transport: 'streamable_http',
        auth: { kind: 'mcp_oauth', connection: 'c', optional: true },
      },
    ],
    d: [
      'kind: mcp_remote, url: "https://x.test", auth: {kind: provider_oauth, provider: p, connection: c}',
      {
        kind: 'mcp_remote',
        url: 'https://x.test',
        transport: 'streamable_http',
        auth: { kind: 'provider_oauth', provider: 'p', connection: 'c' },
      },
    ],
    e: [
      'kind: connection, provider: p, connection: c, optional: true',
      { kind: 'connection', provider: 'p', connection: 'c', optional: true },
    ],
    e2: [
      'kind: connection, provider: errtrack, connection: c, tools: [get_latest_event, list_projects]',
      { kind: 'connection', provider: 'errtrack', connection: 'c', tools: ['get_latest_event', 'list_projects'] },
    ],
    f: [
      'kind: local, implementation: svc',
      { kind: 'local', implementation: 'svc', capabilities: { billing: 'none' } },
    ],
    g: [
      'kind: local, implementation: svc, capabilities: {billing: read}',
      { kind: 'local', implementation: 'svc', capabilities: { billing: 'read' } },
    ],
    h: [
      'kind: local, implementation: chat, auth: {kind: connections, connections: [{provider: p, connection: c}], optional: true}',
      {
        kind: 'local',
        implementation: 'chat',
        auth: { kind: 'connections', connections: [{ provider: 'p', connection: 'c' }], optional: true },
      },
    ],
    i: ['kind: local, implementation: ping', { kind: 'local', implementation: 'ping' }],
    j: ['kind: codehost', { kind: 'codehost' }],
    k: [
      'kind: codehost, tools: [merge_pull_request, list_secrets]',
      { kind: 'codehost', tools: ['merge_pull_request', 'list_secrets'] },
    ],
  } as const;
  const written = Object.entries(tools).map(([alias, [text]]) => `${alias}: {${text}}`);
  const granted = app('capabilities: {merge: write, secrets: read}');
  const expected = Object.fromEntries(Object.entries(tools).map(([alias, [, value]]) => [alias, value]));
  assert.deepEqual(specOf(`${granted}tools: {${written.join(', ')}}\n`).tools, expected);
});

test('an alias of a tool that is disabled looks like no other', () => {
  const { tools } = specOf('tools: {a.b: {kind: codehost}, a_b: {kind: codehost, disabled: true}}\n');
  assert.deepEqual(Object.keys(tools), ['a.b', 'a_b']);
});

test('the alias workspace is free under the other harness', () => {
  const head = agentHead.replace('harness-a', 'harness-b');
  assert.ok('workspace' in specOf('tools: {workspace: {kind: local, implementation: ping}}\n', head).tools);
});

test('a mount may lie in the home, in a folder of its own, and in another mount', () => {
  const at = (path: string) => `{kind: git, repository: a/b, mountPath: ${path}}`;
  const paths = ['/home/user/repo', '/home/users', '/work', '/work/inner', '/usr2', '/srv/x', '/data/x/'];
  const { mounts } = specOf(`mounts: [${paths.map(at).join(', ')}]\n`);
  assert.deepEqual(
    mounts.map(({ mountPath }) => mountPath),
    paths,
  );
});

test('a mount without contents is legal, and told', () => {
  const { expected, found, messages } = marked(app('capabilities: {contents: §none}'), 'mount-not-cloned', 'warning');
  assert.deepEqual(found, expected);
  assert.deepEqual(messages, ['The mount has contents: none and is not cloned']);
});

test('the URL of a remote tool holds no credential', () => {
  for (const url of [
    'https://u:p@x.test/',
    'https://u@x.test',
    'https://:p@x.test',
    'https://@x.test',
    'https://:@x.test',
    'HTTPS://u:p@x.test',
    // What a browser reads as one: another slash is left out before the name.
    String.raw`https://\\/u@x.test`,
    String.raw`https://\\/:p@x.test`,
  ]) {
    const { expected, found, messages } = marked(`tools: {t: {kind: mcp_remote, url: §"${url}"}}\n`, 'invalid-value');
    assert.deepEqual(found, expected);
    assert.deepEqual(messages, ['tools.t.url must not hold a user name or password']);
  }
  for (const url of ['https://x.test/a@b?c=d@e', 'https://x.test/?to=https://u@y.test'])
    assert.equal(specOf(`tools: {t: {kind: mcp_remote, url: "${url}"}}\n`).tools['t']?.kind, 'mcp_remote');
});
