import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultCatalog } from './default-catalog.ts';
import { compileSettings } from './compile-settings.ts';
import { ConfigError } from './file.ts';

test('without sections the shipped catalog stands and no source is added', () => {
  assert.deepEqual(compileSettings({}, '/etc'), { catalog: defaultCatalog, templateSources: [] });
});

test('relative template directories count from the file, and presets are added', () => {
  const settings = compileSettings(
    { catalog: { presets: ['python'] }, templates: [{ scope: '@house', directory: './t' }] },
    '/etc/svc',
  );
  assert.deepEqual(settings.templateSources, [{ scope: '@house', directory: '/etc/svc/t' }]);
  assert.deepEqual(settings.catalog.presets, [...defaultCatalog.presets, 'python'].sort());
});

test('what is known of where sessions of a preset run is known at apply', () => {
  const presets = { boxed: { provider: 'docker' }, full: { provider: 'kubernetes', image: 'i:1' }, bare: {} };
  const allow = ['a.test'];
  const of = (sandbox?: 'docker' | 'bubblewrap' | 'auto', sessions?: { fenced: boolean }) => {
    const file = { sandboxes: { presets, network: { allow } }, ...(sessions !== undefined && { sessions }) };
    const { presetsWithoutImage, network } = compileSettings(file, '/etc', sandbox).catalog;
    return { presetsWithoutImage, network };
  };
  assert.deepEqual(of(), {
    presetsWithoutImage: ['boxed'],
    network: { allow, fenced: ['boxed', 'full'], fencedByList: [] },
  });
  assert.deepEqual(of('docker').presetsWithoutImage, ['bare', 'base', 'boxed', 'node24']);
  assert.deepEqual(of('bubblewrap').network, {
    allow,
    fenced: ['boxed', 'full'],
    fencedByList: ['bare', 'base', 'node24'],
  });
  assert.deepEqual(of('bubblewrap', { fenced: true }).network, {
    allow,
    fenced: ['bare', 'base', 'boxed', 'full', 'node24'],
    fencedByList: [],
  });
});

test('a section that cannot be used names its key', () => {
  const cases = [
    [{ catalog: { presets: 7 } }, 'catalog.presets'],
    [{ templates: [{ scope: 'house', directory: 't' }] }, 'templates'],
    [{ catalog: { harnesses: { 'harness-a': { defaultProvider: 'provider-c' } } } }, 'catalog'],
  ] as const;
  for (const [file, key] of cases) {
    assert.throws(
      () => compileSettings(file, '/etc'),
      (error) => error instanceof ConfigError && error.setting.startsWith(key),
      key,
    );
  }
});
