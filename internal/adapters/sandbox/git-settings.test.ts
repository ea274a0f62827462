import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { addSettings } from './git-settings.ts';
import { temporary } from './test-support.ts';

test('git reads what was written, whatever it is', async (t) => {
  const stage = temporary(t);
  execFileSync('git', ['init', '--quiet', '--template=', stage]);
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', stage, 'config', '--local', '-z', ...args], { encoding: 'utf8' });
  const hostile = [
    '',
    ' a ',
    'a"b',
    'a\\',
    'a # b ; c',
    'a\nb\tc\bd\re',
    ']\n[core]\n\tbare = true',
    'ä\u2028',
    '\\n',
    '"',
  ];
  const text = fc.oneof(fc.constantFrom(...hostile), fc.string({ unit: 'binary' })).map((some) => some.toWellFormed());
  const value = text.map((some) => some.replaceAll('\0', ''));
  let count = 0;
  await fc.assert(
    fc.asyncProperty(value, value, async (one, other) => {
      count += 1;
      const name = `b${count}/"${one.replaceAll('\n', '')}`;
      await addSettings(stage, [
        { section: 'user', settings: { [`name${count}`]: one } },
        { section: 'branch', name, settings: { remote: other, merge: 'refs/heads/x' } },
      ]);
      assert.equal(git('--get', `user.name${count}`), `${one}\0`);
      assert.equal(git('--get', `branch.${name}.remote`), `${other}\0`);
    }),
    { numRuns: 60 },
  );
  assert.equal(git('--get-all', 'core.bare'), 'false\0');
});
