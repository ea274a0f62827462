import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Json } from '../../domain/json.ts';
import { defaultCatalog } from './default-catalog.ts';
import { modelSettings } from './model-settings.ts';

const settings = (model: Json) => modelSettings({ providers: { model, errtrack: {} } }, '/etc/svc');

describe('model providers', () => {
  test('without a section keys come from the environment, addresses and prices from what ships', () => {
    const { keys, addresses, prices } = modelSettings({}, '/');
    assert.deepEqual(keys['provider-b'], { kind: 'env', name: 'SVC_PROVIDER_B_KEY' });
    assert.equal(addresses['provider-a'], undefined);
    assert.ok(prices.length > 20);
  });
  test('a key is named by file, variable or secret', () => {
    const { keys, addresses } = settings({
      'provider-a': { keyFile: 'keys/a', baseUrl: 'https://models.example/a' },
      'provider-b': { keyEnv: 'MY_KEY' },
      'provider-c': { keySecretRef: 'router' },
    });
    assert.deepEqual(keys, {
      'provider-a': { kind: 'file', path: '/etc/svc/keys/a' },
      'provider-b': { kind: 'env', name: 'MY_KEY' },
      'provider-c': { kind: 'secret', name: 'router' },
    });
    assert.equal(addresses['provider-a'], 'https://models.example/a');
  });
  test('rows are added to the price table', () => {
    const row = {
      provider: 'provider-a',
      model: 'm',
      from: '2026-02-28',
      input: '1',
      output: '2',
      cacheRead: '0',
      cacheWrite: '1',
    };
    assert.deepEqual(settings({ prices: [row] }).prices.at(-1), row);
    assert.throws(() => settings({ prices: [{ ...row, from: '2026-02-30' }] }), /providers\.model\.prices\.0\.from/);
    assert.throws(
      () => settings({ prices: [{ ...row, input: 1 }] }),
      /providers\.model\.prices\.0\.input.*not a number/,
    );
    assert.throws(() => settings({ prices: [{ ...row, model: 'a*b' }] }), /providers\.model\.prices\.0\.model/);
  });
  for (const [what, section] of [
    ['a key in the file', { 'provider-a': { key: 'k' } }],
    ['two places for a key', { 'provider-a': { keyEnv: 'A', keyFile: 'a' } }],
    ['an unknown provider', { 'provider-d': {} }],
    ['credentials in an address', { 'provider-a': { baseUrl: 'https://u:p@models.example' } }],
    ['another scheme', { 'provider-a': { baseUrl: 'ftp://models.example' } }],
  ] as const) {
    test(`${what} cannot be used`, () => assert.throws(() => settings(section), /^ConfigError: providers\.model/));
  }
  test('the models that harnesses start with have a price', () => {
    const { prices } = modelSettings({}, '/');
    for (const { defaultModel } of Object.values(defaultCatalog.harnesses)) {
      assert.ok(
        prices.some(({ model }) => model === defaultModel),
        defaultModel,
      );
    }
  });
});
