import assert from 'node:assert/strict';
import {
  access,
  chmod,
  chown,
  constants,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { preparedBinaries, reachableBinaries } from './server-programs.ts';

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

test('a copy that cannot be made to its end leaves nothing, however often it is tried', async (t) => {
  const { root, binaries } = await planted(0o755);
  const { home } = binaries;
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-programs-'));
  t.after(() => rm(dataDir, { recursive: true }));
  t.after(() => rm(root, { recursive: true }));
  await mkdir(join(home, 'lib'));
  const links = [{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }];
  await writeFile(join(home, 'pg-symlinks.json'), JSON.stringify(links));
  await writeFile(join(home, 'lib/libpq.so.5.18'), 'what cannot be read', { mode: 0o000 });
  await chmod(join(home, 'lib'), 0o555);
  await chown(dataDir, isRoot ? account.uid : (process.getuid?.() ?? 0), -1);
  if (isRoot) process.seteuid?.(account.uid);
  try {
    for (const _ of [1, 2]) await assert.rejects(preparedBinaries(home, dataDir), { code: 'EACCES' });
    assert.deepEqual(await readdir(join(dataDir, 'programs')), []);
  } finally {
    if (isRoot) process.seteuid?.(0);
    await chmod(join(home, 'lib'), 0o755);
  }
});

test('a package that cannot be written to is used as it is where its links stand, else by a copy in the data directory', async (t) => {
  const { root, binaries } = await planted(0o755);
  const { home } = binaries;
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-programs-'));
  t.after(() => rm(dataDir, { recursive: true }));
  t.after(() => rm(root, { recursive: true }));
  await mkdir(join(home, 'lib'));
  await writeFile(join(home, 'lib/libpq.so.5.18'), 'library\n');
  await writeFile(
    join(home, 'pg-symlinks.json'),
    JSON.stringify([{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]),
  );
  await chmod(join(home, 'lib'), 0o555);
  await chown(dataDir, isRoot ? account.uid : (process.getuid?.() ?? 0), -1);
  // Root may write everywhere.
  if (isRoot) process.seteuid?.(account.uid);
  try {
    const copies = await Promise.all([1, 2].map(() => preparedBinaries(home, dataDir)));
    assert.deepEqual(copies[0], copies[1]);
    assert.equal(copies[0]?.home.startsWith(join(dataDir, 'programs/postgresql-0.0.0-test')), true);
    assert.equal(await readlink(join(copies[0]?.home ?? '', 'lib/libpq.so.5')), 'libpq.so.5.18');
    assert.deepEqual(await preparedBinaries(home, dataDir), copies[0]);
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
  await chmod(join(home, 'lib'), 0o755);
  assert.deepEqual(await preparedBinaries(home, dataDir), binaries);
  await chmod(join(home, 'lib'), 0o555);
  if (isRoot) process.seteuid?.(account.uid);
  try {
    assert.deepEqual(await preparedBinaries(home, join(dataDir, 'none')), binaries);
  } finally {
    if (isRoot) process.seteuid?.(0);
  }
});
