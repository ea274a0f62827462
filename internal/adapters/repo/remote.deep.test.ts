// Git servers whose packs have longer chains of deltas than git makes unless it is told to, and one whose packs find no room.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { contents, remote, served, temporary } from './test-support.ts';

const many = 120;

for (const [what, allowFilter] of [
  ['with', true],
  ['without', false],
] as const)
  test(`a server ${what} filters that packs deeply is read`, async (t) => {
    const { repo, url } = await served(t, { allowFilter, config: { 'pack.depth': '250' } });
    const lines = Array.from({ length: 60 }, () => `# ${randomBytes(25).toString('hex')}`);
    const files: Record<string, string> = {};
    let input = 'commit refs/heads/main\ncommitter Demo <demo@example.com> 1700000000 +0000\ndata 1\nx\n';
    for (let n = 0; n < many; n += 1) {
      // Each is like the one before but for a line, which is what it is made a delta of.
      lines[n % lines.length] = `# ${randomBytes(25).toString('hex')}`;
      const [path, text] = [`.svc/agents/a${String(n).padStart(3, '0')}.yaml`, `name: a${n}\n${lines.join('\n')}\n`];
      files[path] = text;
      input += `M 100644 inline ${path}\ndata ${text.length}\n${text}\n`;
    }
    const unpacked = ['-c', 'fastimport.unpackLimit=0'];
    await repo.git([...unpacked, 'fast-import', '--quiet', '--done', '--depth=250'], `${input}done\n`);
    const source = remote(t, url);
    const snapshot = await source.snapshot(await source.resolve());
    assert.deepEqual([contents(snapshot), snapshot.via], [files, allowFilter ? 'sparse3' : 'spool']);
  });

test('a directory for temporary files that is not there is said to be that, and not where it lies', async (t) => {
  const { repo, url } = await served(t, { allowFilter: false });
  await repo.commit({ '.svc/agents/a.yaml': 'name: a\n' });
  const source = remote(t, url, { spoolDir: join(await temporary(t), 'gone') });
  const said = 'the daemon’s directory for temporary files (TMPDIR) is not there (ENOENT)';
  await assert.rejects(source.snapshot(await source.resolve()), { name: 'MachineLack', message: said });
});
