import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentRecord, Cache } from './cache.ts';
import { compile } from './compile.ts';
import { inputWith } from './testkit.ts';

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
