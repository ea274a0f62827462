import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as v from 'valibot';
import { providers } from '../../domain/spec.ts';
import type { ModelProvider } from '../../domain/spec.ts';
import { compileSettings } from './compile-settings.ts';
import { ConfigError } from './config.ts';
import { CatalogSection, extendCatalog } from './catalog.ts';
import { defaultCatalog } from './default-catalog.ts';

const accepts = (provider: ModelProvider, id: string, catalog = defaultCatalog): boolean => {
  const { ids, pattern } = catalog.models[provider];
  return ids.includes(id) || (pattern !== undefined && new RegExp(pattern, 'u').test(id));
};

const models: readonly (readonly [ModelProvider, string, boolean])[] = [
  ['provider-a', 'claude-opus-4-8', true],
  ['provider-a', 'claude-sonnet-5', true],
  ['provider-a', 'claude-fable-5', true],
  ['provider-a', 'claude-sonnet-5-20261101', true],
  ['provider-a', 'claude-', false],
  ['provider-a', 'gpt-5', false],
  ['provider-a', 'my claude-opus-4-8', false],
  ['provider-b', 'gpt-5.2-codex', true],
  ['provider-b', 'o3', true],
  ['provider-b', 'o4-mini', true],
  ['provider-b', 'claude-opus-4-8', false],
  ['provider-b', 'octopus', false],
  ['provider-c', 'vendor/model', true],
  ['provider-c', 'vendor/model:free', true],
  ['provider-c', 'vendor', false],
  ['provider-c', 'a/b/c', false],
  ['provider-c', 'vendor/ model', false],
];
for (const [provider, id, expected] of models) {
  test(`${provider} ${expected ? 'accepts' : 'refuses'} ${JSON.stringify(id)}`, () => {
    assert.equal(accepts(provider, id), expected);
  });
}

test('presets base and node24 ship', () => {
  assert.deepEqual(defaultCatalog.presets, ['base', 'node24']);
});

test('exactly 24 brokered tools are exposed by default and none of them merges or touches secrets', () => {
  const defaults = Object.values(defaultCatalog.codehostTools).filter((tool) => tool.default);
  assert.equal(defaults.length, 24);
  assert.ok(defaults.every((tool) => tool.needs === undefined));
});

test('merge and secrets tools say what they need', () => {
  const needs = (kind: string) =>
    Object.entries(defaultCatalog.codehostTools).flatMap(([name, tool]) => (tool.needs === kind ? [name] : []));
  assert.deepEqual(needs('merge'), ['enable_pull_request_auto_merge', 'merge_pull_request']);
  assert.deepEqual(needs('secrets').toSorted(), [
    'actions_secret_list',
    'actions_secret_write',
    'delete_repository_secret',
    'list_repository_secrets',
    'set_repository_secret',
  ]);
});

test('harness defaults are the spec’s', () => {
  const { 'harness-a': a, 'harness-b': b } = defaultCatalog.harnesses;
  assert.deepEqual([a.efforts, a.defaultEffort], [['low', 'medium', 'high', 'xhigh', 'max'], 'high']);
  assert.deepEqual([b.efforts, b.defaultEffort], [['minimal', 'low', 'medium', 'high', 'xhigh'], 'medium']);
  assert.deepEqual([a.providers, b.providers], [['provider-a'], ['provider-b', 'provider-c']]);
  assert.ok(accepts(a.defaultProvider, a.defaultModel) && accepts(b.defaultProvider, b.defaultModel));
});

test('narrowed efforts are among those of the harness', () => {
  const known = defaultCatalog.harnesses['harness-b'].efforts;
  for (const efforts of Object.values(defaultCatalog.effortsByModel['provider-c'] ?? {})) {
    assert.ok(efforts.every((effort) => known.includes(effort)));
  }
});

test('no section changes nothing', () => {
  assert.equal(extendCatalog(defaultCatalog, undefined), defaultCatalog);
  assert.deepEqual(extendCatalog(defaultCatalog, {}).models, defaultCatalog.models);
});

test('a section adds presets, models, efforts and tools to what ships', () => {
  const section = v.parse(CatalogSection, {
    presets: ['python'],
    models: { 'provider-b': { ids: ['house-model'], pattern: 'house-[0-9]+' } },
    efforts: { 'provider-c': { 'a/b': ['high'] } },
    harnesses: { 'harness-b': { defaultProvider: 'provider-c', defaultModel: 'a/b', defaultEffort: 'high' } },
    codehostTools: { extra: { needs: 'merge' } },
  });
  const catalog = extendCatalog(defaultCatalog, section);
  assert.deepEqual(catalog.presets, ['base', 'node24', 'python']);
  assert.ok(accepts('provider-b', 'house-model', catalog) && accepts('provider-b', 'gpt-5', catalog));
  assert.ok(accepts('provider-b', 'house-7', catalog) && !accepts('provider-b', 'my-house-7', catalog));
  assert.ok(accepts('provider-a', 'claude-opus-4-8', catalog));
  assert.deepEqual(catalog.effortsByModel['provider-c']?.['a/b'], ['high']);
  assert.deepEqual(catalog.harnesses['harness-b'].defaultProvider, 'provider-c');
  assert.deepEqual(catalog.codehostTools['extra'], { needs: 'merge' });
  assert.ok(catalog.codehostTools['pull_request_read']?.default);
});

test('replace leaves only the operator’s models', () => {
  const catalog = extendCatalog(defaultCatalog, { models: { 'provider-a': { replace: true, ids: ['one'] } } });
  assert.deepEqual(catalog.models['provider-a'], { ids: ['one'] });
  for (const other of providers.slice(1)) assert.equal(catalog.models[other], defaultCatalog.models[other]);
});

test('a default that contradicts its harness is refused by name', () => {
  const refuse = (section: CatalogSection, message: RegExp) =>
    assert.throws(() => extendCatalog(defaultCatalog, section), message);
  refuse({ harnesses: { 'harness-a': { defaultProvider: 'provider-b' } } }, /harness-a\.defaultProvider/);
  refuse({ harnesses: { 'harness-a': { defaultEffort: 'minimal' } } }, /harness-a\.defaultEffort/);
});

test('the section refuses unknown keys, bad patterns and empty effort lists', () => {
  for (const bad of [
    { modles: {} },
    { models: { 'provider-d': {} } },
    { models: { 'provider-a': { pattern: '(' } } },
    { efforts: { 'provider-c': { 'a/b': [] } } },
    { presets: ['a b'] },
  ]) {
    assert.equal(v.safeParse(CatalogSection, bad).success, false, JSON.stringify(bad));
  }
});

test('template directories of a file count from the file', () => {
  const { templateSources } = compileSettings(
    {
      templates: [
        { scope: '@a', directory: 'kits' },
        { scope: '@b', directory: '/srv/kits' },
      ],
    },
    '/etc/svc',
  );
  assert.deepEqual(templateSources, [
    { scope: '@a', directory: '/etc/svc/kits' },
    { scope: '@b', directory: '/srv/kits' },
  ]);
});

test('a section that cannot be used is named with its key', () => {
  for (const [file, message] of [
    [{ catalog: { presets: 'x' } }, /^catalog\.presets /],
    [{ catalog: { harnesses: { 'harness-a': { defaultEffort: 'minimal' } } } }, /^catalog .*harness-a\.defaultEffort/],
    [{ templates: [{ scope: 'a', directory: '/x' }] }, /^templates/],
    [{ templates: [{ scope: '@a', registry: 'https://me:hush@npm.example.com' }] }, /^templates/],
    [
      {
        templates: [
          { scope: '@a', directory: '/x' },
          { scope: '@a', directory: '/y' },
        ],
      },
      /two sources/,
    ],
  ] as const) {
    assert.throws(
      () => compileSettings(file, '/'),
      (error) => error instanceof ConfigError && message.test(error.message) && !error.message.includes('hush'),
    );
  }
});
