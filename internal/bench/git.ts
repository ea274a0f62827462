// Reading `.svc/` of a repository with 200,000 files over smart HTTP, held against what native git does for the same
// end: a shallow clone, and a blobless clone with a sparse checkout. Peak memory is held against a repository of 50 files.

import { join } from 'node:path';
import { GitFixture, gitEnvironment, largeTree } from '../base/testkit/git-fixture.ts';
import { GitServer } from '../base/testkit/git-server.ts';
import { fleet } from './fleet.ts';
import type { ReadReport } from './git-read.ts';
import { type Bench, byteCount, median, medianMs, ms, runProgram } from './harness.ts';

const fileCount = 200_000;
/** 1,000 files under `.svc/`: agents, their shared fragments, one environment. */
const svc = fleet(979, 20);
const runs = 3;

export async function read(mode: 'sync' | 'poll', url: string): Promise<ReadReport> {
  const script = join(import.meta.dirname, 'git-read.ts');
  return JSON.parse((await runProgram(process.execPath, [script, mode, url])).stdout) as ReadReport;
}

async function makeRepositories(root: string): Promise<void> {
  const big = await GitFixture.create(join(root, 'big.git'));
  const files = function* (): Generator<readonly [string, string]> {
    yield* svc;
    yield* largeTree(fileCount - svc.size, 0);
  };
  await big.commitMany(files());
  // One pack with a bitmap, as a host keeps it: the server's own work should not decide the comparison.
  await big.git(['repack', '-adqb', '--window=0', '--depth=0']);
  const small = await GitFixture.create(join(root, 'small.git'));
  await small.commitMany([...fleet(20, 4), ...largeTree(25, 0)]);
}

interface Taken {
  readonly ms: number[];
  readonly bytes: number[];
  readonly kib: number[];
}
const taken = (): Taken => ({ ms: [], bytes: [], kib: [] });

export const bench: Bench = {
  name: 'git',
  title: `first sync of ${fileCount} files, ${svc.size} of them under .svc`,
  run: async (bench) => {
    const root = await bench.directory();
    await makeRepositories(root);
    const server = await new GitServer({ root }).start();
    bench.atEnd(() => server.stop());
    const url = server.url('big.git');
    const env = gitEnvironment();
    const target = join(root, 'clone');
    const measure = async (into: Taken, work: () => Promise<number>): Promise<void> => {
      server.log.length = 0;
      into.ms.push(await work());
      into.bytes.push(server.traffic().bytesDown);
      await bench.removed(target);
    };
    const git = async (...args: string[]): Promise<number> => (await runProgram('git', args, { env })).wallMs;
    const [ours, shallow, sparse, small] = [taken(), taken(), taken(), taken()];
    for (let turn = 0; turn < runs; turn += 1) {
      await measure(ours, async () => {
        const report = await read('sync', url);
        if (report.files !== svc.size) throw new Error(`${report.files} files were read, not ${svc.size}`);
        ours.kib.push(report.maxRssKiB);
        return report.wallMs;
      });
      small.kib.push((await read('sync', server.url('small.git'))).maxRssKiB);
      await measure(sparse, async () => {
        const cloned = await git('clone', '-q', '--filter=blob:none', '--sparse', url, target);
        return cloned + (await git('-C', target, 'sparse-checkout', 'set', '.svc'));
      });
    }
    // Once: its files take a minute to write and as long to remove, and the bound is far away.
    await measure(shallow, () => git('clone', '-q', '--depth', '1', url, target));
    const [our, blobless] = [ms(median(ours.ms)), medianMs(sparse.ms)];
    bench.ratio('wall / git clone --depth 1', our, medianMs(shallow.ms), 1 / 20);
    bench.ratio('wall / git clone --filter=blob:none, sparse', our, blobless, 1 / 3);
    bench.ratio('traffic / the same', byteCount(median(ours.bytes)), byteCount(median(sparse.bytes)), 1 / 15);
    const memory = byteCount(median(ours.kib) * 1024);
    bench.ratio('peak memory / a repository of 50 files', memory, byteCount(median(small.kib) * 1024), 1.1);
  },
};
