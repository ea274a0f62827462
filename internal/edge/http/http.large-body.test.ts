import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { howMany } from '../../base/testkit/long.ts';
import { Fault } from '../../domain/fault.ts';
import { takeTexts, textsOf } from './large-body.ts';

interface Sent {
  readonly files?: readonly { readonly [key: string]: unknown }[];
}

/** What a handler makes of a body. */
async function read(text: string): Promise<unknown> {
  const body = await takeTexts(Buffer.from(text));
  const texts = textsOf(body);
  const sent = JSON.parse(body.toString('utf8')) as Sent;
  if (!Array.isArray(sent.files)) return sent;
  const files = sent.files.map((file) => {
    if (file['content'] === undefined) return file;
    const content = texts.get(file['content'] as string) ?? file['content'];
    return { ...file, content: Buffer.isBuffer(content) ? content.toString('utf8') : content };
  });
  return { ...sent, files };
}

test('what is taken out of a body is what a parser reads there', async () => {
  const unit = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('\\', '"', '\n', '\u0000', '\u007f', '😀', 'ф', '/'),
  );
  const long = fc.tuple(unit, unit, fc.nat(600)).map(([one, two, times]) => `${one}${two}`.repeat(times + 1));
  const escaped = (text: string, isWide: boolean): string => {
    const json = JSON.stringify(text);
    return isWide
      ? json.replace(/[\u0080-\uffff]/g, (of) => `\\u${of.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : json;
  };
  const file = fc
    .tuple(long, fc.boolean(), long, fc.constantFrom('content', 'other', 'c\\u006fntent'))
    .map(
      ([content, isWide, path, key]) => `{ "path" : ${escaped(path, false)},"${key}" :${escaped(content, isWide)} }`,
    );
  const body = fc
    .tuple(fc.array(file, { maxLength: 4 }), long, fc.constantFrom('files', 'more'))
    .map(
      ([files, more, name]) =>
        `{"context":{"content":${JSON.stringify(more)}}, "${name}": [${files.join(' , ')}],"dryRun":true}`,
    );
  await fc.assert(
    fc.asyncProperty(body, async (text) => assert.deepEqual(await read(text), JSON.parse(text))),
    { numRuns: howMany(500, 20_000) },
  );
});

test('a text of half a character is told from one that is whole', async () => {
  const long = 'x'.repeat(300);
  const taken = async (content: string): Promise<unknown> => {
    const body = await takeTexts(Buffer.from(`{"files":[{"content":"${long}${content}"}]}`));
    return [...textsOf(body).values()][0];
  };
  for (const half of ['\\ud800', '\\udc00', '\\ud800\\ud800', '\\ud800x', '\\udc00\\ud800'])
    assert.equal(await taken(half), '\ud800');
  assert.equal(String(await taken('\\ud83d\\ude00')), `${long}😀`);
});

test('what is no JSON is refused, and so is what is not a file and takes much', async () => {
  const long = 'x'.repeat(300);
  const refused = async (text: string | Buffer): Promise<string> => {
    try {
      JSON.parse((await takeTexts(Buffer.from(text as string))).toString());
      return 'taken';
    } catch (error) {
      return error instanceof Fault ? error.code : 'no JSON';
    }
  };
  for (const bad of ['\\x', '\\u12', '\\u12g4', '\n', '\u0001']) {
    assert.equal(await refused(`{"files":[{"content":"${long}${bad}${long}"}]}`), 'invalid-json', JSON.stringify(bad));
  }
  assert.equal(await refused(`{"files":[{"content":"${long}`), 'invalid-json');
  assert.equal(await refused(`{"files":[{"content":"${long}"]}`), 'no JSON');
  assert.equal(await refused(`{"files":"${'x'.repeat(17_000_000)}"}`), 'body-too-large');
  assert.equal(await refused(Buffer.from([0x22, 0xff, 0x22]) as unknown as string), 'invalid-json');
});
