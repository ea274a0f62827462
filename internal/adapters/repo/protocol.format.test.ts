import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  encodePkt,
  fetchedPack,
  fetchRequest,
  flushPkt,
  GitServerError,
  lsRefsRequest,
  oldFetchedPack,
  parseAdvertisement,
  parseLsRefs,
  type Pkt,
  PktDecoder,
} from './protocol.ts';
import { readPkts } from './pkt-stream.ts';
import { condition } from './test-support.ts';

const oid = 'a'.repeat(40);
const every = (): boolean => true;

async function* chunksOf(...parts: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

test('frames come out as they went in, however the stream is cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 300 })), fc.array(fc.nat(400)), async (payloads, cuts) => {
      const stream = Buffer.concat([...payloads.map(encodePkt), flushPkt]);
      const parts: Uint8Array[] = [];
      let at = 0;
      for (const cut of cuts) {
        parts.push(stream.subarray(at, at + cut));
        at = Math.min(stream.length, at + cut);
      }
      parts.push(stream.subarray(at));
      const frames = await collect(readPkts(chunksOf(...parts)));
      assert.equal(frames.pop()?.kind, 'flush');
      assert.deepEqual(
        frames.map((frame) => Buffer.from((frame as { payload: Buffer }).payload).toString('hex')),
        payloads.map((p) => Buffer.from(p).toString('hex')),
      );
    }),
  );
});

for (const bad of ['0003', 'fff1', 'zzzz', '-001', '<htm', '00 4']) {
  test(`a frame length of ${JSON.stringify(bad)} is corrupt`, () => {
    assert.throws(() => new PktDecoder().push(Buffer.from(`${bad}xxxx`)), condition('corrupt'));
  });
}

test('any bytes give frames or the condition corrupt, and nothing else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        new PktDecoder().push(bytes);
      } catch (error) {
        condition('corrupt')(error);
      }
    }),
  );
});

const answer = Buffer.concat([
  encodePkt('shallow-info\n'),
  encodePkt(`shallow ${oid}\n`),
  Buffer.from('0001'),
  encodePkt('packfile\n'),
  encodePkt(Buffer.from('\x02progress')),
  encodePkt(Buffer.from('\x01PACK')),
  encodePkt(Buffer.from('\x01rest')),
  flushPkt,
]);

test('a fetch answer gives the pack alone', async () => {
  const pack = await collect(fetchedPack(readPkts(chunksOf(answer))));
  assert.equal(Buffer.concat(pack).toString(), 'PACKrest');
});

test('a fetch answer cut at any byte is corrupt', async () => {
  for (let length = 0; length < answer.length; length += 1) {
    await assert.rejects(
      collect(fetchedPack(readPkts(chunksOf(answer.subarray(0, length))))),
      condition('corrupt'),
      `cut at ${length}`,
    );
  }
});

test('an abort on channel 3 is told in the words of the server, on one line', async () => {
  const stream = Buffer.concat([
    encodePkt('packfile\n'),
    encodePkt('\x01PACK'),
    encodePkt('\x03aborting\u001b[31m due to\nloss'),
    flushPkt,
  ]);
  await assert.rejects(
    collect(fetchedPack(readPkts(chunksOf(stream)))),
    condition('corrupt', /aborted: aborting \[31m due to loss$/),
  );
  const old = Buffer.concat([encodePkt('NAK\n'), encodePkt('\x03no'), flushPkt]);
  await assert.rejects(collect(oldFetchedPack(readPkts(chunksOf(old)))), condition('corrupt', /no$/));
});

test('an ERR frame is the refusal of the server', async () => {
  await assert.rejects(
    collect(fetchedPack(readPkts(chunksOf(encodePkt('ERR upload-pack: not our ref x'))))),
    GitServerError,
  );
  await assert.rejects(parseLsRefs(readPkts(chunksOf(encodePkt('ERR go away'), flushPkt)), every), /go away/);
});

test('refs come with their symbolic target and what a tag stands for', async () => {
  const lines = [`${oid} HEAD symref-target:refs/heads/main\n`, `${oid} refs/tags/v1 peeled:${'b'.repeat(40)}\n`];
  const refs = await parseLsRefs(readPkts(chunksOf(...lines.map(encodePkt), flushPkt)), every);
  assert.deepEqual(refs, [
    { name: 'HEAD', oid, symrefTarget: 'refs/heads/main' },
    { name: 'refs/tags/v1', oid, peeled: 'b'.repeat(40) },
  ]);
});

test('a ref whose name no git makes is corrupt, and so is what one stands for', async () => {
  const odd = condition('corrupt', /whose name holds a control character/);
  for (const line of [`${oid} HEAD symref-target:refs/heads/ma\0in\n`, `${oid} refs/heads/a\x1b[31m\n`])
    await assert.rejects(parseLsRefs(readPkts(chunksOf(encodePkt(line), flushPkt)), every), odd);
  const zero = encodePkt(`${oid} HEAD\0shallow symref=HEAD:refs/heads/ma\0in\n`);
  await assert.rejects(parseAdvertisement(readPkts(chunksOf(zero, flushPkt)), every), odd);
});

test('a repository of SHA-256 ids is told apart from nonsense', async () => {
  const line = encodePkt(`${'c'.repeat(64)} HEAD\n`);
  await assert.rejects(parseLsRefs(readPkts(chunksOf(line, flushPkt)), every), condition('corrupt', /SHA-256/));
  await assert.rejects(
    parseLsRefs(readPkts(chunksOf(encodePkt('hello'), flushPkt)), every),
    condition('corrupt', /not what a git server/),
  );
});

test('advertisements of version 2 and of version 0 are understood', async () => {
  const service = [encodePkt('# service=git-upload-pack\n'), flushPkt];
  const two = ['version 2\n', 'agent=git/9\n', 'fetch=shallow filter\n', 'object-format=sha1\n'].map(encodePkt);
  const v2 = await parseAdvertisement(readPkts(chunksOf(...service, ...two, flushPkt)), every);
  assert.deepEqual([v2.protocol, v2.filter, v2.agent, v2.objectFormat], [2, true, 'git/9', 'sha1']);
  const zero = [`${oid} HEAD\0shallow side-band-64k symref=HEAD:refs/heads/main\n`, `${oid} refs/heads/main\n`].map(
    encodePkt,
  );
  const v0 = await parseAdvertisement(readPkts(chunksOf(...service, ...zero, flushPkt)), every);
  assert.deepEqual(
    [v0.protocol, v0.filter, v0.refs[0]?.symrefTarget, v0.refs.length],
    [0, false, 'refs/heads/main', 2],
  );
  const empty = [`${'0'.repeat(40)} capabilities^{}\0shallow\n`].map(encodePkt);
  assert.deepEqual((await parseAdvertisement(readPkts(chunksOf(...service, ...empty, flushPkt)), every)).refs, []);
  const bare = await parseAdvertisement(readPkts(chunksOf(...service, flushPkt)), every);
  assert.deepEqual([bare.protocol, bare.filter, bare.refs], [0, false, []], 'as old servers say of an empty one');
});

test('of a list of refs what was asked for is kept, once, and all of it is checked', async () => {
  const isMain = (name: string): boolean => name.startsWith('refs/heads/main');
  const line = (name: string, id = oid): Buffer => encodePkt(`${id} ${name}\n`);
  const listed = [line('refs/heads/a'), line('refs/heads/main'), line('refs/heads/main', 'b'.repeat(40))];
  const kept = [{ name: 'refs/heads/main', oid }];
  assert.deepEqual(await parseLsRefs(readPkts(chunksOf(...listed, flushPkt)), isMain), kept);
  const first = line('HEAD\0shallow');
  const old = await parseAdvertisement(readPkts(chunksOf(first, ...listed, flushPkt)), isMain);
  assert.deepEqual(old.refs, kept);
  const bad = chunksOf(first, line('refs/heads/b', 'x'), flushPkt);
  await assert.rejects(parseAdvertisement(readPkts(bad), isMain), condition('corrupt'));
  const words = new Array<Buffer>(1_001).fill(encodePkt('agent=x\n'));
  const wordy = chunksOf(encodePkt('version 2\n'), Buffer.concat(words), flushPkt);
  await assert.rejects(parseAdvertisement(readPkts(wordy), isMain), condition('too-large', /over 1000 lines/));
});

test('requests are what git reads', () => {
  const text = (bytes: Buffer) => frames(bytes).join('|');
  assert.equal(
    text(lsRefsRequest(['refs/heads/main'])),
    'command=ls-refs|agent=svc/1|<delim>|peel|symrefs|ref-prefix refs/heads/main|<flush>',
  );
  assert.equal(
    text(fetchRequest({ wants: ['w'], haves: ['h'], depth: 1, filter: 'tree:1', thin: true })),
    'command=fetch|agent=svc/1|<delim>|thin-pack|no-progress|ofs-delta|deepen 1|filter tree:1|want w|have h|done|<flush>',
  );
});

function frames(bytes: Buffer): string[] {
  return new PktDecoder()
    .push(bytes)
    .map((pkt: Pkt) => (pkt.kind === 'data' ? pkt.payload.toString().trim() : `<${pkt.kind}>`));
}

test('very many frames that come at once leave turns to everybody else', async () => {
  const chunks = chunksOf(...Array.from({ length: 8 }, () => Buffer.alloc(65_536, '0004')));
  let [turns, isOver] = [0, false];
  const turn = (): void => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  let frames = 0;
  for await (const _frame of readPkts(chunks)) frames += 1;
  isOver = true;
  assert.equal(frames, 131_072);
  assert.ok(turns > 20, `${turns} turns`);
});
