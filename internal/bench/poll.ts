// What a repository costs while nothing happens: a poll without change, and a commit that touches nothing relevant.

import { join } from 'node:path';
import { openRepository } from '../adapters/repo/repo.ts';
import { GitFixture, gitEnvironment, largeTree } from '../base/testkit/git-fixture.ts';
import { GitServer } from '../base/testkit/git-server.ts';
import { fleet } from './fleet.ts';
import { read } from './git.ts';
import { type Bench, ms, runProgram } from './harness.ts';

const refCount = 10_000;
const looks = 10;

export const bench: Bench = {
  name: 'poll',
  title: `a poll without change, ${refCount} refs; and an irrelevant commit`,
  run: async (bench) => {
    const root = await bench.directory();
    const repository = await GitFixture.create(join(root, 'app.git'));
    const commit = await repository.commitMany([...fleet(20, 4), ...largeTree(5_000, 0)]);
    const refs = Array.from({ length: refCount }, (_, index) => `create refs/tags/v${index} ${commit}\n`);
    await repository.git(['update-ref', '--stdin'], refs.join(''));
    await repository.git(['pack-refs', '--all']);
    const server = await new GitServer({ root }).start();
    bench.atEnd(() => server.stop());
    const url = server.url('app.git');

    const source = openRepository(
      { kind: 'remote', url, root: '' },
      { now: () => new Date(), network: { allowPrivate: true } },
    );
    bench.atEnd(() => source.close());
    const first = await source.snapshot(await source.resolve());
    server.log.length = 0;
    await source.resolve();
    bench.atMost('poll without change: requests', server.log.length, 1, 'requests');
    bench.atMost('poll without change: bytes down', server.traffic().bytesDown, 200, 'bytes');

    await repository.commit({ 'src/other.txt': 'changed\n' });
    server.log.length = 0;
    const second = await source.snapshot(await source.resolve(), { prior: first.record });
    if (!second.unchanged || second.bundle !== null) throw new Error('the irrelevant commit was taken for a change');
    bench.atMost('irrelevant commit: requests', server.log.length, 2, 'requests');
    bench.atMost('irrelevant commit: bytes down', server.traffic().bytesDown, 4_096, 'bytes');

    const ours = await read('poll', url);
    // The shell's clock counts in hundredths of a second: ask it for several at once.
    const loop = `i=0; while [ $i -lt ${looks} ]; do git ls-remote '${url}' >/dev/null || exit 1; i=$((i+1)); done`;
    const native = await runProgram('/bin/sh', ['-c', loop], { env: gitEnvironment() });
    bench.ratio('processor time of a poll / git ls-remote', ms(ours.cpuMs), ms(native.cpuMs / looks), 1 / 10);
  },
};
