import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import type { Fault, GitServer } from '../../base/testkit/git-server.ts';
import { encodePkt, flushPkt, PktDecoder } from './protocol.ts';
import { condition, contents, ofsDelta, packOf, remote, served, sizeBytes, wholeEntry } from './test-support.ts';
import { RepoCondition } from './types.ts';

const agents = { '.svc/agents/a.yaml': 'name: a\n', '.svc/agents/b.yaml': `b: ${'x'.repeat(500)}\n` };
const isPost = (method: string) => method === 'POST';

/** Lets the n-th POST (from 0) meet a fault. */
function faultAt(server: GitServer, n: number, fault: Fault): void {
  server.log.length = 0;
  server.fault = (request) =>
    isPost(request.method) && server.log.filter(({ method }) => isPost(method)).length - 1 === n ? fault : null;
}

/** A fetch answer that carries these pack bytes. */
function fetchAnswer(pack: Buffer, last: Buffer = flushPkt): Buffer {
  const frames: Buffer[] = [encodePkt('packfile\n')];
  for (let at = 0; at < pack.length; at += 60_000)
    frames.push(encodePkt(Buffer.concat([Buffer.from([1]), pack.subarray(at, at + 60_000)])));
  return Buffer.concat([...frames, last]);
}

/** Offsets of all frame borders of an answer. */
function borders(answer: Buffer): number[] {
  const decoder = new PktDecoder();
  const found = [0];
  let at = 0;
  for (const frame of decoder.push(answer)) {
    at += frame.kind === 'data' ? frame.payload.length + 4 : 4;
    found.push(at);
  }
  return found;
}

test('an answer that ends early at any frame or inside one is a condition, and the next read heals', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  for (const post of [0, 1, 2]) {
    const answers: Buffer[] = [];
    faultAt(server, post, { kind: 'replace', body: (real) => (answers.push(real), real) });
    const probe = remote(t, url);
    await probe.snapshot(await probe.resolve());
    const whole = answers[0] as Buffer;
    const places = borders(whole)
      .flatMap((place) => [place - 1, place, place + 3])
      .filter((place) => place >= 0 && place < whole.length);
    for (const cut of [false, true]) {
      for (const afterBytes of new Set(places)) {
        const source = remote(t, url);
        // Also the calls that look for another way see the same broken answer.
        server.log.length = 0;
        server.fault = (request) =>
          isPost(request.method) && server.log.filter(({ method }) => isPost(method)).length - 1 >= post
            ? { kind: 'replace', body: () => whole.subarray(0, afterBytes), cut }
            : null;
        const error = await source
          .resolve()
          .then((tip) => source.snapshot(tip))
          .then(
            () => null,
            (failure: unknown) => failure,
          );
        assert.ok(
          error instanceof RepoCondition && ['corrupt', 'unreachable'].includes(error.condition),
          `answer ${post} after ${afterBytes} bytes, cut ${cut}: ${String(error)}`,
        );
        server.fault = () => null;
        const healed = await source.snapshot(await source.resolve());
        assert.deepEqual([contents(healed), healed.via], [agents, 'sparse3']);
      }
    }
  }
});

test('an abort in the middle of a pack is corrupt, remembered by nobody, and the next read is whole', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const source = remote(t, url);
  const tip = await source.resolve();
  for (const post of [0, 1]) {
    const abort = (real: Buffer) =>
      Buffer.concat([
        real.subarray(0, borders(real).at(-3) as number),
        encodePkt('\x03upload-pack: aborting due to possible repository corruption'),
        flushPkt,
      ]);
    faultAt(server, post, { kind: 'replace', body: abort });
    await assert.rejects(remote(t, url).snapshot(tip), condition('corrupt', /aborted: upload-pack/));
    server.fault = () => null;
    assert.equal((await source.snapshot(tip)).via, 'sparse3');
  }
});

test('bombs sent by a server that ignores the filter are refused', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const small = wholeEntry('blob', Buffer.alloc(20));
  const half = 512 * 1024 * 1024;
  const delta = Buffer.concat([sizeBytes(20), sizeBytes(half), Buffer.from([0xf0, 255, 255, 255])]);
  const peakBytes = (): number => process.resourceUsage().maxRSS * 1024;
  const before = peakBytes();
  const bombs = [
    packOf([wholeEntry('blob', Buffer.alloc(4096), half)]),
    packOf([small, ofsDelta(small.length, delta)]),
    packOf([small], 4_000_000_000),
  ];
  for (const bomb of bombs) {
    const source = remote(t, url);
    const tip = await source.resolve();
    faultAt(server, 1, { kind: 'replace', body: () => fetchAnswer(bomb) });
    await assert.rejects(source.snapshot(tip), condition('too-large'));
    server.fault = () => null;
  }
  assert.ok(peakBytes() - before < 400_000_000, 'nothing of half a gigabyte was allocated');
});

test('a pack past the byte cap, endless progress and endless refs are cut off', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const source = remote(t, url, { caps: { packBytes: 100_000 } });
  const tip = await source.resolve();
  const noise = encodePkt(Buffer.concat([Buffer.from([2]), Buffer.alloc(60_000, 46)]));
  for (const body of [
    fetchAnswer(packOf([wholeEntry('blob', randomBytes(200_000))])),
    Buffer.concat([encodePkt('packfile\n'), ...new Array<Buffer>(40).fill(noise)]),
  ]) {
    faultAt(server, 0, { kind: 'replace', body: () => body });
    await assert.rejects(source.snapshot(tip), condition('too-large'));
  }
  const line = encodePkt(`${'a'.repeat(40)} refs/heads/${'x'.repeat(200)}\n`);
  faultAt(server, 0, { kind: 'replace', body: () => Buffer.concat(new Array<Buffer>(800).fill(line)) });
  await assert.rejects(source.resolve(), condition('too-large'));
});

test('a server that sends another commit, tree or nothing is corrupt', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  const other = Buffer.from(`tree ${'a'.repeat(40)}\ncommitter A <a@b> 1 +0000\n\nx`);
  for (const pack of [
    packOf([]),
    packOf([wholeEntry('commit', other)]),
    packOf([wholeEntry('tree', Buffer.alloc(0))]),
  ]) {
    for (const post of [0, 1]) {
      const source = remote(t, url);
      const tip = await source.resolve();
      faultAt(server, post, { kind: 'replace', body: () => fetchAnswer(pack) });
      await assert.rejects(source.snapshot(tip), condition('corrupt'));
      server.fault = () => null;
    }
  }
});

test('a tag of what is no commit is told so', async (t) => {
  const { repo, server, url } = await served(t);
  await repo.commit(agents);
  for (const [tag, of, allowFilter, word] of [
    ['tree', 'main^{tree}', true, 'tree'],
    ['blob', 'main:.svc/agents/a.yaml', true, 'blob'],
    ['tree', 'main^{tree}', false, 'tree'],
  ] as const) {
    await repo.git(['tag', '-f', '-a', tag, '-m', 'x', of]);
    server.options = { ...server.options, allowFilter };
    const source = remote(t, url, { branch: `refs/tags/${tag}` });
    const tip = await source.resolve();
    await assert.rejects(source.snapshot(tip), condition('ref-missing', new RegExp(`is a ${word}, and no commit`)));
  }
});

test('hostile trees in the repository itself are conditions, and odd names outside .svc/ are not', async (t) => {
  const { repo, url } = await served(t);
  const blob = await repo.writeObject('blob', Buffer.from('x: 1\n'));
  const entry = (mode: string, name: string | Buffer, oid: string) =>
    Buffer.concat([Buffer.from(`${mode} `), Buffer.from(name as string), Buffer.from([0]), Buffer.from(oid, 'hex')]);
  const svc = async (...parts: Buffer[]) => repo.writeObject('tree', Buffer.concat(parts));
  const commit = async (tree: string, ...before: Buffer[]) =>
    repo.commitTree(await repo.writeObject('tree', Buffer.concat([...before, entry('40000', '.svc', tree)])));
  const source = remote(t, url);
  const read = async () => source.snapshot(await source.resolve());
  for (const bad of [
    [entry('100644', '..', blob)],
    [entry('100644', 'a\\b', blob)],
    [entry('100644', 'a', blob), entry('100644', 'a', blob)],
    [entry('100644', Buffer.from([0xff, 0xfe]), blob)],
  ]) {
    await commit(await svc(...bad));
    await assert.rejects(read(), condition('hostile'));
  }
  await commit(
    await svc(entry('100644', 'a.yaml', blob)),
    entry('100644', '..', blob),
    entry('40000', '.git', await svc()),
    entry('100664', 'a\\b', blob),
  );
  assert.deepEqual(contents(await read()), { '.svc/a.yaml': 'x: 1\n' });
  await commit(
    await svc(
      entry('040000', 'agents', await svc(entry('100664', 'old.yaml', blob))),
      entry('120000', 'link', blob),
      entry('160000', 'module', 'c'.repeat(40)),
    ),
  );
  const tip = await read();
  assert.deepEqual(contents(tip), {
    '.svc/agents/old.yaml': 'x: 1\n',
    '.svc/link': '<symlink>',
    '.svc/module': '<submodule>',
  });
  let bomb = await svc(...Array.from({ length: 10 }, (_, n) => entry('100644', `n${n}`, blob)));
  for (let level = 0; level < 8; level += 1)
    bomb = await svc(...Array.from({ length: 10 }, (_, n) => entry('40000', `n${n}`, bomb)));
  await commit(bomb);
  await assert.rejects(read(), condition('too-large'));
  for (const [mode, words] of [
    ['120000', /symbolic link/],
    ['160000', /submodule/],
  ] as const) {
    await repo.commitTree(await svc(entry(mode, '.svc', blob)));
    await assert.rejects(read(), condition('hostile', words));
  }
});
