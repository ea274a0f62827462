// Repositories of git below the roots that may be read, whose files stand elsewhere: whoever may write below a root must not
// read through it what lies beside it.

import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { GitFixture } from '../../base/testkit/git-fixture.ts';
import { agentFile, agentNames, type Bench, settled, startBench, word } from '../sync/sync-testkit.ts';

let root: string;
let bench: Bench;
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'svc-roots-'));
  bench = await startBench({ config: { file: { sources: { folders: [join(root, 'allowed')] } } } });
});
after(async () => {
  await bench.stop();
  await rm(root, { recursive: true, force: true });
});

/** What becomes of a repository below the root that is followed on its branch. */
async function followed(name: string): Promise<string> {
  const body = { name, path: join(root, 'allowed', name), branch: 'main', intervalSeconds: 3600 };
  const added = await bench.daemon.api('POST', 'P/repositories', body);
  assert.equal(added.status, 201, JSON.stringify(added.body));
  const run = await settled(bench.daemon, name);
  return [run['status'], ...(run['condition'] === undefined ? [] : [run['condition']])].map(word).join(' ');
}

it('a repository below a root is read, and none through what leads out of it', async () => {
  const at = (...parts: string[]): string => join(root, ...parts);
  const beside = await GitFixture.create(at('beside.git'));
  await beside.commit({ '.svc/agents/a.yaml': agentFile('beside') });
  const inside = await GitFixture.create(at('allowed/inside'));
  await inside.commit({ '.svc/agents/a.yaml': agentFile('inside') });
  const ways: { readonly [name: string]: (path: string) => Promise<unknown> } = {
    pointer: (path) => writeFile(join(path, '.git'), `gitdir: ${beside.dir}\n`),
    link: (path) => symlink(beside.dir, join(path, '.git')),
    common: async (path) => {
      await mkdir(join(path, '.git'));
      await writeFile(join(path, '.git/commondir'), `${beside.dir}\n`);
    },
    branch: async (path) => {
      await cp(beside.dir, path, { recursive: true });
      await rm(join(path, 'refs/heads/main'));
      await symlink(join(beside.dir, 'refs/heads/main'), join(path, 'refs/heads/main'));
    },
    parts: async (path) => {
      await cp(beside.dir, path, { recursive: true });
      for (const part of ['objects', 'refs']) {
        await rm(join(path, part), { recursive: true });
        await symlink(join(beside.dir, part), join(path, part));
      }
    },
  };
  for (const [name, make] of Object.entries(ways)) {
    await mkdir(at('allowed', name));
    await make(at('allowed', name));
    assert.equal(await followed(name), 'failed hostile', name);
  }
  assert.equal(await followed('inside'), 'applied');
  assert.deepEqual(await agentNames(bench.daemon), ['inside']);
});
