import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelSpec } from '../../domain/spec.ts';
import { agent, environment, tree } from './fixture.ts';
import { namesSlugs, unlistedSlugs } from './slugs.ts';

const listed = new Set(['vendor/small', 'vendor/large', 'other/free:free']);
const modelOf = (id: string, more: Partial<ModelSpec> = {}): ModelSpec => ({ provider: 'provider-c', id, ...more });

/** A model, and `path: hint` of each warning. */
const rows: readonly (readonly [name: string, model: ModelSpec | undefined, told: readonly string[]])[] = [
  ['no model', undefined, []],
  ['a model of a provider with a list of its own', { provider: 'provider-b', id: 'gone/gone' }, []],
  ['one that is listed', modelOf('vendor/small'), []],
  ['one that is listed, by a tag', modelOf('vendor/small:nitro'), []],
  ['one that is listed with its tag', modelOf('other/free:free'), []],
  ['a preset', modelOf('@preset/mine'), []],
  ['a slip', modelOf('vendor/smal'), ['model.id: Did you mean vendor/small?']],
  ['three letters off', modelOf('vendor/sm'), ['model.id: Did you mean vendor/small?']],
  ['four letters off', modelOf('vendor/s'), ['model.id: Write a vendor/model that it lists.']],
  ['without the tag that it is listed with', modelOf('other/free'), ['model.id: Write a vendor/model that it lists.']],
  ['a colon of the vendor', modelOf('vendor:x/small'), ['model.id: Did you mean vendor/small?']],
  [
    'a gateway',
    modelOf('vendor/large', { gateway: { models: ['vendor/small', 'vendor/lage', '@preset/a'] } }),
    ['model.gateway.models[1]: Did you mean vendor/large?'],
  ],
  [
    'fallbacks',
    modelOf('nobody/nothing', {
      fallbacks: [
        { id: 'vendor/small', provider: 'provider-c' },
        { id: 'vendor/larg', provider: 'provider-c' },
      ],
    }),
    ['model.id: Write a vendor/model that it lists.', 'model.fallbacks[1].id: Did you mean vendor/large?'],
  ],
];

for (const [name, model, told] of rows) {
  test(`slugs: ${name}`, () => {
    const desired = tree([environment('base'), agent('a', model === undefined ? {} : { model })]);
    assert.equal(namesSlugs(desired), model?.provider === 'provider-c');
    const found = unlistedSlugs(desired, listed);
    assert.deepEqual(
      found.map(({ path, hint }) => `${path}: ${hint}`),
      told,
    );
    for (const { severity, code, file } of found)
      assert.deepEqual([severity, code, file], ['warning', 'model-unlisted', '.svc/agents/a.yaml']);
  });
}

test('a slug is told at its own place', () => {
  const places = {
    'Agent/a': { '': { file: 'a.yaml', line: 1, column: 1 }, 'model.id': { file: 'b.yaml', line: 7, column: 3 } },
  };
  const desired = { ...tree([agent('a', { model: modelOf('vendor/smal') })]), places };
  assert.deepEqual(unlistedSlugs(desired, listed), [
    {
      severity: 'warning',
      code: 'model-unlisted',
      message: "provider-c does not list the model vendor/smal; a session's first call to it would fail",
      file: 'b.yaml',
      line: 7,
      column: 3,
      path: 'model.id',
      hint: 'Did you mean vendor/small?',
    },
  ]);
});
