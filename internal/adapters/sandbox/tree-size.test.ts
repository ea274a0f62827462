import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { type FixtureFile, GitFixture } from '../../base/testkit/git-fixture.ts';
import { runGit } from './git-program.ts';
import { repeatedTree, temporary, testPath } from './test-support.ts';
import { type Git, treeDifference } from './tree-difference.ts';
import { treeSize, type TreeSize } from './tree-size.ts';

type Check = Parameters<typeof treeSize>[3];
const unbounded: Check = () => undefined;

/** A repository, and `measure`, which also tells the git programs that it took. */
async function setUp(t: Parameters<typeof temporary>[0]) {
  const repo = await GitFixture.create(join(temporary(t), 'a.git'));
  const { signal } = new AbortController();
  const measure = async (commit: string, known: (TreeSize & { commit: string }) | null = null, check = unbounded) => {
    const programs: string[] = [];
    const git: Git = (run) => {
      programs.push(run.args[0] ?? '');
      return runGit('git', testPath, { ...run, cwd: repo.dir, signal });
    };
    const difference = known === null ? null : await treeDifference(git, known.commit, commit);
    const from = known === null || difference === null ? null : { size: known, difference };
    const size = await treeSize(git, commit, from, check);
    if ('failed' in size) assert.fail(size.failed.stderr);
    return { size, known: { commit, ...size }, programs, paths: difference?.paths?.toSorted() ?? null };
  };
  return { repo, measure };
}

const submodule = 'b'.repeat(40);
const id = 'a'.repeat(40);
type Files = Readonly<Record<string, FixtureFile>>;
/** `paths`: of what differs; null where it is more than files and links that stay such. */
const changes: readonly (readonly [what: string, files: Files, paths: readonly string[] | null])[] = [
  ['nothing', {}, []],
  ['one comes', { 'new/deep/er.txt': 'n'.repeat(4_321) }, ['new/deep/er.txt']],
  ['one goes', { 'a/one.txt': null }, ['a/one.txt']],
  [
    'one changes, one comes, one goes',
    { 'a/two.txt': 'x', 'c.txt': 'y'.repeat(77), 'b/three.txt': null },
    ['a/two.txt', 'b/three.txt', 'c.txt'],
  ],
  ['only its mode', { 'a/one.txt': { executable: 'one' } }, ['a/one.txt']],
  ['a file becomes a link', { 'a/one.txt': { symlink: '../b/three.txt' } }, ['a/one.txt']],
  ['a file becomes another repository', { 'a/one.txt': { submodule } }, null],
  ['a directory becomes a file', { a: 'no directory any more' }, null],
  ['a file becomes a directory', { 'b/three.txt': null, 'b/three.txt/x': 'x' }, null],
  ['the same content three times', { x: 'same', y: 'same', z: 'same' }, ['x', 'y', 'z']],
  ['how files are written', { 'a/.gitattributes': '*.txt eol=crlf\n' }, ['a/.gitattributes']],
  [
    'a path like an entry',
    { [`:100644 100644 ${id} ${id} M`]: 'z'.repeat(9_999), 'a/one.txt': 'o' },
    [`:100644 100644 ${id} ${id} M`, 'a/one.txt'],
  ],
  [
    'a path with a line break and letters of others',
    { 'ä\n:ü/ß': 'ss'.repeat(3) },
    [Buffer.from('ä\n:ü/ß').toString('latin1')],
  ],
  ['all of it', { a: null, b: null, only: 'one' }, ['a/one.txt', 'a/two.txt', 'b/three.txt', 'only']],
];
for (const [what, files, paths] of changes)
  test(`what differs says how large the next tree is: ${what}`, async (t) => {
    const { repo, measure } = await setUp(t);
    const first = await repo.commit({ 'a/one.txt': 'one', 'a/two.txt': 'two'.repeat(99), 'b/three.txt': 'three' });
    const { known } = await measure(first);
    const next = await repo.commit(files);
    const whole = await measure(next);
    assert.deepEqual(whole.programs, ['ls-tree']);
    const byDifference = await measure(next, known);
    assert.deepEqual([byDifference.size, byDifference.paths], [whole.size, paths]);
    assert.ok(!byDifference.programs.includes('ls-tree'));
    // And back, as by a push by force.
    assert.deepEqual((await measure(first, whole.known)).known, known);
  });

test('a directory whose mode old tools wrote is one', async (t) => {
  const { repo, measure } = await setUp(t);
  const { known } = await measure(await repo.commit({ 'd/a.txt': 'a', 'd/b.txt': 'bb' }));
  const inner = await repo.git(['rev-parse', 'main:d']);
  const tree = await repo.writeObject(
    'tree',
    Buffer.concat(
      ['e', 'f'].map((name) =>
        Buffer.from(`040000 ${name}\0${Buffer.from(inner, 'hex').toString('latin1')}`, 'latin1'),
      ),
    ),
  );
  const next = await measure(await repo.commitTree(tree), known);
  assert.deepEqual([next.size, next.programs], [{ files: 4, bytes: 6 }, ['cat-file', 'cat-file', 'cat-file']]);
});

test('what differs is held against the limits too', async (t) => {
  const { repo, measure } = await setUp(t);
  const { known } = await measure(await repo.commit({ 'a.txt': 'a' }));
  const next = await repo.commit({ 'b.txt': 'b'.repeat(100) });
  const seen: unknown[] = [];
  await measure(next, known, (soFar) => void seen.push(soFar));
  assert.deepEqual(seen, [{ files: 2, bytes: 101, longestPath: 0 }]);
  const limit = new Error('too much');
  await assert.rejects(
    measure(next, known, () => {
      throw limit;
    }),
    limit,
  );
});

test('a tree of itself many times over, behind one that is known, ends at the limit', async (t) => {
  const { repo, measure } = await setUp(t);
  const { known } = await measure(await repo.commit({ 'a.txt': 'a' }));
  const limit = new Error('too many');
  const check: Check = ({ files }) => {
    if (files > 50_000) throw limit;
  };
  await assert.rejects(measure(await repo.commitTree(await repeatedTree(repo, 12)), known, check), limit);
});

test('one large directory in hundreds of places, with one change, is not compared in each of them', async (t) => {
  const { repo, measure } = await setUp(t);
  const blob = await repo.writeObject('blob', Buffer.from('b'));
  const tree = (mode: string, names: readonly string[], id: string): Promise<string> =>
    repo.writeObject(
      'tree',
      Buffer.concat(
        names.toSorted().map((name) => Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, 'hex')])),
      ),
    );
  const names = Array.from({ length: 500 }, (_, n) => `n${n}`);
  const of = async (more: readonly string[]): Promise<string> =>
    repo.commitTree(await tree('40000', names, await tree('100644', [...names, ...more], blob)));
  const before = await of([]);
  const files = 500 * 500;
  const next = await measure(await of(['new']), { commit: before, files, bytes: files });
  assert.deepEqual(next.size, { files: files + 500, bytes: files + 500 });
  assert.equal(next.programs.at(-1), 'ls-tree');
});

test('the whole tree is read where the other one is not there, or much differs', async (t) => {
  const { repo, measure } = await setUp(t);
  const first = await repo.commit({ 'a.txt': 'a' });
  const gone = await measure(first, { commit: 'c'.repeat(40), files: 7, bytes: 7 });
  assert.deepEqual([gone.size, gone.programs], [{ files: 1, bytes: 1 }, ['cat-file', 'ls-tree']]);
  const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`f${n}`, 'b']));
  const next = await measure(await repo.commit(many), gone.known);
  assert.deepEqual([next.size, next.programs], [{ files: 10_002, bytes: 10_002 }, ['cat-file', 'ls-tree']]);
});
