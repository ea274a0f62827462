// Reads one repository in a process of its own and says what that took: `node git-read.ts sync|poll URL`. The bench
// starts it, so that memory and processor time are the reader's alone, not the server's.

import { openRepository } from '../adapters/repo/repo.ts';

export interface ReadReport {
  /** From opening to the last byte checked, without the start of the process. */
  readonly wallMs: number;
  /** User and system time of one operation. */
  readonly cpuMs: number;
  readonly maxRssKiB: number;
  readonly files: number;
}

const warmUp = 20;
const polls = 100;

const [mode, url] = process.argv.slice(2);
if (url === undefined || (mode !== 'sync' && mode !== 'poll')) throw new Error('usage: git-read.ts sync|poll URL');
const source = openRepository(
  { kind: 'remote', url, root: '' },
  { now: () => new Date(), network: { allowPrivate: true } },
);
let files = 0;
if (mode === 'poll') for (let turn = 0; turn < warmUp; turn += 1) await source.resolve();
const start = performance.now();
const used = process.cpuUsage();
const turns = mode === 'poll' ? polls : 1;
if (mode === 'poll') for (let turn = 0; turn < polls; turn += 1) await source.resolve();
else files = (await source.snapshot(await source.resolve())).bundle?.entries.size ?? 0;
const { user, system } = process.cpuUsage(used);
const report: ReadReport = {
  wallMs: (performance.now() - start) / turns,
  cpuMs: (user + system) / 1_000 / turns,
  maxRssKiB: process.resourceUsage().maxRSS,
  files,
};
console.log(JSON.stringify(report));
await source.close();
