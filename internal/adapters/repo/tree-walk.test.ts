import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitId } from '../../base/hash.ts';
import fc from 'fast-check';
import { nameFault, rebuildTrees, walkTree } from './tree-walk.ts';
import { buildTree, commitAbout, compareTreeNames, findInTree, parseCommit, parseTree } from './objects.ts';
import { condition } from './test-support.ts';
import { defaultCaps, type SnapshotEntry } from './types.ts';

const blob = 'b'.repeat(40);

/** A tree of raw names and modes, in the order given. */
function raw(...entries: (readonly [string, string | Buffer, string?])[]): Buffer {
  return Buffer.concat(
    entries.flatMap(([mode, name, oid]) => [
      Buffer.from(`${mode} `),
      Buffer.from(name as string),
      Buffer.from([0]),
      Buffer.from(oid ?? blob, 'hex'),
    ]),
  );
}

function walk(tree: Buffer, more: ReadonlyMap<string, Buffer> = new Map()) {
  const oid = gitId('tree', tree);
  return walkTree(oid, '.svc', (wanted) => (wanted === oid ? tree : more.get(wanted)), defaultCaps);
}

const refused: readonly (readonly [string, Buffer])[] = [
  ['..', raw(['100644', '..'])],
  ['.', raw(['100644', '.'])],
  ['an empty name', raw(['100644', ''])],
  ['a slash', raw(['100644', 'a/b'])],
  ['a backslash', raw(['100644', 'a\\b.yaml'])],
  ['an escape character', raw(['100644', 'a\u001b[31m'])],
  ['a line feed', raw(['100644', 'a\nb'])],
  ['a C1 control', raw(['100644', 'a\u0085b'])],
  ['a bidi override', raw(['100644', 'a\u202eb'])],
  ['invalid UTF-8', raw(['100644', Buffer.from([0x61, 0xff])])],
  ['.git', raw(['40000', '.git'])],
  ['.GIT', raw(['40000', '.GIT'])],
  ['.git with a zero-width joiner', raw(['40000', '.g\u200dit'])],
  ['git~1', raw(['40000', 'git~1'])],
  ['the same name twice', raw(['100644', 'a'], ['100644', 'a'])],
  ['a file and a directory of one name', raw(['100644', 'a'], ['100644', 'a.b'], ['40000', 'a'])],
  ['names out of order', raw(['100644', 'b'], ['100644', 'a'])],
  ['an unknown mode', raw(['100600', 'a'])],
  ['a mode of a device', raw(['020000', 'a'])],
];
for (const [what, tree] of refused) {
  test(`a tree with ${what} is hostile`, () => {
    assert.throws(() => walk(tree), condition('hostile'));
  });
}

for (const [what, bytes] of [
  ['half an id', raw(['100644', 'a']).subarray(0, -3)],
  ['no name', Buffer.from('100644')],
  ['a mode of letters', Buffer.concat([Buffer.from('1x0644 a\0'), Buffer.alloc(20)])],
] as const) {
  test(`a tree with ${what} is corrupt`, () => {
    assert.throws(() => walk(bytes), condition('corrupt'));
  });
}

test('files, executables, old modes, links and submodules are told apart', () => {
  const inner = raw(['100644', 'x.yaml']);
  const inside = gitId('tree', inner);
  const tree = raw(['100755', 'a'], ['100664', 'b'], ['120000', 'c'], ['040000', 'd', inside], ['160000', 'e']);
  const { files, findings, missing } = walk(tree, new Map([[inside, inner]]));
  assert.deepEqual(files, [
    { path: '.svc/a', kind: 'file', oid: blob, mode: '100755' },
    { path: '.svc/b', kind: 'file', oid: blob, mode: '100664' },
    { path: '.svc/c', kind: 'symlink', oid: blob },
    { path: '.svc/d/x.yaml', kind: 'file', oid: blob },
    { path: '.svc/e', kind: 'submodule', oid: blob },
  ]);
  assert.deepEqual([findings, missing], [[], []]);
});

test('names that look alike are remarked upon', () => {
  const { findings } = walk(
    raw(['100644', 'A.yaml'], ['100644', 'a.yaml'], ['100644', 'e\u0301.yaml'], ['100644', '\u00e9.yaml']),
  );
  assert.deepEqual(
    findings.map(({ rule, path }) => [rule, path]),
    [
      ['name-case', '.svc/a.yaml'],
      ['name-form', '.svc/e\u0301.yaml'],
      ['name-case', '.svc/\u00e9.yaml'],
    ],
  );
});

test('git control files other than .git itself are ordinary files', () => {
  assert.deepEqual(
    walk(raw(['100644', '.gitkeep'])).files.map(({ path }) => path),
    ['.svc/.gitkeep'],
  );
});

test('of a directory that holds more than may be taken no more is looked at than that', () => {
  const names = Array.from({ length: 6_001 }, (_, n) => String(n).padStart(5, '0'));
  const many = raw(...names.map((name) => ['100644', name] as const));
  // In eight mebibytes, a quarter of a million: to look at each takes longer than the event loop may stand still.
  assert.throws(() => walk(Buffer.concat([many, raw(['100644', '..'])])), condition('too-large', /5000 files/));
  const dirs = raw(...names.map((name) => ['40000', name] as const));
  assert.throws(() => walk(Buffer.concat([dirs, raw(['100644', '..'])])), condition('too-large', /1000 directories/));
});

test('a tree that names a billion files through ten trees is refused in no time', () => {
  const trees = new Map<string, Buffer>();
  let oid = blob;
  for (let level = 0; level < 9; level += 1) {
    const mode = level === 0 ? '100644' : '40000';
    const tree = buildTree(Array.from({ length: 10 }, (_, n) => ({ mode, name: `n${n}`, oid })));
    oid = gitId('tree', tree);
    trees.set(oid, tree);
  }
  assert.throws(
    () => walkTree(oid, '.svc', (wanted) => trees.get(wanted), defaultCaps),
    condition('too-large', /directories|files/),
  );
});

test('depth, files and directories are bounded', () => {
  const nested = new Map<string, Buffer>();
  let oid = blob;
  for (let level = 0; level < 17; level += 1) {
    const tree = raw([level === 0 ? '100644' : '40000', 'a', oid]);
    oid = gitId('tree', tree);
    nested.set(oid, tree);
  }
  assert.throws(
    () => walkTree(oid, '.svc', (wanted) => nested.get(wanted), defaultCaps),
    condition('too-large', /16 deep/),
  );
  const names = Array.from({ length: 5001 }, (_, n) => String(n).padStart(5, '0'));
  assert.throws(
    () => walk(raw(...names.map((name) => ['100644', name] as const))),
    condition('too-large', /5000 files/),
  );
});

test('one name is found in a tree whose other names would be refused', () => {
  const tree = raw(
    ['40000', '..'],
    ['40000', '.svc', 'c'.repeat(40)],
    ['100644', 'a\\b.txt'],
    ['100644', Buffer.from([0xff])],
  );
  assert.deepEqual(findInTree(tree, '.svc'), { mode: '40000', oid: 'c'.repeat(40) });
  assert.equal(findInTree(tree, 'b.txt'), null);
  assert.throws(() => findInTree(raw(['40000', '.svc'], ['40000', '.svc']), '.svc'), condition('hostile', /twice/));
});

test('the order of names is that of git', () => {
  const names = ['a', 'a.b', 'a/', 'a0', 'ab', 'b-', 'b/', 'b0'].map((name) => ({
    name: Buffer.from(name.replace('/', '')),
    dir: name.endsWith('/'),
  }));
  assert.deepEqual([...names].reverse().sort(compareTreeNames), names);
});

const segment = fc.stringMatching(/^[a-z0-9._-]{1,6}$/).filter((name) => nameFault(name) === null);

test('recorded entries rebuild the trees they came from', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.array(segment, { minLength: 1, maxLength: 3 }), {
        selector: (path) => path.join('/'),
        minLength: 1,
      }),
      (paths) => {
        const taken = paths.filter(
          (path) => !paths.some((other) => other.length > path.length && path.every((part, n) => other[n] === part)),
        );
        const entries = taken.map(
          (path, n): SnapshotEntry => ({
            path: `.svc/${path.join('/')}`,
            kind: 'file',
            oid: n.toString(16).padStart(40, '0'),
            size: 1,
            ...(n % 3 === 0 ? { mode: '100755' } : {}),
          }),
        );
        const trees = new Map<string, Buffer>();
        const put = (dir: string): string => {
          const names = new Set(
            entries
              .filter(({ path }) => path.startsWith(`${dir}/`))
              .map(({ path }) => path.slice(dir.length + 1).split('/')[0] as string),
          );
          const children = [...names].map((name) => {
            const file = entries.find(({ path }) => path === `${dir}/${name}`);
            return file
              ? { mode: file.mode ?? '100644', name, oid: file.oid }
              : { mode: '40000', name, oid: put(`${dir}/${name}`) };
          });
          children.sort((a, b) =>
            compareTreeNames(
              { name: Buffer.from(a.name), dir: a.mode === '40000' },
              { name: Buffer.from(b.name), dir: b.mode === '40000' },
            ),
          );
          const bytes = buildTree(children);
          trees.set(gitId('tree', bytes), bytes);
          return gitId('tree', bytes);
        };
        const top = put('.svc');
        assert.deepEqual(rebuildTrees(entries, top), trees);
        assert.equal(rebuildTrees(entries, 'f'.repeat(40)), null);
        assert.deepEqual(
          walkTree(top, '.svc', (oid) => trees.get(oid), defaultCaps).files.map(({ path }) => path),
          entries.map(({ path }) => path).sort(),
        );
      },
    ),
  );
});

test('any bytes as a tree give entries or a condition', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), (bytes) => {
      try {
        parseTree(Buffer.from(bytes));
      } catch (error) {
        condition('corrupt')(error);
      }
    }),
  );
});

test('a commit is split into tree, time, signature and what was signed', () => {
  const text = `tree ${blob}\nauthor A <a@b> 1 +0000\ncommitter C <c@d> 1700000000 +0100\ngpgsig BEGIN\n line\n \n END\nencoding x\n\nmessage\n`;
  const commit = parseCommit(Buffer.from(text));
  assert.equal(commit.tree, blob);
  assert.deepEqual(commit.signatures, ['BEGIN\nline\n\nEND']);
  assert.equal(commit.committedAt?.toISOString(), '2023-11-14T22:13:20.000Z');
  assert.equal(commit.payload.toString(), text.replace(/gpgsig[\s\S]*END\n/, ''));
  assert.throws(() => parseCommit(Buffer.from('author x\n\n')), condition('corrupt'));
});

test('of a commit its author and the first line of its message are told, as text of one line', () => {
  const commit = (author: string, rest: string): Buffer => Buffer.from(`tree ${blob}\nauthor ${author}${rest}`);
  const at = '<a@b> 1 +0000\ncommitter C <c@d> 1 +0000\n';
  assert.deepEqual(commitAbout(commit('Ann Öz ', `${at}gpgsig BEGIN\n author X <x>\n END\n\n\ncap spend\n\nmore`)), {
    message: 'cap spend',
    author: 'Ann Öz',
  });
  const turned = commitAbout(commit('A\u202eB\0 ', `${at}\n\ud800a\tb\r\nx`));
  assert.deepEqual(turned, { message: '\ufffda b', author: 'A B' });
  const latin = Buffer.concat([commit('J', `${at}encoding latin1\n\n`), Buffer.from([0xfc])]);
  assert.equal(commitAbout(latin).message, 'ü');
  assert.equal(commitAbout(commit('', `${at}encoding no-such\n\n${'😀'.repeat(300)}`)).message, '😀'.repeat(200));
  // Its name ends at the first sign of an address, however many there are.
  assert.equal(commitAbout(commit(`A ${'<'.repeat(300_000)}`, '\n\nx')).author, 'A');
  for (const bytes of ['', '\n\n', 'author', 'author x\n\n'])
    assert.deepEqual(commitAbout(Buffer.from(bytes)), { message: '', author: '' });
});
