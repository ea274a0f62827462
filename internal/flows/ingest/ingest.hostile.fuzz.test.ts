import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { type StoredBody, unframed } from '../../adapters/store/events/body-frames.ts';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { isLong } from '../../base/testkit/long.ts';
import { agentWithEndpoint, deliver } from './ingest-testkit.ts';

// What is in use, and not what happens to be uncollected, is what a test of memory can tell.
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

const mebibyte = 1_048_576;
const bytes = (...parts: (string | number[])[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))));
const nested = (depth: number): string => `${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`;

/** Legal objects: each is recorded, and its bytes are kept. */
const legal: { readonly [what: string]: string | Buffer } = {
  'an empty object': '{}',
  'white space around it': ' \t\r\n{ } \n',
  'a byte order mark': bytes([0xef, 0xbb, 0xbf], '{"a":1}'),
  'a key of nothing': '{"":0}',
  'a key twice': '{"a":1,"a":2}',
  'a prototype as a key': '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
  'methods as keys': '{"toString":1,"hasOwnProperty":null,"toJSON":{},"then":"x","valueOf":[]}',
  'an escaped NUL': String.raw`{"a":"\u0000","\u0000":1}`,
  'an escaped NUL in the name of the event': String.raw`{"event":"a\u0000b"}`,
  'an escaped NUL as dedupKey': String.raw`{"dedupKey":"\u0000"}`,
  'half of a surrogate pair': String.raw`{"a":"\ud800","b":"\udc00\ud800"}`,
  'half of a surrogate pair in the name of the event': String.raw`{"event":"\ud800"}`,
  'half of a surrogate pair as dedupKey': String.raw`{"dedupKey":"\udfff"}`,
  'every escape': String.raw`{"a":"\"\\\/\b\f\n\r\t\u20ac\ud83d\ude00"}`,
  'characters beyond the plane': '{"😀":"𝄞","a":"\u2028\u2029\uffff\ufffe"}',
  'DEL and C1 controls': '{"a":"\u007f\u0080\u009f"}',
  'a big integer': '{"n":123456789012345678901234567890}',
  'a number of a thousand digits': `{"n":${'9'.repeat(1_000)}}`,
  'a number of half a million digits': `{"n":${'9'.repeat(500_000)}}`,
  'a huge exponent': '{"n":1e400,"m":-1E+99999999,"k":1e-999999}',
  'a number that jsonb would write out': '{"n":1e130000}',
  'negative nought': '{"n":-0,"m":-0.0,"k":0e0}',
  'sixty-four levels': nested(64),
  'sixty-four levels of arrays': `{"a":${'['.repeat(63)}${']'.repeat(63)}}`,
  'brackets inside a text': `{"a":"${'[{'.repeat(5_000)}","b":"\\"${'['.repeat(100)}"}`,
  'many keys': `{${Array.from({ length: 50_000 }, (_, at) => `"k${at}":${at}`).join(',')}}`,
  'exactly the limit': `{"a":"${'x'.repeat(mebibyte - 8)}"}`,
};

/** What is no JSON object: 400, whatever it looks like. */
const illegal: { readonly [what: string]: string | Buffer } = {
  nothing: '',
  'white space': '  \n',
  null: 'null',
  true: 'true',
  'a number': '1',
  'a text': '"a"',
  'an array': '[{}]',
  'an object and more': '{}{}',
  'an object and a comma': '{},',
  'a trailing comma': '{"a":1,}',
  'a missing comma': '{"a":1 "b":2}',
  'a missing colon': '{"a" 1}',
  'a missing value': '{"a":}',
  'a bare key': '{a:1}',
  'single quotes': `{'a':1}`,
  'a comment': '{"a":1}// x',
  'a block comment': '{/**/}',
  'an open object': '{"a":1',
  'an open text': '{"a":"x',
  'an open escape': '{"a":"\\',
  'an unknown escape': String.raw`{"a":"\x"}`,
  'a short escape': String.raw`{"a":"\u12"}`,
  'a tab in a text': '{"a":"\t"}',
  'a raw NUL in a text': '{"a":"\u0000"}',
  'a NUL after it': '{}\u0000',
  'a leading nought': '{"a":01}',
  'a plus': '{"a":+1}',
  'a lonely minus': '{"a":-}',
  'a point without digits': '{"a":1.}',
  'an exponent without digits': '{"a":1e}',
  hexadecimal: '{"a":0x1}',
  NaN: '{"a":NaN}',
  Infinity: '{"a":-Infinity}',
  undefined: '{"a":undefined}',
  'a non-breaking space': '{\u00a0}',
  'a byte order mark inside': '{\ufeff}',
  'UTF-16': Buffer.from('\ufeff{"a":1}', 'utf16le'),
  'Latin-1': bytes('{"a":"', [0xe9], '"}'),
  'an overlong nought': bytes('{"a":"', [0xc0, 0x80], '"}'),
  'a surrogate in UTF-8': bytes('{"a":"', [0xed, 0xa0, 0x80], '"}'),
  'a cut sequence': bytes('{"a":"', [0xf0, 0x9f, 0x98], '"}'),
  'beyond the last character': bytes('{"a":"', [0xf4, 0x90, 0x80, 0x80], '"}'),
  'a form': 'a=1&b=2',
  'sixty-five levels': nested(65),
  'sixty-five levels of arrays': `{"a":${'['.repeat(64)}${']'.repeat(64)}}`,
  'a hundred thousand open brackets': '['.repeat(100_000),
  'a hundred thousand open objects': '{"a":'.repeat(100_000),
  'closing brackets': ']'.repeat(1_000),
};

describe('hostile bodies', () => {
  let daemon: TestDaemon;
  let path = '';
  before(async () => {
    daemon = await startTestDaemon();
    path = await agentWithEndpoint(daemon, 'open', { kind: 'none' });
  });
  after(() => daemon.stop());

  const count = async (): Promise<number> =>
    (await daemon.ctx.db.query<{ n: number }>('select count(*) as n from svc.events')).rows[0]?.n ?? 0;

  for (const [what, body] of Object.entries(legal)) {
    it(`${what} is recorded as it is`, async () => {
      const answer = await deliver(daemon, path, body, { 'content-type': 'application/x-www-form-urlencoded' });
      assert.equal(answer.status, 202, JSON.stringify(answer.body));
      const id = answer.body['eventRecordId'];
      const { rows } = await daemon.ctx.db.query<StoredBody>(
        'select raw, raw_bytes as "rawBytes", payload from svc.event_bodies where event_id = $1::uuid',
        [id],
      );
      assert.ok(rows[0] && unframed(rows[0])?.raw?.equals(Buffer.from(body)));
      assert.equal((await daemon.api('GET', `P/events/${String(id)}`)).status, 200);
      assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    });
  }

  for (const [what, body] of Object.entries(illegal)) {
    it(`${what} is 400 and leaves nothing`, async () => {
      const known = await count();
      const answer = await deliver(daemon, path, body, { 'content-type': 'application/json' });
      assert.deepEqual([answer.status, typeof answer.body['code']], [400, 'string']);
      assert.equal(await count(), known);
    });
  }

  it('any JSON object is 202, any other JSON 400, and no bytes are a failure of ours', async () => {
    const anything = fc.oneof(
      fc.json(),
      fc.jsonValue().map((value) => JSON.stringify({ value })),
      fc.string(),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          anything.map((text) => Buffer.from(text)),
          fc.uint8Array().map(Buffer.from),
        ),
        async (body) => {
          const { status } = await deliver(daemon, path, body);
          assert.ok(status === 202 || status === 200 || status === 400, `${status} for ${body.toString('base64')}`);
        },
      ),
      { numRuns: isLong ? 20_000 : 300 },
    );
  });

  for (const encoding of ['gzip', 'br', 'deflate', 'zstd', 'identity, gzip', 'identity', 'x-unknown', 'GZIP']) {
    it(`a Content-Encoding of ${encoding} is 415 before anything is read`, async () => {
      assert.equal((await deliver(daemon, path, '{}', { 'content-encoding': encoding })).status, 415);
    });
  }

  it('a byte over the limit is 413', async () => {
    assert.equal((await deliver(daemon, path, `{"a":"${'x'.repeat(mebibyte - 7)}"}`)).status, 413);
  });

  /** Sends chunks without saying how many, until the other side has had enough. */
  function flood(total: number): Promise<{ status: number; sent: number; connection: string | undefined }> {
    return new Promise((resolve, reject) => {
      const chunk = Buffer.alloc(65_536, 'x');
      let sent = 0;
      let answer: { status: number; connection: string | undefined } | undefined;
      const sending = request(`${daemon.url}${path}`, { method: 'POST' }, (response) => {
        answer = { status: response.statusCode ?? 0, connection: response.headers.connection };
        response.resume();
      });
      sending.on('close', () => (answer === undefined ? reject(new Error('no answer')) : resolve({ ...answer, sent })));
      // The connection is closed under the sender: that is the point.
      sending.on('error', () => undefined);
      const more = (): void => {
        while (sent < total && !sending.destroyed && answer === undefined) {
          sent += chunk.length;
          if (!sending.write(chunk)) return void sending.once('drain', more);
        }
        sending.end();
      };
      more();
    });
  }

  it('a body without end is cut off at the limit, and costs no memory', async () => {
    const total = isLong ? 1_024 * mebibyte : 64 * mebibyte;
    await flood(total);
    const inUse = (): number => {
      collectGarbage();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const known = inUse();
    const answers = await Promise.all(Array.from({ length: 8 }, () => flood(total)));
    for (const { status, sent, connection } of answers) {
      assert.deepEqual([status, connection], [413, 'close']);
      assert.ok(sent < 32 * mebibyte, `${sent} bytes were taken`);
    }
    const more = inUse() - known;
    assert.ok(more < 64 * mebibyte, `${Math.round(more / mebibyte)} MiB more`);
  });

  it('those who send slowly hold nobody up, and one who goes away leaves nothing', async () => {
    const known = await count();
    const { hostname, port } = new URL(daemon.url);
    const slow = Array.from({ length: 100 }, () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined);
      socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"a":`);
      return socket;
    });
    assert.equal((await deliver(daemon, path, '{"quick":true}')).status, 202);
    for (const socket of slow) socket.destroy();
    assert.equal(await count(), known + 1);
  });
});
