import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { StoredSnapshot } from '../../adapters/store/repositories/snapshots.ts';
import { createCompiledAnswers, inputsKey, type Cached } from '../compiled.ts';
import { agentFile, agentNames, type Bench, startBench, syncNow, word } from './sync-testkit.ts';

const answer = (inputs: string, size: number): Cached => ({
  inputs,
  specifiers: [],
  templates: '',
  output: {
    ok: true,
    resources: [],
    diagnostics: [],
    needs: { paths: [], templates: [] },
    templateLock: {},
    assets: [],
  },
  size,
  snapshot: {
    ...{ id: inputs, commit: 'c', source: 's', rootTree: 't', svcTree: null, hasSvc: false },
    ...{ entries: [], absent: [], tops: {} },
  },
});

test('answers are kept within a bound, those used last the longest', () => {
  const answers = createCompiledAnswers(100);
  for (const id of ['a', 'b', 'c']) answers.keep(id, answer(id, 30));
  assert.equal(answers.find('a', 'a')?.inputs, 'a');
  answers.keep('d', answer('d', 30));
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].filter((id) => answers.find(id, id) !== undefined),
    ['a', 'c', 'd'],
  );
  answers.keep('a', answer('huge', 51));
  assert.equal(answers.find('a', 'huge'), undefined, 'one that would crowd out the others is not kept');
  answers.keep('e', answer('e', 30));
  assert.ok(answers.find('c', 'c') !== undefined, 'the room of what was dropped is free again');
  assert.equal(answers.find('c', 'other'), undefined);
  answers.forget('c');
  assert.equal(answers.find('c', 'c'), undefined);
});

test('every part of the inputs counts, their order does not', () => {
  const entry = { path: '.svc/agents/a.yaml', kind: 'file', oid: '1', size: 1 } as const;
  const base: StoredSnapshot = {
    commit: 'c',
    source: 's',
    rootTree: null,
    svcTree: null,
    hasSvc: true,
    entries: [entry, { ...entry, path: '.svc/agents/b.yaml' }],
    absent: ['x', 'y'],
    tops: {},
  };
  const key = inputsKey(base, { a: '1', b: '2' });
  const same = { ...base, commit: 'd', entries: base.entries.toReversed(), absent: ['y', 'x'] };
  assert.equal(inputsKey(same, { b: '2', a: '1' }), key);
  const others: StoredSnapshot[] = [
    { ...base, entries: [entry] },
    { ...base, entries: [entry, { ...entry, path: '.svc/agents/b.yaml', oid: '2' }] },
    { ...base, entries: [entry, { ...entry, path: '.svc/agents/b.yaml', tooLarge: true }] },
    { ...base, entries: [entry, { ...entry, path: '.svc/agents/b.yaml', kind: 'symlink' }] },
    { ...base, absent: ['x'] },
    { ...base, hasSvc: false },
  ];
  const keys = others.map((record) => inputsKey(record, { a: '1', b: '2' }));
  assert.equal(new Set([key, ...keys, inputsKey(base, { a: '1' })]).size, others.length + 2);
});

describe('a sync by hand of the commit that is applied', () => {
  let bench: Bench;
  before(async () => {
    bench = await startBench();
  });
  after(() => bench.stop());

  test('reads no file and compiles nothing, puts right what was edited, and reads all again when asked for more', async () => {
    const { daemon } = bench;
    const repository = await bench.repository('kept');
    await repository.commit({
      '.svc/agents/a.yaml': agentFile('a', 'imports: [../fragments/who.yaml]'),
      '.svc/fragments/who.yaml': "systemPrompt: 'to {{ $who }}'\n",
    });
    await bench.watch('kept', { context: { who: 'one' } });
    assert.deepEqual(await agentNames(daemon), ['a']);
    await daemon.ctx.db.query('delete from svc.blobs');
    assert.equal(word((await syncNow(daemon, 'kept'))['status']), 'unchanged');
    const { rows } = await daemon.ctx.db.query('select from svc.blobs');
    assert.equal(rows.length, 0, 'no file was fetched');
    // What did not change is told in full by each run, the one that had it first being there or not.
    const told = async (): Promise<string[]> => {
      const run = await syncNow(daemon, 'kept');
      assert.equal(word(run['status']), 'unchanged');
      const text = JSON.stringify(run['actions']);
      assert.match(text, /"name":"a"/);
      return [text, word(run['id'])];
    };
    const [first, firstRun] = await told();
    const [second] = await told();
    await daemon.ctx.db.query(`delete from svc.reconciles where id = $1::uuid or status = 'unchanged'`, [firstRun]);
    const [third] = await told();
    assert.deepEqual([second, third], [first, first]);
    await daemon.ctx.db.query(`update svc.agents set spec = spec || '{"systemPrompt": "theirs"}'`);
    assert.equal(word((await syncNow(daemon, 'kept'))['status']), 'applied');
    await daemon.ctx.db.query('delete from svc.triggers; delete from svc.agents');
    assert.equal(word((await syncNow(daemon, 'kept'))['status']), 'applied');
    assert.deepEqual(await agentNames(daemon), ['a']);

    await daemon.api('PATCH', 'P/repositories/kept', { context: { who: 'two' } });
    assert.equal(word((await syncNow(daemon, 'kept'))['status']), 'applied');
    const { rows: prompts } = await daemon.ctx.db.query<{ prompt: string }>(
      `select spec ->> 'systemPrompt' as prompt from svc.agents`,
    );
    assert.deepEqual(prompts, [{ prompt: 'to two' }]);
  });
});
