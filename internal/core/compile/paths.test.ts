import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isAbsoluteOrUrl, parseSpecifier, pathBeside, resolveBeside, templateFile, treeFile } from './paths.ts';

test('absolute paths, drive letters and URLs are told from relative paths', () => {
  const refused = [
    '/a.yaml',
    '//host/a.yaml',
    'https://example.com/a.yaml',
    'file:a.yaml',
    'C:\\a.yaml',
    'c:/a.yaml',
    'git+ssh://x',
  ];
  const accepted = [
    'a.yaml',
    './a.yaml',
    '../a.yaml',
    'a b.yaml',
    '\\a.yaml',
    '~/a.yaml',
    '1:a.yaml',
    'é:a.yaml',
    'dir/a:b.yaml',
  ];
  assert.deepEqual(
    refused.filter((path) => !isAbsoluteOrUrl(path)),
    [],
  );
  assert.deepEqual(accepted.filter(isAbsoluteOrUrl), []);
});

const specifiers: readonly (readonly [text: string, specifier: string | null, subpath?: string])[] = [
  ['@acme/kit@1.2.3/a.yaml', '@acme/kit@1.2.3', 'a.yaml'],
  ['@acme/kit/deep/a.yaml', '@acme/kit@latest', 'deep/a.yaml'],
  ['@acme/kit@^1 <2/a.yaml', '@acme/kit@^1 <2', 'a.yaml'],
  ['@acme/kit@next/./b//../a.yaml', '@acme/kit@next', 'a.yaml'],
  ['@acme/kit.x_y-z~@1/a@2.yaml', '@acme/kit.x_y-z~@1', 'a@2.yaml'],
  ['@acme/kit', null],
  ['@acme/kit@1', null],
  ['@acme/kit@1/', null],
  ['@acme/kit@/a.yaml', null],
  ['@acme/kit@1/../a.yaml', null],
  ['@acme/kit@1/..', null],
  ['@acme/kit@1/dir/', null],
  ['@acme//a.yaml', null],
  ['@/kit/a.yaml', null],
  ['@../kit/a.yaml', null],
  ['@acme/../a.yaml', null],
  ['@acme', null],
];

for (const [text, specifier, subpath] of specifiers) {
  test(`${text} is ${specifier === null ? 'no managed template' : `${subpath} of ${specifier}`}`, () => {
    assert.deepEqual(parseSpecifier(text), specifier === null ? null : { specifier, subpath });
  });
}

test('a relative path stays within the tree, or within its package', () => {
  const from = treeFile('.svc/agents/a.yaml');
  assert.equal(resolveBeside(from, '../fragments/./x.yaml')?.id, '.svc/fragments/x.yaml');
  assert.equal(resolveBeside(from, '../../x.yaml')?.id, 'x.yaml');
  assert.equal(resolveBeside(from, '../../..x.yaml')?.id, '..x.yaml');
  assert.equal(resolveBeside(from, '../../../x.yaml'), null);
  assert.equal(resolveBeside(from, '../../..'), null);
  const files = new Map();
  const template = { specifier: '@a/b@1', name: '@a/b', requested: '1', version: '1.0.0', integrity: '', files };
  const inside = templateFile(template, 'agents/a.yaml');
  assert.equal(resolveBeside(inside, '../base.yaml')?.id, '@a/b@1.0.0/base.yaml');
  assert.equal(resolveBeside(inside, '../../base.yaml'), null);
  // A tree that begins at a directory of the repository.
  assert.equal(resolveBeside(from, '../../../x.yaml', 'sub')?.id, '../x.yaml');
  assert.equal(resolveBeside(treeFile('../x.yaml'), 'y.yaml', 'sub')?.id, '../y.yaml');
  assert.equal(resolveBeside(treeFile('../x.yaml'), 'sub/.svc/fragments/f.yaml', 'sub')?.id, '.svc/fragments/f.yaml');
  assert.equal(resolveBeside(from, '../../../../one/x.yaml', 'of/two')?.id, '../../one/x.yaml');
  assert.equal(resolveBeside(from, '../../..', 'sub')?.id, '..');
  assert.equal(resolveBeside(from, '../../../../x.yaml', 'sub'), null);
  assert.equal(resolveBeside(inside, '../../base.yaml', 'sub'), null);
});

test('how a file names another one leads back to it', () => {
  const from = '.svc/agents/a.yaml';
  const kit = { specifier: '@a/b@1', name: '@a/b', requested: '1', version: '1.0.0', integrity: 'x', files: new Map() };
  for (const [file, path, root, text] of [
    [treeFile(from), '.svc/agents/b.yaml', '', 'b.yaml'],
    [treeFile(from), '.svc/fragments/f.yaml', '', '../fragments/f.yaml'],
    [treeFile(from), 'shared/f.yaml', '', '../../shared/f.yaml'],
    [treeFile(from), '.svc/agents/@f.yaml', '', './@f.yaml'],
    [treeFile(from), '.svc/agents/a:f.yaml', '', './a:f.yaml'],
    [treeFile(from), '../f.yaml', 'team/one', '../../../f.yaml'],
    [treeFile(from), '.svc/fragments/f.yaml', 'team/one', '../fragments/f.yaml'],
    [templateFile(kit, 'deep/a.yaml'), 'f.yaml', 'team', '../f.yaml'],
  ] as const) {
    assert.equal(pathBeside(file, path, root), text);
    assert.equal(resolveBeside(file, text, root)?.path, path);
  }
});
