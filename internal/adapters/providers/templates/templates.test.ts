import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';
import type { ResolvedTemplate, UnresolvedTemplate } from '../../../domain/bundle.ts';
import { folderCache, type ResolveOptions, resolveTemplates } from './templates.ts';

type Item = { readonly header: Partial<Header> & { readonly name: string }; readonly body?: string | Buffer };

async function tarball(items: readonly Item[]): Promise<Buffer> {
  const archive = pack();
  const packed = buffer(archive);
  for (const { header, body } of items) archive.entry(header, body ?? '');
  archive.finalize();
  return gzipSync(await packed);
}
const file = (name: string, body: string | Buffer): Item => ({ header: { name }, body });
const sri = (bytes: Uint8Array): string => `sha512-${createHash('sha512').update(bytes).digest('base64')}`;

/** A registry in this process: `routes` by path; everything asked of it is written down. */
async function startRegistry(routes: Map<string, (q: IncomingMessage, s: ServerResponse) => void>) {
  const asked: { path: string; authorization: string | undefined }[] = [];
  const server = createServer((question, answer) => {
    const path = question.url ?? '';
    asked.push({ path, authorization: question.headers.authorization });
    const route = routes.get(path);
    if (route === undefined) answer.writeHead(404).end('{}');
    else route(question, answer);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  after(() => new Promise((resolve) => server.close(resolve)));
  return { url, asked };
}
const json = (value: unknown) => (_: IncomingMessage, s: ServerResponse) => void s.end(JSON.stringify(value));
const bytes = (value: Uint8Array) => (_: IncomingMessage, s: ServerResponse) => void s.end(value);

/** A registry with `@acme/kit` in the given versions; each version's tarball and integrity may be overridden. */
async function registryWith(
  versions: { readonly [version: string]: { tarball?: Buffer; dist?: object } },
  tags: { readonly [tag: string]: string } = {},
) {
  const routes = new Map<string, (q: IncomingMessage, s: ServerResponse) => void>();
  const registry = await startRegistry(routes);
  const listed: { [version: string]: unknown } = {};
  for (const [version, own] of Object.entries(versions)) {
    const tar = own.tarball ?? (await tarball([file('package/a.yaml', `version: ${version}`)]));
    const path = `/kit/-/kit-${version}.tgz`;
    routes.set(path, bytes(tar));
    listed[version] = { dist: own.dist ?? { tarball: registry.url + path, integrity: sri(tar) } };
  }
  routes.set('/@acme%2fkit', json({ name: '@acme/kit', 'dist-tags': tags, versions: listed }));
  return { ...registry, routes };
}

const network = { allowPrivate: true };
async function resolve(specifier: string, options: ResolveOptions) {
  const results = await resolveTemplates([specifier], options);
  const result = results.get(specifier);
  assert.ok(result !== undefined);
  return result;
}
const fromRegistry = (specifier: string, registry: string, more: Partial<ResolveOptions> = {}) =>
  resolve(specifier, { sources: [{ scope: '@acme', registry }], network, ...more });

function resolved(result: ResolvedTemplate | UnresolvedTemplate): ResolvedTemplate {
  assert.ok(!('error' in result), JSON.stringify(result));
  return result;
}
function failed(result: ResolvedTemplate | UnresolvedTemplate): UnresolvedTemplate {
  assert.ok('error' in result, 'it resolved');
  return result;
}
const textOf = (result: ResolvedTemplate, path: string): string =>
  Buffer.from(result.files.get(path)?.bytes ?? []).toString();

async function temporary(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-templates-'));
  after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

const ranges: readonly (readonly [string, string | undefined])[] = [
  ['1.0.0', '1.0.0'],
  ['v1.1.0', '1.1.0'],
  ['latest', '1.1.0'],
  ['next', '2.0.0-beta.1'],
  ['^1.0.0', '1.1.0'],
  ['~1.0', '1.0.0'],
  ['1', '1.1.0'],
  ['*', '1.1.0'],
  ['>=1 <2', '1.1.0'],
  ['>=1.2.0', '1.3.0'],
  ['3.0.0', undefined],
  ['^4', undefined],
  ['nightly', undefined],
  ['__proto__', undefined],
  ['constructor', undefined],
];
for (const [requested, expected] of ranges) {
  test(`version ${requested} means ${expected ?? 'nothing'}`, async () => {
    const registry = await registryWith(
      { '1.0.0': {}, '1.1.0': {}, '1.3.0': {}, '2.0.0-beta.1': {} },
      { latest: '1.1.0', next: '2.0.0-beta.1' },
    );
    const result = await fromRegistry(`@acme/kit@${requested}`, registry.url);
    if (expected === undefined) return assert.equal(failed(result).error, 'no-such-version');
    assert.equal(resolved(result).version, expected);
    assert.equal(resolved(result).requested, requested);
    assert.equal(textOf(resolved(result), 'a.yaml'), `version: ${expected}`);
    assert.match(resolved(result).integrity, /^sha512-/);
  });
}

test('files carry their git blob id and stand without the package directory', async () => {
  const words = { name: 'package/x/b.md', pax: { comment: 'x'.repeat(8_192) } };
  const tar = await tarball([{ header: words, body: 'hello\n' }, file('package/package.json', '{}')]);
  const registry = await registryWith({ '1.0.0': { tarball: tar } });
  const { files } = resolved(await fromRegistry('@acme/kit@1.0.0', registry.url));
  assert.deepEqual([...files.keys()], ['package.json', 'x/b.md']);
  assert.equal(files.get('x/b.md')?.oid, 'ce013625030ba8dba906f756967f9e9ca394464a');
});

test('a tampered tarball is refused', async () => {
  const good = await tarball([file('package/a.yaml', 'good')]);
  const bad = await tarball([file('package/a.yaml', 'evil')]);
  const registry = await registryWith({ '1.0.0': { tarball: good } });
  registry.routes.set('/kit/-/kit-1.0.0.tgz', bytes(bad));
  assert.equal(failed(await fromRegistry('@acme/kit@1.0.0', registry.url)).error, 'integrity-mismatch');
});

test('a package with a SHA-1 alone is verified by it, one with nothing is refused', async () => {
  const tar = await tarball([file('package/a.yaml', 'x')]);
  const shasum = createHash('sha1').update(tar).digest('hex');
  const registry = await registryWith({});
  const dist = { tarball: `${registry.url}/t.tgz` };
  const list = (own: object) => json({ versions: { '1.0.0': { dist: { ...dist, ...own } } } });
  registry.routes.set('/t.tgz', bytes(tar));
  for (const [own, error] of [
    [{ shasum }, undefined],
    [{ shasum: shasum.replace(/./g, '0') }, 'integrity-mismatch'],
    [{}, 'corrupt'],
    [{ integrity: 'md5-abcd' }, 'integrity-mismatch'],
    [{ integrity: `sha1-${Buffer.from(shasum, 'hex').toString('base64')} sha512-AAAA` }, 'integrity-mismatch'],
  ] as const) {
    registry.routes.set('/@acme%2fkit', list(own));
    const result = await fromRegistry('@acme/kit@1.0.0', registry.url);
    assert.equal('error' in result ? result.error : undefined, error, JSON.stringify(own));
  }
});

const hostile: readonly (readonly [string, readonly Item[]])[] = [
  ['a parent directory', [file('package/../../etc/passwd', 'x')]],
  ['a parent directory as the first', [file('../a.yaml', 'x')]],
  ['an absolute path', [file('/etc/passwd', 'x')]],
  ['an absolute path inside', [file('package//etc/passwd', 'x')]],
  ['a backslash', [file('package/..\\a', 'x')]],
  ['a drive letter', [file('package/C:/a', 'x')]],
  ['a control character', [file('package/a\nb', 'x')]],
  ['a dot segment', [file('package/./a', 'x')]],
  ['a symbolic link', [{ header: { name: 'package/a', type: 'symlink', linkname: '/etc/passwd' } }]],
  ['a hard link', [{ header: { name: 'package/a', type: 'link', linkname: '/etc/passwd' } }]],
  ['a device', [{ header: { name: 'package/a', type: 'character-device' } }]],
  ['one path twice', [file('package/a', 'x'), file('package/a', 'y')]],
  ['a file beside the package', [file('a.yaml', 'x')]],
  ['nothing', []],
  ['a path too deep', [file(`package/${'d/'.repeat(40)}a`, 'x')]],
  // Hundreds of thousands of words are a second of the event loop, and more for each entry that they are said of.
  ['words about an entry without end', [{ header: { name: 'package/a', pax: { comment: 'x'.repeat(65_536) } } }]],
];
for (const [what, items] of hostile) {
  test(`a tarball with ${what} is refused whole`, async () => {
    const registry = await registryWith({ '1.0.0': { tarball: await tarball([...items]) } });
    assert.equal(failed(await fromRegistry('@acme/kit@1.0.0', registry.url)).error, 'corrupt');
  });
}

test('a document of very many versions or values is refused before it is gone through', async () => {
  const registry = await registryWith({ '1.0.0': {} });
  const versions = Object.fromEntries(Array.from({ length: 10_001 }, (_, n) => [`1.0.${n}`, 0]));
  for (const document of [{ versions }, { versions: {}, other: new Array(500_001).fill(0) }]) {
    registry.routes.set('/@acme%2fkit', json(document));
    assert.equal(failed(await fromRegistry('@acme/kit@9.9.9', registry.url)).error, 'too-large');
  }
  const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`1.0.${n}`, 0]));
  registry.routes.set('/@acme%2fkit', json({ versions: many }));
  assert.match(
    failed(await fromRegistry('@acme/kit@9.9.9', registry.url)).detail,
    /1\.0\.9999, 1\.0\.9998, 1\.0\.9997$/,
  );
});

test('bytes that are no tarball are refused', async () => {
  const cut = (await tarball([file('package/a.yaml', 'x'.repeat(5000))])).subarray(0, 60);
  for (const tar of [Buffer.from('no gzip'), gzipSync('no tar'), cut, Buffer.alloc(0)]) {
    const registry = await registryWith({ '1.0.0': { tarball: tar } });
    assert.equal(failed(await fromRegistry('@acme/kit@1.0.0', registry.url)).error, 'corrupt');
  }
});

test('a decompression bomb is cut short', async () => {
  const bomb = gzipSync(Buffer.alloc(48 * 1024 * 1024));
  const inside = await tarball([file('package/a', Buffer.alloc(40 * 1024 * 1024))]);
  const many = await tarball(Array.from({ length: 2_001 }, (_, index) => file(`package/${index}`, '')));
  for (const tar of [inside, many]) {
    const registry = await registryWith({ '1.0.0': { tarball: tar } });
    assert.equal(failed(await fromRegistry('@acme/kit@1.0.0', registry.url)).error, 'too-large');
  }
  const registry = await registryWith({ '1.0.0': { tarball: bomb } });
  assert.match(failed(await fromRegistry('@acme/kit@1.0.0', registry.url)).error, /too-large|corrupt/);
});

test('one large file is listed without its bytes', async () => {
  const registry = await registryWith({
    '1.0.0': { tarball: await tarball([file('package/big', Buffer.alloc(2 * 1024 * 1024)), file('package/a', 'x')]) },
  });
  const { files } = resolved(await fromRegistry('@acme/kit@1.0.0', registry.url));
  assert.equal(files.get('big')?.tooLarge, true);
  assert.equal(files.get('big')?.bytes, undefined);
});

test('answers that never end are cut at the cap', async () => {
  const registry = await registryWith({ '1.0.0': {} });
  registry.routes.set('/kit/-/kit-1.0.0.tgz', (_, s) => {
    const chunk = Buffer.alloc(1024 * 1024);
    const more = (): void => {
      while (!s.destroyed && s.write(chunk));
      if (!s.destroyed) s.once('drain', more);
    };
    more();
  });
  assert.equal(failed(await fromRegistry('@acme/kit@1.0.0', registry.url)).error, 'too-large');
});

test('statuses of the registry have their words', async () => {
  for (const [status, error] of [
    [404, 'not-found'],
    [401, 'unreachable'],
    [403, 'unreachable'],
    [500, 'unreachable'],
  ] as const) {
    const registry = await registryWith({});
    registry.routes.set('/@acme%2fkit', (_, s) => void s.writeHead(status).end('nope'));
    assert.equal(failed(await fromRegistry('@acme/kit@1', registry.url)).error, error);
  }
  const registry = await registryWith({});
  for (const body of ['[]', 'null', '{}', 'x']) {
    registry.routes.set('/@acme%2fkit', (_, s) => void s.end(body));
    assert.equal(failed(await fromRegistry('@acme/kit@1', registry.url)).error, 'corrupt');
  }
  assert.equal(failed(await fromRegistry('@acme/kit@1', 'http://127.0.0.1:1')).error, 'unreachable');
});

test('the token goes to the registry and to no other origin', async () => {
  const other = await registryWith({ '1.0.0': {} });
  const registry = await registryWith({ '1.0.0': {} });
  registry.routes.set(
    '/kit/-/kit-1.0.0.tgz',
    (_, s) => void s.writeHead(302, { location: `${other.url}/kit/-/kit-1.0.0.tgz` }).end(),
  );
  const sources = [{ scope: '@acme', registry: registry.url, tokenSecretRef: 'npm' }];
  const token = async (name: string) => (name === 'npm' ? 'hush' : undefined);
  resolved(await resolve('@acme/kit@1.0.0', { sources, network, token }));
  assert.ok(registry.asked.every((request) => request.authorization === 'Bearer hush'));
  assert.deepEqual(other.asked, [{ path: '/kit/-/kit-1.0.0.tgz', authorization: undefined }]);
  const without = failed(await resolve('@acme/kit@1.0.0', { sources, network }));
  assert.match(without.detail, /secret npm/);
});

test('endless redirects end', async () => {
  const registry = await registryWith({});
  registry.routes.set('/@acme%2fkit', (_, s) => void s.writeHead(302, { location: '/@acme%2fkit' }).end());
  assert.match(failed(await fromRegistry('@acme/kit@1', registry.url)).detail, /redirects more than/);
});

test('private addresses and plain http are refused unless allowed', async () => {
  const registry = await registryWith({ '1.0.0': {} });
  const port = new URL(registry.url).port;
  for (const url of [
    registry.url,
    `https://127.0.0.1:${port}`,
    `https://localhost:${port}`,
    `https://[::1]:${port}`,
    'https://0x7f.1',
  ]) {
    const result = failed(await fromRegistry('@acme/kit@1.0.0', url, { network: {} }));
    assert.equal(result.error, 'unreachable');
    assert.match(result.detail, /SVC_ALLOW_PRIVATE_NETWORK|private/, url);
  }
  assert.deepEqual(registry.asked, []);
});

test('one package asked for in two versions costs one document', async () => {
  const registry = await registryWith({ '1.0.0': {}, '2.0.0': {} });
  const sources = [{ scope: '@acme', registry: registry.url }];
  const results = await resolveTemplates(['@acme/kit@1', '@acme/kit@2', '@acme/kit@1'], { sources, network });
  assert.deepEqual([...results.keys()], ['@acme/kit@1', '@acme/kit@2']);
  assert.equal(registry.asked.filter((request) => request.path.startsWith('/@acme')).length, 1);
});

test('a lock repeats the earlier version although a newer one is there', async () => {
  const registry = await registryWith({ '1.0.0': {}, '1.1.0': {} });
  const first = resolved(await fromRegistry('@acme/kit@1.0.0', registry.url));
  const lock = { '@acme/kit@^1': { version: '1.0.0', integrity: first.integrity } };
  assert.equal(resolved(await fromRegistry('@acme/kit@^1', registry.url)).version, '1.1.0');
  assert.equal(resolved(await fromRegistry('@acme/kit@^1', registry.url, { lock })).version, '1.0.0');
  const wrong = { '@acme/kit@^1': { version: '1.1.0', integrity: first.integrity } };
  assert.equal(failed(await fromRegistry('@acme/kit@^1', registry.url, { lock: wrong })).error, 'integrity-mismatch');
});

test('a cached resolution is repeated without the registry; a damaged entry is not believed', async () => {
  const registry = await registryWith({ '1.0.0': {} });
  const directory = await temporary();
  const cache = folderCache(directory);
  const first = resolved(await fromRegistry('@acme/kit@1', registry.url, { cache }));
  const lock = { '@acme/kit@1': { version: first.version, integrity: first.integrity } };
  const again = resolved(await fromRegistry('@acme/kit@1', 'http://127.0.0.1:1', { cache, lock }));
  assert.deepEqual(again, first);
  await cache.put(first.integrity, await tarball([file('package/a.yaml', 'evil')]));
  assert.equal(failed(await fromRegistry('@acme/kit@1', 'http://127.0.0.1:1', { cache, lock })).error, 'unreachable');
});

test('a directory gives its files, the version of its package.json, and links as links', async () => {
  const directory = await temporary();
  await mkdir(join(directory, 'kit/inner'), { recursive: true });
  await writeFile(join(directory, 'kit/package.json'), '{"version":"3.1.4"}');
  await writeFile(join(directory, 'kit/inner/a.yaml'), 'x');
  await symlink('/etc/passwd', join(directory, 'kit/link'));
  await mkdir(join(directory, 'kit/node_modules'));
  await writeFile(join(directory, 'kit/node_modules/no'), '');
  const sources = [{ scope: '@acme', directory }];
  const kit = resolved(await resolve('@acme/kit@^9', { sources }));
  assert.equal(kit.version, '3.1.4');
  assert.deepEqual([...kit.files.keys()], ['inner/a.yaml', 'link', 'package.json']);
  assert.equal(kit.files.get('link')?.kind, 'symlink');
  assert.match(kit.integrity, /^dir-sha256-/);
  assert.equal(failed(await resolve('@acme/none@1', { sources })).error, 'not-found');
  assert.equal(failed(await resolve('@other/kit@1', { sources })).error, 'unknown-source');
});

test('a directory that has changed is refused under a lock, unless its earlier files are cached', async () => {
  const directory = await temporary();
  await mkdir(join(directory, 'kit'), { recursive: true });
  await writeFile(join(directory, 'kit/a.yaml'), 'one');
  const sources = [{ scope: '@acme', directory }];
  const cache = folderCache(join(directory, 'cache'));
  const first = resolved(await resolve('@acme/kit@latest', { sources, cache }));
  assert.equal(first.version, '0.0.0');
  await writeFile(join(directory, 'kit/a.yaml'), 'two');
  const lock = { '@acme/kit@latest': { version: first.version, integrity: first.integrity } };
  assert.equal(failed(await resolve('@acme/kit@latest', { sources, lock })).error, 'integrity-mismatch');
  assert.deepEqual(resolved(await resolve('@acme/kit@latest', { sources, lock, cache })), first);
});

test('specifiers that could leave the source are refused', async () => {
  const directory = await temporary();
  await cp(import.meta.dirname, join(directory, 'kit'), { recursive: true });
  const sources = [{ scope: '@acme', directory }];
  for (const specifier of [
    '@acme/..@1',
    '@acme/.@1',
    '@acme/../kit@1',
    'kit@1',
    '@acme/kit',
    '@acme/kit@',
    '@acme/a/b@1',
    '@svc/../internal@1',
  ])
    assert.equal(failed(await resolve(specifier, { sources })).error, 'not-found', specifier);
  assert.equal(failed(await resolve('@svc/internal@latest', { sources })).error, 'unknown-source');
});

test('@svc/templates ships, also where nothing is configured', async () => {
  const shipped = resolved(await resolve('@svc/templates@latest', { sources: [] }));
  assert.equal(shipped.name, '@svc/templates');
  assert.match(shipped.version, /^\d+\.\d+\.\d+$/);
  assert.ok(shipped.files.has('environments/node24.yaml'));
});

for (const version of ['9', '^9', 'latset', '0.0.1'])
  test(`@svc/templates@${version} is not what ships`, async () => {
    const found = failed(await resolve(`@svc/templates@${version}`, { sources: [] }));
    assert.equal(found.error, 'not-found');
    assert.match(found.detail, /its source has version \d+\.\d+\.\d+ alone/);
  });
