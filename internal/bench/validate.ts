// `svc validate` of a tree with one agent, as a whole process, held against a process that does nothing: as it runs every
// time, and as it runs once on a machine that has nothing cached.

import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fleet } from './fleet.ts';
import { type Bench, inTurns, nothing, runProgram } from './harness.ts';

const main = join(import.meta.dirname, '../../cmd/svc/main.mjs');

export const bench: Bench = {
  name: 'validate',
  title: 'svc validate of a one-agent tree, whole process',
  run: async (bench) => {
    const directory = await bench.directory();
    for (const [path, text] of fleet(1, 1)) {
      await mkdir(dirname(join(directory, path)), { recursive: true });
      await writeFile(join(directory, path), text);
    }
    const bare = (): Promise<unknown> => runProgram(process.execPath, ['-e', '0']);
    const validate = (): Promise<unknown> => runProgram(process.execPath, [main, 'validate', directory]);
    const caches = await bench.directory();
    let turn = 0;
    const cold = (): Promise<unknown> => {
      turn += 1;
      const env = { NODE_COMPILE_CACHE: join(caches, String(turn)) };
      return runProgram(process.execPath, [main, 'validate', directory], { env });
    };
    const [baseline = nothing, warm = nothing, first = nothing] = await inTurns(9, [bare, validate, cold]);
    bench.ratio('svc validate / node -e 0', warm, baseline, 10);
    // Once for an installation, unless `scripts/setup` has been there: every source is stripped of its types then.
    bench.ratio('the same, nothing cached', first, baseline, 10);
  },
};
