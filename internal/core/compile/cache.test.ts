import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentRecord, Cache } from './cache.ts';

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
