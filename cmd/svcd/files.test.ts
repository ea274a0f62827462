import assert from 'node:assert/strict';
import { mkdtemp, open, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadConfig } from '../../internal/base/config/config.ts';
import { ensureMasterKey } from './files.ts';

test('a master key that was made is on the disk under its name before anything is sealed with it', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'svc-key-'));
  t.after(() => rm(dataDir, { recursive: true, force: true }));
  const directory = await open(dataDir);
  t.after(() => directory.close());
  const path = join(dataDir, 'master.key');
  const forced: string[] = [];
  const handles = Object.getPrototypeOf(directory) as typeof directory;
  const sync = handles.sync;
  t.mock.method(handles, 'sync', async function (this: typeof directory): Promise<void> {
    const there = await stat(path).catch(() => undefined);
    forced.push(
      `${(await this.stat()).isDirectory() ? 'directory' : 'file'} ${there === undefined ? 'before' : 'with'} it`,
    );
    return sync.call(this);
  });
  await ensureMasterKey(loadConfig({ env: { HOME: dataDir, SVC_DATA_DIR: dataDir }, argv: [] }), false);
  assert.match(await readFile(path, 'utf8'), /^1:/);
  assert.deepEqual(forced, ['file before it', 'directory with it']);
});
