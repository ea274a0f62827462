// What every bench is made of: runs interleaved with their baseline in one process run, medians, and a table in which a
// bound that is missed makes the whole program fail. Ratios only: times of one machine mean nothing on another.

import { spawn } from 'node:child_process';
import { mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export interface Row {
  readonly what: string;
  /** As printed: what was measured, and what it is held against. */
  readonly subject: string;
  readonly baseline: string;
  readonly value: number;
  /** `value` may be at most this. */
  readonly bound: number;
  /** Of two measurements; else `subject` and `baseline` say all. */
  readonly isRatio: boolean;
  /** The baseline's own runs differed by so much that the ratio says nothing. */
  readonly isNoisy: boolean;
  /** Why it was not measured here; nothing is held against its bound. */
  readonly skipped?: string;
}
export interface Bench {
  readonly name: string;
  readonly title: string;
  run(bench: Bencher): Promise<void>;
}
export interface Bencher {
  /** Holds a ratio against its bound. */
  ratio(what: string, subject: Amount, baseline: Amount, bound: number): void;
  /** Holds a count or a size against its bound: no time, which would say something of one machine alone. */
  atMost(what: string, value: number, bound: number, unit: string): void;
  /** A row that cannot be measured on this machine, and why. */
  skipped(what: string, why: string): void;
  /** A directory that is removed at the end; in memory where the machine has a place there with so much room. */
  directory(options?: { readonly inMemoryBytes: number }): Promise<string>;
  /** Removes a directory and what is in it; a program does it, since files may be a million. */
  removed(directory: string): Promise<void>;
  /** Runs at the end, last first, also after a failure. */
  atEnd(work: () => Promise<void> | void): void;
}
export interface Amount {
  readonly value: number;
  readonly unit: 'ms' | 'bytes' | 'statements';
  /** Those that it is the median of. */
  readonly runs?: readonly number[];
}

export const ms = (value: number): Amount => ({ value, unit: 'ms' });
/** The median of several runs, which also tells whether they agree. */
export const medianMs = (runs: readonly number[]): Amount => ({ value: median(runs), unit: 'ms', runs });
/** The median of many samples in the order of their taking; the medians of the four quarters tell whether all was the same. */
export const steadyMs = (samples: readonly number[], of = median): Amount => ({
  value: of(samples),
  unit: 'ms',
  runs: [0, 1, 2, 3].map((n) => of(samples.slice((n * samples.length) / 4, ((n + 1) * samples.length) / 4))),
});
/** A duration that nobody measured, such as that of a watch, with the agreement of what was measured in the same run. */
export const heldAgainst = (value: number, { value: of, runs = [] }: Amount): Amount => ({
  ...{ value, unit: 'ms', runs: runs.map((run) => (run / of) * value) },
});
export const byteCount = (value: number): Amount => ({ value, unit: 'bytes' });

function print({ value, unit }: Amount): string {
  if (unit === 'ms') return value < 10 ? `${value.toFixed(2)} ms` : `${value.toFixed(0)} ms`;
  if (unit === 'statements') return `${value} statements`;
  if (value < 10_000) return `${value.toFixed(0)} B`;
  return value < 10_000_000 ? `${(value / 1024).toFixed(0)} KiB` : `${(value / 1024 / 1024).toFixed(0)} MiB`;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** What this process holds after everything that can go is gone. */
export function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** A baseline that differs by more, from its quickest run to its slowest, measures something else besides. */
const noisyFrom = 0.2;

function spread({ value, runs = [] }: Amount): number {
  return runs.length < 2 ? 0 : (Math.max(...runs) - Math.min(...runs)) / value;
}

/** Wall time of one run, in milliseconds. */
export async function timed(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Medians of `runs` turns in which each of `works` runs once; a first turn warms everything up and is not counted. */
export async function inTurns(runs: number, works: readonly (() => unknown)[], warmUp = true): Promise<Amount[]> {
  const times: number[][] = works.map(() => []);
  for (let turn = warmUp ? -1 : 0; turn < runs; turn += 1) {
    for (const [index, work] of works.entries()) {
      const took = await timed(work);
      if (turn >= 0) times[index]?.push(took);
    }
  }
  return times.map(medianMs);
}

/** Stands for a measurement that was not made: a row with it is a miss. */
export const nothing: Amount = { value: Number.NaN, unit: 'ms' };

export interface ChildResult {
  readonly wallMs: number;
  /** User and system time of the program and of what it started. */
  readonly cpuMs: number;
  readonly stdout: string;
}

/** Runs a program to its end; throws with what it said when it fails. Processor time comes from the shell's `times`. */
export async function runProgram(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv; readonly stdin?: NodeJS.ReadableStream } = {},
): Promise<ChildResult> {
  const start = performance.now();
  const child = spawn('/bin/sh', ['-c', '"$@"; code=$?; echo; times; exit $code', 'sh', program, ...args], {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  if (options.stdin === undefined) child.stdin.end();
  else options.stdin.pipe(child.stdin);
  const code = await new Promise<number | null>((resolve, reject) => child.on('error', reject).on('close', resolve));
  const wallMs = performance.now() - start;
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}: ${stderr.slice(-2_000)}`);
  const cut = stdout.trimEnd().split('\n').slice(-2);
  const cpuMs = [...cut.join(' ').matchAll(/(\d+)m([\d.]+)s/g)]
    .map((match) => Number(match[1]) * 60_000 + Number(match[2]) * 1_000)
    .reduce((sum, part) => sum + part, 0);
  return { wallMs, cpuMs, stdout: stdout.trimEnd().split('\n').slice(0, -2).join('\n') };
}

const removed = async (directory: string): Promise<void> => void (await runProgram('rm', ['-rf', directory]));

const memory = '/dev/shm';
async function roomFor(bytes: number): Promise<string> {
  const place = await statfs(memory).catch(() => null);
  return place !== null && place.bavail * place.bsize > bytes ? memory : tmpdir();
}

/** Runs one bench; returns its rows. A failure is thrown after everything it started has ended. */
export async function runBench(bench: Bench): Promise<Row[]> {
  const rows: Row[] = [];
  const endings: (() => Promise<void> | void)[] = [];
  const bencher: Bencher = {
    ratio: (what, subject, baseline, bound) =>
      rows.push({
        what,
        subject: print(subject),
        baseline: print(baseline),
        value: subject.value / baseline.value,
        bound,
        isRatio: true,
        isNoisy: spread(baseline) > noisyFrom,
      }),
    atMost: (what, value, bound, unit) =>
      rows.push({
        what,
        subject: `${Number(value.toPrecision(4))} ${unit}`,
        baseline: `at most ${bound} ${unit}`,
        value,
        bound,
        isRatio: false,
        isNoisy: false,
      }),
    skipped: (what, why) => {
      rows.push({ what, subject: '', baseline: '', value: 0, bound: 0, isRatio: false, isNoisy: false, skipped: why });
    },
    directory: async ({ inMemoryBytes } = { inMemoryBytes: Infinity }) => {
      const directory = await mkdtemp(join(await roomFor(inMemoryBytes), 'svc-bench-'));
      endings.push(() => removed(directory));
      return directory;
    },
    removed,
    atEnd: (work) => endings.push(work),
  };
  try {
    await bench.run(bencher);
  } finally {
    for (const ending of endings.reverse()) await ending();
  }
  return rows;
}

/** True when the bound is kept, or nothing can be said; a measurement that is no number is a miss. */
export const isKept = (row: Row): boolean => row.value <= row.bound || (row.isNoisy && !Number.isNaN(row.value));

const verdict = (row: Row): string => (row.value <= row.bound ? 'ok  ' : isKept(row) ? 'noisy' : 'MISS');

/** The table of one bench, one line a row. */
export function printRows(title: string, rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.skipped === undefined ? verdict(row) : `skipped: ${row.skipped}`,
    row.what,
    row.subject,
    row.baseline,
    row.isRatio ? `${row.value.toPrecision(3)} (bound ${Number(row.bound.toPrecision(3))})` : '',
  ]);
  const widths = [0, 1, 2, 3].map((column) => Math.max(...cells.map((line) => line[column]?.length ?? 0)));
  const lines = cells.map((line) => `  ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`);
  return [title, ...lines.map((line) => line.trimEnd())].join('\n');
}
