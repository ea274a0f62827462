// What README and docs tell people to type: the five-minute tour is pasted into a shell as it stands, against a real daemon;
// every other command line is one that the program knows, and every agent that is shown compiles.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startTestDaemon, type TestDaemon } from '../../internal/base/testkit/daemon.ts';
import { parseArgv } from '../../internal/edge/cli/parse.ts';
import { globalOptions } from '../../internal/edge/cli/table-global.ts';
import { commands } from '../../internal/edge/cli/table.ts';
import { callSvc } from './testkit.ts';

const ROOT = join(import.meta.dirname, '../..');
const pages = new Map<string, string>();
for (const name of [
  'README.md',
  'templates/README.md',
  ...(await readdir(join(ROOT, 'docs'))).map((one) => `docs/${one}`),
]) {
  if (name.endsWith('.md')) pages.set(name, await readFile(join(ROOT, name), 'utf8'));
}
const blocks = (text: string, language: string): string[] =>
  [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)]
    .filter(([, given]) => given === language)
    .map(([, , body = '']) => body);

let home: string;
let daemon: TestDaemon;
before(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc-docs-'));
  daemon = await startTestDaemon();
});
after(async () => {
  await daemon?.stop();
  await rm(home, { recursive: true, force: true });
});

test('the five-minute tour does what it says, pasted as it stands', async () => {
  const tour = (pages.get('README.md') ?? '').split('## Five minutes')[1]?.split('\n## ')[0] ?? '';
  const shell = blocks(tour, 'sh').filter(
    (block) => !block.includes('svcd') && !block.includes('SVC_HARNESS_A_COMMAND'),
  );
  assert.ok(shell.length >= 4);
  const svc = join(home, 'svc');
  await writeFile(svc, `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, 'cmd/svc/main.mjs')}' "$@"\n`, {
    mode: 0o755,
  });
  const script = shell.join('\n').replace('npm run -s svc --', `'${svc}'`);
  const { stdout, stderr } = await promisify(execFile)('bash', ['-e', '-c', script], {
    cwd: ROOT,
    env: {
      PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env['PATH'] ?? ''}`,
      HOME: home,
      SVC_DATA_DIR: daemon.dataDir,
    },
    maxBuffer: 4 * 1024 * 1024,
  });
  assert.match(stdout, /^ok: 1 agent, 1 environment$/m, stderr);
  assert.match(stdout, /^agent: +triage$/m);
  assert.match(stdout, /^address: +http/m);
  assert.match(stdout, /"eventRecordId"/);
  assert.match(stdout, /webhook\.received +(?:pending|routed)/);
});

/** A command line as it is written for readers: placeholders, alternatives and comments are no part of it. */
function argvOf(line: string): string[] {
  const bare = line
    .replace(/\s#\s.*$/, '')
    .replace(/\s[>|&].*$/, '')
    .replaceAll(/\[[^\]]*\]/g, '')
    .replaceAll(/"\$\([^)]*\)[^"]*"/g, 'X')
    .replaceAll(/…/g, '');
  return [...bare.matchAll(/"[^"]*"|'[^']*'|\S+/g)].map(([word]) => word.replaceAll(/^["']|["']$/g, ''));
}

test('every command line of the pages is one that the program knows', () => {
  let seen = 0;
  const wrong: string[] = [];
  for (const [name, text] of pages) {
    const shown = [...blocks(text, 'sh'), ...blocks(text, '')].flatMap((block) =>
      block.replaceAll('\\\n', ' ').split('\n'),
    );
    const inline = [...text.matchAll(/`(svc [a-z][^`\n]*)`/g)].map(([, line = '']) => line);
    for (const line of [...shown, ...inline]) {
      const match = /^\s*(?:exec )?svc ([a-z].*)$/.exec(line);
      if (match === null) continue;
      const argv = argvOf(match[1] ?? '');
      const alternatives = argv.some((word) => /^[a-z]+\|[a-z|]+$/.test(word));
      seen += 1;
      try {
        // A line that names a command in running text leaves its arguments out.
        if (!alternatives) parseArgv([...argv, '--help'], commands, globalOptions);
      } catch (error) {
        wrong.push(`${name}: svc ${argv.join(' ')}: ${(error as Error).message}`);
      }
    }
  }
  assert.ok(seen > 60, String(seen));
  assert.deepEqual(wrong, []);
});

test('every agent that the pages show compiles', async () => {
  let seen = 0;
  for (const [name, text] of pages) {
    for (const block of blocks(text, 'yaml').filter(
      (one) => /^name: /m.test(one) && /^(?:harness|triggers|imports):/m.test(one),
    )) {
      const root = join(home, `yaml-${seen}`);
      await mkdir(join(root, '.svc/agents'), { recursive: true });
      await mkdir(join(root, '.svc/fragments'), { recursive: true });
      await writeFile(join(root, '.svc/agents/a.yaml'), block);
      const base =
        'harness: harness-a\nenvironment: { name: node, image: { kind: preset, name: node24 } }\nsystemPrompt: x\n';
      for (const one of ['node', 'base']) await writeFile(join(root, `.svc/fragments/${one}.yaml`), base);
      const { code, stderr } = await callSvc(home, ['validate', root]);
      assert.equal(code, 0, `${name}\n${block}\n${stderr}`);
      seen += 1;
    }
  }
  assert.ok(seen > 0);
});
