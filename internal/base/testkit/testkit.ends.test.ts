// A process of tests that would never end is ended, and has failed; one that ends by itself is left alone.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const dir = mkdtempSync(join(tmpdir(), 'svc-ends-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const preload = new URL('ends.ts?seconds=1', import.meta.url).href;

function run(body: string): { readonly status: number | null; readonly said: string } {
  const file = join(dir, 'one.test.mjs');
  writeFileSync(file, `import { test } from 'node:test';\n${body}`);
  // Not as a part of the run that this test is in.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ['--test', '--test-timeout=1000', '--test-reporter=tap', '--import', preload, file];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { env, encoding: 'utf8', timeout: 120_000 });
  return { status, said: stdout + stderr };
}

test('a test that hangs fails by its name, those behind it run, and its process is ended', () => {
  const { status, said } = run(
    `test('hangs', async () => { for (;;) await new Promise((done) => setTimeout(done, 20)); });\ntest('next', () => {});\n`,
  );
  assert.equal(status, 1);
  assert.match(said, /^\s*not ok 1 - hangs$/m);
  assert.match(said, /^\s*ok 2 - next$/m);
  assert.match(said, /1 s after its last test it does not end: .*Timeout/);
});

test('a file that leaves something open has failed, though each of its tests passed', () => {
  const { status, said } = run(
    `import { createServer } from 'node:net';\ntest('opens', () => void createServer().listen(0));\n`,
  );
  assert.equal(status, 1);
  assert.match(said, /^\s*ok 1 - opens$/m);
  assert.match(said, /1 s after its last test it does not end: .*TCPServerWrap/);
});

test('a program that it has left behind is ended with it, and its output with that', () => {
  const { status, said } = run(
    `import { spawn } from 'node:child_process';\ntest('starts', () => void spawn('sleep', ['100'], { stdio: 'inherit' }));\n`,
  );
  assert.equal(status, 1);
  assert.match(said, /1 s after its last test it does not end: .*ProcessWrap/);
});

test('one that ends by itself is left alone', () => {
  const { status, said } = run(`test('passes', () => {});\n`);
  assert.equal(status, 0);
  assert.doesNotMatch(said, /does not end/);
});
