// `svc validate` of a tree with one agent, as a whole process, held against a process that does nothing.

import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fleet } from './fleet.ts';
import { type Bench, inTurns, ms, runProgram } from './harness.ts';

const MAIN = join(import.meta.dirname, '../svc/main.ts');

export const bench: Bench = {
  name: 'validate',
  title: 'svc validate of a one-agent tree, whole process',
  run: async (bench) => {
    const directory = await bench.directory();
    for (const [path, text] of fleet(1, 1)) {
      await mkdir(dirname(join(directory, path)), { recursive: true });
      await writeFile(join(directory, path), text);
    }
    const nothing = (): Promise<unknown> => runProgram(process.execPath, ['-e', '0']);
    const validate = (): Promise<unknown> => runProgram(process.execPath, [MAIN, 'validate', directory]);
    const [baseline = Number.NaN, subject = Number.NaN] = await inTurns(9, [nothing, validate]);
    bench.ratio('svc validate / node -e 0', ms(subject), ms(baseline), 10);
  },
};
