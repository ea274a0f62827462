import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentRecord, Cache, passingCache } from './cache.ts';
import { sha256 } from '../../base/hash.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import { compile, createCompileCache } from './compile.ts';
import { inputWith, testCatalog } from './testkit.ts';
import type { CompileInput } from './types.ts';

const record: AgentRecord = { dependencies: [], findings: [], drafts: [], costs: [], isWhole: true, isKeepable: true };

test('a cache forgets what was not asked for long, and keeps what was', () => {
  const { agents } = new Cache();
  agents.set('asked', record);
  agents.set('unasked', record);
  for (let k = 0; k < 25_000; k++) {
    agents.set(`filler ${k}`, record);
    if (k % 5_000 === 0) assert.equal(agents.get('asked'), record);
  }
  assert.equal(agents.get('asked'), record);
  assert.equal(agents.get('unasked'), undefined);
  assert.equal(agents.get('filler 24999'), record);
});

test('sources are kept by what they weigh', () => {
  const { sources } = new Cache();
  const source = {
    file: 'a',
    length: 1024 * 1024,
    documents: [],
    broken: false,
    findings: [],
    nodes: 20_000,
  };
  for (let k = 0; k < 30; k++) sources.set(String(k), source);
  assert.equal(sources.get('0'), undefined);
  assert.equal(sources.get('29'), source);
});

test('half of what is kept is forgotten at once, the older half', () => {
  const { agents } = new Cache();
  for (let k = 0; k < 20_000; k++) agents.set(`record ${k}`, record);
  assert.equal(agents.get('record 0'), record);
  agents.set('one more', record);
  assert.deepEqual([agents.get('record 1'), agents.get('record 10000')], [undefined, record]);
});

/** How many sources are kept for sure, half of them the young ones; of one more the first is forgotten. */
const weighed: readonly (readonly [what: string, make: () => Cache, length: number, nodes: number, kept: number])[] = [
  ['of nothing', () => new Cache(24_000), 0, 0, 24],
  ['of text', () => new Cache(24_000), 1_000, 0, 8],
  ['of values', () => new Cache(24_000), 0, 10, 6],
  ['of a compile that leaves nothing behind', passingCache, 512 * 1024, 0, 2],
];
for (const [what, make, length, nodes, kept] of weighed) {
  test(`sources ${what} are kept ${kept} at a time`, () => {
    const source = { file: 'a', length, documents: [], broken: false, findings: [], nodes };
    for (const [count, first] of [
      [kept, source],
      [kept + 1, undefined],
    ] as const) {
      const { sources } = make();
      for (let k = 0; k < count; k++) sources.set(String(k), source);
      assert.equal(sources.get('0'), first);
    }
  });
}

test('a compile that tells where all values come from leaves nothing behind', () => {
  const cache = new Cache();
  let kept = 0;
  for (const map of [cache.agents, cache.sources] as { set(key: string, value: unknown): void }[]) {
    map.set = () => void (kept += 1);
  }
  const text = 'name: a\nharness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\n';
  const input = inputWith({ '.svc/agents/a.yaml': Buffer.from(text) });
  const passed: number[] = [];
  const output = compile({ ...input, cache, origins: 'all', passed: (bytes) => passed.push(bytes) });
  assert.deepEqual([output.ok, passed, kept], [true, [text.length], 0]);
  // The record of its file; the parse of that only when it is compiled again.
  compile({ ...input, cache });
  assert.equal(kept, 1);
  compile({ ...input, cache, isSent: true });
  assert.equal(kept, 2);
});

test('the parse of an agent file is kept when it is compiled again, from the same text, and that of a fragment at once', () => {
  const cache = new Cache();
  const kept: string[] = [];
  const { set } = cache.sources;
  cache.sources.set = (key, value) => {
    kept.push(key.split('\0')[0] ?? '');
    set.call(cache.sources, key, value);
  };
  const text = 'imports: [../f/one.yaml]\nname: a\nharness: harness-a\n';
  const bytes = Buffer.from('environment: {name: e, image: {kind: preset, name: base}}\n');
  const tree = (oid: string) =>
    inputWith({ '.svc/agents/a.yaml': Buffer.from(text), '.svc/f/one.yaml': { oid, bytes } });
  assert.equal(compile({ ...tree('1'), cache }).ok, true);
  assert.deepEqual(kept.splice(0), ['.svc/f/one.yaml']);
  compile({ ...tree('2'), cache });
  assert.deepEqual(kept.splice(0).toSorted(), ['.svc/agents/a.yaml', '.svc/f/one.yaml']);
  compile({ ...tree('3'), cache });
  assert.deepEqual(kept, ['.svc/f/one.yaml']);
});

/** A compile with a cache of its own, that says after it what it compiled, and of what it kept something. */
function watched() {
  const cache = new Cache();
  const kept = { agents: [] as string[], sources: [] as string[] };
  const pathOf = (key: string): string => (key.split('\0')[0] ?? '').replace('.svc/', '');
  for (const what of ['agents', 'sources'] as const) {
    const map = cache[what] as { set(key: string, value: unknown): void };
    const { set } = map;
    map.set = (key, value) => {
      kept[what].push(pathOf(key));
      set.call(map, key, value);
    };
  }
  return (input: CompileInput) => {
    let compiled = 0;
    const { outside, ok } = compile({ ...input, cache, passed: () => void (compiled += 1) });
    const told = {
      ok,
      compiled,
      agents: kept.agents.splice(0).sort(),
      sources: kept.sources.splice(0).sort(),
      outside,
    };
    return told;
  };
}

const encoded = (text: string): Partial<BundleEntry> => ({ oid: text, bytes: Buffer.from(text) });
const box = 'harness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}\n';
const kit = (version: string, integrity = 'x', text = 'labels: {c: d}\n'): CompileInput['templates'] => {
  const files = new Map([['c.yaml', { path: 'c.yaml', kind: 'file', ...encoded(text) } as BundleEntry]]);
  const specifier = '@a/b@1';
  return new Map([[specifier, { specifier, name: '@a/b', requested: '1', version, integrity, files }]]);
};
const tree = {
  '.svc/agents/plain.yaml': encoded(`${box}name: plain\n`),
  '.svc/agents/warned.yaml': encoded(`${box}name: warned\nremove: {env: X}\n`),
  '.svc/agents/uses.yaml': encoded('name: uses\nimports: [../fragments/f.yaml, ../../out.yaml]\n'),
  '.svc/agents/kit.yaml': encoded(`${box}name: kit\nimports: "@a/b@1/c.yaml"\n`),
  '.svc/fragments/f.yaml': encoded(`${box}imports: g.yaml\n`),
  '.svc/fragments/g.yaml': encoded('labels: {a: b}\n'),
  'out.yaml': encoded('labels: {o: p}\n'),
};
const whole = (more: { readonly [path: string]: Partial<BundleEntry> } = {}, rest: Partial<CompileInput> = {}) => ({
  ...inputWith({ ...tree, ...more }),
  sha256,
  templates: kit('1.0.0'),
  ...rest,
});

/** What is compiled anew where only this changed. */
const changes: readonly (readonly [what: string, input: CompileInput, compiled: readonly string[]])[] = [
  ['nothing', whole(), []],
  ['its own text', whole({ '.svc/agents/plain.yaml': encoded(`${box}name: other\n`) }), ['plain']],
  ['a file that it imports', whole({ '.svc/fragments/f.yaml': encoded(`${box}imports: [g.yaml]\n`) }), ['uses']],
  ['one that this imports', whole({ '.svc/fragments/g.yaml': encoded('labels: {a: c}\n') }), ['uses']],
  [
    'a file that became too large',
    whole({ '.svc/fragments/f.yaml': { ...tree['.svc/fragments/f.yaml'], tooLarge: true } }),
    ['uses'],
  ],
  ['a file outside', whole({ 'out.yaml': encoded('labels: {o: q}\n') }), ['uses']],
  ['a file that nothing imports', whole({ 'other.yaml': encoded('x') }), []],
  ['the version of a template', whole({}, { templates: kit('1.0.1') }), ['kit']],
  ['what a template holds', whole({}, { templates: kit('1.0.0', 'y', 'labels: {c: e}\n') }), ['kit']],
  ['the context', whole({}, { context: { a: 'b' } }), ['kit', 'plain', 'uses', 'warned']],
  ['the catalog', whole({}, { catalog: { ...testCatalog, presets: ['base'] } }), ['kit', 'plain', 'uses', 'warned']],
];
for (const [what, input, compiled] of changes) {
  test(`an agent is compiled anew only where something changed that it rests on: ${what}`, () => {
    const run = watched();
    const agents = ['kit', 'plain', 'uses', 'warned'].map((name) => `agents/${name}.yaml`);
    const first = run(whole());
    assert.deepEqual([first.ok, first.compiled, first.agents, first.outside], [true, 4, agents, ['out.yaml']]);
    const again = compiled.map((name) => `agents/${name}.yaml`);
    const second = run(input);
    assert.deepEqual(
      [second.ok, second.compiled, second.agents, second.outside],
      [true, again.length, again, ['out.yaml']],
    );
    assert.deepEqual([run(input).compiled, run(input).compiled], [0, 0]);
  });
}

test('what has an error, is too large or misses something is compiled each time', () => {
  const run = watched();
  const broken = {
    '.svc/agents/error.yaml': encoded(`${box}name: error\nmanages: 5\n`),
    '.svc/agents/large.yaml': { tooLarge: true } as const,
    '.svc/agents/missing.yaml': encoded(`${box}name: missing\nimports: ../../nowhere.yaml\n`),
    '.svc/agents/envelope.yaml': encoded('kind: Agent\nspec: {}\n'),
  };
  assert.deepEqual([run(whole(broken)).compiled, run(whole(broken)).compiled], [8, 4]);
});

const mebibyte = 1024 * 1024;
/** An image that fills a tree up to this size; beside it stands an entry that has no bytes. */
const filled = (size: number) => {
  const bytes = Object.values(tree).reduce((sum, one) => sum + (one.bytes?.length ?? 0), 0);
  const image = { oid: 'image', bytes: new Uint8Array(size - bytes) };
  return whole({ '.svc/assets/a.bin': image, '.svc/assets/b.bin': { tooLarge: true } });
};
/** Who compiles, and what it leaves for the next. */
const keepers: readonly (readonly [who: string, input: CompileInput, agents: number, sources: number])[] = [
  ['a compile', whole(), 4, 4],
  ['one that is sent', { ...whole(), isSent: true }, 4, 4],
  ['one that is sent, as large as it may be', { ...filled(8 * mebibyte), isSent: true }, 4, 4],
  ['a larger one', { ...filled(8 * mebibyte + 1), isSent: true }, 0, 0],
  ['a larger one that is not sent', filled(8 * mebibyte + 1), 4, 4],
  ['one that asks for all origins', { ...whole(), origins: 'all' }, 0, 0],
  ['one that asks for some', { ...whole(), origins: ['.svc/agents/uses.yaml'] }, 0, 3],
];
for (const [who, input, agents, sources] of keepers) {
  test(`${who} keeps ${agents} agents and the parses of ${sources} files`, () => {
    const told = watched()(input);
    assert.deepEqual([told.agents.length, told.sources.length], [agents, sources]);
  });
}

test('a cache that was made by who calls is used', () => {
  const cache = createCompileCache();
  assert.equal(cache.kind, 'compile-cache');
  let compiled = 0;
  for (let k = 0; k < 3; k++) compile({ ...whole(), cache, passed: () => void (compiled += 1) });
  assert.equal(compiled, 4);
});
