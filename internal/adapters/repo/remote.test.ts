import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { GitFixture, largeTree } from '../../base/testkit/git-fixture.ts';
import { createHostCache, probeRepository } from './repo.ts';
import { encodePkt, flushPkt } from './protocol.ts';
import { condition, contents, MemoryBlobs, packOf, remote, served, temporary } from './test-support.ts';
import type { GitServerOptions } from '../../base/testkit/git-server.ts';
import type { RepoCaps } from './types.ts';

const agents = { '.svc/agents/a.yaml': 'name: a\n', '.svc/agents/b.yaml': 'name: b\n', '.svc/shared/c.yaml': 'c: 1\n' };

const servers: readonly (readonly [string, string, Omit<GitServerOptions, 'root'>])[] = [
  ['a server that takes every filter', 'sparse3', {}],
  [
    'a server that takes tree filters of depth 0 only',
    'sparse4',
    { config: { 'uploadpackfilter.tree.maxDepth': '0' } },
  ],
  ['a server that takes blob filters only', 'blobless', { config: { 'uploadpackfilter.tree.allow': 'false' } }],
  ['a server without filters', 'spool', { allowFilter: false }],
  ['a server of version 0', 'spool', { passProtocol: false }],
  ['a server of version 0 without filters', 'spool', { passProtocol: false, allowFilter: false }],
];

for (const [what, via, options] of servers) {
  test(`${what} is read, updated, and asked for files outside (${via})`, async (t) => {
    const { repo, url } = await served(t, options);
    const blobs = new MemoryBlobs();
    await repo.commitMany(largeTree(300, 0));
    await repo.commit({
      ...agents,
      'lib/prompts/x.md': 'hello',
      'lib/link': { symlink: 'prompts' },
      'src/code.ts': 'code',
    });
    const source = remote(t, url, { blobs });
    const first = await source.snapshot(await source.resolve(), {
      wantPaths: ['lib/prompts/x.md', 'lib/none', 'lib/link/x.md', '../up'],
    });
    assert.equal(first.via, via);
    assert.deepEqual(contents(first), { ...agents, 'lib/link': '<symlink>', 'lib/prompts/x.md': 'hello' });
    assert.deepEqual([...(first.bundle?.absent ?? [])], ['../up', 'lib/link/x.md', 'lib/none']);
    assert.equal(first.commit, await repo.head());
    assert.equal(first.svcTree, await repo.git(['rev-parse', 'HEAD:.svc']));
    blobs.keep(first);

    await repo.commit({ 'src/code.ts': 'other code' });
    const same = await source.snapshot(await source.resolve(), { prior: first.record });
    assert.deepEqual([same.unchanged, same.bundle, same.commit], [true, null, await repo.head()]);
    const full = await source.snapshot(await source.resolve(), { prior: same.record, full: true });
    assert.deepEqual([full.unchanged, contents(full)], [true, contents(first)]);

    await repo.commit({ 'lib/prompts/x.md': 'changed' });
    const outside = await source.snapshot(await source.resolve(), { prior: same.record });
    assert.deepEqual([outside.unchanged, contents(outside)['lib/prompts/x.md']], [false, 'changed']);
    blobs.keep(outside);

    await repo.commit({ '.svc/agents/b.yaml': null, '.svc/agents/a.yaml': 'name: a2\n', '.svc/new/n.yaml': 'n' });
    const updated = await source.snapshot(await source.resolve(), { prior: outside.record });
    assert.deepEqual(contents(updated), {
      '.svc/agents/a.yaml': 'name: a2\n',
      '.svc/new/n.yaml': 'n',
      '.svc/shared/c.yaml': 'c: 1\n',
    });
    const grown = await source.more(updated, ['lib/prompts/x.md', 'src/code.ts']);
    assert.deepEqual([contents(grown)['lib/prompts/x.md'], contents(grown)['src/code.ts']], ['changed', 'other code']);
    assert.ok(grown.record.entries.length === 5 && 'src' in grown.record.tops);
  });
}

test('a poll is one request of at most 200 bytes, whatever the number of refs', async (t) => {
  const { repo, server, url } = await served(t);
  const head = await repo.commit(agents);
  await repo.git(
    ['update-ref', '--stdin'],
    Array.from({ length: 3000 }, (_, n) => `create refs/heads/topic-${n} ${head}\n`).join(''),
  );
  for (const branch of [undefined, 'main', 'refs/heads/topic-2999']) {
    server.log.length = 0;
    const tip = await remote(t, url, branch === undefined ? {} : { branch }).resolve();
    assert.equal(tip.commit, head);
    assert.equal(tip.ref, branch?.startsWith('refs/') === true ? branch : 'refs/heads/main');
    const { requests, bytesDown } = server.traffic();
    assert.deepEqual([requests, bytesDown <= 200], [1, true], `${requests} requests, ${bytesDown} bytes`);
  }
});

test('a first read is three requests, a commit that touches nothing relevant two, and no blob is sent again', async (t) => {
  const { repo, server, url } = await served(t);
  const blobs = new MemoryBlobs();
  await repo.commitMany(largeTree(2000, 200));
  const source = remote(t, url, { blobs });
  const first = await source.snapshot(await source.resolve());
  assert.equal(first.bundle?.entries.size, 200);
  assert.equal(server.traffic().requests, 3);
  blobs.keep(first);
  await repo.commit({ 'src/z': 'z' });
  server.log.length = 0;
  const next = await source.snapshot(await source.resolve(), { prior: first.record });
  assert.equal(next.unchanged, true);
  assert.equal(server.traffic().requests, 2);
  assert.ok(server.traffic().bytesDown < 1000);
  await repo.commit({ '.svc/agents/agent-7.yaml': 'name: seven\n' });
  server.log.length = 0;
  const update = await source.snapshot(await source.resolve(), { prior: next.record });
  assert.equal(contents(update)['.svc/agents/agent-7.yaml'], 'name: seven\n');
  assert.equal(update.bundle?.entries.size, 200);
  assert.equal(server.traffic().requests, 3);
  assert.ok(server.traffic().bytesDown < 12_000, `${server.traffic().bytesDown} bytes`);
});

test('an update heals a store that has lost what the server takes to be held', async (t) => {
  const { repo, url } = await served(t);
  const blobs = new MemoryBlobs();
  await repo.commit(agents);
  const source = remote(t, url, { blobs });
  const first = await source.snapshot(await source.resolve());
  await repo.commit({ '.svc/agents/a.yaml': 'name: a2\n' });
  const update = await source.snapshot(await source.resolve(), { prior: first.record });
  assert.deepEqual(contents(update), { ...agents, '.svc/agents/a.yaml': 'name: a2\n' });
  const oid = first.bundle?.entries.get('.svc/agents/b.yaml')?.oid ?? '';
  blobs.held.set(oid, Buffer.from('not what the id says'));
  const again = await source.snapshot(await source.resolve(), { prior: first.record });
  assert.deepEqual(contents(again), contents(update));
  const lie = { ...first.record, entries: first.record.entries.slice(1) };
  const astray = await source.snapshot(await source.resolve(), { prior: lie });
  assert.deepEqual(contents(astray), contents(update));
});

test('without filters the whole tree is sent once, and then only what changes', async (t) => {
  for (const options of [{ allowFilter: false }, { config: { 'uploadpackfilter.tree.allow': 'false' } }]) {
    const { repo, server, url } = await served(t, options);
    const blobs = new MemoryBlobs();
    await repo.commitMany(largeTree(2000, 50));
    const source = remote(t, url, { blobs });
    let last = await source.snapshot(await source.resolve());
    assert.ok(server.traffic().bytesDown > 100_000);
    blobs.keep(last);
    const changes = [
      { 'src/new': 'x' },
      { '.svc/agents/agent-1.yaml': 'changed', '.svc/deep/er/x.md': 'x' },
      { '.svc/deep/er/x.md': null },
    ];
    for (const [round, change] of changes.entries()) {
      await repo.commit(change);
      server.log.length = 0;
      const next = await source.snapshot(await source.resolve(), { prior: last.record });
      assert.equal(next.unchanged, round === 0);
      assert.ok(server.traffic().requests <= 3 && server.traffic().bytesDown < 8000, JSON.stringify(server.traffic()));
      if (!next.unchanged) blobs.keep(next);
      const fresh = await remote(t, url).snapshot({ commit: next.commit });
      assert.equal(next.record.svcTree, fresh.record.svcTree);
      if (next.bundle !== null) assert.deepEqual(contents(next), contents(fresh));
      last = next;
    }
  }
});

test('a record that was made under another root is not taken for this one', async (t) => {
  const { repo, url } = await served(t);
  await repo.commit({ 's/one/.svc/a.yaml': '1', 's/two/.svc/a.yaml': '2', 's/one/p': 'one', 's/two/p': 'two' });
  const one = remote(t, url, { root: 's/one' });
  const prior = (await one.snapshot(await one.resolve(), { wantPaths: ['p'] })).record;
  const two = await remote(t, url, { root: 's/two' }).snapshot(await one.resolve(), { prior, wantPaths: ['p'] });
  assert.deepEqual([contents(two), two.unchanged], [{ '.svc/a.yaml': '2', p: 'two' }, false]);
});

test('a file outside that turns into a link of the same content is a change', async (t) => {
  const { repo, url } = await served(t);
  await repo.commit({ ...agents, 'p.md': 'q.md' });
  const source = remote(t, url);
  const first = await source.snapshot(await source.resolve(), { wantPaths: ['p.md'] });
  await repo.commit({ 'p.md': { symlink: 'q.md' } });
  const next = await source.snapshot(await source.resolve(), { prior: first.record });
  assert.deepEqual([next.unchanged, contents(next)['p.md']], [false, '<symlink>']);
});

test('a directory of the repository can be the root', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit({
    'services/one/.svc/agents/a.yaml': 'a',
    'services/one/p.md': 'p',
    'shared/s.md': 's',
    '.svc/agents/top.yaml': 'top',
    'services/two': 'file',
  });
  const source = remote(t, url, { root: 'services/one' });
  const first = await source.snapshot(await source.resolve(), {
    wantPaths: ['p.md', '../../shared/s.md', '../../../etc/passwd'],
  });
  assert.deepEqual(contents(first), { '../../shared/s.md': 's', '.svc/agents/a.yaml': 'a', 'p.md': 'p' });
  assert.deepEqual([...(first.bundle?.absent ?? [])], ['../../../etc/passwd']);
  await repo.commit({ 'other.txt': 'x' });
  server.log.length = 0;
  assert.equal((await source.snapshot(await source.resolve(), { prior: first.record })).unchanged, true);
  assert.equal(server.traffic().requests, 2);
  for (const root of ['services/three', 'services/two']) {
    const none = await remote(t, url, { root }).snapshot(await source.resolve());
    assert.deepEqual([none.bundle?.hasSvc, none.svcTree], [false, null]);
  }
});

test('no .svc/ at all is told from an error and from an empty one', async (t) => {
  const { repo, url } = await served(t);
  await repo.commit({ 'readme.md': 'x' });
  const source = remote(t, url);
  const none = await source.snapshot(await source.resolve());
  assert.deepEqual([none.bundle?.hasSvc, none.bundle?.entries.size, none.svcTree], [false, 0, null]);
  const empty = await repo.writeObject('tree', Buffer.alloc(0));
  const top = await repo.git(['mktree'], `040000 tree ${empty}\t.svc\n`);
  await repo.commitTree(top);
  const hollow = await source.snapshot(await source.resolve(), { prior: none.record });
  assert.deepEqual([hollow.bundle?.hasSvc, hollow.bundle?.entries.size, hollow.unchanged], [true, 0, false]);
});

test('branches, tags and HEAD are resolved by their exact names', async (t) => {
  const { repo, url } = await served(t);
  const one = await repo.commit(agents);
  const two = await repo.commit({ x: '2' }, { branch: 'main-2' });
  await repo.git(['tag', '-a', 'v1', '-m', 'first', one]);
  assert.deepEqual(await remote(t, url, { branch: 'main' }).resolve(), { commit: one, ref: 'refs/heads/main' });
  assert.deepEqual(await remote(t, url, { branch: 'main-2' }).resolve(), { commit: two, ref: 'refs/heads/main-2' });
  assert.equal((await remote(t, url, { branch: 'refs/tags/v1' }).resolve()).commit, one);
  await assert.rejects(remote(t, url, { branch: 'mai' }).resolve(), condition('ref-missing', /"mai"/));
  await assert.rejects(
    remote(t, url, { branch: 'x\nref-prefix refs/' }).resolve(),
    condition('ref-missing', /git allows/),
  );
});

test('an earlier commit can be read, and one that the server never had is ref-missing', async (t) => {
  const { repo, url } = await served(t);
  const one = await repo.commit(agents);
  await repo.commit({ '.svc/agents/a.yaml': 'later' });
  const source = remote(t, url);
  assert.deepEqual(contents(await source.snapshot({ commit: one })), agents);
  await assert.rejects(source.snapshot({ commit: 'e'.repeat(40) }), condition('ref-missing', /does not have/));
  await assert.rejects(source.snapshot({ commit: 'HEAD' }), condition('ref-missing'));
});

test('an empty repository, a lost one and one of SHA-256 ids have conditions of their own', async (t) => {
  const { root, server } = await served(t);
  await assert.rejects(remote(t, server.url('r.git')).resolve(), condition('ref-missing', /empty/));
  await assert.rejects(remote(t, server.url('none.git')).resolve(), condition('not-found'));
  const other = await GitFixture.create(join(root, 'sha256.git'), { objectFormat: 'sha256' });
  await other.git(
    ['fast-import', '--quiet'],
    'commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 1\nx\nM 644 inline a\ndata 1\nx\n',
  );
  await assert.rejects(remote(t, server.url('sha256.git')).resolve(), condition('corrupt', /SHA-256/));
  await server.stop();
  await assert.rejects(remote(t, 'http://127.0.0.1:1/r.git').resolve(), condition('unreachable'));
});

test('a server that learned or lost something is asked anew', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const source = remote(t, url);
  const seen: string[] = [];
  for (const change of [
    {},
    { allowFilter: false },
    { allowFilter: true, passProtocol: false },
    { passProtocol: true },
  ]) {
    server.options = { ...server.options, ...change };
    await repo.commit({ 'n.txt': String(seen.length) });
    const snapshot = await source.snapshot(await source.resolve());
    assert.deepEqual(contents(snapshot), agents);
    seen.push(snapshot.via);
  }
  assert.deepEqual(seen.slice(0, 3), ['sparse3', 'spool', 'spool']);
});

test('files up to 2 MiB are read, larger ones are named and left out, in .svc/ and outside, on every kind of server', async (t) => {
  const limit = 2 * 1024 * 1024;
  for (const options of [{}, { config: { 'uploadpackfilter.tree.allow': 'false' } }, { allowFilter: false }]) {
    const { repo, url } = await served(t, options);
    await repo.commit({
      '.svc/assets/fits.png': Buffer.alloc(limit, 1),
      '.svc/assets/large.png': Buffer.alloc(limit + 1, 2),
      'out/large.md': Buffer.alloc(limit * 4, 3),
      'out/small.md': 's',
    });
    const source = remote(t, url);
    const snapshot = await source.snapshot(await source.resolve(), { wantPaths: ['out/large.md', 'out/small.md'] });
    const entries = [...(snapshot.bundle?.entries.values() ?? [])].map(({ path, tooLarge, bytes }) => [
      path,
      tooLarge ?? bytes?.length,
    ]);
    assert.deepEqual(entries, [
      ['.svc/assets/fits.png', limit],
      ['.svc/assets/large.png', true],
      ['out/large.md', true],
      ['out/small.md', 1],
    ]);
    assert.deepEqual(
      snapshot.findings.map(({ rule, path }) => [rule, path]),
      [
        ['too-large', '.svc/assets/large.png'],
        ['too-large', 'out/large.md'],
      ],
    );
    const again = await source.snapshot(await source.resolve(), { prior: snapshot.record });
    assert.equal(again.unchanged, true);
  }
});

test('one large file among many is found without tree filters, and the others are read', async (t) => {
  const { repo, url } = await served(t, { config: { 'uploadpackfilter.tree.allow': 'false' } });
  await repo.commitMany(largeTree(10, 130));
  await repo.commit({ '.svc/agents/agent-64.yaml': Buffer.alloc(2_500_000, 1) });
  const source = remote(t, url);
  const snapshot = await source.snapshot(await source.resolve());
  assert.deepEqual([snapshot.via, snapshot.bundle?.entries.size], ['blobless', 130]);
  assert.deepEqual(
    snapshot.findings.map(({ path }) => path),
    ['.svc/agents/agent-64.yaml'],
  );
});

test('a repository past the cap of a server without filters is refused in words that say what to do', async (t) => {
  const { repo, url } = await served(t, { allowFilter: false });
  await repo.commitMany(largeTree(3000, 3));
  const spoolDir = await temporary(t);
  const small = remote(t, url, { caps: { spoolBytes: 50_000 }, spoolDir });
  await assert.rejects(small.snapshot(await small.resolve()), condition('server-lacks-filter', /partial clone/));
  assert.deepEqual(await readdir(spoolDir), [], 'a spooled pack has no name on the disk');
});

test('more than a hundred files outside .svc/ are refused', async (t) => {
  const { repo, url } = await served(t);
  await repo.commit(agents);
  const source = remote(t, url);
  const tip = await source.resolve();
  const paths = Array.from({ length: 101 }, (_, n) => `out/${n}`);
  await assert.rejects(source.snapshot(tip, { wantPaths: paths }), condition('too-large', /100 files/));
  const snapshot = await source.snapshot(tip, { wantPaths: paths.slice(0, 60) });
  await assert.rejects(source.more(snapshot, paths.slice(60)), condition('too-large', /100 files/));
});

test('a probe tells what a server supports', async (t) => {
  const options = { network: { allowPrivate: true }, now: () => new Date(0) };
  for (const [what, via, change] of servers) {
    const { repo, url } = await served(t, change);
    const commit = await repo.commit(agents);
    const report = await probeRepository(url, options);
    assert.deepEqual(
      [report.via, report.protocol, report.commit, report.defaultBranch, report.hasSvc],
      [via, what.includes('version 0') ? 0 : 2, commit, 'main', true],
      what,
    );
    assert.ok(report.advice.length > 0 && (report.agent ?? '').startsWith('git/'));
  }
  const { url } = await served(t);
  assert.match((await probeRepository(url, options)).advice.join(' '), /ref-missing/);
  await assert.rejects(probeRepository(`${url}x`, options), condition('not-found'));
});

test('what is remembered of a server holds for its other repositories only as far as they are kept alike', async (t) => {
  const { repo, server, url } = await served(t, { allowFilter: false });
  await repo.commit({ ...agents, 'big.bin': randomBytes(100_000) });
  const hostCache = createHostCache();
  const read = async (caps: Partial<RepoCaps>) => {
    const source = remote(t, url, { hostCache, caps });
    return (await source.snapshot(await source.resolve())).via;
  };
  assert.equal(await read({}), 'spool');
  server.options = { ...server.options, allowFilter: true };
  assert.equal(await read({ spoolBytes: 50_000 }), 'sparse3', 'the other one has filters, and is too large without');
  server.options = { ...server.options, allowFilter: false };
  assert.equal(await read({}), 'spool');
  server.options = { ...server.options, passProtocol: false };
  assert.equal(await read({}), 'spool', 'of version 0');
  server.options = { ...server.options, passProtocol: true, allowFilter: true };
  assert.equal(
    await read({ spoolBytes: 50_000 }),
    'sparse3',
    'the other one, or the same behind an upgrade, is of version 2',
  );
});

test('a server whose filter leaves out also what is asked for by its id is asked for directories without leaving them out', async (t) => {
  const { repo, server, url } = await served(t, { keepBodies: true });
  await repo.commit({ ...agents, 'lib/prompts/x.md': 'hello', 'deep/er/.svc/agents/d.yaml': 'name: d\n' });
  // As JGit does: the filter "tree:0" sends no tree at all.
  const none = packOf([]);
  const section = Buffer.concat([encodePkt('packfile\n'), encodePkt(Buffer.concat([Buffer.of(1), none])), flushPkt]);
  server.fault = ({ body }) => (body.includes('filter tree:0') ? { kind: 'replace', body: () => section } : null);
  const source = remote(t, url);
  const snapshot = await source.snapshot(await source.resolve(), { wantPaths: ['lib/prompts/x.md'] });
  assert.deepEqual([snapshot.via, contents(snapshot)['lib/prompts/x.md']], ['sparse3', 'hello']);
  const below = remote(t, url, { root: 'deep/er' });
  const there = await below.snapshot(await below.resolve());
  assert.deepEqual([there.via, contents(there)], ['sparse3', { '.svc/agents/d.yaml': 'name: d\n' }]);
});
