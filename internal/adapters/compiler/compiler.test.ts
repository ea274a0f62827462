import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sha256 } from '../../base/hash.ts';
import type { BundleEntry } from '../../domain/bundle.ts';
import { canonicalJson } from '../../domain/json.ts';
import { asJson } from '../../domain/spec.ts';
import { defaultCatalog } from '../../base/config/default-catalog.ts';
import { compileInline, type CompilerInput, startCompiler } from './compiler.ts';

function tree(files: { readonly [path: string]: string }): CompilerInput {
  const entries = new Map<string, BundleEntry>();
  for (const [path, text] of Object.entries(files)) {
    entries.set(path, { path, kind: 'file', oid: sha256(text), bytes: new TextEncoder().encode(text) });
  }
  return {
    bundle: { entries, absent: new Set(), hasSvc: true },
    context: {},
    catalog: defaultCatalog,
    templates: new Map(),
  };
}

const goodTable = tree({
  '.svc/agents/a.yaml': 'name: default\ntriggers: [{event: codehost.push, routing: {kind: spawn}}]\n',
});
/** Each file is within its bounds; there are many of them, and all are to be read. */
const labelsText = Array.from({ length: 30_000 }, (_, k) => `  k${k}: v`).join('\n');
const slowTable = tree(
  Object.fromEntries(
    Array.from({ length: 160 }, (_, k) => [`.svc/agents/a${k}.yaml`, `name: a${k}\nlabels:\n${labelsText}\n`]),
  ),
);

const compiler = startCompiler({ timeoutMs: 120_000 });
after(() => compiler.stop());

test('a worker gives what compiling inline gives, with the hash of each spec', async () => {
  const output = await compiler.compile(goodTable);
  assert.equal(output.ok, true, JSON.stringify(output.diagnostics));
  assert.equal(JSON.stringify(output), JSON.stringify(compileInline(goodTable)));
  for (const { spec, hash } of output.resources) assert.equal(hash, sha256(canonicalJson(asJson(spec))));
  assert.deepEqual(await compiler.compile(goodTable), output);
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
  assert.equal(JSON.stringify(await compiler.compile(goodTable)), JSON.stringify(compileInline(goodTable)));
});

test('many compiles at once are all answered', async () => {
  const outputs = await Promise.all(Array.from({ length: 8 }, () => compiler.compile(goodTable)));
  assert.equal(new Set(outputs.map((output) => JSON.stringify(output))).size, 1);
});

test('whoever has nothing running waits for no slow compile of others, and the next of many is of who has least', async () => {
  const one = startCompiler({ workers: 1, timeoutMs: 120_000 });
  try {
    await one.compile(goodTable, 'other');
    const ended: string[] = [];
    const asked = (owner: string, input: typeof goodTable): Promise<unknown> =>
      one.compile(input, owner).then(
        () => ended.push(owner),
        () => undefined,
      );
    const slow = [asked('slow', slowTable), asked('slow', slowTable), asked('slow', slowTable)];
    await asked('other', goodTable);
    assert.deepEqual(ended, ['other']);
    await one.stop();
    await Promise.all(slow);
  } finally {
    await one.stop();
  }
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
  // A worker that is begun after one was stopped must have time to come up, on this machine, as loaded as it is; what is slow
  // takes ten times as long as that.
  const begun = performance.now();
  const first = startCompiler({ workers: 1 });
  await first.compile(goodTable);
  await first.stop();
  const timeoutMs = Math.max(2_000, Math.ceil(4 * (performance.now() - begun)));
  const short = startCompiler({ timeoutMs, workers: 1 });
  try {
    const [slow, good] = await Promise.all([short.compile(slowTable), short.compile(goodTable)]);
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

test('a compile is not stopped for the time that the machine kept from it', async () => {
  const timeoutMs = 2_500;
  const script = `
    import { startCompiler } from ${JSON.stringify(new URL('compiler.ts', import.meta.url).href)};
    import { defaultCatalog } from ${JSON.stringify(new URL('../../base/config/default-catalog.ts', import.meta.url).href)};
    const labels = '\\nlabels:\\n' + Array.from({ length: 5_000 }, (_, k) => '  k' + k + ': v').join('\\n') + '\\n';
    const entries = new Map(Array.from({ length: 2 }, (_, n) => ['.svc/agents/a' + n + '.yaml', {
      path: '.svc/agents/a' + n + '.yaml', kind: 'file', oid: 'a'.repeat(39) + n,
      bytes: new TextEncoder().encode('name: a' + n + labels),
    }]));
    const compiler = startCompiler({ timeoutMs: ${timeoutMs}, workers: 1 });
    const output = compiler.compile({
      bundle: { entries, absent: new Set(), hasSvc: true }, context: {}, catalog: defaultCatalog, templates: new Map(),
    });
    console.log('begun');
    console.log(JSON.stringify((await output).diagnostics.map(({ code }) => code).filter((code) => code.startsWith('compile-'))));
    await compiler.stop();
  `;
  const child = spawn(process.execPath, ['-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  try {
    assert.equal((await lines.next()).value, 'begun');
    child.kill('SIGSTOP');
    await sleep(timeoutMs + 100);
    child.kill('SIGCONT');
    assert.equal((await lines.next()).value, '[]');
  } finally {
    child.kill('SIGKILL');
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
    assert.equal((await small.compile(goodTable)).ok, true);
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
  const results = [stopping.compile(slowTable), stopping.compile(goodTable)].map((result) =>
    result.then(
      () => 'done',
      (error) => error.code,
    ),
  );
  await stopping.stop();
  await stopping.stop();
  assert.deepEqual(await Promise.all(results), ['compiler-stopped', 'compiler-stopped']);
  await assert.rejects(stopping.compile(goodTable), { code: 'compiler-stopped' });
});

test('the event loop goes on while a tree compiles', async () => {
  const short = startCompiler({ timeoutMs: 2_000, workers: 1 });
  let ticks = 0;
  const ticker = setInterval(() => ticks++, 10);
  try {
    await short.compile(slowTable);
    assert.ok(ticks > 10, `${ticks} ticks`);
  } finally {
    clearInterval(ticker);
    await short.stop();
  }
});
