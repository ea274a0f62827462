import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkAddress, checkRoot } from './checks.ts';

test('an address of a repository is kept as it is read, so it holds nothing that its parser drops or a reader does not see', () => {
  checkAddress('https://git.test/o/r.git', null);
  const hidden = ['\n', '\r\nHost: y', '\t', '\0', '\u001b[2J', '\u007f', '\u009b2J', '\u202e', '\u2066'];
  for (const part of hidden)
    for (const url of [
      `https://git.test/o${part}/r.git`,
      `https://git.test/r?to${part}ken=t`,
      `https://git.test/r${part}`,
    ])
      assert.throws(() => checkAddress(url, null), /url: must be an https or http address/, JSON.stringify(url));
});

test('a root is one that is read, in its one spelling', async () => {
  assert.equal(await checkRoot('./fleet//prod/'), 'fleet/prod');
  for (const root of ['/fleet', '../fleet', 'a/../b', 'a\\b', '.git', 'a/.GIT/b', 'git~1', 'a\u001b[2J', 'a\u202eb'])
    await assert.rejects(checkRoot(root), /^Fault: root: /, JSON.stringify(root));
});
