// What svcd.hostile-git.fuzz.test.ts has git servers send: repositories that git itself takes, and answers that no git makes.

import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';
import { encodePkt, flushPkt } from '../../internal/adapters/repo/protocol.ts';
import {
  entryHead,
  ofsDelta,
  packOf,
  refDelta,
  sizeBytes,
  wholeEntry,
} from '../../internal/adapters/repo/test-support.ts';
import { gitId } from '../../internal/base/hash.ts';
import type { FixtureFile, GitFixture } from '../../internal/base/testkit/git-fixture.ts';
import { mebibyte } from './hostile-testkit.ts';

/** How a server stands: with partial clones, without, or of a protocol before them. */
export type Age = 'new' | 'without filters' | 'old';

interface Pushed {
  readonly ages: readonly Age[];
  fill(repo: GitFixture): Promise<unknown>;
}

const agent = 'name: a\nharness: harness-a\nenvironment: {name: default, image: {kind: preset, name: base}}\n';
const fileOf = (at: number | string, content: FixtureFile): [string, FixtureFile] => [`.svc/files/f${at}`, content];
function* count<T>(most: number, make: (at: number) => T): Generator<T> {
  for (let at = 0; at < most; at += 1) yield make(at);
}
const every: readonly Age[] = ['new', 'without filters', 'old'];

/** Repositories as somebody may push them, up to the size of what is read, and beyond. */
export const pushedTrees: { readonly [what: string]: Pushed } = {
  'as many files of two mebibytes as are taken': {
    ages: every,
    fill: (repo) => repo.commitMany(count(31, (at) => fileOf(at, randomBytes(2 * mebibyte)))),
  },
  'files of two mebibytes that are nearly the same': {
    ages: every,
    async fill(repo) {
      const bytes = randomBytes(2 * mebibyte - 8);
      await repo.commitMany(count(31, (at) => fileOf(at, Buffer.concat([bytes, Buffer.from([at])]))));
      await repo.git(['repack', '-q', '-a', '-d', '-f', '--depth=50']);
    },
  },
  'a file of sixty mebibytes': {
    ages: every,
    fill: (repo) => repo.commitMany([fileOf('big', randomBytes(60 * mebibyte))]),
  },
  'a file of sixty mebibytes of nothing': {
    ages: every,
    fill: (repo) => repo.commitMany([fileOf('big', Buffer.alloc(60 * mebibyte))]),
  },
  'as many files as are taken': {
    ages: every,
    fill: (repo) => repo.commitMany(count(5_000, (at) => fileOf(at, `${at}\n`))),
  },
  'a hundred thousand small files': {
    ages: every,
    fill: (repo) => repo.commitMany(count(100_000, (at) => fileOf(at, `${at}\n`))),
  },
  'folders below folders': {
    ages: ['new', 'old'],
    fill: (repo) => repo.commit({ [`.svc/${'d/'.repeat(2_000)}f`]: 'x\n' }),
  },
  'names of four thousand characters': {
    ages: ['new', 'old'],
    fill: (repo) => repo.commitMany(count(2_000, (at) => fileOf(`${at}-${'n'.repeat(4_000)}`, 'x\n'))),
  },
  'very many names beside the agents': {
    ages: ['new', 'old'],
    fill: (repo) =>
      repo.commitMany([
        ['.svc/agents/a.yaml', agent],
        ...count(190_000, (at): [string, string] => [`beside-${at}`, 'x']),
      ]),
  },
  'very many refs': {
    ages: ['new', 'old'],
    async fill(repo) {
      const commit = await repo.commit({ '.svc/agents/a.yaml': agent });
      const lines = [...count(400_000, (at) => `${commit} refs/heads/b${String(at).padStart(7, '0')}\n`)];
      await writeFile(
        join(repo.dir, 'packed-refs'),
        `# pack-refs with: peeled fully-peeled sorted \n${lines.join('')}`,
      );
    },
  },
};

/** An answer to a fetch that carries this pack. */
export function fetchAnswer(pack: Buffer): Buffer {
  const frames: Buffer[] = [encodePkt('packfile\n')];
  for (let at = 0; at < pack.length; at += 60_000)
    frames.push(encodePkt(Buffer.concat([Buffer.from([1]), pack.subarray(at, at + 60_000)])));
  return Buffer.concat([...frames, flushPkt]);
}

const nothing = (bytes: number): Buffer => Buffer.alloc(bytes);
/** A recipe: sizes of what it begins with and of what it makes, and how often a step is done. */
const recipe = (base: number, result: number, step: readonly number[], times: number): Buffer =>
  Buffer.concat([sizeBytes(base), sizeBytes(result), Buffer.alloc(step.length * times, Buffer.from(step))]);
/** Copies 64 KiB from the beginning. */
const copy64k = [0x80];

/** Entries of a pack that build upon each other, each on the one before. */
function chainOf(base: Buffer, deltas: readonly Buffer[]): Buffer[] {
  const entries = [base];
  for (const delta of deltas) entries.push(ofsDelta((entries.at(-1) as Buffer).length, delta));
  return entries;
}

/** Each on the one that comes behind it, by its id. */
function backwards(): Buffer[] {
  const chains: Buffer[] = [];
  for (let chain = 0; chain < 390; chain += 1) {
    let bytes = Buffer.from(`${chain}`);
    const entries = [wholeEntry('blob', bytes)];
    for (let at = 0; at < 50; at += 1) {
      const more = Buffer.from(`-${at}`);
      const insert = Buffer.concat([sizeBytes(bytes.length), sizeBytes(bytes.length + more.length)]);
      const copied = Buffer.from([0x90, bytes.length, more.length]);
      entries.unshift(refDelta(gitId('blob', bytes), Buffer.concat([insert, copied, more])));
      bytes = Buffer.concat([bytes, more]);
    }
    chains.push(...entries);
  }
  return chains;
}

const mebibytes = (many: number): number => many * mebibyte;
const steps64k = (bytes: number): number => bytes / 65_536;
const largeTree = (bytes: number): Buffer => {
  const entry = (at: number): string => `100644 ${String(at).padStart(7, '0')}\0${'i'.repeat(20)}`;
  return Buffer.from([...count(Math.floor(bytes / entry(0).length), entry)].join(''));
};

interface Bomb {
  readonly ages: readonly Age[];
  pack(): Buffer;
}

/** Packs that a server sends in place of what it was asked for. */
export const bombs: { readonly [what: string]: Bomb } = {
  'a file that says it has half a gigabyte': {
    ages: every,
    pack: () => packOf([wholeEntry('blob', nothing(4_096), mebibytes(512))]),
  },
  'a file that has more than it says': {
    ages: every,
    pack: () => packOf([wholeEntry('blob', nothing(mebibytes(200)), 9)]),
  },
  'a recipe of half a gigabyte': {
    ages: every,
    pack: () => {
      const small = wholeEntry('blob', nothing(20));
      return packOf([small, ofsDelta(small.length, recipe(20, mebibytes(512), [0xf0, 255, 255, 255], 1))]);
    },
  },
  'four thousand million objects': { ages: every, pack: () => packOf([wholeEntry('blob', nothing(1))], 4_000_000_000) },
  'as many bytes as are taken': {
    ages: every,
    pack: () => packOf([...count(31, () => wholeEntry('blob', randomBytes(2 * mebibyte)))]),
  },
  'as many recipes as are taken, each of a whole file': {
    ages: every,
    pack: () => {
      const base = wholeEntry('blob', nothing(2 * mebibyte));
      const one = recipe(2 * mebibyte, 2 * mebibyte, copy64k, steps64k(2 * mebibyte));
      return packOf(chainOf(base, [...count(29, () => one)]));
    },
  },
  'recipes of single bytes that are copied': {
    ages: every,
    pack: () => {
      const base = wholeEntry('tree', nothing(8));
      return packOf(
        chainOf(base, [recipe(8, 4_000_000, [0x90, 1], 4_000_000), recipe(4_000_000, 4_000_000, [0x90, 1], 4_000_000)]),
      );
    },
  },
  'recipes of single bytes that are put in': {
    ages: every,
    pack: () => packOf(chainOf(wholeEntry('tree', nothing(8)), [recipe(8, 4_000_000, [1, 7], 4_000_000)])),
  },
  'a chain of recipes of sixteen mebibytes': {
    ages: ['without filters', 'old'],
    pack: () => {
      const base = wholeEntry('tree', nothing(8 * mebibyte));
      const first = recipe(8 * mebibyte, 16 * mebibyte, copy64k, steps64k(16 * mebibyte));
      const next = recipe(16 * mebibyte, 16 * mebibyte, copy64k, steps64k(16 * mebibyte));
      return packOf(chainOf(base, [first, ...count(49, () => next)]));
    },
  },
  'as many objects as are taken': {
    ages: every,
    pack: () => packOf([...count(20_000, (at) => wholeEntry('blob', Buffer.from(`${at}`)))]),
  },
  'recipes that stand before what they are made of': { ages: every, pack: () => packOf(backwards()) },
  'trees of as many bytes as are taken': {
    ages: every,
    pack: () => packOf([...count(7, () => wholeEntry('tree', largeTree(mebibytes(8) - 100)))]),
  },
  'very many small trees': {
    ages: ['without filters', 'old'],
    // Without compression, which would take longest here, and in rooms of its size: what is made in larger ones keeps them all.
    pack: () => {
      const tree = (at: number): Buffer => {
        const bytes = Buffer.from(`100644 ${at}\0${'i'.repeat(20)}`, 'latin1');
        return Buffer.concat([entryHead(2, bytes.length), deflateSync(bytes, { level: 0, chunkSize: 64 })]);
      };
      return packOf([...count(1_000_000, tree)]);
    },
  },
  'what is no pack': { ages: every, pack: () => randomBytes(60 * mebibyte) },
};

/** Answers to a fetch, or to the question for refs, that end nowhere. */
export const answers: { readonly [what: string]: () => Buffer } = {
  'sixty mebibytes of progress': () =>
    Buffer.concat([
      encodePkt('packfile\n'),
      ...count(1_000, () => encodePkt(Buffer.concat([Buffer.from([2]), Buffer.alloc(60_000, 46)]))),
    ]),
  'lines of one byte each': () => Buffer.alloc(5 * 6_000_000, '0005a'),
  'lines of nothing': () => Buffer.alloc(4 * 8_000_000, '0004'),
  'ends of nothing': () => Buffer.alloc(4 * 8_000_000, '0000'),
  'refs without an end': () =>
    Buffer.alloc(64 * mebibyte, encodePkt(`${'a'.repeat(40)} refs/heads/${'x'.repeat(200)}\n`)),
  'a ref of the longest line': () =>
    Buffer.alloc(32 * mebibyte, encodePkt(`${'a'.repeat(40)} refs/heads/${'x'.repeat(65_000)}\n`)),
};
