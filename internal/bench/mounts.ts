// Mounting a repository with 200,000 files into a sandbox: the first session's clone, and a later one's that goes on from
// the mirror and the spare work tree. In memory where that has room: on a disk the time of the first is what its journal
// takes for so many files, which makes the share smaller, and each round minutes long.

import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { Mirrors, mountRepository, openSandboxes } from '../adapters/sandbox/sandbox.ts';
import { GitFixture } from '../base/testkit/git-fixture.ts';
import { GitServer } from '../base/testkit/git-server.ts';
import { type Bench, medianMs } from './harness.ts';

const files = 200_000;
/** Of one directory, as in large repositories. */
const filesEach = 20;
const path = process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
/** Each writes 600,000 files and removes them again: what is cloned, and two spares, which two more sessions take. */
const rounds = 2;
const neededBytes = 8 * 1024 ** 3;

function* tree(): Generator<readonly [string, string]> {
  for (let index = 0; index < files; index += 1) {
    const directory = index % (files / filesEach);
    const text = `${(index * 2_654_435_761) >>> 0} `.repeat(40);
    yield [`src/d${directory % 100}/e${Math.floor(directory / 100)}/file-${index}.txt`, `file ${index}\n${text}\n`];
  }
}

export const bench: Bench = {
  name: 'mounts',
  title: `mounting a repository of ${files} files`,
  run: async (bench) => {
    const root = await bench.directory();
    const repo = await GitFixture.create(join(root, 'big.git'));
    await repo.commitMany(tree());
    await repo.git(['repack', '-adqb', '--window=0', '--depth=0']);
    const server = await new GitServer({ root }).start();
    bench.atEnd(() => server.stop());
    const [first, again, changed]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < rounds; round += 1) {
      const dataDir = await bench.directory({ inMemoryBytes: neededBytes });
      const { provider } = await openSandboxes({ dataDir, sandbox: 'process', host: { PATH: path } });
      const kept = await Mirrors.open(dataDir, {
        maxBytes: 100e9,
        keepMs: 3_600_000,
        now: Date.now,
        onTrouble: (error) => {
          throw error;
        },
      });
      const mount = async (id: string): Promise<number> => {
        const sandbox = await provider.create({ id });
        const begun = performance.now();
        const { path: at } = await mountRepository(
          sandbox,
          { url: server.url('big.git'), mountPath: '/workspace/big' },
          { allowPrivateNetwork: true, path: path, mirrors: { kept, scope: 'a project' } },
        );
        const took = performance.now() - begun;
        await access(join(at, `src/d99/e99/file-${files - 1}.txt`));
        return took;
      };
      try {
        first.push(await mount('first'));
        await kept.idle();
        again.push(await mount('again'));
        await kept.idle();
        await repo.commit({ 'src/changed.txt': `${round}\n` });
        changed.push(await mount('changed'));
      } finally {
        await kept.close();
        await provider.close();
      }
      await bench.removed(dataDir);
    }
    bench.ratio('second session / first', medianMs(again), medianMs(first), 0.1);
    bench.ratio('the same after a push / first', medianMs(changed), medianMs(first), 0.2);
  },
};
