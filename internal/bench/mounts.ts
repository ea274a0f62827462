// Mounting a repository with 200,000 files into a sandbox: the first session's clone, and a later one's that goes on from
// the mirror and the spare work tree.

import { join } from 'node:path';
import { Mirrors, mountRepository, openSandboxes } from '../adapters/sandbox/sandbox.ts';
import { GitFixture, largeTree } from '../base/testkit/git-fixture.ts';
import { GitServer } from '../base/testkit/git-server.ts';
import { type Bench, medianMs } from './harness.ts';

const files = 200_000;
const path = process.env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin';
/** Each writes two million files and removes them again: what is cloned, its spares, and what two more sessions take. */
const rounds = 2;

export const bench: Bench = {
  name: 'mounts',
  title: `mounting a repository of ${files} files`,
  run: async (bench) => {
    const root = await bench.directory();
    const repo = await GitFixture.create(join(root, 'big.git'));
    await repo.commitMany(largeTree(files, 0));
    await repo.git(['repack', '-adqb', '--window=0', '--depth=0']);
    const server = await new GitServer({ root }).start();
    bench.atEnd(() => server.stop());
    const dataDir = await bench.directory();
    const { provider } = await openSandboxes({ dataDir, sandbox: 'process', host: { PATH: path } });
    bench.atEnd(() => provider.close());
    const kept = await Mirrors.open(dataDir, {
      maxBytes: 100e9,
      keepMs: 3_600_000,
      now: Date.now,
      onTrouble: (error) => {
        throw error;
      },
    });
    bench.atEnd(() => kept.close());
    const mount = async (id: string, scope: string): Promise<number> => {
      const sandbox = await provider.create({ id });
      const begun = performance.now();
      await mountRepository(
        sandbox,
        { url: server.url('big.git'), mountPath: '/workspace/big' },
        { allowPrivateNetwork: true, path: path, mirrors: { kept, scope } },
      );
      const took = performance.now() - begun;
      await kept.idle();
      await sandbox.destroy();
      return took;
    };
    const [first, again, changed]: [number[], number[], number[]] = [[], [], []];
    for (let round = 0; round < rounds; round += 1) {
      first.push(await mount(`first${round}`, `project ${round}`));
      again.push(await mount(`again${round}`, `project ${round}`));
      await repo.commit({ 'src/changed.txt': `${round}\n` });
      changed.push(await mount(`changed${round}`, `project ${round}`));
    }
    bench.ratio('second session / first', medianMs(again), medianMs(first), 0.1);
    bench.ratio('the same after a push / first', medianMs(changed), medianMs(first), 0.2);
  },
};
