import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import * as v from 'valibot';
import { CatalogSection } from '../internal/base/config/catalog.ts';
import { modelSettings } from '../internal/base/config/model-settings.ts';
import { TemplatesSection } from '../internal/base/config/compile-settings.ts';
import { errtrackSection } from '../internal/base/config/errtrack-settings.ts';
import { parseConfigFile } from '../internal/base/config/file.ts';
import { retentionSettings } from '../internal/base/config/retention-settings.ts';
import { sessionSettings } from '../internal/base/config/session-settings.ts';
import { config } from './config.ts';
import { jsonSchema, jsonSchemaText, schemaKinds } from './json-schema.ts';

for (const kind of schemaKinds) {
  test(`schemas/json/${kind}.schema.json is what the shapes give; make schemas writes it`, () => {
    const file = new URL(`json/${kind}.schema.json`, import.meta.url);
    assert.equal(readFileSync(file, 'utf8'), jsonSchemaText(kind));
  });
}

const isAgent = new Ajv({ strict: true }).compile(jsonSchema('agent'));

test('the agent schema has an open root, descriptions, defaults, examples, and enums that an editor can offer', () => {
  const schema = jsonSchema('agent') as {
    properties: Record<
      string,
      { description?: string; enum?: (string | null)[]; default?: unknown; examples?: unknown[] }
    >;
  };
  assert.ok(!('additionalProperties' in schema));
  assert.deepEqual(schema.properties['harness']?.enum, ['harness-a', 'harness-b', null]);
  assert.deepEqual(schema.properties['mounts']?.default, []);
  assert.ok(schema.properties['triggers']?.examples?.length === 1);
  for (const [key, property] of Object.entries(schema.properties)) assert.ok(property.description !== undefined, key);
});

const accepted: readonly unknown[] = [
  {},
  { name: 'a', whatever: [1], kind: 'x' },
  {
    imports: '../f.yaml',
    import: ['a', 'b'],
    variables: { a: 1, b: true, c: 'x' },
    remove: { tools: 'a', triggers: ['b'], env: [] },
  },
  { systemPrompt: { file: 'x.md' }, initialPrompt: { append: '' }, onReplace: 'x' },
  { model: null, triggers: null },
  { triggers: [{ name: 'x', message: 'overlay alone' }, { routing: { kind: 'deliverOrSpawn' } }] },
  { triggers: [{ routing: { kind: 'deliver', routeBy: { kind: 'ownedArtifact', artifactType: 'chat.thread' } } }] },
  { tools: { x: { disabled: true } }, mounts: [{ name: 'm', depth: 1 }], environment: { env: { A: 'b' } } },
  { name: '{{ $name }}', mounts: [{ repository: '{{ $repo }}' }] },
];
const refused: readonly unknown[] = [
  { name: 'a b' },
  { harness: 'harness-c' },
  { model: { temperature: 1 } },
  { triggers: [{ event: 'codehost.push', rooting: {} }] },
  { triggers: [{ routing: { kind: 'spawn', onUnmatched: 'drop' } }] },
  { remove: { mounts: 'x' } },
  { systemPrompt: { append: 'x', file: 'y' } },
  { bindings: { 'agent.singleton': {} } },
  { concurrency: 2 },
];
test('what authors may write in one file is accepted, legacy spellings and overlays too', () => {
  for (const value of accepted) assert.ok(isAgent(value), JSON.stringify(value));
  for (const value of refused) assert.ok(!isAgent(value), JSON.stringify(value));
});

test('the configuration schema has the keys that configuration reads', () => {
  const catalog = {
    presets: ['x'],
    models: { 'provider-a': { replace: true, ids: ['m'], pattern: 'm-.*' } },
    harnesses: { 'harness-b': { defaultProvider: 'provider-c', defaultModel: 'a/b', defaultEffort: 'high' } },
    efforts: { 'provider-c': { 'a/b': ['high'] } },
    codehostTools: { x: { default: true, needs: 'merge' } },
  };
  const templates = [
    { scope: '@a', directory: '/x' },
    { scope: '@b', registry: 'https://r.test', tokenSecretRef: 's' },
  ];
  assert.ok(v.is(CatalogSection, catalog));
  assert.ok(v.is(TemplatesSection, templates));
  assert.ok(v.is(config, { listen: '127.0.0.1:0', roles: ['api'], catalog, templates, providers: { errtrack: {} } }));
  assert.ok(!v.is(config, { catalog: { ...catalog, preset: [] } }));
  const row = {
    provider: 'provider-a',
    model: 'm*',
    from: '2026-01-01',
    input: '1',
    output: '1',
    cacheRead: '1',
    cacheWrite: '1',
  };
  const priced = {
    ...row,
    webSearch: '10',
    above: { tokens: 9, input: '1', output: '1', cacheRead: '1', cacheWrite: '1' },
  };
  const model = { 'provider-a': { baseUrl: 'https://m.test', keyFile: 'k' }, prices: [row, priced] };
  assert.deepEqual(modelSettings({ providers: { model } }, '/').prices.slice(-2), [row, priced]);
  assert.ok(v.is(config, { providers: { model, errtrack: {} } }));
  assert.ok(!v.is(config, { providers: { model: { 'provider-a': { key: 'k' } } } }));
  assert.ok(!v.is(config, { listne: 'x' }));
});

test('the configuration schema takes the file that the README shows, and each section that the daemon reads', () => {
  const text = readFileSync(new URL('../README.md', import.meta.url), 'utf8').match(
    /```yaml\n(# svc\.yaml\n[^]*?)```/,
  )?.[1];
  const shown = parseConfigFile(text ?? '', 'SVC_CONFIG', 'README.md');
  assert.equal(shown.settings.listen, '0.0.0.0:4400');
  const { issues = [] } = v.safeParse(config, { ...shown.settings, ...shown.rest });
  assert.deepEqual(
    issues.map(({ message }) => message),
    [],
  );
  const sections = {
    sessions: { max: 2, spawn: { depth: 1 }, fenced: true, pushMaxBytes: 9, command: { run: ['x'], remove: ['y'] } },
    retention: { eventsDays: 1, sessionsDays: 2, reconcilesDays: 3, usageDays: 62 },
    audit: { retentionDays: 400 },
    signIn: {
      oidc: [{ name: 'house', issuer: 'https://id.test', clientId: 'c', clientSecretFile: 's' }],
      roles: [{ group: 'g', org: 'default', role: 'admin' }],
      sessions: { idleSeconds: 60 },
    },
    providers: { errtrack: { clientId: 'c', clientSecretFile: 's', appSlug: 'app' } },
  };
  const { rest } = parseConfigFile(JSON.stringify(sections), 'SVC_CONFIG', 'svc.yaml');
  assert.equal(sessionSettings(rest).max, 2);
  assert.equal(retentionSettings(rest).usageDays, 62);
  assert.equal(errtrackSection(rest, '/')?.appSlug, 'app');
  assert.ok(v.is(config, sections));
  for (const key of Object.keys(sections)) assert.ok(!v.is(config, { [key]: { nonsense: 1, model: 1 } }), key);
});
