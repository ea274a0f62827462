// Test files by several to a process: all of them, each once, and each still by itself in what it reports.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const dir = mkdtempSync(join(tmpdir(), 'svc-batches-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const program = fileURLToPath(new URL('batches.ts', import.meta.url));
const batchesOf = (...globs: string[]): string[] =>
  execFileSync(process.execPath, [program, ...globs], { cwd: dir, encoding: 'utf8' })
    .trim()
    .split('\n');

// Something that several of them wait for while they are loaded.
writeFileSync(join(dir, 'shared.mjs'), `export const shared = await new Promise((done) => setTimeout(done, 50, 1));\n`);
const write = (name: string, body: string): void => {
  const head = `import { test, beforeEach } from 'node:test';\nimport './shared.mjs';\nlet at = '';\nbeforeEach(() => { at = '${name}'; });\n`;
  writeFileSync(join(dir, `${name}.test.mjs`), `${head}${body}`);
};

test('every file is in one batch, or by itself where it is about its process, and a failure is told with its file', () => {
  for (let n = 0; n < 8; n += 1)
    write(
      `f${n}`,
      `test('own', (t) => { if (at !== 'f${n}' || t.fullName !== 'f${n}.test.mjs > own') throw new Error(t.fullName); });\n`,
    );
  write('sized', `test('size', () => void process.memoryUsage());\n`);
  write('broken', `test('not so', () => { throw new Error('as planned'); });\n`);
  write('misspelt', `test('no end', () => {;\n`);
  const batches = batchesOf('*.test.mjs', 'f*.test.mjs');
  assert.deepEqual(batches, ['sized.test.mjs', '.batches/000.mjs', '.batches/001.mjs']);
  // Not as a part of the run that this test is in.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout } = spawnSync(process.execPath, ['--test', '--test-reporter=tap', ...batches], {
    cwd: dir,
    env,
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  assert.match(stdout, /^# tests 10$/m);
  assert.match(stdout, /^# fail 1$/m);
  assert.match(stdout, /^not ok \d+ - misspelt\.test\.mjs$/m);
  assert.match(stdout, /broken\.test\.mjs:5/);
});

test('globs that find nothing are a mistake, and not a run of no tests', () => {
  assert.throws(() => batchesOf('*.nothing'), /No file of tests/);
});
