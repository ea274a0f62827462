// The commands that pages show are pasted into a shell: what a name holds stays a name there.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { shell } from './client/command.ts';

test('a name is one word of a shell, and never an option, whatever it holds', () => {
  const names = ['triage', `bot'; touch x; '$(id) \`id\``, 'a b', '%s\\n', '*', '~', '#', '', 'a\nb'];
  const dashed = ['-x', '--json', '--', '-a b'];
  const rows: readonly (readonly [line: string, words: readonly string[]])[] = [
    ...names.flatMap((name): (readonly [string, readonly string[]])[] => [
      [shell`svc member set ${name} --role ${'viewer'}`, ['svc', 'member', 'set', name, '--role', 'viewer']],
      [shell`svc session list --agent ${name}`, ['svc', 'session', 'list', '--agent', name]],
    ]),
    ...dashed.flatMap((name): (readonly [string, readonly string[]])[] => [
      [shell`svc member set ${name} --role ${'viewer'}`, ['svc', 'member', 'set', '--role', 'viewer', '--', name]],
      [shell`svc agent diff ${name} ${1} ${2}`, ['svc', 'agent', 'diff', '--', name, '1', '2']],
      [shell`svc session list --agent ${name}`, ['svc', 'session', 'list', `--agent=${name}`]],
    ]),
  ];
  // One shell for all of them, which says the words that it makes of each.
  const script = rows.map(([line]) => `printf '%s\\0' ${line}; printf '\\1'`).join('\n');
  const said = execFileSync('sh', ['-c', script], { encoding: 'utf8' }).split('\u0001').slice(0, -1);
  assert.deepEqual(
    said.map((one) => one.split('\0').slice(0, -1)),
    rows.map(([, words]) => words),
  );
  assert.equal(shell`svc agent show ${'triage'}`, 'svc agent show triage');
});
