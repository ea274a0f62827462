import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Finding, Range } from '../../domain/diagnostic.ts';
import { assemble } from './assemble.ts';
import { checkAgent } from './check-agent.ts';
import { inputWith, jpeg, mergedFrom, png } from './testkit.ts';
import type { CompileInput } from './types.ts';

const node = 'environment: {name: node, image: {kind: preset, name: base}}';
const agent = (name: string, rest: string): string => `name: ${name}\nharness: harness-a\n${rest}\n`;

/** Documents by file, marked with `§` where a finding is expected; gives findings as `file code`, in order of report. */
function build(documents: { readonly [file: string]: string }, input = inputWith()) {
  const findings: Finding[] = [];
  const report = (finding: Finding): void => void findings.push(finding);
  const expected: string[] = [];
  const drafts = Object.entries(documents).map(([name, text]) => {
    const parts = text.split('§');
    let offset = 0;
    for (const part of parts.slice(0, -1)) {
      offset += part.length;
      expected.push(`${name}:${offset}`);
    }
    return checkAgent(mergedFrom(parts.join(''), name), input, report);
  });
  const { resources, assets } = assemble(drafts, input, report);
  const places = findings.map(({ range }) => `${range?.file}:${range?.start}`);
  return {
    resources,
    assets,
    findings,
    places: places.toSorted(),
    expected: expected.toSorted(),
    codes: findings.map(({ code }) => code),
  };
}

test('resources come sorted by kind and name, with equal environments once', () => {
  const { resources, findings } = build({
    b: agent('zed', `${node}\nidentity: {username: z}`),
    a: agent('Abe', `${node.replace('}}', '}, steps: [], env: {}, approvals: bypass}')}`),
    c: agent('bob', 'environment: node\nidentity: zed'),
  });
  assert.deepEqual(findings, []);
  assert.deepEqual(
    resources.map(({ kind, name }) => `${kind} ${name}`),
    ['Agent Abe', 'Agent bob', 'Agent zed', 'Environment node', 'Identity zed'],
  );
  assert.deepEqual(resources[0]?.source, { file: 'a', document: 0 });
  assert.deepEqual(Object.keys(resources[3] ?? {}), ['kind', 'name', 'spec']);
});

test('two agents of one name are an error at both, whatever their files', () => {
  const { places, expected, findings } = build({
    a: agent('§same', node),
    b: agent('§same', node),
    c: agent('Same', node),
    d: agent('§same', node),
  });
  assert.deepEqual(places, expected);
  assert.ok(findings.every(({ code, related }) => code === 'name-duplicate' && related?.length === 1));
});

test('different content under one generated name is an error at every place', () => {
  const other = 'environment: {name: §node, image: {kind: preset, name: node24}}';
  const first = node.replace('node', '§node');
  const { places, expected, findings } = build({ a: agent('a', first), b: agent('b', other), c: agent('c', first) });
  assert.deepEqual(places, expected);
  assert.ok(findings.every(({ message }) => message.startsWith('Conflicting generated resource')));
  const labels = build({
    a: agent('a', node),
    b: agent('b', node.replace('name: node', 'name: node, labels: {x: y}')),
  });
  assert.deepEqual(labels.codes, ['resource-conflict', 'resource-conflict']);
  const identity = build({
    a: agent('a', `${node}\nidentity: {name: §i, username: x}`),
    b: agent('b', `${node}\nidentity: {name: §i, username: y}`),
  });
  assert.deepEqual(identity.places, identity.expected);
});

test('a name that nothing generates is an error for an environment and a warning for an identity', () => {
  const { findings, places, expected } = build({ a: agent('a', 'environment: §nowhere\nidentity: §nobody') });
  assert.deepEqual(
    findings.map(({ severity, code }) => `${severity} ${code}`),
    ['error environment-unknown', 'warning identity-unknown'],
  );
  assert.deepEqual(places, expected);
});

test('who refers to a resource that is declared wrongly is not blamed', () => {
  const { codes } = build({
    a: agent('a', 'environment: {name: node, image: {kind: preset, name: nope}}\nidentity: {name: i}'),
    b: agent('b', 'environment: node\nidentity: i'),
  });
  assert.deepEqual(codes, ['environment-preset', 'missing-field']);
});

const hook = (name: string, auth: string): string =>
  agent(name, `${node}\ntriggers: [{event: webhook.received, endpoint: hook, ${auth}routing: {kind: spawn}}]`);

test('one endpoint has one auth in a tree; saying nothing is fine', () => {
  const alike = 'auth: {kind: hmac_sha256, secretRef: s}, ';
  assert.deepEqual(build({ a: hook('a', alike), b: hook('b', alike), c: hook('c', '') }).codes, []);
  const { places, expected, codes } = build({
    a: hook('a', 'auth: §{kind: hmac_sha256, secretRef: s}, '),
    b: hook('b', 'auth: §{kind: hmac_sha256, secretRef: t}, '),
    c: hook('c', 'auth: §{kind: none}, '),
  });
  assert.deepEqual(places, expected);
  assert.deepEqual(codes, ['endpoint-auth-conflict', 'endpoint-auth-conflict', 'endpoint-auth-conflict']);
});

const path = '.svc/assets/a.png';
const withAvatar = (more = ''): string =>
  agent('a', `${node}\nidentity: {username: u, avatar: {asset: §${path}${more}}}`);
const avatarOf = (built: ReturnType<typeof build>) => built.resources.find(({ kind }) => kind === 'Identity')?.spec;

test('an avatar is hashed from its bytes and listed once', () => {
  const image = png(512, 512);
  const hash = image.length.toString(16).padStart(64, '0');
  const built = build(
    { a: withAvatar().replace('§', ''), b: withAvatar().replace('§', '').replace('name: a', 'name: b') },
    inputWith({ [path]: image }),
  );
  assert.deepEqual(built.findings, []);
  assert.deepEqual(avatarOf(built), { username: 'u', avatar: { asset: path, sha256: hash } });
  assert.deepEqual(built.assets, [{ sha256: hash, path: path, mediaType: 'image/png' }]);
  assert.equal(
    build({ a: withAvatar().replace('§', '') }, inputWith({ [path]: jpeg(600, 600) })).assets[0]?.mediaType,
    'image/jpeg',
  );
});

test('a pinned hash is overwritten with a warning where the file differs, and kept where there is no file', () => {
  const pin = 'b'.repeat(64);
  const image = png(512, 512);
  const text = withAvatar().replace('§', '').replace(`${path}}`, `${path}, sha256: §${pin}}`);
  const differs = build({ a: text }, inputWith({ [path]: image }));
  assert.deepEqual(
    differs.findings.map(({ severity, code }) => `${severity} ${code}`),
    ['warning avatar-hash-mismatch'],
  );
  assert.deepEqual(differs.places, differs.expected);
  assert.notDeepEqual(avatarOf(differs), { username: 'u', avatar: { asset: path, sha256: pin } });
  const absent = build({ a: text.replace('§', '') });
  assert.deepEqual(absent.findings, []);
  assert.deepEqual(avatarOf(absent), { username: 'u', avatar: { asset: path, sha256: pin } });
  assert.deepEqual(absent.assets, []);
});

test('an avatar that is missing or is none is an error at asset', () => {
  const cases = [
    [{}, 'avatar-missing'],
    [{ [path]: png(100, 100) }, 'avatar-invalid'],
    [{ [path]: { kind: 'symlink' } }, 'avatar-invalid'],
    [{ [path]: { tooLarge: true } }, 'avatar-invalid'],
    [{ [path]: new Uint8Array(0) }, 'avatar-invalid'],
  ] as const;
  for (const [files, code] of cases) {
    const { codes, places, expected } = build({ a: withAvatar() }, inputWith(files));
    assert.deepEqual(codes, [code]);
    assert.deepEqual(places, expected);
  }
});

test('documents that have a name or an environment from one import are told apart by their own places', () => {
  const findings: Finding[] = [];
  const shared = mergedFrom(agent('same', node), 'fragment');
  const drafts = ['a', 'b'].map((file, index) => {
    const own = mergedFrom('imports: fragment', file).root;
    const image = mergedFrom(
      `environment: {image: {kind: preset, name: ${index === 0 ? 'base' : 'node24'}}}`,
      file,
    ).root.entries.get('environment');
    const base = shared.root.entries.get('environment')?.value;
    if (base?.kind !== 'map' || image?.value.kind !== 'map') throw new Error('not maps');
    const environment = {
      keyRange: image.keyRange,
      value: { ...base, entries: new Map([...base.entries, ...image.value.entries]) },
    };
    const root = { ...shared.root, entries: new Map([...shared.root.entries, ['environment', environment]]) };
    return checkAgent({ file, document: 0, root, own }, inputWith(), (finding) => findings.push(finding));
  });
  assemble(drafts, inputWith(), (finding) => findings.push(finding));
  const places = findings.map(({ code, range }) => `${code} ${range?.file}`);
  assert.deepEqual(places, ['name-duplicate a', 'name-duplicate b', 'resource-conflict a', 'resource-conflict b']);
});

test('a fallback that another agent’s trigger leaves nothing is warned of', () => {
  const push = (name: string, more: string): string =>
    agent(name, `${node}\ntriggers: [{event: codehost.push, ${more}, routing: {kind: spawn}}]`);
  const { findings, places, expected } = build({ a: push('a', 'fallback: §true'), b: push('b', 'where: {}') });
  assert.deepEqual(
    findings.map(({ severity, code }) => `${severity} ${code}`),
    ['warning fallback-unreachable'],
  );
  assert.deepEqual(places, expected);
});

test('what is wrong between documents is told in these words', (t) => {
  const env = (name: string, image: string): string =>
    agent(name, `environment: {name: shared, image: {kind: preset, name: ${image}}}`);
  const identity = (name: string, displayName: string): string =>
    agent(name, `${node}\nidentity: {name: shared, username: u, displayName: ${displayName}}`);
  const pinned = withAvatar(`, sha256: ${'b'.repeat(64)}`);
  const cases: readonly (readonly [
    what: string,
    documents: { readonly [file: string]: string },
    input?: CompileInput,
  ])[] = [
    ['two agents of one name', { a: agent('same', node), b: agent('same', node) }],
    ['three', { a: agent('same', node), b: agent('same', node), c: agent('same', node) }],
    ['two environments', { a: env('a', 'base'), b: env('b', 'node24'), c: env('c', 'base') }],
    ['two identities', { a: identity('a', 'A'), b: identity('b', 'B') }],
    ['an environment that nothing generates', { a: agent('a', 'environment: other') }],
    [
      'an environment that is generated wrongly',
      { a: agent('a', 'environment: {name: e}'), b: agent('b', 'environment: e') },
    ],
    ['an identity that nothing generates', { a: agent('a', `${node}\nidentity: other`) }],
    [
      'two auth of one endpoint',
      {
        a: hook('a', 'auth: {kind: hmac_sha256, secretRef: s}, '),
        b: hook('b', 'auth: {kind: hmac_sha256, secretRef: t}, '),
        c: hook('c', 'auth: {kind: hmac_sha256, secretRef: s}, '),
      },
    ],
    ['an avatar that is missing', { a: withAvatar() }],
    ['one that is a link', { a: withAvatar() }, inputWith({ [path]: { kind: 'symlink' } })],
    ['one that is too large to be read', { a: withAvatar() }, inputWith({ [path]: { tooLarge: true } })],
    ['one that was not read', { a: withAvatar() }, inputWith({ [path]: {} })],
    [
      'one that is pinned as it is',
      { a: withAvatar(`, sha256: "${png(512, 512).length.toString(16).padStart(64, '0')}"`) },
      inputWith({ [path]: png(512, 512) }),
    ],
    [
      'an identity that is wrong beside another of its name',
      {
        a: identity('a', 'A'),
        b: agent(
          'b',
          `${node}\nidentity: {name: shared, username: v, description: ${'x'.repeat(141)}, avatar: {asset: ${path}}}`,
        ),
      },
    ],
    ['one that is too large', { a: withAvatar() }, inputWith({ [path]: { tooLarge: true, bytes: png(512, 512) } })],
    ['one that is no image', { a: withAvatar() }, inputWith({ [path]: new Uint8Array(9) })],
    ['one of other bytes', { a: pinned }, inputWith({ [path]: png(512, 512) })],
  ];
  const place = ({ file, start, end }: Range): string => `${file}:${start}-${end}`;
  const told = cases.flatMap(([what, documents, input]) => [
    what,
    ...build(
      Object.fromEntries(Object.entries(documents).map(([file, text]) => [file, text.replaceAll('§', '')])),
      input,
    ).findings.flatMap((one) => [
      `  ${one.severity} ${one.code} ${one.range === undefined ? '' : place(one.range)} ${one.path ?? ''}: ${one.message}`,
      ...(one.hint === undefined ? [] : [`    ${one.hint}`]),
      ...(one.related ?? []).map(({ message, range }) => `    ${message} ${place(range)}`),
    ]),
  ]);
  t.assert.fileSnapshot(told.join('\n'), join(import.meta.dirname, '../../../testdata/messages/assemble.txt'), {
    serializers: [(value: unknown) => `${String(value)}\n`],
  });
});

test('an agent with an error of its own makes no resource, and assets stand in the order of their paths', () => {
  const broken = build({ a: agent('a', `${node}\nconcurrency: 2`), b: agent('b', node) });
  assert.deepEqual(
    broken.resources.map((one) => (one.kind === 'Agent' ? [one.name, one.source] : [one.name])),
    [['b', { file: 'b', document: 0 }], ['node']],
  );
  const other = path.replace('a.png', '0.png');
  const drawn = (name: string, asset: string): string =>
    agent(name, `${node}\nidentity: {username: ${name}, avatar: {asset: ${asset}}}`);
  const { assets } = build(
    { a: drawn('a', path), b: drawn('b', other) },
    inputWith({ [path]: png(512, 512), [other]: jpeg(600, 600) }),
  );
  assert.deepEqual(
    assets.map((asset) => asset.path),
    [other, path],
  );
});
