import assert from 'node:assert/strict';
import { access, chmod, constants, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { reachableBinaries } from './server-programs.ts';

const isRoot = process.getuid?.() === 0;
const account = { uid: 65_534, gid: 65_534 };

async function planted(mode: number) {
  const root = await mkdtemp(join(tmpdir(), 'svc-binaries-'));
  const home = join(root, 'native');
  await mkdir(join(home, 'bin'), { recursive: true });
  // Whatever the mask of this process is: only the outermost directory is in question.
  for (const open of [home, join(home, 'bin')]) await chmod(open, 0o755);
  const version = `0.0.0-test.${process.pid}`;
  await writeFile(join(root, 'package.json'), JSON.stringify({ version }));
  for (const name of ['postgres', 'initdb']) await writeFile(join(home, 'bin', name), `# ${name}\n`, { mode: 0o755 });
  await chmod(root, mode);
  return { root, binaries: { home, postgres: join(home, 'bin', 'postgres'), initdb: join(home, 'bin', 'initdb') } };
}

test('programs that the account can reach are used where they are', async (t) => {
  const { root, binaries } = await planted(0o755);
  t.after(() => rm(root, { recursive: true }));
  assert.deepEqual(await reachableBinaries(account, binaries), binaries);
  assert.deepEqual(await reachableBinaries(undefined, binaries), binaries);
});

test('programs in a private checkout are copied once to where the account can read them', async (t) => {
  const { root, binaries } = await planted(0o700);
  t.after(() => rm(root, { recursive: true }));
  if (!isRoot) {
    // Only root starts the server as somebody else.
    assert.deepEqual(await reachableBinaries(undefined, binaries), binaries);
    return;
  }
  const copies = await Promise.all([1, 2, 3].map(() => reachableBinaries(account, binaries)));
  const [copied] = copies;
  assert.ok(copied);
  t.after(() => rm(copied.home, { recursive: true }));
  for (const other of copies) assert.deepEqual(other, copied);
  assert.notEqual(copied.postgres, binaries.postgres);
  assert.equal(await readFile(copied.initdb, 'utf8'), '# initdb\n');
  await access(copied.postgres, constants.X_OK);
  for (let at = copied.home; at !== '/'; at = join(at, '..')) assert.equal((await stat(at)).mode & 0o001, 0o001, at);
});
