import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, test } from 'node:test';
import type { BundleEntry } from '../../domain/bundle.ts';
import { canonicalJson } from '../../domain/json.ts';
import { asJson } from '../../domain/spec.ts';
import { DEFAULT_CATALOG } from '../../base/config/default-catalog.ts';
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
/** Each file is within its bounds; there are many of them, and all are to be read. */
const labelsText = Array.from({ length: 30_000 }, (_, k) => `  k${k}: v`).join('\n');
const SLOW = tree(
  Object.fromEntries(
    Array.from({ length: 100 }, (_, k) => [`.svc/agents/a${k}.yaml`, `name: a${k}\nlabels:\n${labelsText}\n`]),
  ),
);

const compiler = startCompiler({ timeoutMs: 120_000 });
after(() => compiler.stop());

test('a worker gives what compiling inline gives, with the hash of each spec', async () => {
  const output = await compiler.compile(GOOD);
  assert.equal(output.ok, true, JSON.stringify(output.diagnostics));
  assert.equal(JSON.stringify(output), JSON.stringify(compileInline(GOOD)));
  for (const { spec, hash } of output.resources) assert.equal(hash, sha256(canonicalJson(asJson(spec))));
  assert.deepEqual(await compiler.compile(GOOD), output);
});

test('an answer too large for one message is the same as a small one', async () => {
  const prompt = 'words '.repeat(2_000);
  const files = Array.from({ length: 200 }, (_, k) => {
    const trigger = `triggers: [{event: webhook.x, endpoint: e${k}, routing: {kind: spawn}}]`;
    const own = `name: a${k}\nharness: harness-a\nenvironment: {name: e, image: {kind: preset, name: base}}`;
    return [`.svc/agents/a${k}.yaml`, `${own}\nsystemPrompt: ${prompt}\n${trigger}\n`];
  });
  const large = tree(Object.fromEntries(files));
  const output = await compiler.compile(large);
  assert.equal(output.resources.length, 201);
  assert.deepEqual(output, structuredClone(compileInline(large)));
  assert.equal(JSON.stringify(await compiler.compile(GOOD)), JSON.stringify(compileInline(GOOD)));
});

test('many compiles at once are all answered', async () => {
  const outputs = await Promise.all(Array.from({ length: 8 }, () => compiler.compile(GOOD)));
  assert.equal(new Set(outputs.map((output) => JSON.stringify(output))).size, 1);
});

test('files in memory that both threads see compile like any others, between those that are not', async () => {
  const names = Array.from({ length: 1_200 }, (_, at) => `n${at}`);
  const plain = tree(
    Object.fromEntries(names.map((name) => [`.svc/agents/${name}.yaml`, `name: ${name}\nharness: none of ${name}\n`])),
  );
  const memory = Buffer.from(new SharedArrayBuffer(100_000));
  let at = 0;
  const entries = [...plain.bundle.entries].map(([path, entry], turn): [string, typeof entry] => {
    if (turn % 3 === 0 || entry.bytes === undefined) return [path, entry];
    memory.set(entry.bytes, at);
    const bytes = memory.subarray(at, (at += entry.bytes.length));
    return [path, { ...entry, bytes }];
  });
  const mixed = { ...plain, bundle: { ...plain.bundle, entries: new Map(entries) } };
  const expected = await compiler.compile(plain);
  assert.ok(expected.diagnostics.length >= 1_000);
  // Another worker has not kept what it read.
  const other = startCompiler({ workers: 1 });
  assert.deepEqual(await other.compile(mixed), expected);
  await other.stop();
});

test('a compile that takes too long is stopped with a diagnostic, and the next one works', async () => {
  // A worker that is begun after one was stopped must have time to come up, on this machine, as loaded as it is.
  const begun = performance.now();
  const first = startCompiler({ workers: 1 });
  await first.compile(GOOD);
  await first.stop();
  const timeoutMs = Math.max(2_000, Math.ceil(8 * (performance.now() - begun)));
  const short = startCompiler({ timeoutMs, workers: 1 });
  try {
    const [slow, good] = await Promise.all([short.compile(SLOW), short.compile(GOOD)]);
    assert.deepEqual(
      slow.diagnostics.map((d) => d.code),
      ['compile-timeout'],
    );
    assert.match(slow.diagnostics[0]?.message ?? '', new RegExp(`longer than ${timeoutMs} ms`));
    assert.equal(slow.ok, false);
    assert.equal(good.ok, true);
  } finally {
    await short.stop();
  }
});

test('a compile that takes too much memory is stopped with a diagnostic, and the process lives on', async () => {
  const small = startCompiler({ maxHeapMb: 16, workers: 1, timeoutMs: 120_000 });
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
  const short = startCompiler({ timeoutMs: 2_000, workers: 1 });
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
