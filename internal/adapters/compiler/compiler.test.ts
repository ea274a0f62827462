import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';
import type { BundleEntry } from '../../words/bundle.ts';
import { canonicalJson } from '../../words/json.ts';
import { asJson } from '../../words/spec.ts';
import { DEFAULT_CATALOG } from '../../base/config/catalog.ts';
import { compileInline, type CompilerInput, startCompiler } from './compiler.ts';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

function tree(files: { readonly [path: string]: string }): CompilerInput {
  const entries = new Map<string, BundleEntry>();
  for (const [path, text] of Object.entries(files)) {
    entries.set(path, { path, kind: 'file', oid: sha256(text), bytes: new TextEncoder().encode(text) });
  }
  return {
    bundle: { entries, absent: new Set(), hasSvc: true },
    context: {},
    catalog: DEFAULT_CATALOG,
    templates: new Map(),
  };
}

const GOOD = tree({
  '.svc/agents/a.yaml': 'name: default\ntriggers: [{event: codehost.push, routing: {kind: spawn}}]\n',
});
/** Each level imports the one below many times: quick to write, slow to merge. */
const SLOW = tree({
  '.svc/agents/a.yaml': `name: default\nimports: [${Array(1000).fill('../fragments/big.yaml').join(', ')}]\n`,
  '.svc/fragments/big.yaml': `labels:\n${Array.from({ length: 30_000 }, (_, k) => `  k${k}: v`).join('\n')}\n`,
});

const compiler = startCompiler({ timeoutMs: 20_000 });
after(() => compiler.stop());

test('a worker gives what compiling inline gives, with the hash of each spec', async () => {
  const output = await compiler.compile(GOOD);
  assert.equal(output.ok, true, JSON.stringify(output.diagnostics));
  assert.equal(JSON.stringify(output), JSON.stringify(compileInline(GOOD)));
  for (const { spec, hash } of output.resources) assert.equal(hash, sha256(canonicalJson(asJson(spec))));
  assert.deepEqual(await compiler.compile(GOOD), output);
});

test('many compiles at once are all answered', async () => {
  const outputs = await Promise.all(Array.from({ length: 8 }, () => compiler.compile(GOOD)));
  assert.equal(new Set(outputs.map((output) => JSON.stringify(output))).size, 1);
});

test('a compile that takes too long is stopped with a diagnostic, and the next one works', async () => {
  const short = startCompiler({ timeoutMs: 2_000, workers: 1 });
  try {
    const [slow, good] = await Promise.all([short.compile(SLOW), short.compile(GOOD)]);
    assert.deepEqual(
      slow.diagnostics.map((d) => d.code),
      ['compile-timeout'],
    );
    assert.match(slow.diagnostics[0]?.message ?? '', /2000 ms/);
    assert.equal(slow.ok, false);
    assert.equal(good.ok, true);
  } finally {
    await short.stop();
  }
});

test('a compile that takes too much memory is stopped with a diagnostic, and the process lives on', async () => {
  const small = startCompiler({ maxHeapMb: 16, workers: 1 });
  const labels = Array.from({ length: 30_000 }, (_, k) => `  k${k}: v`).join('\n');
  const files = Array.from({ length: 40 }, (_, k) => [`.svc/agents/a${k}.yaml`, `name: a${k}\nlabels:\n${labels}\n`]);
  try {
    const output = await small.compile(tree(Object.fromEntries(files)));
    assert.deepEqual(
      output.diagnostics.map((d) => d.code),
      ['compile-memory'],
    );
    assert.equal((await small.compile(GOOD)).ok, true);
    const again = await small.compile(tree(Object.fromEntries(files)));
    assert.deepEqual(
      again.diagnostics.map((d) => d.code),
      ['compile-memory'],
    );
  } finally {
    await small.stop();
  }
});

test('stopping rejects what runs and what comes later, and is safe twice', async () => {
  const stopping = startCompiler({ workers: 1 });
  const results = [stopping.compile(SLOW), stopping.compile(GOOD)].map((result) =>
    result.then(
      () => 'done',
      (error) => error.code,
    ),
  );
  await stopping.stop();
  await stopping.stop();
  assert.deepEqual(await Promise.all(results), ['compiler-stopped', 'compiler-stopped']);
  await assert.rejects(stopping.compile(GOOD), { code: 'compiler-stopped' });
});

test('the event loop goes on while a tree compiles', async () => {
  const short = startCompiler({ timeoutMs: 1_000, workers: 1 });
  let ticks = 0;
  const ticker = setInterval(() => ticks++, 10);
  try {
    await short.compile(SLOW);
    assert.ok(ticks > 10, `${ticks} ticks`);
  } finally {
    clearInterval(ticker);
    await short.stop();
  }
});
