import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { type FixtureFile, GitFixture } from '../../base/testkit/git-fixture.ts';
import { openRepository } from './repo.ts';
import { MemoryBlobs, remote, served } from './test-support.ts';
import type { RepoSource, SnapshotRecord } from './types.ts';

const rounds = process.env['SVC_LONG'] === undefined ? 12 : 150;
const name = fc.constantFrom('a', 'b', 'a.b', 'a-b', 'agents', 'x.yaml', 'ä.md', 'sp ace', '.hidden', 'Z');
const path = fc
  .tuple(fc.constantFrom('.svc', '.svc', 'lib', 'src'), fc.array(name, { minLength: 1, maxLength: 4 }))
  .map(([top, rest]) => [top, ...rest].join('/'));
const content = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc.uint8Array({ maxLength: 2000 }),
  fc.nat(60).map((n) => `line\n`.repeat(n * 10)),
  fc.constant<FixtureFile>({ symlink: 'x.yaml' }),
  fc.string({ maxLength: 10 }).map((text): FixtureFile => ({ executable: text })),
);
const change = fc.dictionary(path, fc.option(content, { nil: null, freq: 4 }), {
  minKeys: 1,
  maxKeys: 12,
  noNullPrototype: true,
});

/** What git itself says stands under `.svc/` at a commit. */
async function listed(repo: GitFixture, commit: string): Promise<Record<string, string>> {
  const text = (await repo.gitBytes(['ls-tree', '-r', '-z', commit, '--', '.svc'])).toString('utf8');
  const lines = text.split('\0').filter((line) => line !== '');
  const rows = lines.map((line) => /^(\d+) \w+ ([0-9a-f]+)\t([\s\S]+)$/.exec(line) ?? []);
  const batch = await repo.gitBytes(['cat-file', '--batch'], rows.map(([, , oid]) => `${oid}\n`).join(''));
  const expected: Record<string, string> = {};
  let at = 0;
  for (const [, mode, oid = '', file = ''] of rows) {
    const end = batch.indexOf('\n', at);
    const size = Number(batch.toString('latin1', at, end).split(' ')[2]);
    const bytes = batch.subarray(end + 1, end + 1 + size);
    at = end + 2 + size;
    expected[file] = mode === '120000' ? `link ${oid}` : `file ${oid} ${bytes.toString('base64')}`;
  }
  return expected;
}

async function read(source: RepoSource, prior: SnapshotRecord | null, blobs: MemoryBlobs) {
  const snapshot = await source.snapshot(await source.resolve(), { prior, full: true });
  blobs.keep(snapshot);
  const entries = [...(snapshot.bundle?.entries.values() ?? [])].filter((entry) => entry.path.startsWith('.svc/'));
  const seen = Object.fromEntries(
    entries.map(({ path: file, kind, oid, bytes }) => [
      file,
      kind === 'symlink' ? `link ${oid}` : `${kind} ${oid} ${Buffer.from(bytes ?? []).toString('base64')}`,
    ]),
  );
  return { seen, snapshot };
}

test('random histories are read as git lists them, by every driver, from nothing and as updates', async (t) => {
  const { root, repo: _unused, server } = await served(t);
  let count = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 4 }), fc.boolean(), async (changes, filter) => {
      const id = `f${(count += 1)}.git`;
      const repo = await GitFixture.create(join(root, id));
      server.options = { ...server.options, allowFilter: filter };
      const stores = [new MemoryBlobs(), new MemoryBlobs()] as const;
      const sources = [
        remote(t, server.url(id), { blobs: stores[0] }),
        openRepository(
          { kind: 'local', path: repo.dir, branch: 'main', root: '' },
          { blobs: stores[1], now: () => new Date(0) },
        ),
      ] as const;
      const priors: (SnapshotRecord | null)[] = [null, null];
      for (const files of changes) {
        const commit = await repo.commit(files);
        const expected = await listed(repo, commit);
        for (const [index, source] of sources.entries()) {
          const { seen, snapshot } = await read(source, priors[index] ?? null, stores[index] as MemoryBlobs);
          assert.deepEqual(seen, expected);
          assert.equal(snapshot.bundle?.hasSvc, Object.keys(expected).length > 0);
          priors[index] = snapshot.record;
        }
      }
      await sources[1].close();
    }),
    { numRuns: rounds, endOnFailure: true },
  );
});
