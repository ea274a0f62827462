import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Catalog } from '../../domain/catalog.ts';
import { checkText, toldOf, marked, specOf, testCatalog } from './testkit.ts';

const b = 'name: a\nharness: harness-b\nenvironment: {name: e, image: {kind: preset, name: base}}\n';
const a = b.replace('harness-b', 'harness-a');

const refused: readonly (readonly [head: string, body: string, codes: string])[] = [
  [a, 'model: §{}\n', 'missing-field'],
  [a, 'model: §alpha-1\n', 'invalid-type'],
  [a, 'model: {id: alpha-1, §temperature: 1}\n', 'unknown-key'],
  [a, 'model: {id: §gamma}\n', 'model-id'],
  [a, 'model: {id: §"  "}\n', 'invalid-value'],
  [a, `model: {id: §${'x'.repeat(257)}}\n`, 'invalid-value'],
  [a, 'model: {§provider: provider-b, id: beta-1}\n', 'model-provider'],
  [a, 'model: {provider: §provider-d, id: alpha-1}\n', 'invalid-value'],
  [b, 'model: {§provider: provider-a, id: alpha-1}\n', 'model-provider'],
  [b, 'model: {provider: provider-c, id: §no-slug}\n', 'model-id'],
  [b, 'model: {provider: provider-c, id: §a/b/c}\n', 'model-id'],
  [b, 'model: {id: beta-1, §gateway: {models: [v/m]}}\n', 'model-gateway'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: §{}}\n', 'missing-field'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: §[]}}\n', 'model-gateway'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: §[a/b, a/c, a/d, a/e]}}\n', 'model-gateway'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: [§v/m]}}\n', 'model-gateway'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: [a/b, §a/b]}}\n', 'model-gateway'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: [§plain]}}\n', 'model-gateway'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: [a/b], provider: {order: §[]}}}\n', 'invalid-value'],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: [a/b], provider: {sort: §cheap}}}\n', 'invalid-value'],
  [
    b,
    'model: {provider: provider-c, id: v/m, gateway: {models: [a/b], provider: {allowFallbacks: §1}}}\n',
    'invalid-type',
  ],
  [b, 'model: {provider: provider-c, id: v/m, gateway: {models: [a/b], provider: {§allow: []}}}\n', 'unknown-key'],
  [
    b,
    'model: {provider: provider-c, id: v/m, §gateway: {models: [a/b]}, §fallbacks: [{id: a/c}]}\n',
    'model-gateway model-fallbacks',
  ],
  [a, 'model: {id: alpha-1, fallbacks: §[]}\n', 'model-fallbacks'],
  [a, 'model: {id: alpha-1, fallbacks: §[{id: alpha-2}, {id: alpha-3}, {id: alpha-x-1}]}\n', 'model-fallbacks'],
  [a, 'model: {id: alpha-1, fallbacks: [{id: §alpha-1}]}\n', 'model-fallbacks'],
  [a, 'model: {id: alpha-1, fallbacks: [{id: alpha-2}, {id: §alpha-2}]}\n', 'model-fallbacks'],
  [a, 'model: {id: alpha-1, fallbacks: [{id: §nobody}]}\n', 'model-id'],
  [a, 'model: {id: alpha-1, fallbacks: [§{}]}\n', 'missing-field'],
  [b, 'model: {id: beta-1, fallbacks: [{id: beta-2, provider: §provider-c}]}\n', 'model-fallbacks'],
  [b, 'model: {id: beta-1, fallbacks: [{id: vendor/model, provider: §provider-c}]}\n', 'model-fallbacks'],
  [a, 'model: {id: alpha-1, fallbacks: [{id: §nobody}, {id: §nobody}]}\n', 'model-id model-fallbacks'],
  [b, 'model: {id: §undefined}\n', 'model-id'],
  [b, 'reasoningEffort: low\nmodel: {id: beta-2, §temperature: 1}\n', 'unknown-key'],
  [a, '§reasoningEffort: minimal\n', 'effort-unsupported'],
  [b, '§reasoningEffort: max\n', 'effort-unsupported'],
  [b, '§reasoningEffort: low\n', 'effort-unsupported'],
  [b, '§reasoningEffort: medium\nmodel: {provider: provider-c, id: v/narrow}\n', 'effort-unsupported'],
  [b, '§reasoningEffort: low\nmodel: {id: beta-1, fallbacks: [{id: beta-2}]}\n', 'effort-unsupported'],
];
for (const [head, body, codes] of refused) {
  test(`refuses ${JSON.stringify(body.slice(0, 110))}`, () => {
    const { expected, found, messages } = marked(body, codes, 'error', head);
    assert.deepEqual(found, expected, messages.join('\n'));
  });
}
const manyModels: Catalog = {
  ...testCatalog,
  models: {
    ...testCatalog.models,
    'provider-a': { ids: Array.from({ length: 13 }, (_, k) => `name-${k}`) },
    'provider-c': { ids: [] },
  },
};
/** A provider that no harness runs, and a pattern of characters. */
const otherModels: Catalog = {
  ...testCatalog,
  models: { ...testCatalog.models, 'provider-b': { ids: [], pattern: 'beta-.' } },
  harnesses: {
    ...testCatalog.harnesses,
    'harness-b': { ...testCatalog.harnesses['harness-b'], providers: ['provider-b'] },
  },
};
const wrongHarness = b.replace('harness-b', 'x');
const more: readonly (readonly [body: string, head: string, catalog?: Catalog])[] = [
  ['reasoningEffort: low\nmodel: x\n', b],
  ['reasoningEffort: low\nmodel: {id: beta-1, fallbacks: [{id: beta-2}]}\n', b],
  ['reasoningEffort: low\nmodel: {id: beta-2, fallbacks: [{id: beta-1}]}\n', b],
  ['reasoningEffort: medium\nmodel: {id: toString, provider: provider-b}\n', b],
  ['model: {id: " beta-1 ", fallbacks: [{id: " beta-1 "}, {id: beta-2}]}\n', b],
  ['model: {id: beta-1, fallbacks: [{provider: provider-b}, {id: [x]}, x]}\n', b],
  ['model: {id: beta-1, fallbacks: [{id: v/m, provider: provider-c}]}\n', b],
  ['model: {fallbacks: [{id: beta-1}, {id: beta-1}]}\n', b],
  ['model: {provider: provider-c, gateway: {models: [v/m]}}\n', b],
  ['model: {provider: provider-c, id: listed}\n', b],
  ['model: {provider: provider-c, id: plain}\n', b, manyModels],
  ['model: {id: other}\n', a, manyModels],
  ['model: {id: alpah-1}\n', a],
  ['model: {id: alpha-x-12}\n', a],
  ['model: {id: xalpha-x-1}\n', a],
  ['model: {id: alpha-x-1y}\n', a],
  ['model: {id: v/m}\n', a],
  ['model: {provider: provider-b, id: beta-1}\n', a, otherModels],
  ['model: {provider: provider-c, id: v/m}\n', b, otherModels],
  ['model: {id: beta-😀}\n', b, otherModels],
  ['model: {id: v/m, gateway: {models: [a/b, v/m]}}\n', wrongHarness],
  ['model: {id: beta-1, fallbacks: [{id: beta-2, provider: provider-b}]}\n', wrongHarness],
];
test('each of them is told in these words', (t) => {
  const file = join(import.meta.dirname, '../../../testdata/messages/check-model.txt');
  t.assert.fileSnapshot(toldOf([...refused.map(([head, body]) => [body, head] as const), ...more]), file, {
    serializers: [String],
  });
});

test('the provider is resolved from the harness, and a fallback has the provider of its model', () => {
  assert.deepEqual(
    specOf('model: {id: " alpha-1 ", fallbacks: [{id: alpha-x-12}, {id: alpha-2, provider: provider-a}]}\n').model,
    {
      provider: 'provider-a',
      id: 'alpha-1',
      fallbacks: [
        { id: 'alpha-x-12', provider: 'provider-a' },
        { id: 'alpha-2', provider: 'provider-a' },
      ],
    },
  );
  assert.equal(specOf('model: {id: beta-1}\n', b).model?.provider, 'provider-b');
});

test('provider-c takes any vendor/model slug, a tag too, and its gateway in full', () => {
  const body =
    'model: {provider: provider-c, id: "v/m:free", gateway: {models: [a/b, a/c, "a/d:x"], provider: {allowFallbacks: false, order: [x], sort: price, only: [y], ignore: [z]}}}\n';
  assert.deepEqual(specOf(body, b).model, {
    provider: 'provider-c',
    id: 'v/m:free',
    gateway: {
      models: ['a/b', 'a/c', 'a/d:x'],
      provider: { allowFallbacks: false, order: ['x'], sort: 'price', only: ['y'], ignore: ['z'] },
    },
  });
  assert.equal(specOf('model: {provider: provider-c, id: listed}\n', b).model?.id, 'listed');
});

test('an effort is accepted where harness, model and every fallback take it', () => {
  assert.equal(
    specOf('reasoningEffort: high\nmodel: {provider: provider-c, id: v/narrow}\n', b).reasoningEffort,
    'high',
  );
  assert.equal(specOf('reasoningEffort: minimal\nmodel: {id: beta-1}\n', b).reasoningEffort, 'minimal');
  assert.equal(specOf('reasoningEffort: max\n', a).reasoningEffort, 'max');
});

test('a harness that is wrong does not blame the model', () => {
  const { found } = marked('model: {id: beta-1}\nreasoningEffort: low\n', '', 'error', b.replace('harness-b', 'x'));
  assert.deepEqual(found.length, 1);
});

test('what a hint writes for a model is one that the harness takes', () => {
  for (const [head, body, expected] of [
    [a, 'model: alpha\n', 'model: { id: alpha-1 }'],
    [a, 'model: {}\n', 'id: alpha-1'],
    [b, 'model: [x]\n', 'model: { id: beta-2 }'],
    [b, 'model: {fallbacks: [{id: beta-1}]}\n', 'id: beta-2'],
    [b, 'model: {provider: provider-b}\n', 'id: beta-2'],
    [b, 'model: {provider: provider-c}\n', 'id: listed'],
    [wrongHarness, 'model: {provider: provider-c}\n', 'id: listed'],
  ] as const) {
    const { findings } = checkText(head + body);
    const hints = findings.map(({ hint }) => hint).filter((hint) => hint?.startsWith('For example'));
    assert.deepEqual(hints, [`For example: ${expected}`], body);
  }
});
