// Shared archives in a directory and in a store that speaks the API of S3: a server of this test, which knows each
// signature by the signer that the published examples of the protocol judge.

import assert from 'node:assert/strict';
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { test, type TestContext } from 'node:test';
import { sha256 } from '../../base/hash.ts';
import { isWithin } from '../../base/testkit/parsing.ts';
import { startTrickle } from '../../base/testkit/trickle.ts';
import { type ArchiveSealer, DirectoryStore, type ObjectStore, S3Store, SharedArchives } from './objects.ts';
import { emptySha256, signed } from './s3-sign.ts';

const keys = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' };
const name = (n: number): string => sha256(`archive ${n}`);

test('requests are signed as the published examples are', () => {
  const at = new Date('2013-05-24T00:00:00Z');
  const host = 'https://examplebucket.s3.amazonaws.com';
  const signature = (method: string, path: string, headers: Record<string, string> = {}, body = ''): string => {
    const request = { method, url: new URL(host + path), headers, sha256: body === '' ? emptySha256 : sha256(body) };
    return /Signature=(.*)/.exec(signed(request, keys, 'us-east-1', at)['authorization'] ?? '')?.[1] ?? '';
  };
  assert.deepEqual(
    [
      signature('GET', '/test.txt', { range: 'bytes=0-9' }),
      signature('GET', '/?lifecycle'),
      signature('GET', '/?max-keys=2&prefix=J'),
      signature(
        'PUT',
        '/test%24file.text',
        { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
        'Welcome to Amazon S3.',
      ),
    ],
    [
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    ],
  );
});

/** Objects by their paths; refuses a signature, or a body, that is not right. */
async function startS3(t: TestContext): Promise<{ endpoint: string; objects: Map<string, Buffer>; stop(): void }> {
  const objects = new Map<string, Buffer>();
  const server = createServer((request, response) => void answer(request, response));
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    const refuse = (status: number, code: string): void =>
      void response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`);
    if (sha256(body) !== request.headers['x-amz-content-sha256']) return refuse(400, 'XAmzContentSHA256Mismatch');
    const names = /SignedHeaders=([^,]*)/.exec(request.headers.authorization ?? '')?.[1]?.split(';') ?? [];
    const own = names.filter((one) => one !== 'host' && !one.startsWith('x-amz-'));
    const headers = Object.fromEntries(own.map((one) => [one, String(request.headers[one])]));
    const day = String(request.headers['x-amz-date']).replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z');
    const again = signed(
      { method: request.method ?? '', url, headers, sha256: sha256(body) },
      keys,
      'eu-1',
      new Date(day),
    );
    if (again['authorization'] !== request.headers.authorization) return refuse(403, 'SignatureDoesNotMatch');
    const path = decodeURIComponent(url.pathname);
    if (url.searchParams.get('list-type') === '2') return void response.end(listed(url, path, objects));
    if (request.method === 'PUT') objects.set(path, body);
    if (request.method === 'DELETE') objects.delete(path);
    if (request.method !== 'GET') return void response.writeHead(request.method === 'PUT' ? 200 : 204).end();
    const found = objects.get(path);
    if (found === undefined) refuse(404, 'NoSuchKey');
    else response.end(found);
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = (): void => {
    server.closeAllConnections();
    server.close();
  };
  t.after(stop);
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, objects, stop };
}

/** Two a page. */
function listed(url: URL, bucket: string, objects: ReadonlyMap<string, Buffer>): string {
  const all = [...objects]
    .map(([path, body]) => ({ key: path.slice(bucket.length + 1), body }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
  const from = Number(url.searchParams.get('continuation-token') ?? '0');
  const inside = all.filter(({ key }) => key.startsWith(url.searchParams.get('prefix') ?? ''));
  const page = inside
    .slice(from, from + 2)
    .map(
      ({ key, body }) =>
        `<Contents><Key>${key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>${body.length}</Size></Contents>`,
    );
  const next = from + 2 < inside.length ? `<NextContinuationToken>${from + 2}</NextContinuationToken>` : '';
  return `<?xml version="1.0"?><ListBucketResult>${page.join('')}${next}</ListBucketResult>`;
}

/** As the installation's: bound to the name. */
function sealerOf(secret: Buffer): ArchiveSealer {
  return {
    seal(key, bound) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', secret, nonce).setAAD(Buffer.from(bound));
      return { keyVersion: 1, sealed: Buffer.concat([nonce, cipher.update(key), cipher.final(), cipher.getAuthTag()]) };
    },
    open({ sealed }, bound) {
      const cipher = createDecipheriv('aes-256-gcm', secret, sealed.subarray(0, 12)).setAAD(Buffer.from(bound));
      cipher.setAuthTag(sealed.subarray(-16));
      return Buffer.concat([cipher.update(sealed.subarray(12, -16)), cipher.final()]);
    },
  };
}

function temporary(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'svc-objects-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

interface Peer {
  readonly archives: SharedArchives;
  readonly trouble: string[];
  keep(key: string, at: number, content: Buffer): Promise<void>;
  read(key: string): Promise<{ at: number; content: Buffer } | null>;
}

function peerOf(
  t: TestContext,
  store: ObjectStore,
  more: { secret?: Buffer; maxTotalBytes?: number; now?: () => number } = {},
): Peer {
  const directory = temporary(t);
  const trouble: string[] = [];
  const read: Readable[] = [];
  const archives = new SharedArchives({
    store: {
      where: store.where,
      async get(key) {
        const stream = await store.get(key);
        if (stream !== null) read.push(stream);
        return stream;
      },
      put: (key, file) => store.put(key, file),
      list: () => store.list(),
      remove: (key) => store.remove(key),
      close: () => store.close(),
    },
    sealer: sealerOf(more.secret ?? secret),
    directory,
    maxTotalBytes: more.maxTotalBytes ?? 1 << 30,
    now: more.now ?? Date.now,
    onTrouble: (error) => trouble.push(String(error)),
  });
  t.after(async () => {
    assert.ok(
      read.every(({ destroyed }) => destroyed),
      'whatever was begun to be read is closed',
    );
    await archives.close();
  });
  let count = 0;
  return {
    archives,
    trouble,
    async keep(key, at, content) {
      const path = join(directory, `own-${(count += 1)}`);
      writeFileSync(path, Buffer.concat([Buffer.alloc(7), content]));
      archives.keep(key, at, await open(path), 7);
      await archives.settled();
      assert.deepEqual(
        readdirSync(directory).filter((one) => one.startsWith('next-')),
        [],
      );
    },
    async read(key) {
      const found = await archives.fetch(key, () => true);
      if (found === null) return null;
      return { at: found.at, content: Buffer.concat(await Array.fromAsync(found.archive)) };
    },
  };
}

const secret = randomBytes(32);
const MiB = 1024 * 1024;

for (const kind of ['a directory', 'S3'] as const) {
  test(`what one daemon keeps in ${kind} another reads, sealed, and nothing that was changed or is another's`, async (t) => {
    const s3 = await startS3(t);
    const folder = temporary(t);
    const prefix = 'svc/setup (a)/';
    const make = (): ObjectStore =>
      kind === 'S3'
        ? new S3Store({ endpoint: s3.endpoint, bucket: 'bucket', region: 'eu-1', prefix, keys, now: Date.now })
        : new DirectoryStore(join(folder, 'shared'), Date.now);
    const [one, two] = [peerOf(t, make()), peerOf(t, make())];
    assert.equal(await two.read(name(0)), null);
    for (const [index, size] of [0, 1, MiB - 1, MiB, MiB + 1, 3 * MiB].entries()) {
      const content = randomBytes(size);
      await one.keep(name(index), 1_000 + index, content);
      assert.deepEqual(await two.read(name(index)), { at: 1_000 + index, content });
    }
    assert.deepEqual([...one.trouble, ...two.trouble], []);
    const store = make();
    t.after(() => store.close());
    assert.deepEqual((await store.list()).map(({ key }) => key).toSorted(), [0, 1, 2, 3, 4, 5].map(name).toSorted());
    // As it lies there: sealed, and only under its own name and the installation's key.
    await one.keep(name(9), 9, Buffer.from('readable text of an archive'.repeat(50)));
    const raw = (key: string): Buffer =>
      kind === 'S3'
        ? (s3.objects.get(`/bucket/${prefix}${key}`) ?? assert.fail())
        : readFileSync(join(folder, 'shared', `${key}.sealed`));
    const put = (key: string, data: Buffer): void => {
      if (kind === 'S3') s3.objects.set(`/bucket/${prefix}${key}`, data);
      else writeFileSync(join(folder, 'shared', `${key}.sealed`), data);
    };
    const sealed = raw(name(9));
    assert.equal(sealed.includes('readable'), false);
    await assert.rejects(
      peerOf(t, make(), { secret: randomBytes(32) })
        .archives.fetch(name(9), () => true)
        .then(readAll),
    );
    assert.equal(await two.archives.fetch(name(9), (at) => at > 9), null, 'of a time that is not wanted');
    put(name(10), sealed);
    await assert.rejects(two.read(name(10)));
    const long = raw(name(5));
    for (const at of [long.length - 1, long.length - 40, 2 * MiB, 400, 200]) {
      const cut = long.subarray(0, at);
      const changed = Buffer.from(long);
      changed[at] = (changed[at] ?? 0) ^ 1;
      for (const broken of [cut, changed]) {
        put(name(5), broken);
        const fresh = peerOf(t, make());
        await assert.rejects(
          fresh.read(name(5)).then((found) => assert.ok(found !== null)),
          `at ${at}`,
        );
      }
    }
    // A whole piece less: the one before it does not say that it is the last.
    const pieces = 4 + 28 + MiB;
    put(name(5), long.subarray(0, long.length - pieces));
    await assert.rejects(two.read(name(5)));
  });
}

const readAll = async (found: { readonly archive: AsyncIterable<Buffer> } | null): Promise<void> => {
  if (found === null) throw new Error('nothing');
  await Array.fromAsync(found.archive);
};

test('many writers of one key leave one whole archive, and what was left of a killed one is no object', async (t) => {
  const folder = join(temporary(t), 'shared');
  const peers = Array.from({ length: 6 }, () => peerOf(t, new DirectoryStore(folder, Date.now)));
  const contents = peers.map((_peer, index) => Buffer.alloc(2 * MiB + index, index));
  await Promise.all(peers.map((peer, index) => peer.keep(name(1), index, contents[index] as Buffer)));
  const found = await peers[0]?.read(name(1));
  assert.ok(contents.some((content) => found?.content.equals(content)));
  writeFileSync(join(folder, 'next-killed'), 'x');
  writeFileSync(join(folder, 'README'), 'somebody’s');
  symlinkSync('/etc/passwd', join(folder, `${name(2)}.sealed`));
  mkdirSync(join(folder, `${name(3)}.sealed`));
  assert.deepEqual(
    (await new DirectoryStore(folder, Date.now).list()).map(({ key }) => key),
    [name(1)],
  );
  assert.equal(await peers[0]?.read(name(2)), null);
  assert.ok(readdirSync(folder).includes('README'));
});

test('the longest unused go first, and a store that does not answer is left alone for a while', async (t) => {
  const folder = join(temporary(t), 'shared');
  const store = new DirectoryStore(folder, Date.now);
  let now = 10_000_000;
  const peer = peerOf(t, store, { maxTotalBytes: 3 * MiB, now: () => now });
  for (let index = 0; index < 4; index += 1) {
    now += 4_000_000;
    await peer.keep(name(index), now, randomBytes(MiB));
  }
  assert.deepEqual((await store.list()).length, 2);
  assert.ok((await peer.read(name(3))) !== null);
  assert.equal(await peer.read(name(0)), null);
  const s3 = await startS3(t);
  const other = { ...keys, secretAccessKey: 'another' };
  const settings = { endpoint: s3.endpoint, bucket: 'bucket', region: 'eu-1', prefix: '', keys: other, now: Date.now };
  const refused = peerOf(t, new S3Store(settings), { now: () => now });
  await refused.keep(name(1), 1, Buffer.from('x'));
  assert.match(refused.trouble.join(), /PUT 403 SignatureDoesNotMatch/);
  assert.doesNotMatch(refused.trouble.join(), /another|AKIA/);
  assert.equal(await refused.read(name(1)), null);
  assert.equal(refused.trouble.length, 1);
  now += 31_000;
  s3.stop();
  assert.equal(await refused.read(name(1)), null);
  assert.equal(refused.trouble.length, 2);
  // Root may write everywhere; what nobody may write is a file in its place.
  const blocked = join(temporary(t), 'file');
  writeFileSync(blocked, '');
  chmodSync(blocked, 0o600);
  const lost = peerOf(t, new DirectoryStore(blocked, Date.now));
  await lost.keep(name(1), 1, Buffer.from('x'));
  assert.equal(lost.trouble.length, 1);
});

test('a list of a store whose entries do not end is gone through in a time that grows with its bytes alone', async (t) => {
  const [whole, cut] = [
    `<Contents><Key>${name(1)}</Key><Size>7</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>`,
    '<Contents>'.repeat(100_000),
  ];
  const server = createServer((_, response) => void response.end(`<ListBucketResult>${whole}${cut}`));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = new S3Store({ endpoint, bucket: 'bucket', region: 'eu-1', prefix: '', keys, now: Date.now });
  t.after(() => store.close());
  const since = performance.now();
  assert.deepEqual(await store.list(), [{ key: name(1), bytes: 7, at: Date.UTC(2026, 0, 1) }]);
  const ms = performance.now() - since;
  assert.ok(isWithin(ms, 1_000), `it took ${Math.round(ms)} ms`);
});

test('an answer of a store that trickles is given up, to a list as well as in the midst of an archive', async (t) => {
  const { url: endpoint, wholes } = await startTrickle(t);
  const store = new S3Store({ endpoint, bucket: 'bucket', region: 'eu-1', prefix: '', keys, now: Date.now });
  t.after(() => store.close());
  await assert.rejects(store.list(), { name: 'TimeoutError' });
  const stream = await store.get(name(1));
  assert.ok(stream !== null);
  await assert.rejects(stream.toArray(), { name: 'TimeoutError' });
  assert.equal(wholes(), 0);
});

test('the end waits no longer than a moment for a store that takes an archive in and says nothing', async (t) => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const server = createServer((request) => void request.resume().once('end', ask));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const directory = mkdtempSync(join(tmpdir(), 'svc-objects-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = new S3Store({ endpoint, bucket: 'b', prefix: '', region: 'eu-1', keys, now: Date.now });
  let trouble = 0;
  const archives = new SharedArchives({
    ...{ store, sealer: sealerOf(randomBytes(32)), directory, maxTotalBytes: 1e9, now: Date.now },
    onTrouble: () => (trouble += 1),
  });
  const file = join(directory, 'archive');
  writeFileSync(file, 'what was set up');
  archives.keep(name(1), Date.now(), await open(file), 0);
  await asked;
  const begun = performance.now();
  await archives.close();
  const ms = performance.now() - begun;
  assert.ok(isWithin(ms, 8_000), `after ${Math.round(ms)} ms`);
  assert.deepEqual([trouble, readdirSync(directory)], [1, ['archive']], 'nothing of it is left on the way');
});
